//! Commits, deletions and expiry of offsets, and the deletion of groups.
//!
//! Rules: G-50…G-54, G-59…G-61.

use std::collections::HashSet;
use std::sync::Arc;

use super::{GroupShard, Phase};
use crate::classic::ClassicGroup;
use crate::context::Context;
use crate::error::GroupError;
use crate::group::{Group, get_or_insert};
use crate::offsets::{self, CommitPlan, tombstones};
use crate::query::GroupState;
use crate::reply::Effects;
use crate::reply::{OffsetDeleteReply, PartitionErrors, Reply};
use crate::request::{DeleteGroupRequest, OffsetCommitRequest, OffsetDeleteRequest, Request};
use crate::staged::{Change, Removal, StagedCommit};
use crate::timers::TimerKey;
use strandline_coordinator::{AppendError, Now, RequestId, tombstone_batches};

/// A partition with an offset.
type Key = (Arc<str>, i32);

impl GroupShard {
    pub(super) fn commit_offsets(
        &mut self,
        id: RequestId,
        request: OffsetCommitRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let group = self
            .groups
            .get(&*request.group_id)
            .map(|group| &group.classic);
        if let Err(error) = offsets::validate(group, &request) {
            effects.reply(id, Request::OffsetCommit(request).refusal(error));
            return;
        }
        let group_id = request.group_id.clone();
        let member_id = request.member_id.clone();
        let CommitPlan {
            records,
            offsets,
            reply,
        } = offsets::plan(request, &self.config, now_ms);
        let group = if records.is_empty() {
            effects.reply(id, Reply::OffsetCommit(reply));
            self.groups.get_mut(&*group_id)
        } else {
            let group = get_or_insert(&mut self.groups, &group_id);
            let stage = |(topic, partition, offset): (String, i32, _)| {
                (group.offsets.begin(&topic, partition), partition, offset)
            };
            let offsets = offsets.into_iter().map(stage).collect();
            let commit = Box::new(StagedCommit {
                request: Some(id),
                reply,
                offsets,
            });
            let change = Change::Commit {
                group: Arc::clone(&group.classic.id),
                commit,
            };
            self.staged.push(effects, records, change);
            Some(group)
        };
        // G-40: a commit shows that the member lives.
        let Some(Group { classic, .. }) = group else {
            return;
        };
        if let Some(member) = classic.members.get(&*member_id) {
            let timer = TimerKey::Member(Arc::clone(&classic.id), Arc::clone(&member.id));
            self.timers.set(timer, member.session_ms(&self.config));
        }
    }

    pub(super) fn delete_offsets(
        &mut self,
        id: RequestId,
        request: OffsetDeleteRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let group = self.groups.get(&*request.group_id);
        let may_delete = may_delete_offsets(group.map(|group| &group.classic));
        let reply = |error, topics| Reply::OffsetDelete(OffsetDeleteReply { error, topics });
        let (Some(group), Ok(())) = (group, may_delete) else {
            let error = may_delete.err().unwrap_or(GroupError::GroupIdNotFound);
            effects.reply(id, reply(Some(error), Vec::new()));
            return;
        };
        let mut keys = Vec::new();
        let mut topics = Vec::new();
        for (name, partitions) in request.topics {
            let is_subscribed = group.classic.is_subscribed_to(&name);
            let error = is_subscribed.then_some(GroupError::GroupSubscribedToTopic);
            // All of it happens under the lock of the shard: each partition costs one look.
            let mut seen = HashSet::with_capacity(partitions.len());
            let once = partitions.into_iter().filter(|p| seen.insert(*p));
            let partitions: Vec<_> = once.map(|partition| (partition, error)).collect();
            if !is_subscribed {
                let known = partitions.iter();
                keys.extend(known.filter_map(|(p, _)| group.offsets.key(&name, *p)));
            }
            topics.push(PartitionErrors { name, partitions });
        }
        // The same topic may come more than once.
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            effects.reply(id, reply(None, topics));
            return;
        }
        self.with_group(&request.group_id, now_ms, effects, |group, context| {
            let reply = OffsetDeleteReply {
                error: None,
                topics,
            };
            let (before, last) = remove_all_but_last(group, context, &keys);
            let reason = Removal::Requested {
                request: Some(id),
                reply,
                before: before.to_vec(),
            };
            remove_offsets(group, context, last, reason);
        });
    }

    pub(super) fn delete_group(
        &mut self,
        id: RequestId,
        request: &DeleteGroupRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let error = match self
            .groups
            .get(&*request.group_id)
            .map(|group| group.classic.state())
        {
            None => Some(GroupError::GroupIdNotFound),
            // Its end is on its way into the log, and may fail.
            Some(GroupState::Dead) => Some(GroupError::CoordinatorNotAvailable),
            Some(GroupState::Empty) => None,
            Some(_) => Some(GroupError::NonEmptyGroup),
        };
        if let Some(error) = error {
            effects.reply(id, Reply::DeleteGroup(Err(error)));
            return;
        }
        let is_staged = self.with_group(&request.group_id, now_ms, effects, |group, context| {
            bury(group, context, Some(id))
        });
        if is_staged == Some(false) {
            // The log knows nothing of it: only ids were handed out.
            self.remove_group(&Arc::from(&*request.group_id));
            effects.reply(id, Reply::DeleteGroup(Ok(())));
        }
    }

    /// Topics are gone: their offsets must not greet a topic of the same name (G-61). A shard that
    /// loads does it when it starts.
    pub fn on_topics_deleted(&mut self, names: &[String], now: Now) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        if self.phase == Phase::Loading {
            self.deleted_while_loading.extend(names.iter().cloned());
        } else {
            self.remove_offsets_of(names, now_ms, &mut effects);
        }
        self.finish(effects)
    }

    pub(super) fn remove_offsets_of(
        &mut self,
        names: &[String],
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let (groups, mut context) = self.split(now_ms, effects);
        for group in groups.values() {
            let keys: Vec<_> = names
                .iter()
                .flat_map(|name| group.offsets.keys_of(name))
                .collect();
            for keys in batches(group, &keys) {
                remove_offsets(group, &mut context, keys, Removal::TopicDeleted);
            }
        }
    }

    /// The scan of G-60. A group that is Empty and has no offset left goes with its last ones.
    pub(super) fn expire_offsets(&mut self, now_ms: i64, effects: &mut Effects) {
        let interval_ms = self.config.offsets_retention_check_interval_ms;
        self.timers.set(TimerKey::OffsetExpiry, interval_ms);
        let retention_ms = self.config.offsets_retention_ms;
        let (groups, mut context) = self.split(now_ms, effects);
        for group in groups.values_mut() {
            let keys = offsets::expired(&group.classic, &group.offsets, retention_ms, now_ms);
            let is_last = keys.len() == group.offsets.keys().count();
            let is_unused =
                group.classic.state() == GroupState::Empty && group.classic.pending.is_empty();
            if is_last && is_unused {
                bury(group, &mut context, None);
                continue;
            }
            for keys in batches(group, &keys) {
                remove_offsets(group, &mut context, keys, Removal::Expired);
            }
        }
    }
}

/// G-59.
fn may_delete_offsets(group: Option<&ClassicGroup>) -> Result<(), GroupError> {
    let group = group.ok_or(GroupError::GroupIdNotFound)?;
    match group.state() {
        GroupState::Dead => Err(GroupError::GroupIdNotFound),
        GroupState::Empty => Ok(()),
        GroupState::PreparingRebalance | GroupState::CompletingRebalance | GroupState::Stable => {
            if group.is_consumer() {
                Ok(())
            } else {
                Err(GroupError::NonEmptyGroup)
            }
        }
    }
}

/// Offsets whose tombstones fit into one append.
fn batches<'k>(group: &Group, keys: &'k [Key]) -> impl Iterator<Item = &'k [Key]> + use<'k> {
    let group = group.classic.id.len();
    tombstone_batches(keys, move |(topic, _)| group + topic.len())
}

fn remove_offsets(group: &Group, context: &mut Context<'_>, keys: &[Key], reason: Removal) {
    let records = tombstones(&group.classic.id, keys);
    let mut change = Change::RemoveOffsets {
        group: Arc::clone(&group.classic.id),
        keys: keys.to_vec(),
        reason,
    };
    match records {
        Ok(records) => {
            context.stage(records, change);
        }
        Err(error) => {
            tracing::error!(group = %group.classic.id, %error, "cannot write tombstones");
            if let Some((request, reply)) = change.refuse(AppendError::Unknown) {
                context.effects.reply(request, reply);
            }
        }
    }
}

/// Writes the tombstones that do not fit into the last append. Gives those, and what is left for it.
fn remove_all_but_last<'k>(
    group: &Group,
    context: &mut Context<'_>,
    keys: &'k [Key],
) -> (&'k [Key], &'k [Key]) {
    let mut batches: Vec<_> = batches(group, keys).collect();
    let last = batches.pop().unwrap_or_default();
    for batch in batches {
        remove_offsets(group, context, batch, Removal::InPart);
    }
    keys.split_at(keys.len() - last.len())
}

/// Writes the tombstones of an Empty group, which is Dead meanwhile. False if there are none.
fn bury(group: &mut Group, context: &mut Context<'_>, request: Option<RequestId>) -> bool {
    let keys = group.offsets.keys();
    let keys: Vec<_> = keys.map(|(topic, p)| (Arc::clone(topic), p)).collect();
    let (_, last) = remove_all_but_last(group, context, &keys);
    let records = match group.tombstones(last) {
        Ok(records) => records,
        Err(error) => {
            tracing::error!(group = %group.classic.id, %error, "cannot write tombstones");
            return false;
        }
    };
    if records.is_empty() {
        return false;
    }
    group.classic.set_dead(true);
    let change = Change::RemoveGroup {
        group: Arc::clone(&group.classic.id),
        keys: last.to_vec(),
        request,
    };
    context.stage(records, change);
    true
}
