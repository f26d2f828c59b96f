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
use strandline_coordinator::{AppendError, AppendToken};

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
                let reply = |request| (request, Reply::TransactionEnd(result));
                effects.replies.extend(request.map(reply));
            }
            Change::RemoveOffsets {
                group,
                keys,
                reason,
            } => {
                if result.is_ok() || matches!(reason, Removal::TopicDeleted) {
                    self.forget_offsets(&group, token, &keys, now_ms, effects);
                }
                self.finish_removal(&group, token, reason, result, effects);
            }
            Change::RemoveGroup {
                group,
                keys,
                request,
            } => {
                let outcome = self.finish_burial(&group, token, &keys, result);
                if let Some(request) = request {
                    effects.reply(request, Reply::DeleteGroup(outcome));
                }
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
        let reply = |request| (request, Reply::OffsetCommit(reply));
        effects.replies.extend(request.map(reply));
    }

    /// Tombstones stand at `token`.
    pub(super) fn forget_offsets(
        &mut self,
        group: &str,
        token: AppendToken,
        keys: &[(Arc<str>, i32)],
        now_ms: i64,
        effects: &mut Effects,
    ) {
        self.with_group(group, now_ms, effects, |group, _| {
            for (topic, partition) in keys {
                group.offsets.remove(topic, *partition, token);
            }
        });
    }

    /// The group goes if all of its offsets are gone: the tombstones of some may have failed before.
    fn finish_burial(
        &mut self,
        group_id: &Arc<str>,
        token: AppendToken,
        keys: &[(Arc<str>, i32)],
        result: Result<(), AppendError>,
    ) -> Result<(), GroupError> {
        let Some(group) = self.groups.get_mut(group_id) else {
            return result.map_err(GroupError::from);
        };
        let outcome = result.map_err(GroupError::from).and_then(|()| {
            for (topic, partition) in keys {
                group.offsets.remove(topic, *partition, token);
            }
            let is_empty = group.offsets.is_empty();
            // Retriable, and the next attempt has less to write.
            is_empty
                .then_some(())
                .ok_or(GroupError::CoordinatorNotAvailable)
        });
        match outcome {
            Ok(()) => self.remove_group(group_id),
            Err(error) => {
                tracing::warn!(group = %group_id, %error, "could not delete a group");
                group.classic.set_dead(false);
            }
        }
        outcome
    }

    fn finish_removal(
        &self,
        group_id: &str,
        token: AppendToken,
        reason: Removal,
        result: Result<(), AppendError>,
        effects: &mut Effects,
    ) {
        if let Err(error) = result {
            tracing::warn!(group = group_id, %error, "could not write tombstones of offsets");
        }
        let Removal::Requested {
            request: Some(request),
            reply,
            before,
        } = reason
        else {
            return;
        };
        let group = self.groups.get(group_id);
        let is_left = |(topic, partition): &(Arc<str>, i32)| {
            group.is_some_and(|group| group.offsets.has_older(topic, *partition, token))
        };
        let error = match result {
            Err(error) => Some(error.into()),
            Ok(()) if before.iter().any(is_left) => Some(GroupError::CoordinatorNotAvailable),
            Ok(()) => None,
        };
        let reply = match error {
            None => reply,
            Some(error) => OffsetDeleteReply {
                error: Some(error),
                topics: Vec::new(),
            },
        };
        effects.reply(request, Reply::OffsetDelete(reply));
    }
}
