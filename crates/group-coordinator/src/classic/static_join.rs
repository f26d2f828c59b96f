//! A static member that comes back without its member id.
//!
//! Rules: G-20, G-21, G-23, X-20.

use std::sync::Arc;

use super::group::ClassicGroup;
use super::member::Member;
use super::rebalance::rebalance;
use crate::context::Context;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::reply::JoinReply;
use crate::request::JoinRequest;
use crate::staged::{Change, StaticRejoin};
use strandline_coordinator::{AppendError, RequestId};

/// The instance gets a new member id; who still uses the old one is fenced. A Stable group whose
/// protocol stays the same only writes that down, any other rebalances.
pub(super) fn rejoin_static(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    old_id: &Arc<str>,
    member_id: Arc<str>,
    id: RequestId,
    request: JoinRequest,
) {
    let supports_skip_assignment = request.supports_skip_assignment;
    let previous_leader = group.leader.clone();
    context.cancel_session(&group.id, old_id);
    let Some(member) = group.rename_static(old_id, &member_id) else {
        return;
    };

    let mut previous = member.clone();
    previous.id = Arc::clone(old_id);
    // Also answers what is parked under the old id.
    context.refuse_parked(&mut previous, GroupError::FencedInstanceId);
    member.parked_sync = None;
    member.parked_join = Some(id);
    member.take_attributes(request);
    restart(group, context, &member_id);

    let keeps_protocol = group.select_protocol() == group.protocol_name;
    if group.state() == GroupState::Stable && keeps_protocol {
        let rejoin = StaticRejoin {
            request: Some(id),
            generation: group.generation,
            member_id,
            previous,
            previous_leader,
            supports_skip_assignment,
        };
        persist(group, context, rejoin);
    } else {
        rebalance(group, context);
    }
}

fn persist(group: &mut ClassicGroup, context: &mut Context<'_>, rejoin: StaticRejoin) {
    match group.record(|member| member.assignment.clone()) {
        Ok(record) => {
            group.has_record = true;
            let rejoin = Box::new(rejoin);
            let change = Change::StaticRejoin {
                group: Arc::clone(&group.id),
                rejoin,
            };
            context.stage(vec![record], change);
        }
        Err(error) => {
            tracing::error!(group = %group.id, %error, "cannot store a static member");
            finish_static_rejoin(group, context, rejoin, Err(AppendError::Unknown));
        }
    }
}

/// The new id is in the log, or could not be written.
pub(crate) fn finish_static_rejoin(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    rejoin: StaticRejoin,
    result: Result<(), AppendError>,
) {
    let Some(member) = waiting(group, &rejoin) else {
        return;
    };
    member.parked_join = None;
    match (result, rejoin.request) {
        (Ok(()), None) => {}
        (Ok(()), Some(request)) => {
            let reply = resumed_reply(group, &rejoin);
            context.reply_join(request, reply);
            restart(group, context, &rejoin.member_id);
        }
        (Err(error), _) => revert(group, context, rejoin, error),
    }
}

/// Whether the new id will be in the log is not known yet, but the client waits no longer. The member
/// keeps it until that is known; who comes back meanwhile without an id gets another.
pub(crate) fn refuse_static_rejoin(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    rejoin: &mut StaticRejoin,
    error: AppendError,
) {
    let Some(member) = waiting(group, rejoin) else {
        return;
    };
    member.parked_join = None;
    restart(group, context, &rejoin.member_id);
    if let Some(request) = rejoin.request.take() {
        let reply = refusal(group, &rejoin.previous.id, error);
        context.reply_join(request, reply);
    }
}

/// The member as the rejoin has left it.
fn waiting<'g>(group: &'g mut ClassicGroup, rejoin: &StaticRejoin) -> Option<&'g mut Member> {
    // Otherwise a rebalance has begun meanwhile. Its end answers the join, and the next assignment
    // writes the new id.
    let is_current = group.generation == rejoin.generation && group.state() == GroupState::Stable;
    let member = group.members.get_mut(&rejoin.member_id);
    // Otherwise it left, or came back once more: answered already.
    member.filter(|member| is_current && member.parked_join == rejoin.request)
}

/// G-20: from v9 on the leader is told the truth and not to assign; before it, that another leads.
fn resumed_reply(group: &ClassicGroup, rejoin: &StaticRejoin) -> JoinReply {
    let mut reply = group.join_reply(&rejoin.member_id);
    if rejoin.supports_skip_assignment {
        reply.skip_assignment = group.is_leader(&rejoin.member_id);
    } else {
        reply.members.clear();
        reply.leader = rejoin
            .previous_leader
            .as_deref()
            .unwrap_or_default()
            .to_owned();
    }
    reply
}

fn revert(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    rejoin: StaticRejoin,
    error: AppendError,
) {
    let StaticRejoin {
        request,
        member_id,
        previous,
        ..
    } = rejoin;
    let old_id = Arc::clone(&previous.id);
    context.cancel_session(&group.id, &member_id);
    if let Some(member) = group.rename_static(&member_id, &old_id) {
        *member = previous;
    }
    restart(group, context, &old_id);
    if let Some(request) = request {
        let reply = refusal(group, &old_id, error);
        context.reply_join(request, reply);
    }
}

fn refusal(group: &ClassicGroup, old_id: &str, error: AppendError) -> JoinReply {
    JoinReply {
        error: Some(error.into()),
        member_id: String::new(),
        members: Vec::new(),
        ..group.join_reply(old_id)
    }
}

fn restart(group: &ClassicGroup, context: &mut Context<'_>, member_id: &str) {
    if let Some(member) = group.members.get(member_id) {
        context.restart_session(&group.id, member);
    }
}
