//! OffsetCommit: who may, and what is written.
//!
//! Rules: G-50, G-51, G-53, G-54.

use crate::classic::ClassicGroup;
use crate::config::GroupConfig;
use crate::effect::CoordinatorRecord;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::records::{CommittedOffset, RecordError, RecordKey};
use crate::reply::{OffsetCommitReply, PartitionErrors};
use crate::request::{OffsetCommitPartition, OffsetCommitRequest};

/// The matrix of G-51.
pub(crate) fn validate(
    group: Option<&ClassicGroup>,
    request: &OffsetCommitRequest,
) -> Result<(), GroupError> {
    let is_anonymous = request.generation_id < 0;
    let Some(group) = group else {
        return match (is_anonymous, request.supports_group_id_not_found) {
            (true, _) => Ok(()),
            (false, true) => Err(GroupError::GroupIdNotFound),
            (false, false) => Err(GroupError::IllegalGeneration),
        };
    };
    match group.state() {
        GroupState::Dead => return Err(GroupError::CoordinatorNotAvailable),
        GroupState::Empty if is_anonymous => return Ok(()),
        _ => {}
    }
    if is_anonymous && request.member_id.is_empty() && request.group_instance_id.is_none() {
        return Err(GroupError::UnknownMemberId);
    }
    group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
    if request.generation_id != group.generation {
        return Err(GroupError::IllegalGeneration);
    }
    // The member knows the generation, so it has had its join answer but no assignment yet.
    if group.state() == GroupState::CompletingRebalance {
        return Err(GroupError::RebalanceInProgress);
    }
    Ok(())
}

/// What is written for a commit.
#[derive(Debug)]
pub(crate) struct CommitPlan {
    pub(crate) records: Vec<CoordinatorRecord>,
    pub(crate) offsets: Vec<(String, i32, CommittedOffset)>,
    /// With the errors of those partitions that are not written.
    pub(crate) reply: OffsetCommitReply,
}

/// Turns a validated request into records.
pub(crate) fn plan(request: OffsetCommitRequest, config: &GroupConfig, now_ms: i64) -> CommitPlan {
    let mut plan = CommitPlan {
        records: Vec::new(),
        offsets: Vec::new(),
        reply: OffsetCommitReply { topics: Vec::new() },
    };
    let expire_timestamp_ms = request
        .retention_time_ms
        .map(|retention_ms| now_ms.saturating_add(retention_ms));
    for topic in request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let index = partition.partition;
            let offset = committed(partition, expire_timestamp_ms, now_ms);
            let error = if offset.metadata.len() > config.offset_metadata_max_bytes {
                Some(GroupError::OffsetMetadataTooLarge)
            } else {
                match record(&request.group_id, &topic.name, index, &offset) {
                    Ok(record) => {
                        plan.records.push(record);
                        plan.offsets.push((topic.name.clone(), index, offset));
                        None
                    }
                    Err(RecordError::TextTooLong {
                        field: "metadata", ..
                    }) => Some(GroupError::OffsetMetadataTooLarge),
                    Err(_) => Some(GroupError::UnknownTopicOrPartition),
                }
            };
            partitions.push((index, error));
        }
        plan.reply.topics.push(PartitionErrors {
            name: topic.name,
            partitions,
        });
    }
    plan
}

fn committed(
    partition: OffsetCommitPartition,
    expire_timestamp_ms: Option<i64>,
    now_ms: i64,
) -> CommittedOffset {
    CommittedOffset {
        offset: partition.offset,
        leader_epoch: partition.leader_epoch,
        metadata: partition.metadata,
        commit_timestamp_ms: now_ms,
        expire_timestamp_ms,
    }
}

fn record(
    group_id: &str,
    topic: &str,
    partition: i32,
    offset: &CommittedOffset,
) -> Result<CoordinatorRecord, RecordError> {
    let key = RecordKey::encode_offset(group_id, topic, partition)?;
    Ok(CoordinatorRecord {
        key,
        value: Some(offset.encode()?),
    })
}
