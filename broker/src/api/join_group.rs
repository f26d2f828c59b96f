//! JoinGroup (11). Rules: G-1 … G-12, G-20.

use strandline_group_coordinator::{JoinReply, JoinRequest, Reply, Request};
use strandline_wire::ErrorCode;
use strandline_wire::messages::JoinGroupRequest;
use strandline_wire::messages::join_group_response::{JoinGroupResponse, JoinGroupResponseMember};

use super::{RequestContext, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: JoinGroupRequest,
) -> JoinGroupResponse {
    let version = context.version();
    let member_id = request.member_id.as_str().to_owned();
    let join = JoinRequest {
        group_id: request.group_id.as_str().to_owned(),
        member_id: member_id.clone(),
        group_instance_id: request.group_instance_id.map(|i| i.as_str().to_owned()),
        client_id: context.client_id().to_owned(),
        client_host: format!("/{}", context.client.peer.ip()),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if version >= 1 {
            request.rebalance_timeout_ms
        } else {
            -1
        },
        protocol_type: request.protocol_type.as_str().to_owned(),
        // Copies: what is kept must not keep the frame.
        protocols: request
            .protocols
            .iter()
            .map(|p| {
                (
                    p.name.as_str().to_owned(),
                    bytes::Bytes::copy_from_slice(&p.metadata),
                )
            })
            .collect(),
        require_known_member_id: version >= 4,
        supports_skip_assignment: version >= 9,
    };
    let reply = match context.broker.groups.submit(Request::Join(join)).await {
        Ok(Reply::Join(reply)) => reply,
        Ok(_) => JoinReply::failed(
            member_id,
            strandline_group_coordinator::GroupError::UnknownServerError,
        ),
        Err(e) => JoinReply::failed(member_id, e),
    };
    response(version, reply)
}

fn response(version: i16, reply: JoinReply) -> JoinGroupResponse {
    let members = reply.members.into_iter().map(|m| {
        let out = JoinGroupResponseMember::default()
            .with_member_id(text(m.member_id))
            .with_metadata(m.metadata);
        if version >= 5 {
            out.with_group_instance_id(m.group_instance_id.map(text))
        } else {
            out
        }
    });
    let mut out = JoinGroupResponse::default()
        .with_error_code(
            reply
                .error
                .map_or(ErrorCode::None, error_codes::for_group)
                .code(),
        )
        .with_generation_id(reply.generation_id)
        .with_leader(text(reply.leader))
        .with_member_id(text(reply.member_id))
        .with_members(members.collect());
    // G-9: "" below version 7, null from there on.
    out.protocol_name = match reply.protocol_name {
        Some(name) => Some(text(name)),
        None if version < 7 => Some(text("")),
        None => None,
    };
    if version >= 7 {
        out.protocol_type = reply.protocol_type.map(text);
    }
    if version >= 9 {
        out.skip_assignment = reply.skip_assignment;
    }
    out
}
