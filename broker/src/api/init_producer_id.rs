//! InitProducerId (22). Rules: T-1 … T-6.

use strandline_coordinator::Producer;
use strandline_telemetry::Throttle;
use strandline_transaction_coordinator::InitProducerIdRequest as Init;
use strandline_types::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID};
use strandline_wire::ErrorCode;
use strandline_wire::messages::{InitProducerIdRequest, InitProducerIdResponse};

use super::RequestContext;
use crate::error_codes::{self, Fenced};

/// Clients ask again and again.
static UNAVAILABLE: Throttle = Throttle::new(60_000);

pub(super) async fn handle(
    context: &RequestContext,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let outcome = match &request.transactional_id {
        Some(id) => transactional(context, id, &request).await,
        None => {
            let broker = &context.broker;
            let id = broker.producer_ids.next(&broker.metadata).await;
            id.map(|id| Producer { id, epoch: 0 }).map_err(|error| {
                if let Some(more) = UNAVAILABLE.pass(broker.clock.monotonic_ms()) {
                    tracing::warn!(%error, more, "there are no producer ids");
                }
                // Older clients take every other code that could be meant for fatal (T-1).
                ErrorCode::CoordinatorLoadInProgress
            })
        }
    };
    let out = InitProducerIdResponse::default();
    match outcome {
        Ok(producer) => out
            .with_producer_id(producer.id.into())
            .with_producer_epoch(producer.epoch),
        Err(code) => out
            .with_error_code(code.code())
            .with_producer_id(NO_PRODUCER_ID.into())
            .with_producer_epoch(NO_PRODUCER_EPOCH),
    }
}

async fn transactional(
    context: &RequestContext,
    id: &str,
    request: &InitProducerIdRequest,
) -> Result<Producer, ErrorCode> {
    let has_producer = context.version() >= 3;
    let expected = match (request.producer_id.0, request.producer_epoch) {
        _ if !has_producer => None,
        (NO_PRODUCER_ID, NO_PRODUCER_EPOCH) => None,
        // T-2: both or none.
        (NO_PRODUCER_ID, _) | (_, NO_PRODUCER_EPOCH) => return Err(ErrorCode::InvalidRequest),
        (id, epoch) => Some(Producer { id, epoch }),
    };
    let init = Init {
        transactional_id: id.to_owned(),
        timeout_ms: request.transaction_timeout_ms,
        expected,
    };
    let fenced = Fenced::known_from(context.version(), 4);
    let broker = &context.broker;
    let patience = broker.config.add_partitions_to_txn_patience();
    let initialised = broker.transactions.init_patiently(init, patience).await;
    initialised.map_err(|e| error_codes::for_transaction(e, fenced))
}
