//! OffsetCommit (8). Rules: G-50 … G-54.

use strandline_group_coordinator::{OffsetCommitRequest as Commit, Reply, Request};
use strandline_wire::ErrorCode;
use strandline_wire::messages::OffsetCommitRequest;
use strandline_wire::messages::offset_commit_response::{
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::RequestContext;
use super::committing::{self, Committing};
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let version = context.version();
    let committing = Committing::new(context);
    let topics = request.topics.iter().map(|t| {
        let partitions = t.partitions.iter().map(|p| {
            let epoch = (version >= 6).then_some(p.committed_leader_epoch);
            let metadata = p.committed_metadata.as_deref();
            committing::partition(p.partition_index, p.committed_offset, epoch, metadata)
        });
        (t.name.as_str(), partitions)
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
        topics: committing.existing(topics),
    };
    let outcome = context
        .broker
        .groups
        .commit(Request::OffsetCommit(commit), committing.image(), None)
        .await;
    let outcome = match outcome {
        Ok(Reply::OffsetCommit(reply)) => Ok(committing::by_partition(reply.topics)),
        Ok(_) => Err(ErrorCode::UnknownServerError),
        Err(e) => Err(error_codes::for_group(e)),
    };
    let code = |topic: &str, partition: i32| {
        committing.code(topic, partition, &outcome, error_codes::for_group)
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
