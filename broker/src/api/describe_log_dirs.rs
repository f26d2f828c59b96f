//! DescribeLogDirs (35). Rules: SEMANTICS 9.6.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use strandline_log::LogDir;
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
    let asked: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        let of = topics.iter().map(|t| (t.topic.as_str(), &t.partitions));
        of.flat_map(|(topic, partitions)| partitions.iter().map(move |p| (topic, *p)))
            .collect()
    });
    let is_asked = |p: &Partition| {
        let asked = asked.as_ref();
        asked.is_none_or(|asked| asked.contains(&(p.id.topic.as_str(), p.id.partition)))
    };
    let partitions = context.broker.replicas.all();
    let dirs = &context.broker.log_dirs;
    let mut results: Vec<_> = dirs
        .all()
        .iter()
        .map(|dir| {
            let inside = partitions.iter().filter(|p| p.log.log_dir() == dir.path());
            let topics = describe(inside.filter(|p| is_asked(p)));
            result(dir, topics, context.version())
        })
        .collect();
    results.extend(dirs.lost().map(|path| {
        DescribeLogDirsResult::default()
            .with_log_dir(text(path.display().to_string()))
            .with_error_code(ErrorCode::KafkaStorageError.code())
    }));
    DescribeLogDirsResponse::default().with_results(results)
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn describe<'p>(partitions: impl Iterator<Item = &'p Arc<Partition>>) -> Vec<DescribeLogDirsTopic> {
    let mut topics: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for partition in partitions {
        let out = DescribeLogDirsPartition::default()
            .with_partition_index(partition.id.partition)
            .with_partition_size(signed(partition.log.size_in_bytes()))
            .with_offset_lag(0);
        let name = partition.id.topic.to_string();
        topics.entry(name).or_default().push(out);
    }
    let topics = topics.into_iter().map(|(name, partitions)| {
        DescribeLogDirsTopic::default()
            .with_name(text(name).into())
            .with_partitions(partitions)
    });
    topics.collect()
}

fn result(dir: &LogDir, topics: Vec<DescribeLogDirsTopic>, version: i16) -> DescribeLogDirsResult {
    let mut result = DescribeLogDirsResult::default()
        .with_log_dir(text(dir.path().display().to_string()))
        .with_topics(topics);
    if dir.is_offline() {
        result.error_code = ErrorCode::KafkaStorageError.code();
    }
    if version >= 4 {
        let space = dir.space();
        result.total_bytes = space.map_or(-1, |(total, _)| signed(total));
        result.usable_bytes = space.map_or(-1, |(_, usable)| signed(usable));
    }
    result
}
