//! Writing a change, and what happens when it is written: the state, the answer, the markers.
//!
//! Rules: T-6, T-31, T-32, T-40.

use std::collections::BTreeSet;
use std::sync::Arc;

use strandline_coordinator::{
    Append, AppendBatch, AppendError, AppendToken, CoordinatorRecord, Now, Producer, RequestId,
    TransactionEnd,
};
use strandline_types::TopicPartition;

use super::{Change, Entry, TimerKey, TransactionShard, refuse};
use crate::decide;
use crate::error::TransactionError;
use crate::marker::{Markers, Order};
use crate::records::{encode_key, encode_value};
use crate::reply::{Effects, Reply};
use crate::state::TransactionState;
use crate::transaction::Transaction;

/// Until a completed end is written once more, in ms.
const COMPLETE_RETRY_MS: i64 = 1_000;

impl TransactionShard {
    /// Asks for the append that makes `next` true.
    pub(super) fn stage(
        &mut self,
        id: &str,
        next: Transaction,
        answer: Option<(RequestId, Reply)>,
        effects: &mut Effects,
    ) -> Result<(), TransactionError> {
        let encoded = encode_key(id).and_then(|key| {
            let value = encode_value(&next, self.config.value_version)?;
            Ok(CoordinatorRecord {
                key,
                value: Some(value),
            })
        });
        let record = encoded.map_err(|error| {
            tracing::error!(transactional_id = id, %error, "a transaction cannot be written");
            TransactionError::UnknownServerError
        })?;
        let id: Arc<str> = match self.entries.get_key_value(id) {
            Some((id, _)) => Arc::clone(id),
            None => Arc::from(id),
        };
        let change = Change::Become {
            id: Arc::clone(&id),
            next: Box::new(next.clone()),
            answer,
        };
        let token = self.push(vec![record], change, effects);
        let entry = self.entries.entry(id).or_insert_with(|| Entry {
            // Known, so that nobody else begins; without an epoch, so that nobody may work with it.
            transaction: Transaction::unused(
                next.producer.id,
                next.timeout_ms,
                next.last_update_ms,
            ),
            pending: None,
            unmarked: BTreeSet::new(),
        });
        entry.pending = Some(token);
        Ok(())
    }

    pub(super) fn push(
        &mut self,
        records: Vec<CoordinatorRecord>,
        change: Change,
        effects: &mut Effects,
    ) -> AppendToken {
        self.last_token += 1;
        let token = AppendToken(self.last_token);
        self.staged.insert(token, change);
        effects.appends.push(Append {
            token,
            batch: AppendBatch::Records(records),
        });
        token
    }

    /// An append has committed or failed. The caller reports each token once, in any order.
    pub fn on_append_result(
        &mut self,
        token: AppendToken,
        result: Result<(), AppendError>,
        now: Now,
    ) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        // Unknown tokens are those of a shard that was unloaded meanwhile.
        match self.staged.remove(&token) {
            None => {}
            Some(Change::Become { id, next, answer }) => {
                self.apply(&id, *next, answer, result, now_ms, &mut effects);
            }
            Some(Change::Forget { ids }) => self.forget(&ids, result),
        }
        self.finish(effects)
    }

    fn apply(
        &mut self,
        id: &Arc<str>,
        next: Transaction,
        answer: Option<(RequestId, Reply)>,
        result: Result<(), AppendError>,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.pending = None;
        if let Err(error) = result {
            tracing::warn!(transactional_id = %id, %error, "could not store a transaction");
            if let Some((request, reply)) = answer {
                effects.reply(request, refuse(&reply, error.into()));
            }
            let transaction = &entry.transaction;
            if transaction.producer.epoch < 0 {
                self.entries.remove(id);
            } else if transaction.state.is_prepared() && entry.unmarked.is_empty() {
                let key = TimerKey::Complete(Arc::clone(id));
                self.timers.set(key, COMPLETE_RETRY_MS);
            }
            self.orders.push(Order::Free(Arc::clone(id)));
            return;
        }
        entry.transaction = next;
        let state = entry.transaction.state;
        if let Some((request, reply)) = answer {
            effects.reply(request, reply);
        }
        if state.is_prepared() {
            self.send_markers(id, now_ms, effects);
            return;
        }
        self.orders.push(Order::Free(Arc::clone(id)));
        if state == TransactionState::Ongoing {
            self.arm_abort_scan();
        }
    }

    /// Asks for the markers of a prepared end, or completes it when there are none (T-31).
    pub(super) fn send_markers(&mut self, id: &Arc<str>, now_ms: i64, effects: &mut Effects) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let transaction = &entry.transaction;
        if transaction.partitions.is_empty() {
            self.complete(id, now_ms, effects);
            return;
        }
        entry.unmarked.clone_from(&transaction.partitions);
        self.orders.push(Order::Write(Markers {
            transactional_id: Arc::clone(id),
            end: TransactionEnd {
                producer: transaction.producer,
                committed: transaction.state == TransactionState::PrepareCommit,
                coordinator_epoch: self.coordinator_epoch,
                raises_epoch: transaction.client_version.bumps_epoch(),
            },
            partitions: transaction.partitions.iter().cloned().collect(),
        }));
    }

    /// A partition has the marker, or does not exist any more. `producer` is that of the markers.
    pub fn on_marker_written(
        &mut self,
        transactional_id: &str,
        producer: Producer,
        partition: &TopicPartition,
        now: Now,
    ) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        if let Some((id, entry)) = self.prepared(transactional_id, producer)
            && entry.unmarked.remove(partition)
            && entry.unmarked.is_empty()
        {
            self.complete(&id, now_ms, &mut effects);
        }
        self.finish(effects)
    }

    fn prepared(
        &mut self,
        transactional_id: &str,
        producer: Producer,
    ) -> Option<(Arc<str>, &mut Entry)> {
        let (id, _) = self.entries.get_key_value(transactional_id)?;
        let id = Arc::clone(id);
        let entry = self.entries.get_mut(&id)?;
        let transaction = &entry.transaction;
        let is_it = transaction.state.is_prepared() && transaction.producer == producer;
        is_it.then_some((id, entry))
    }

    pub(super) fn complete(&mut self, id: &Arc<str>, now_ms: i64, effects: &mut Effects) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        if !entry.transaction.state.is_prepared() || entry.pending.is_some() {
            return;
        }
        let next = decide::complete(&entry.transaction, now_ms);
        if let Err(error) = self.stage(id, next, None, effects) {
            tracing::error!(transactional_id = %id, %error, "a transaction cannot be completed");
        }
    }
}
