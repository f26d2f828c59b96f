//! SyncGroup.
//!
//! Rules: G-30…G-33, X-21.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::group::ClassicGroup;
use super::rebalance::{rebalance, refuse_syncs};
use crate::context::Context;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::reply::SyncReply;
use crate::request::SyncRequest;
use crate::staged::Change;
use crate::timers::TimerKey;
use strandline_coordinator::{AppendError, AppendToken, RequestId};

/// A sync whose group exists.
pub(crate) fn sync(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    id: RequestId,
    request: SyncRequest,
) {
    if let Err(error) = check(group, &request) {
        context.reply_sync(id, SyncReply::failed(error));
        return;
    }
    let is_stable = group.state() == GroupState::Stable;
    let Some(member) = group.members.get_mut(&*request.member_id) else {
        return;
    };
    member.has_synced = true;
    if is_stable {
        context.restart_session(&group.id, member);
        context.reply_sync(id, reply(group, &request.member_id));
    } else {
        if let Some(superseded) = member.parked_sync.replace(id) {
            context.reply_sync(
                superseded,
                SyncReply::failed(GroupError::RebalanceInProgress),
            );
        }
        context.restart_session(&group.id, member);
        if group.is_leader(&request.member_id) && group.assignment_append.is_none() {
            persist(group, context, request.assignments);
        }
    }
    if group.members.values().all(|member| member.has_synced) {
        context
            .timers
            .cancel(&TimerKey::Sync(Arc::clone(&group.id)));
    }
}

fn check(group: &ClassicGroup, request: &SyncRequest) -> Result<(), GroupError> {
    let state = group.state();
    if state == GroupState::Dead {
        return Err(GroupError::CoordinatorNotAvailable);
    }
    group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
    if request.generation_id != group.generation {
        return Err(GroupError::IllegalGeneration);
    }
    if differs(request.protocol_type.as_ref(), group.protocol_type.as_ref())
        || differs(request.protocol_name.as_ref(), group.protocol_name.as_ref())
    {
        return Err(GroupError::InconsistentGroupProtocol);
    }
    match state {
        GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
        GroupState::PreparingRebalance => Err(GroupError::RebalanceInProgress),
        GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMemberId),
    }
}

/// Checked only if both sides say something (G-30).
fn differs(theirs: Option<&String>, ours: Option<&String>) -> bool {
    theirs.is_some_and(|theirs| ours.is_some_and(|ours| theirs != ours))
}

fn reply(group: &ClassicGroup, member_id: &str) -> SyncReply {
    let member = group.members.get(member_id);
    SyncReply {
        error: None,
        protocol_type: group.protocol_type.clone(),
        protocol_name: group.protocol_name.clone(),
        assignment: member
            .map(|member| member.assignment.clone())
            .unwrap_or_default(),
    }
}

/// Writes the leader's assignment; everybody waits for it (G-31).
fn persist(group: &mut ClassicGroup, context: &mut Context<'_>, assignments: Vec<(String, Bytes)>) {
    let assignments: BTreeMap<String, Bytes> = assignments.into_iter().collect();
    let record = group.record(|member| assigned(&assignments, &member.id));
    match record {
        Ok(record) => {
            group.has_record = true;
            let change = Change::Assignment {
                group: Arc::clone(&group.id),
                assignments,
            };
            group.assignment_append = Some(context.stage(vec![record], change));
        }
        Err(error) => {
            tracing::error!(group = %group.id, %error, "cannot store an assignment");
            fail(group, context, AppendError::Unknown);
        }
    }
}

fn assigned(assignments: &BTreeMap<String, Bytes>, member_id: &str) -> Bytes {
    assignments.get(member_id).cloned().unwrap_or_default()
}

/// The assignment is in the log, or could not be written (G-31).
pub(crate) fn finish_assignment(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    token: AppendToken,
    assignments: &BTreeMap<String, Bytes>,
    result: Result<(), AppendError>,
) {
    if group.assignment_append != Some(token) {
        // Another rebalance has begun and has answered everybody.
        return;
    }
    group.assignment_append = None;
    if let Err(error) = result {
        fail(group, context, error);
        return;
    }
    group.enter(GroupState::Stable, context.now_ms);
    let mut waiting = Vec::new();
    for member in group.members.values_mut() {
        member.assignment = assigned(assignments, &member.id);
        if let Some(id) = member.parked_sync.take() {
            waiting.push((id, Arc::clone(&member.id)));
            context.restart_session(&group.id, member);
        }
    }
    for (id, member_id) in waiting {
        context.reply_sync(id, reply(group, &member_id));
    }
}

fn fail(group: &mut ClassicGroup, context: &mut Context<'_>, error: AppendError) {
    refuse_syncs(group, context, error.into());
    rebalance(group, context);
}
