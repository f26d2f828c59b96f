//! DescribeProducers (61): what a partition remembers of its producers. Rules: T-53.

use strandline_log::ProducerEntry;
use strandline_wire::ErrorCode;
use strandline_wire::messages::describe_producers_request::DescribeProducersRequest;
use strandline_wire::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};

use super::RequestContext;
use super::once::once;

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let topics = once(&request.topics, |topic| topic.name.clone());
    let topics = topics.map(|topic| {
        let indexes = once(&topic.partition_indexes, |index| **index);
        let partitions = indexes.map(|index| {
            let out = PartitionResponse::default().with_partition_index(*index);
            match context.broker.replicas.by_name(&topic.name, *index) {
                Ok(partition) if partition.log.is_offline() => {
                    out.with_error_code(ErrorCode::KafkaStorageError.code())
                }
                Ok(partition) => {
                    let mut producers: Vec<_> = partition.log.producers().into_iter().collect();
                    producers.sort_unstable_by_key(|(id, _)| *id);
                    let producers = producers.iter().map(|(id, entry)| state(*id, entry));
                    out.with_active_producers(producers.collect())
                }
                Err(code) => out.with_error_code(code.code()),
            }
        });
        TopicResponse::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    DescribeProducersResponse::default().with_topics(topics.collect())
}

fn state(id: i64, entry: &ProducerEntry) -> ProducerState {
    ProducerState::default()
        .with_producer_id(id.into())
        .with_producer_epoch(i32::from(entry.epoch))
        .with_last_sequence(entry.last_sequence())
        .with_last_timestamp(entry.last_timestamp)
        .with_coordinator_epoch(entry.coordinator_epoch)
        .with_current_txn_start_offset(entry.current_txn_first_offset)
}
