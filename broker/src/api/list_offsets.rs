//! ListOffsets (2) over both tiers. Rules: O-1 … O-9.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use strandline_types::{IsolationLevel, ListOffsetsTimestamp};
use strandline_wire::ErrorCode;
use strandline_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsRequest};
use strandline_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};

use super::RequestContext;
use crate::partition::Partition;
use crate::partition::tiering::OffsetLookup;

/// No broker is asked by a follower here, and a "debug" reader is an ordinary one (O-3).
const DEBUG_REPLICA: i32 = -2;

pub(super) async fn handle(
    context: &RequestContext,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let isolation = IsolationLevel::from_wire(request.isolation_level);
    let timeout = timeout(context, &request);
    let mut seen = HashSet::new();
    let mut twice = HashSet::new();
    for topic in &request.topics {
        for p in &topic.partitions {
            if !seen.insert((topic.name.as_str(), p.partition_index)) {
                twice.insert((topic.name.as_str(), p.partition_index));
            }
        }
    }
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|p| {
            let found = if twice.contains(&(topic.name.as_str(), p.partition_index)) {
                Err(ErrorCode::InvalidRequest) // O-1
            } else if request.replica_id.0 != -1 && request.replica_id.0 != DEBUG_REPLICA {
                Err(ErrorCode::NotLeaderOrFollower)
            } else {
                context
                    .broker
                    .replicas
                    .by_name(&topic.name, p.partition_index)
            };
            one(context, found, p, isolation, timeout)
        });
        let partitions = futures::future::join_all(partitions);
        async move {
            ListOffsetsTopicResponse::default()
                .with_name(topic.name.clone())
                .with_partitions(partitions.await)
        }
    });
    ListOffsetsResponse::default().with_topics(futures::future::join_all(topics).await)
}

/// O-7.
fn timeout(context: &RequestContext, request: &ListOffsetsRequest) -> Duration {
    match u64::try_from(request.timeout_ms) {
        Ok(ms) if ms > 0 && context.version() >= 10 => Duration::from_millis(ms),
        _ => context.broker.config.remote_list_offsets_timeout(),
    }
}

async fn one(
    context: &RequestContext,
    found: Result<Arc<Partition>, ErrorCode>,
    asked: &ListOffsetsPartition,
    isolation: IsolationLevel,
    timeout: Duration,
) -> ListOffsetsPartitionResponse {
    let version = context.version();
    let answer = match found {
        Ok(partition) => lookup(context, &partition, asked, isolation, timeout).await,
        Err(code) => Err(code),
    };
    let out = ListOffsetsPartitionResponse::default()
        .with_partition_index(asked.partition_index)
        .with_timestamp(-1)
        .with_offset(-1);
    match answer {
        Ok(found) => {
            let out = out
                .with_timestamp(found.timestamp)
                .with_offset(found.offset);
            if version >= 4 {
                out.with_leader_epoch(found.leader_epoch)
            } else {
                out
            }
        }
        Err(code) => out.with_error_code(code.code()),
    }
}

async fn lookup(
    context: &RequestContext,
    partition: &Arc<Partition>,
    asked: &ListOffsetsPartition,
    isolation: IsolationLevel,
    timeout: Duration,
) -> Result<OffsetLookup, ErrorCode> {
    let version = context.version();
    if version >= 4 {
        partition.check_epoch(asked.current_leader_epoch)?; // O-6
    }
    let wanted = ListOffsetsTimestamp::from_wire(asked.timestamp)
        .filter(|t| version >= first_version(*t))
        .ok_or(ErrorCode::UnsupportedVersion)?; // O-1
    let answer = partition.list_offset(&context.broker.io, wanted, isolation);
    tokio::time::timeout(timeout, answer)
        .await
        .map_err(|_| ErrorCode::RequestTimedOut)?
}

/// The table of 3.6.
fn first_version(timestamp: ListOffsetsTimestamp) -> i16 {
    match timestamp {
        ListOffsetsTimestamp::Latest
        | ListOffsetsTimestamp::Earliest
        | ListOffsetsTimestamp::At(_) => 1,
        ListOffsetsTimestamp::MaxTimestamp => 7,
        ListOffsetsTimestamp::EarliestLocal => 8,
        ListOffsetsTimestamp::LatestTiered => 9,
        ListOffsetsTimestamp::EarliestPendingUpload => 11,
    }
}
