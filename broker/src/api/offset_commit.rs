//! OffsetCommit (8). Rules: G-50 … G-54.

use std::collections::HashMap;

use strandline_group_coordinator::{
    GroupError, OffsetCommitPartition, OffsetCommitRequest as Commit, OffsetCommitTopic, Reply,
    Request,
};
use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetCommitRequest;
use strandline_wire::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::RequestContext;
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let version = context.version();
    let image = context.broker.metadata.image();
    let exists = |topic: &str, partition: i32| {
        image
            .topics()
            .by_name(topic)
            .is_some_and(|t| t.partition(partition).is_some())
    };
    // G-50: what does not exist is answered here and does not reach the coordinator.
    let topics = request.topics.iter().map(|t| OffsetCommitTopic {
        name: t.name.as_str().to_owned(),
        partitions: t
            .partitions
            .iter()
            .filter(|p| exists(&t.name, p.partition_index))
            .map(|p| OffsetCommitPartition {
                partition: p.partition_index,
                offset: p.committed_offset,
                leader_epoch: if version >= 6 {
                    p.committed_leader_epoch
                } else {
                    -1
                },
                metadata: p
                    .committed_metadata
                    .as_ref()
                    .map_or("", |m| m.as_str())
                    .to_owned(),
            })
            .collect(),
    });
    let commit = Commit {
        group_id: request.group_id.as_str().to_owned(),
        generation_id: request.generation_id_or_member_epoch,
        member_id: request.member_id.as_str().to_owned(),
        group_instance_id: request
            .group_instance_id
            .as_ref()
            .map(|i| i.as_str().to_owned()),
        retention_time_ms: (version <= 4 && request.retention_time_ms != -1)
            .then_some(request.retention_time_ms),
        supports_group_id_not_found: version >= 9,
        topics: topics.filter(|t| !t.partitions.is_empty()).collect(),
    };
    let outcome = context
        .broker
        .groups
        .submit(Request::OffsetCommit(commit))
        .await;
    let errors = match outcome {
        Ok(Reply::OffsetCommit(reply)) => Ok(by_partition(reply.topics)),
        Ok(_) => Err(GroupError::UnknownServerError),
        Err(e) => Err(e),
    };
    let code = |topic: &str, partition: i32| {
        if !exists(topic, partition) {
            return ErrorCode::UnknownTopicOrPartition;
        }
        match &errors {
            Err(e) => error_codes::for_group(*e),
            Ok(errors) => errors
                .get(&(topic.to_owned(), partition))
                .copied()
                .flatten()
                .map_or(ErrorCode::None, error_codes::for_group),
        }
    };
    let topics = request.topics.iter().map(|t| {
        let partitions = t.partitions.iter().map(|p| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(p.partition_index)
                .with_error_code(code(&t.name, p.partition_index).code())
        });
        OffsetCommitResponseTopic::default()
            .with_name(t.name.clone())
            .with_partitions(partitions.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

/// Errors by topic and partition.
pub(super) fn by_partition(
    topics: Vec<strandline_group_coordinator::PartitionErrors>,
) -> HashMap<(String, i32), Option<GroupError>> {
    let mut out = HashMap::new();
    for topic in topics {
        for (partition, error) in topic.partitions {
            out.insert((topic.name.clone(), partition), error);
        }
    }
    out
}
