//! Heartbeat (12). Rules: G-40.

use strandline_group_coordinator::{GroupError, HeartbeatRequest as Heartbeat, Reply, Request};
use strandline_wire::ErrorCode;
use strandline_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::RequestContext;
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: HeartbeatRequest,
) -> HeartbeatResponse {
    let heartbeat = Heartbeat {
        group_id: request.group_id.as_str().to_owned(),
        generation_id: request.generation_id,
        member_id: request.member_id.as_str().to_owned(),
        group_instance_id: request.group_instance_id.map(|i| i.as_str().to_owned()),
    };
    let outcome = match context
        .broker
        .groups
        .submit(Request::Heartbeat(heartbeat))
        .await
    {
        Ok(Reply::Heartbeat(outcome)) => outcome,
        Ok(_) => Err(GroupError::UnknownServerError),
        Err(e) => Err(e),
    };
    let code = outcome
        .err()
        .map_or(ErrorCode::None, error_codes::for_group);
    HeartbeatResponse::default().with_error_code(code.code())
}
