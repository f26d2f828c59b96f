//! SyncGroup (14). Rules: G-30 … G-33.

use bytes::Bytes;
use strandline_group_coordinator::{GroupError, Reply, Request, SyncReply, SyncRequest};
use strandline_wire::ErrorCode;
use strandline_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use super::{RequestContext, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: SyncGroupRequest,
) -> SyncGroupResponse {
    let is_incomplete = request.protocol_type.is_none() || request.protocol_name.is_none();
    if context.version() >= 5 && is_incomplete {
        // Whoever the coordinator is (G-30).
        let code = ErrorCode::InconsistentGroupProtocol;
        return SyncGroupResponse::default().with_error_code(code.code());
    }
    let sync = SyncRequest {
        group_id: request.group_id.as_str().to_owned(),
        generation_id: request.generation_id,
        member_id: request.member_id.as_str().to_owned(),
        group_instance_id: request.group_instance_id.map(|i| i.as_str().to_owned()),
        protocol_type: request.protocol_type.map(|t| t.as_str().to_owned()),
        protocol_name: request.protocol_name.map(|n| n.as_str().to_owned()),
        assignments: request
            .assignments
            .iter()
            .map(|a| {
                (
                    a.member_id.as_str().to_owned(),
                    Bytes::copy_from_slice(&a.assignment),
                )
            })
            .collect(),
    };
    let reply = match context.broker.groups.submit(Request::Sync(sync)).await {
        Ok(Reply::Sync(reply)) => reply,
        Ok(_) => SyncReply::failed(GroupError::UnknownServerError),
        Err(e) => SyncReply::failed(e),
    };
    let out = SyncGroupResponse::default()
        .with_error_code(
            reply
                .error
                .map_or(ErrorCode::None, error_codes::for_group)
                .code(),
        )
        .with_assignment(reply.assignment);
    if context.version() < 5 {
        return out;
    }
    out.with_protocol_type(reply.protocol_type.map(text))
        .with_protocol_name(reply.protocol_name.map(text))
}
