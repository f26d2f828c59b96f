//! AddOffsetsToTxn (25). Rules: T-11, T-13.

use strandline_coordinator::Producer;
use strandline_transaction_coordinator::{AddPartitionsRequest, TransactionVersion};
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TopicName, TopicPartition};
use strandline_wire::ErrorCode;
use strandline_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::RequestContext;
use crate::auto_create;
use crate::error_codes::{self, Fenced};

pub(super) async fn handle(
    context: &RequestContext,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let code = match add(context, &request).await {
        Ok(()) => ErrorCode::None,
        Err(code) => code,
    };
    AddOffsetsToTxnResponse::default().with_error_code(code.code())
}

async fn add(context: &RequestContext, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    let broker = &context.broker;
    let offsets = offsets_partition(context, &request.group_id).await?;
    let request = AddPartitionsRequest {
        transactional_id: request.transactional_id.as_str().to_owned(),
        producer: Producer {
            id: request.producer_id.0,
            epoch: request.producer_epoch,
        },
        partitions: vec![offsets],
        client_version: TransactionVersion::V0,
    };
    let fenced = Fenced::known_from(context.version(), 2);
    let patience = broker.config.add_partitions_to_txn_patience();
    let added = broker.transactions.add_patiently(request, patience, |_| {});
    added
        .await
        .map_err(|e| error_codes::for_transaction(e, fenced))
}

/// The partition of `__consumer_offsets` that has the group's offsets; the topic is created
/// when nobody has needed it yet.
pub(super) async fn offsets_partition(
    context: &RequestContext,
    group_id: &str,
) -> Result<TopicPartition, ErrorCode> {
    let broker = &context.broker;
    if broker.groups.partition_of(group_id).is_none() {
        auto_create::create_consumer_offsets(broker)
            .await
            .map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
    }
    let index = broker.groups.partition_of(group_id);
    let topic = TopicName::new(CONSUMER_OFFSETS_TOPIC);
    match (topic, index) {
        (Ok(topic), Some(index)) => Ok(TopicPartition::new(topic, index)),
        _ => Err(ErrorCode::CoordinatorNotAvailable),
    }
}
