//! Heartbeat.
//!
//! Rules: G-40, G-43.

use super::group::ClassicGroup;
use crate::context::Context;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::request::HeartbeatRequest;

/// A heartbeat whose group exists. It keeps the session alive in every state with members, also
/// while it is told to rejoin.
pub(crate) fn heartbeat(
    group: &ClassicGroup,
    context: &mut Context<'_>,
    request: &HeartbeatRequest,
) -> Result<(), GroupError> {
    if group.state() == GroupState::Dead {
        return Err(GroupError::CoordinatorNotAvailable);
    }
    group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
    if request.generation_id != group.generation {
        return Err(GroupError::IllegalGeneration);
    }
    if let Some(member) = group.members.get(&*request.member_id) {
        context.restart_session(&group.id, member);
    }
    match group.state() {
        GroupState::PreparingRebalance => Err(GroupError::RebalanceInProgress),
        GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
        GroupState::Empty | GroupState::Dead => Err(GroupError::UnknownMemberId),
    }
}
