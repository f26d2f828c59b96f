//! OffsetForLeaderEpoch (23). Rules: O-20 … O-23.

use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetForLeaderEpochRequest;
use strandline_wire::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use strandline_wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderEpochResponse, OffsetForLeaderTopicResult,
};

use super::RequestContext;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .map(|p| one(context, &topic.topic, p));
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(partitions.collect())
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}

fn one(context: &RequestContext, topic: &str, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let out = EpochEndOffset::default()
        .with_partition(asked.partition)
        .with_leader_epoch(-1)
        .with_end_offset(-1);
    match end_offset(context, topic, asked) {
        Ok((epoch, end)) => out.with_leader_epoch(epoch).with_end_offset(end),
        Err(code) => out.with_error_code(code.code()),
    }
}

fn end_offset(
    context: &RequestContext,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<(i32, i64), ErrorCode> {
    let partition = context.broker.replicas.by_name(topic, asked.partition)?;
    partition.check_epoch(asked.current_leader_epoch)?;
    let end = partition.log.end_offset_for_epoch(asked.leader_epoch);
    Ok((end.epoch, end.end_offset))
}
