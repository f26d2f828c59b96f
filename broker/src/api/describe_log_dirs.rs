//! DescribeLogDirs (35). Rules: SEMANTICS 9.6.

use std::collections::BTreeMap;

use strandline_wire::ErrorCode;
use strandline_wire::messages::DescribeLogDirsRequest;
use strandline_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResponse, DescribeLogDirsResult, DescribeLogDirsTopic,
};

use super::{RequestContext, text};
use crate::partition::Partition;

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let is_asked = |p: &Partition| match &request.topics {
        None => true,
        Some(topics) => topics.iter().any(|t| {
            t.topic.as_str() == p.id.topic.as_str() && t.partitions.contains(&p.id.partition)
        }),
    };
    let mut topics: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for partition in context.broker.replicas.all() {
        if is_asked(&partition) {
            let out = DescribeLogDirsPartition::default()
                .with_partition_index(partition.id.partition)
                .with_partition_size(
                    i64::try_from(partition.log.size_in_bytes()).unwrap_or(i64::MAX),
                )
                .with_offset_lag(0);
            topics
                .entry(partition.id.topic.to_string())
                .or_default()
                .push(out);
        }
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        DescribeLogDirsTopic::default()
            .with_name(text(name).into())
            .with_partitions(partitions)
    });
    let dir = &context.broker.log_dir;
    let mut result = DescribeLogDirsResult::default()
        .with_log_dir(text(dir.path().display().to_string()))
        .with_topics(topics.collect());
    if dir.is_offline() {
        result.error_code = ErrorCode::KafkaStorageError.code();
    }
    if context.version() >= 4 {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let space = dir.space();
        result.total_bytes = space.map_or(-1, |(total, _)| signed(total));
        result.usable_bytes = space.map_or(-1, |(_, usable)| signed(usable));
    }
    DescribeLogDirsResponse::default().with_results(vec![result])
}
