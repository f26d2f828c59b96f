//! Offsets that are committed as a part of a producer's transaction, and their markers.
//!
//! Rules: G-62, T-20…T-23, T-43.

use std::collections::BTreeSet;
use std::sync::Arc;

use strandline_coordinator::{
    AppendBatch, AppendError, AppendToken, Producer, RequestId, TransactionEnd,
};
use strandline_types::ProducerId;

use super::{GroupShard, Phase};
use crate::group::{get_or_insert, remove_if_vacant};
use crate::offsets::{self, CommitPlan};
use crate::reply::{Effects, Reply};
use crate::request::{Request, TxnOffsetCommitRequest};
use crate::staged::{Change, StagedCommit};

impl GroupShard {
    /// Writes offsets that wait for the marker of their producer (T-22).
    pub(super) fn commit_pending(
        &mut self,
        id: RequestId,
        request: TxnOffsetCommitRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let group = self.groups.get(&*request.group_id);
        let checked = offsets::validate_transactional(group.map(|g| &g.classic), &request);
        if let Err(error) = checked {
            effects.reply(id, Request::TxnOffsetCommit(request).refusal(error));
            return;
        }
        let (group_id, producer) = (request.group_id.clone(), request.producer);
        let CommitPlan {
            records,
            offsets,
            reply,
        } = offsets::plan_transactional(request, &self.config, now_ms);
        if records.is_empty() {
            effects.reply(id, Reply::TxnOffsetCommit(reply));
            return;
        }
        let token = self.staged.next_token();
        let group = get_or_insert(&mut self.groups, &group_id);
        let stage = |(topic, partition, offset): (String, i32, crate::records::CommittedOffset)| {
            let pending = offset.clone();
            let name = group
                .offsets
                .begin_pending(&topic, partition, producer.id, token, pending);
            (name, partition, offset)
        };
        let offsets = offsets.into_iter().map(stage).collect();
        let group = Arc::clone(&group.classic.id);
        let open = self.open_transactions.entry(producer.id).or_default();
        open.insert(Arc::clone(&group));
        let commit = Box::new(StagedCommit {
            request: Some(id),
            reply,
            offsets,
        });
        let change = Change::PendingCommit {
            group,
            producer_id: producer.id,
            commit,
        };
        let batch = AppendBatch::Transactional(producer, records);
        self.staged.push_batch(effects, batch, change);
    }

    pub(super) fn finish_pending_commit(
        &mut self,
        group_id: &str,
        (producer_id, token): (ProducerId, AppendToken),
        commit: StagedCommit,
        result: Result<(), AppendError>,
        effects: &mut Effects,
    ) {
        let StagedCommit {
            request,
            mut reply,
            offsets,
        } = commit;
        if let Err(error) = result {
            if let Some(group) = self.groups.get_mut(group_id) {
                for (topic, partition, _) in offsets {
                    group
                        .offsets
                        .drop_pending(&topic, partition, producer_id, token);
                }
            }
            self.close_if_settled(producer_id, group_id);
            reply.fail_pending(error.into());
        }
        let reply = |request| (request, Reply::TxnOffsetCommit(reply));
        effects.replies.extend(request.map(reply));
    }

    /// The marker of a transaction is to be written to this partition; when it is, its offsets
    /// count, or go. The answer is [`Reply::TransactionEnd`].
    pub fn end_transaction(&mut self, id: RequestId, end: TransactionEnd) -> Effects {
        let mut effects = Effects::default();
        if self.phase == Phase::Active {
            let request = Some(id);
            let change = Change::EndTransaction { end, request };
            let batch = AppendBatch::Marker(end);
            self.staged.push_batch(&mut effects, batch, change);
        } else {
            let refused = Err(AppendError::NotLeaderOrFollower);
            effects.reply(id, Reply::TransactionEnd(refused));
        }
        self.finish(effects)
    }

    pub(super) fn settle_transaction(&mut self, token: AppendToken, end: TransactionEnd) {
        let Producer { id, .. } = end.producer;
        let groups = self.open_transactions.remove(&id).unwrap_or_default();
        for group_id in groups {
            if let Some(group) = self.groups.get_mut(&group_id) {
                group.offsets.end_transaction(id, token, end.committed);
            }
            if self.has_pending(id, &group_id) {
                // The producer's next transaction was faster than the result of this marker.
                let open = self.open_transactions.entry(id).or_default();
                open.insert(Arc::clone(&group_id));
            }
            remove_if_vacant(&mut self.groups, &group_id);
        }
    }

    fn close_if_settled(&mut self, producer_id: ProducerId, group_id: &str) {
        if !self.has_pending(producer_id, group_id)
            && let Some(groups) = self.open_transactions.get_mut(&producer_id)
        {
            groups.remove(group_id);
            if groups.is_empty() {
                self.open_transactions.remove(&producer_id);
            }
        }
        remove_if_vacant(&mut self.groups, group_id);
    }

    fn has_pending(&self, producer_id: ProducerId, group_id: &str) -> bool {
        let group = self.groups.get(group_id);
        group.is_some_and(|group| group.offsets.has_pending_of(producer_id))
    }

    /// After loading.
    pub(super) fn find_open_transactions(&mut self) {
        for (group_id, group) in &self.groups {
            for producer_id in group.offsets.pending_producers() {
                let groups: &mut BTreeSet<_> =
                    self.open_transactions.entry(producer_id).or_default();
                groups.insert(Arc::clone(group_id));
            }
        }
    }

    /// Producers with offsets that wait for their markers (for metrics and operators).
    pub fn open_transaction_count(&self) -> usize {
        self.open_transactions.len()
    }
}
