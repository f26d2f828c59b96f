//! JoinGroup.
//!
//! Rules: G-1…G-3, G-9…G-12, X-20.

use std::sync::Arc;

use super::group::ClassicGroup;
use super::member::Member;
use super::rebalance::{complete_if_all_joined, evict, rebalance};
use super::static_join::rejoin_static;
use crate::context::Context;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::reply::JoinReply;
use crate::request::JoinRequest;
use crate::timers::TimerKey;
use strandline_coordinator::RequestId;

/// A join whose group exists; the shard has done the checks that need none.
pub(crate) fn join(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    id: RequestId,
    request: JoinRequest,
) {
    if group.state() == GroupState::Dead {
        let reply = JoinReply::failed(request.member_id, GroupError::CoordinatorNotAvailable);
        context.reply_join(id, reply);
    } else if !has_room(group, context.config.max_size, &request) {
        // A known member that finds no room has lost its place, and nobody waits for an id that does (G-5).
        evict(group, context, &request.member_id);
        context.reply_join(id, JoinReply::failed("", GroupError::GroupMaxSizeReached));
        complete_if_all_joined(group, context);
    } else if !group.accepts_protocols(&request.protocol_type, &request.protocols) {
        let reply = JoinReply::failed(request.member_id, GroupError::InconsistentGroupProtocol);
        context.reply_join(id, reply);
    } else if request.member_id.is_empty() {
        join_without_id(group, context, id, request);
    } else if request.group_instance_id.is_none() && group.pending.remove(&*request.member_id) {
        let member_id = Arc::from(&*request.member_id);
        add(group, context, member_id, id, request);
    } else {
        rejoin(group, context, id, request);
    }
}

/// G-1: `group.max.size`. While a rebalance is prepared, those who have rejoined count, because
/// the others may never come back.
fn has_room(group: &ClassicGroup, max_size: usize, request: &JoinRequest) -> bool {
    let known = match (&*request.member_id, &request.group_instance_id) {
        // A static member that comes back takes its own place.
        ("", Some(instance_id)) => group.static_member(instance_id).map(|id| &**id),
        (member_id, _) => Some(member_id),
    };
    let known = known.and_then(|member_id| group.members.get(member_id));
    match group.state() {
        GroupState::Empty | GroupState::Dead => true,
        GroupState::PreparingRebalance => {
            known.is_some_and(|member| member.parked_join.is_some())
                || group
                    .members
                    .values()
                    .filter(|m| m.parked_join.is_some())
                    .count()
                    < max_size
        }
        GroupState::CompletingRebalance | GroupState::Stable => {
            known.is_some() || group.members.len() < max_size
        }
    }
}

fn join_without_id(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    id: RequestId,
    request: JoinRequest,
) {
    let prefix = request
        .group_instance_id
        .as_deref()
        .unwrap_or(&request.client_id);
    let member_id: Arc<str> = format!("{prefix}-{}", context.ids.next_id()).into();
    if let Some(instance_id) = &request.group_instance_id {
        if let Some(old_id) = group.static_member(instance_id).cloned() {
            rejoin_static(group, context, &old_id, member_id, id, request);
        } else {
            add(group, context, member_id, id, request);
        }
    } else if request.require_known_member_id {
        let timer = TimerKey::Member(Arc::clone(&group.id), Arc::clone(&member_id));
        context.set_timer(timer, i64::from(request.session_timeout_ms));
        context.reply_join(
            id,
            JoinReply::failed(&*member_id, GroupError::MemberIdRequired),
        );
        group.pending.insert(member_id);
    } else {
        add(group, context, member_id, id, request);
    }
}

fn add(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    member_id: Arc<str>,
    id: RequestId,
    request: JoinRequest,
) {
    if group.members.is_empty() {
        group.protocol_type = Some(request.protocol_type.clone());
    }
    if let Some(initial) = &mut group.initial_delay {
        initial.has_new_member = true;
    }
    let member = Member::new(member_id, request, id);
    context.restart_session(&group.id, &member);
    group.add(member);
    rebalance(group, context);
}

fn rejoin(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    id: RequestId,
    request: JoinRequest,
) {
    let instance_id = request.group_instance_id.as_deref();
    if let Err(error) = group.validate_member(&request.member_id, instance_id) {
        context.reply_join(id, JoinReply::failed(request.member_id, error));
        return;
    }
    let is_leader = group.is_leader(&request.member_id);
    let Some(member) = group.members.get(&*request.member_id) else {
        return;
    };
    let is_unchanged = member.protocols == request.protocols;
    let is_repetition = match group.state() {
        // G-11: the answer was lost.
        GroupState::CompletingRebalance => is_unchanged,
        // G-12: a leader rejoins because it wants a rebalance.
        GroupState::Stable => is_unchanged && !is_leader,
        GroupState::Empty | GroupState::PreparingRebalance | GroupState::Dead => false,
    };
    if is_repetition {
        context.restart_session(&group.id, member);
        context.reply_join(id, group.join_reply(&request.member_id));
    } else {
        park(group, context, id, request);
        rebalance(group, context);
    }
}

/// A known member waits for the end of the join phase, with what it says now (G-10).
fn park(group: &mut ClassicGroup, context: &mut Context<'_>, id: RequestId, request: JoinRequest) {
    let Some(member) = group.members.get_mut(&*request.member_id) else {
        return;
    };
    if let Some(superseded) = member.parked_join.replace(id) {
        let reply = JoinReply::failed(&*member.id, GroupError::RebalanceInProgress);
        context.reply_join(superseded, reply);
    }
    member.take_attributes(request);
    context.restart_session(&group.id, member);
}
