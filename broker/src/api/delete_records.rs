//! DeleteRecords (21). Rules: SEMANTICS 6.6.

use strandline_types::is_internal_topic;
use strandline_wire::ErrorCode;
use strandline_wire::messages::DeleteRecordsRequest;
use strandline_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsResponse, DeleteRecordsTopicResult,
};

use super::RequestContext;

pub(super) async fn handle(
    context: &RequestContext,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for p in &topic.partitions {
            let out = DeleteRecordsPartitionResult::default()
                .with_partition_index(p.partition_index)
                .with_low_watermark(-1);
            partitions.push(
                match delete(context, &topic.name, p.partition_index, p.offset).await {
                    Ok(low_watermark) => out.with_low_watermark(low_watermark),
                    Err(code) => out.with_error_code(code.code()),
                },
            );
        }
        let out = DeleteRecordsTopicResult::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions);
        topics.push(out);
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

async fn delete(
    context: &RequestContext,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<i64, ErrorCode> {
    if is_internal_topic(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let partition = context.broker.replicas.by_name(topic, index)?;
    if !partition.config().cleanup_policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let job = move || partition.delete_records(offset);
    context
        .broker
        .io
        .run(job)
        .await
        .map_err(|_| ErrorCode::NotLeaderOrFollower)?
}
