//! OffsetFetch (9), one group or many. Rules: G-55 … G-58.

use strandline_group_coordinator::{FetchedTopic, GroupError, OffsetFetchQuery};
use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetFetchRequest;
use strandline_wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::{RequestContext, some_text, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if context.version() >= 8 {
        let groups = request.groups.iter().map(|g| {
            let topics = g.topics.as_ref().map(|list| {
                list.iter()
                    .map(|t| (t.name.as_str().to_owned(), t.partition_indexes.clone()))
                    .collect()
            });
            group(context, &g.group_id, topics, request.require_stable)
        });
        return OffsetFetchResponse::default().with_groups(groups.collect());
    }
    let topics: Option<Vec<(String, Vec<i32>)>> = request.topics.as_ref().map(|list| {
        list.iter()
            .map(|t| (t.name.as_str().to_owned(), t.partition_indexes.clone()))
            .collect()
    });
    let query = OffsetFetchQuery {
        group_id: request.group_id.as_str().to_owned(),
        topics: topics.clone(),
        require_stable: context.version() >= 7 && request.require_stable,
    };
    match context.broker.groups.fetch_offsets(&query) {
        Ok(fetched) => {
            OffsetFetchResponse::default().with_topics(old_topics(context.version(), fetched))
        }
        Err(e) => old_error(context.version(), error_codes::for_offset_fetch(e), topics),
    }
}

fn old_topics(version: i16, fetched: Vec<FetchedTopic>) -> Vec<OffsetFetchResponseTopic> {
    let topic = |t: FetchedTopic| {
        let partitions = t.partitions.into_iter().map(|p| {
            let out = OffsetFetchResponsePartition::default()
                .with_partition_index(p.partition)
                .with_committed_offset(p.offset)
                .with_metadata(some_text(p.metadata))
                .with_error_code(code(p.error));
            if version >= 5 {
                out.with_committed_leader_epoch(p.leader_epoch)
            } else {
                out
            }
        });
        OffsetFetchResponseTopic::default()
            .with_name(text(t.name).into())
            .with_partitions(partitions.collect())
    };
    fetched.into_iter().map(topic).collect()
}

fn code(error: Option<GroupError>) -> i16 {
    error
        .map_or(ErrorCode::None, error_codes::for_offset_fetch)
        .code()
}

/// versions without a top-level error carry it on every partition that was asked for.
fn old_error(
    version: i16,
    code: ErrorCode,
    topics: Option<Vec<(String, Vec<i32>)>>,
) -> OffsetFetchResponse {
    if version >= 2 {
        return OffsetFetchResponse::default().with_error_code(code.code());
    }
    let topics = topics
        .unwrap_or_default()
        .into_iter()
        .map(|(name, partitions)| {
            let partitions = partitions.into_iter().map(|partition| {
                OffsetFetchResponsePartition::default()
                    .with_partition_index(partition)
                    .with_committed_offset(-1)
                    .with_metadata(some_text(""))
                    .with_error_code(code.code())
            });
            OffsetFetchResponseTopic::default()
                .with_name(text(name).into())
                .with_partitions(partitions.collect())
        });
    OffsetFetchResponse::default().with_topics(topics.collect())
}

fn group(
    context: &RequestContext,
    group_id: &str,
    topics: Option<Vec<(String, Vec<i32>)>>,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let query = OffsetFetchQuery {
        group_id: group_id.to_owned(),
        topics,
        require_stable,
    };
    let out = OffsetFetchResponseGroup::default().with_group_id(text(group_id).into());
    let fetched = match context.broker.groups.fetch_offsets(&query) {
        Ok(fetched) => fetched,
        Err(e) => return out.with_error_code(error_codes::for_offset_fetch(e).code()),
    };
    let topics = fetched.into_iter().map(|t| {
        let partitions = t.partitions.into_iter().map(|p| {
            OffsetFetchResponsePartitions::default()
                .with_partition_index(p.partition)
                .with_committed_offset(p.offset)
                .with_committed_leader_epoch(p.leader_epoch)
                .with_metadata(some_text(p.metadata))
                .with_error_code(code(p.error))
        });
        OffsetFetchResponseTopics::default()
            .with_name(text(t.name).into())
            .with_partitions(partitions.collect())
    });
    out.with_topics(topics.collect())
}
