//! OffsetCommit and TxnOffsetCommit: who may, and what is written.
//!
//! Rules: G-50, G-51, G-53, G-54, T-21.

use crate::classic::ClassicGroup;
use crate::config::GroupConfig;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::records::{CommittedOffset, RecordKey};
use crate::reply::{OffsetCommitReply, PartitionErrors};
use crate::request::{
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, TxnOffsetCommitRequest,
};
use strandline_coordinator::CoordinatorRecord;
use strandline_coordinator::RecordError;

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

/// T-21: as G-51, but a group that rebalances takes the commit, and old clients, who send neither
/// member nor generation, are not checked.
pub(crate) fn validate_transactional(
    group: Option<&ClassicGroup>,
    request: &TxnOffsetCommitRequest,
) -> Result<(), GroupError> {
    let is_anonymous = request.generation_id < 0;
    let Some(group) = group else {
        let unknown = GroupError::IllegalGeneration;
        return if is_anonymous { Ok(()) } else { Err(unknown) };
    };
    match group.state() {
        GroupState::Dead => return Err(GroupError::CoordinatorNotAvailable),
        // Also of a consumer without a subscription that has an instance id.
        GroupState::Empty if is_anonymous => return Ok(()),
        _ => {}
    }
    if is_anonymous && request.member_id.is_empty() && request.group_instance_id.is_none() {
        return Ok(());
    }
    group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
    if request.generation_id == group.generation {
        Ok(())
    } else {
        Err(GroupError::IllegalGeneration)
    }
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
    let expire_timestamp_ms = request
        .retention_time_ms
        .map(|retention_ms| now_ms.saturating_add(retention_ms));
    let commit = |partition| committed(partition, expire_timestamp_ms, now_ms);
    plan_topics(&request.group_id, request.topics, config, commit)
}

/// Turns a validated transactional request into records.
pub(crate) fn plan_transactional(
    request: TxnOffsetCommitRequest,
    config: &GroupConfig,
    now_ms: i64,
) -> CommitPlan {
    let commit = |partition| committed(partition, None, now_ms);
    plan_topics(&request.group_id, request.topics, config, commit)
}

fn plan_topics(
    group_id: &str,
    topics: Vec<OffsetCommitTopic>,
    config: &GroupConfig,
    commit: impl Fn(OffsetCommitPartition) -> CommittedOffset,
) -> CommitPlan {
    let mut plan = CommitPlan {
        records: Vec::new(),
        offsets: Vec::new(),
        reply: OffsetCommitReply { topics: Vec::new() },
    };
    for topic in topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in topic.partitions {
            let index = partition.partition;
            let offset = commit(partition);
            let error = if offset.metadata.len() > config.offset_metadata_max_bytes {
                Some(GroupError::OffsetMetadataTooLarge)
            } else {
                match record(group_id, &topic.name, index, &offset) {
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
