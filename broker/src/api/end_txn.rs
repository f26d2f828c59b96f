//! EndTxn (26). Rules: T-30 … T-33.

use strandline_coordinator::Producer;
use strandline_transaction_coordinator::{EndTxnRequest as End, TransactionVersion};
use strandline_types::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID};
use strandline_wire::messages::{EndTxnRequest, EndTxnResponse};

use super::RequestContext;
use crate::error_codes::{self, Fenced};

/// First version of clients whose epoch rises with each end.
const FIRST_OF_SECOND_GENERATION: i16 = 5;

pub(super) async fn handle(context: &RequestContext, request: EndTxnRequest) -> EndTxnResponse {
    let version = context.version();
    let client_version = if version >= FIRST_OF_SECOND_GENERATION {
        TransactionVersion::V2
    } else {
        TransactionVersion::V0
    };
    let end = End {
        transactional_id: request.transactional_id.as_str().to_owned(),
        producer: Producer {
            id: request.producer_id.0,
            epoch: request.producer_epoch,
        },
        committed: request.committed,
        client_version,
    };
    let out = EndTxnResponse::default();
    let (out, next) = match context.broker.transactions.end(end).await {
        Ok(next) => (out, next),
        Err(e) => {
            let fenced = Fenced::known_from(version, 2);
            let code = error_codes::for_transaction(e, fenced);
            (out.with_error_code(code.code()), None)
        }
    };
    if version < FIRST_OF_SECOND_GENERATION {
        return out;
    }
    let next = next.unwrap_or(Producer {
        id: NO_PRODUCER_ID,
        epoch: NO_PRODUCER_EPOCH,
    });
    out.with_producer_id(next.id.into())
        .with_producer_epoch(next.epoch)
}
