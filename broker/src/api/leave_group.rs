//! LeaveGroup (13). Rules: G-23, G-42.

use strandline_group_coordinator::{
    GroupError, LeaveReply, LeaveRequest, LeavingMember, Reply, Request,
};
use strandline_wire::ErrorCode;
use strandline_wire::messages::LeaveGroupRequest;
use strandline_wire::messages::leave_group_response::{LeaveGroupResponse, MemberResponse};

use super::{RequestContext, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: LeaveGroupRequest,
) -> LeaveGroupResponse {
    let version = context.version();
    let members = if version >= 3 {
        let member =
            |m: &strandline_wire::messages::leave_group_request::MemberIdentity| LeavingMember {
                member_id: m.member_id.as_str().to_owned(),
                group_instance_id: m.group_instance_id.as_ref().map(|i| i.as_str().to_owned()),
            };
        request.members.iter().map(member).collect()
    } else {
        let member_id = request.member_id.as_str().to_owned();
        vec![LeavingMember {
            member_id,
            group_instance_id: None,
        }]
    };
    let leave = LeaveRequest {
        group_id: request.group_id.as_str().to_owned(),
        members,
    };
    let reply = match context.broker.groups.submit(Request::Leave(leave)).await {
        Ok(Reply::Leave(reply)) => reply,
        Ok(_) => LeaveReply {
            error: Some(GroupError::UnknownServerError),
            members: Vec::new(),
        },
        Err(e) => LeaveReply {
            error: Some(e),
            members: Vec::new(),
        },
    };
    let code = |e: Option<GroupError>| e.map_or(ErrorCode::None, error_codes::for_group).code();
    if version < 3 {
        let own = reply.members.first().and_then(|m| m.error);
        return LeaveGroupResponse::default().with_error_code(code(reply.error.or(own)));
    }
    let members = reply.members.into_iter().map(|m| {
        MemberResponse::default()
            .with_member_id(text(m.member_id))
            .with_group_instance_id(m.group_instance_id.map(text))
            .with_error_code(code(m.error))
    });
    LeaveGroupResponse::default()
        .with_error_code(code(reply.error))
        .with_members(members.collect())
}
