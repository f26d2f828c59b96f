//! The phases of a rebalance: when the join phase begins, ends, and what happens to the silent.
//!
//! Rules: G-4, G-5, G-6, G-8, G-32, G-41, X-19.

use std::sync::Arc;

use super::group::{ClassicGroup, InitialDelay};
use crate::context::Context;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::reply::SyncReply;
use crate::staged::Change;
use crate::timers::TimerKey;

/// A join phase that nobody has rejoined is looked at again after the rebalance timeout, but not
/// in a tight loop when a client gave a timeout of zero.
const MIN_POSTPONEMENT_MS: i64 = 100;

/// After the membership or someone's metadata changed: begins a rebalance, or lets the running one
/// go on.
pub(super) fn rebalance(group: &mut ClassicGroup, context: &mut Context<'_>) {
    match group.state() {
        GroupState::Stable | GroupState::CompletingRebalance | GroupState::Empty => {
            prepare(group, context);
        }
        GroupState::PreparingRebalance => complete_if_all_joined(group, context),
        GroupState::Dead => {}
    }
}

/// Begins a join phase.
fn prepare(group: &mut ClassicGroup, context: &mut Context<'_>) {
    if group.state() == GroupState::CompletingRebalance {
        refuse_syncs(group, context, GroupError::RebalanceInProgress);
    }
    context
        .timers
        .cancel(&TimerKey::Sync(Arc::clone(&group.id)));
    group.assignment_append = None;
    let was_empty = group.state() == GroupState::Empty;
    group.enter(GroupState::PreparingRebalance, context.now_ms);

    let delay_ms = context.config.initial_rebalance_delay_ms;
    if was_empty && delay_ms > 0 {
        let remaining_ms = (group.rebalance_timeout_ms() - delay_ms).max(0);
        group.initial_delay = Some(InitialDelay {
            delay_ms,
            remaining_ms,
            has_new_member: false,
        });
        context.set_timer(TimerKey::Join(Arc::clone(&group.id)), delay_ms);
    } else if group.has_all_joined() {
        complete(group, context);
    } else {
        let timeout_ms = group.rebalance_timeout_ms();
        context.set_timer(TimerKey::Join(Arc::clone(&group.id)), timeout_ms);
    }
}

/// Ends the join phase early if nobody is missing. The initial delay is always waited for (G-5).
pub(super) fn complete_if_all_joined(group: &mut ClassicGroup, context: &mut Context<'_>) {
    if group.state() == GroupState::PreparingRebalance
        && group.initial_delay.is_none()
        && group.has_all_joined()
    {
        complete(group, context);
    }
}

/// The join phase's time is over (G-5).
pub(crate) fn on_join_timer(group: &mut ClassicGroup, context: &mut Context<'_>) {
    if group.state() != GroupState::PreparingRebalance {
        return;
    }
    if let Some(initial) = &mut group.initial_delay
        && initial.has_new_member
        && initial.remaining_ms > 0
    {
        let delay_ms = context
            .config
            .initial_rebalance_delay_ms
            .clamp(1, initial.remaining_ms);
        initial.has_new_member = false;
        initial.remaining_ms = (initial.remaining_ms - initial.delay_ms).max(0);
        initial.delay_ms = delay_ms;
        context.set_timer(TimerKey::Join(Arc::clone(&group.id)), delay_ms);
        return;
    }
    complete(group, context);
}

/// Ends the join phase: the next generation begins with those who are there (G-6).
fn complete(group: &mut ClassicGroup, context: &mut Context<'_>) {
    context
        .timers
        .cancel(&TimerKey::Join(Arc::clone(&group.id)));
    let missing = group
        .members
        .values()
        .filter(|m| !m.is_static() && m.parked_join.is_none());
    let missing: Vec<Arc<str>> = missing.map(|member| Arc::clone(&member.id)).collect();
    for member_id in missing {
        evict(group, context, &member_id);
    }
    group.initial_delay = None;
    if !group.members.is_empty() && !group.elect_joined_leader() {
        // Only static members are left and none of them is back: their sessions decide.
        let delay_ms = group.rebalance_timeout_ms().max(MIN_POSTPONEMENT_MS);
        context.set_timer(TimerKey::Join(Arc::clone(&group.id)), delay_ms);
        return;
    }
    group.begin_generation(context.now_ms);
    if group.members.is_empty() {
        persist_empty(group, context);
    } else {
        answer_joins(group, context);
    }
}

fn persist_empty(group: &mut ClassicGroup, context: &mut Context<'_>) {
    match group.record(|_| bytes::Bytes::new()) {
        Ok(record) => {
            group.has_record = true;
            let change = Change::EmptyGeneration {
                group: Arc::clone(&group.id),
            };
            context.stage(vec![record], change);
        }
        Err(error) => tracing::error!(group = %group.id, %error, "cannot store an empty group"),
    }
}

fn answer_joins(group: &mut ClassicGroup, context: &mut Context<'_>) {
    let mut waiting = Vec::new();
    for member in group.members.values_mut() {
        member.is_new = false;
        member.has_synced = false;
        waiting.extend(
            member
                .parked_join
                .take()
                .map(|id| (id, Arc::clone(&member.id))),
        );
        context.restart_session(&group.id, member);
    }
    for (request, member_id) in waiting {
        context.reply_join(request, group.join_reply(&member_id));
    }
    let timeout_ms = group.rebalance_timeout_ms();
    context.set_timer(TimerKey::Sync(Arc::clone(&group.id)), timeout_ms);
}

/// Answers every parked sync with an error and forgets all assignments.
pub(super) fn refuse_syncs(group: &mut ClassicGroup, context: &mut Context<'_>, error: GroupError) {
    for member in group.members.values_mut() {
        member.assignment = bytes::Bytes::new();
        if let Some(id) = member.parked_sync.take() {
            context.reply_sync(id, SyncReply::failed(error));
            context.restart_session(&group.id, member);
        }
    }
}

/// Some members have not synced in time (G-32).
pub(crate) fn on_sync_timer(group: &mut ClassicGroup, context: &mut Context<'_>) {
    if !matches!(
        group.state(),
        GroupState::CompletingRebalance | GroupState::Stable
    ) {
        return;
    }
    let missing = group.members.values().filter(|member| !member.has_synced);
    let missing: Vec<Arc<str>> = missing.map(|member| Arc::clone(&member.id)).collect();
    if missing.is_empty() {
        return;
    }
    for member_id in missing {
        evict(group, context, &member_id);
    }
    prepare(group, context);
}

/// The session of a member, or the wait for a pending one, has ended (G-3, G-4, G-41).
pub(crate) fn on_member_timer(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    member_id: &str,
) {
    if group.pending.remove(member_id) {
        complete_if_all_joined(group, context);
        return;
    }
    let Some(member) = group.members.get(member_id) else {
        return;
    };
    let is_parked = member.parked_join.is_some() || member.parked_sync.is_some();
    if is_parked && !member.is_new {
        // It waits for us and cannot send heartbeats. The timer stays armed, so that it is looked
        // at again whatever becomes of the wait.
        context.restart_session(&group.id, member);
        return;
    }
    tracing::debug!(group = %group.id, member = member_id, "session ended");
    evict(group, context, member_id);
    // In Preparing this only looks whether the others are complete.
    if group.state() != GroupState::Empty {
        rebalance(group, context);
    }
}

/// Takes a member out and answers what it has parked, or takes back an id that was not used yet (G-3);
/// the caller decides what follows.
pub(super) fn evict(group: &mut ClassicGroup, context: &mut Context<'_>, member_id: &str) {
    if let Some(member_id) = group.pending.take(member_id) {
        context.cancel_session(&group.id, &member_id);
    }
    if let Some(mut member) = group.remove(member_id) {
        context.cancel_session(&group.id, &member.id);
        context.refuse_parked(&mut member, GroupError::UnknownMemberId);
    }
}

/// After loading: a group that exceeds `group.max.size` must shrink.
pub(crate) fn prepare_if_too_large(group: &mut ClassicGroup, context: &mut Context<'_>) {
    if group.members.len() > context.config.max_size {
        prepare(group, context);
    }
}
