//! OffsetFetch (9), one group or many. Rules: G-55 … G-58.

use std::collections::{HashMap, HashSet};

use strandline_group_coordinator::{FetchedTopic, GroupError, OffsetFetchQuery};
use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetFetchRequest;
use strandline_wire::messages::offset_fetch_response::{
    OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};

use super::once::once;
use super::{RequestContext, some_text, text};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    if context.version() >= 8 {
        let mut told = Told::new();
        // All of a group, once.
        let groups = once(request.groups.iter().enumerate(), |(at, g)| {
            (g.group_id.as_str(), g.topics.as_ref().map(|_| *at))
        });
        let groups = groups.map(|(_, g)| {
            let topics = g.topics.as_ref().map(|list| {
                let list = list.iter().map(|t| (t.name.as_str(), &t.partition_indexes));
                untold(&mut told, &g.group_id, list)
            });
            group(context, &g.group_id, topics, request.require_stable)
        });
        return OffsetFetchResponse::default().with_groups(groups.collect());
    }
    let topics = request.topics.as_ref().map(|list| {
        let list = list.iter().map(|t| (t.name.as_str(), &t.partition_indexes));
        untold(&mut Told::new(), "", list)
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

/// Partitions that the answer names, by group and topic.
type Told<'r> = HashMap<(&'r str, &'r str), HashSet<i32>>;

/// The partitions of a group that the answer does not name yet: an offset may carry 4 KiB of metadata.
fn untold<'r>(
    told: &mut Told<'r>,
    group: &'r str,
    topics: impl Iterator<Item = (&'r str, &'r Vec<i32>)>,
) -> Vec<(String, Vec<i32>)> {
    let topics = topics.map(|(name, partitions)| {
        let told = told.entry((group, name)).or_default();
        let partitions = partitions.iter().copied();
        let new = partitions.filter(|partition| told.insert(*partition));
        (name.to_owned(), new.collect())
    });
    topics.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_of_a_group_is_told_once() {
        let (mut told, partitions) = (Told::new(), vec![0, 1, 0, 1, 1]);
        let mut ask = |group| {
            let topics = [("t", &partitions), ("u", &partitions), ("t", &partitions)];
            let left = untold(&mut told, group, topics.into_iter());
            left.into_iter().map(|(_, p)| p).collect::<Vec<_>>()
        };
        assert_eq!(ask("g"), [vec![0, 1], vec![0, 1], vec![]]);
        assert!(ask("g").iter().all(Vec::is_empty));
        assert_eq!(ask("h"), [vec![0, 1], vec![0, 1], vec![]]);
    }
}
