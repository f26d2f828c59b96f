//! InitProducerId (22) without transactional id. Rules: T-1, T-5.

use strandline_wire::ErrorCode;
use strandline_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::RequestContext;
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let code = match &request.transactional_id {
        Some(id) if id.is_empty() => ErrorCode::InvalidRequest, // T-1
        // FindCoordinator never names a transaction coordinator, so no client that follows the
        // protocol gets here; the answer ends a client that does not.
        Some(_) => ErrorCode::TransactionalIdAuthorizationFailed,
        None => match context
            .broker
            .producer_ids
            .next(&context.broker.metadata)
            .await
        {
            Ok(id) => {
                return InitProducerIdResponse::default()
                    .with_producer_id(id.into())
                    .with_producer_epoch(0);
            }
            Err(e) => error_codes::for_metadata(&e),
        },
    };
    InitProducerIdResponse::default()
        .with_error_code(code.code())
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
}
