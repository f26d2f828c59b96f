//! LeaveGroup.
//!
//! Rules: G-22, G-23, G-42.

use std::sync::Arc;

use super::group::ClassicGroup;
use super::rebalance::{complete_if_all_joined, evict, rebalance};
use crate::context::Context;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::reply::{LeaveReply, LeaveReplyMember};
use crate::request::{LeaveRequest, LeavingMember};

/// A leave whose group exists: one rebalance for all who go.
pub(crate) fn leave(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    request: LeaveRequest,
) -> LeaveReply {
    if group.state() == GroupState::Dead {
        let error = Some(GroupError::CoordinatorNotAvailable);
        return LeaveReply {
            error,
            members: Vec::new(),
        };
    }
    let size = group.members.len();
    let mut members = Vec::new();
    for leaving in request.members {
        let error = leave_one(group, context, &leaving).err();
        let LeavingMember {
            member_id,
            group_instance_id,
        } = leaving;
        members.push(LeaveReplyMember {
            member_id,
            group_instance_id,
            error,
        });
    }
    if group.members.len() < size {
        rebalance(group, context);
    } else {
        // A pending id may have been all that the join phase waited for.
        complete_if_all_joined(group, context);
    }
    LeaveReply {
        error: None,
        members,
    }
}

fn leave_one(
    group: &mut ClassicGroup,
    context: &mut Context<'_>,
    leaving: &LeavingMember,
) -> Result<(), GroupError> {
    let member_id: Arc<str> = match (&*leaving.member_id, &leaving.group_instance_id) {
        // G-23: an administrator knows the instance only.
        ("", Some(instance_id)) => {
            let holder = group.static_member(instance_id);
            Arc::clone(holder.ok_or(GroupError::UnknownMemberId)?)
        }
        (member_id, _) => Arc::from(member_id),
    };
    if group.pending.remove(&member_id) {
        context.cancel_session(&group.id, &member_id);
        return Ok(());
    }
    if !leaving.member_id.is_empty() {
        group.validate_member(&member_id, leaving.group_instance_id.as_deref())?;
    }
    if !group.members.contains_key(&member_id) {
        return Err(GroupError::UnknownMemberId);
    }
    evict(group, context, &member_id);
    Ok(())
}
