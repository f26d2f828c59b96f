//! What happens when an append has its result.
//!
//! Rules: G-20, G-31, G-53, G-59…G-61, G-70.

use std::sync::Arc;

use super::GroupShard;
use crate::classic::{finish_assignment, finish_static_rejoin};
use crate::error::GroupError;
use crate::reply::Effects;
use crate::reply::{OffsetDeleteReply, Reply};
use crate::staged::{Change, Removal, StagedCommit};
use strandline_coordinator::{AppendError, AppendToken, RequestId};

impl GroupShard {
    pub(super) fn apply(
        &mut self,
        token: AppendToken,
        change: Change,
        result: Result<(), AppendError>,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        match change {
            Change::Assignment { group, assignments } => {
                self.with_group(&group, now_ms, effects, |group, context| {
                    finish_assignment(&mut group.classic, context, token, &assignments, result);
                });
            }
            Change::StaticRejoin { group, rejoin } => {
                self.with_group(&group, now_ms, effects, |group, context| {
                    finish_static_rejoin(&mut group.classic, context, *rejoin, result);
                });
            }
            Change::EmptyGeneration { group } => {
                if let Err(error) = result {
                    // The group stays empty here. After a failover the members of the last
                    // generation that was written would time out once more.
                    tracing::warn!(group = %group, %error, "could not store an empty group");
                }
            }
            Change::Commit { group, commit } => {
                self.finish_commit(&group, token, *commit, result, now_ms, effects);
            }
            Change::PendingCommit {
                group,
                producer_id,
                commit,
            } => {
                self.finish_pending_commit(&group, (producer_id, token), *commit, result, effects);
            }
            Change::EndTransaction { end, request } => {
                if result.is_ok() {
                    self.settle_transaction(token, end);
                }
                effects.reply(request, Reply::TransactionEnd(result));
            }
            Change::RemoveOffsets {
                group,
                keys,
                reason,
            } => {
                if result.is_ok() || matches!(reason, Removal::TopicDeleted) {
                    self.with_group(&group, now_ms, effects, |group, _| {
                        for (topic, partition) in &keys {
                            group.offsets.remove(topic, *partition, token);
                        }
                    });
                }
                finish_removal(&group, reason, result, effects);
            }
            Change::RemoveGroup { group, request } => {
                self.finish_burial(&group, request, result, effects);
            }
        }
    }

    fn finish_commit(
        &mut self,
        group: &str,
        token: AppendToken,
        commit: StagedCommit,
        result: Result<(), AppendError>,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let StagedCommit {
            request,
            mut reply,
            offsets,
        } = commit;
        self.with_group(group, now_ms, effects, |group, _| {
            for (topic, partition, offset) in offsets {
                group
                    .offsets
                    .finish(&topic, partition, token, result.is_ok().then_some(offset));
            }
        });
        if let Err(error) = result {
            reply.fail_pending(error.into());
        }
        effects.reply(request, Reply::OffsetCommit(reply));
    }

    fn finish_burial(
        &mut self,
        group_id: &Arc<str>,
        request: Option<RequestId>,
        result: Result<(), AppendError>,
        effects: &mut Effects,
    ) {
        match result {
            Ok(()) => self.remove_group(group_id),
            Err(error) => {
                tracing::warn!(group = %group_id, %error, "could not delete a group");
                if let Some(group) = self.groups.get_mut(group_id) {
                    group.classic.set_dead(false);
                }
            }
        }
        if let Some(request) = request {
            effects.reply(
                request,
                Reply::DeleteGroup(result.map_err(GroupError::from)),
            );
        }
    }
}

fn finish_removal(
    group_id: &str,
    reason: Removal,
    result: Result<(), AppendError>,
    effects: &mut Effects,
) {
    if let Err(error) = result {
        tracing::warn!(group = group_id, %error, "could not write tombstones of offsets");
    }
    let Removal::Requested { request, reply } = reason else {
        return;
    };
    let reply = match result {
        Ok(()) => reply,
        Err(error) => OffsetDeleteReply {
            error: Some(error.into()),
            topics: Vec::new(),
        },
    };
    effects.reply(request, Reply::OffsetDelete(reply));
}
