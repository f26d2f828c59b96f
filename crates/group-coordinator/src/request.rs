//! The requests that a shard understands, independent of the wire and its versions.
//!
//! Rules: G-1, G-2, G-3, G-30, G-42, G-51, G-54, G-59.

use bytes::Bytes;
use strandline_coordinator::Producer;
use strandline_types::{LeaderEpoch, Offset};

use crate::error::GroupError;
use crate::reply::{
    JoinReply, LeaveReply, OffsetCommitReply, OffsetDeleteReply, PartitionErrors, Reply, SyncReply,
};

/// A request that changes a group. Reads (`fetch_offsets`, `describe_group`, `list_groups`) are
/// methods of the shard and answer at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// JoinGroup.
    Join(JoinRequest),
    /// SyncGroup.
    Sync(SyncRequest),
    /// Heartbeat.
    Heartbeat(HeartbeatRequest),
    /// LeaveGroup.
    Leave(LeaveRequest),
    /// OffsetCommit.
    OffsetCommit(OffsetCommitRequest),
    /// TxnOffsetCommit.
    TxnOffsetCommit(TxnOffsetCommitRequest),
    /// OffsetDelete.
    OffsetDelete(OffsetDeleteRequest),
    /// One group of DeleteGroups.
    DeleteGroup(DeleteGroupRequest),
}

impl Request {
    /// The group, which decides the shard.
    pub fn group_id(&self) -> &str {
        match self {
            Self::Join(r) => &r.group_id,
            Self::Sync(r) => &r.group_id,
            Self::Heartbeat(r) => &r.group_id,
            Self::Leave(r) => &r.group_id,
            Self::OffsetCommit(r) => &r.group_id,
            Self::TxnOffsetCommit(r) => &r.group_id,
            Self::OffsetDelete(r) => &r.group_id,
            Self::DeleteGroup(r) => &r.group_id,
        }
    }

    /// The answer that refuses all of the request, wherever this API has the place for it. Also
    /// for the caller, when it has no shard to ask or the group is not authorised.
    pub fn refusal(&self, error: GroupError) -> Reply {
        match self {
            Self::Join(request) => Reply::Join(JoinReply::failed(&*request.member_id, error)),
            Self::Sync(_) => Reply::Sync(SyncReply::failed(error)),
            Self::Heartbeat(_) => Reply::Heartbeat(Err(error)),
            Self::Leave(_) => Reply::Leave(LeaveReply {
                error: Some(error),
                members: Vec::new(),
            }),
            Self::OffsetCommit(request) => Reply::OffsetCommit(refusal(&request.topics, error)),
            Self::TxnOffsetCommit(request) => {
                Reply::TxnOffsetCommit(refusal(&request.topics, error))
            }
            Self::OffsetDelete(_) => Reply::OffsetDelete(OffsetDeleteReply {
                error: Some(error),
                topics: Vec::new(),
            }),
            Self::DeleteGroup(_) => Reply::DeleteGroup(Err(error)),
        }
    }
}

/// JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinRequest {
    /// The group.
    pub group_id: String,
    /// "" for a member that has no id yet.
    pub member_id: String,
    /// Set for a static member (v5+).
    pub group_instance_id: Option<String>,
    /// From the request header; "" if null.
    pub client_id: String,
    /// As Kafka writes it: `/127.0.0.1`.
    pub client_host: String,
    /// Checked against the configured range.
    pub session_timeout_ms: i32,
    /// Negative for v0, which has none: the session timeout is used (G-2).
    pub rebalance_timeout_ms: i32,
    /// Usually `consumer` or `connect`.
    pub protocol_type: String,
    /// Name and opaque metadata, in order of preference.
    pub protocols: Vec<(String, Bytes)>,
    /// v4+: a dynamic member without id is told one and joins again (G-3).
    pub require_known_member_id: bool,
    /// v9+: the answer has `skip_assignment` (G-20).
    pub supports_skip_assignment: bool,
}

/// SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRequest {
    /// The group.
    pub group_id: String,
    /// Generation of the join answer.
    pub generation_id: i32,
    /// The member.
    pub member_id: String,
    /// Set for a static member.
    pub group_instance_id: Option<String>,
    /// v5+, checked if present.
    pub protocol_type: Option<String>,
    /// v5+, checked if present.
    pub protocol_name: Option<String>,
    /// Member id and opaque assignment; from the leader only.
    pub assignments: Vec<(String, Bytes)>,
}

/// Heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// The group.
    pub group_id: String,
    /// Generation of the join answer.
    pub generation_id: i32,
    /// The member.
    pub member_id: String,
    /// Set for a static member.
    pub group_instance_id: Option<String>,
}

/// LeaveGroup; v0-2 carry exactly one member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveRequest {
    /// The group.
    pub group_id: String,
    /// Who leaves.
    pub members: Vec<LeavingMember>,
}

/// One member of LeaveGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingMember {
    /// "" when an administrator removes a static member by its instance id (G-23).
    pub member_id: String,
    /// Set for a static member.
    pub group_instance_id: Option<String>,
}

/// OffsetCommit; topics that do not exist or are not authorised are answered by the caller (G-50)
/// and do not come here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitRequest {
    /// The group; may be "".
    pub group_id: String,
    /// Negative from admin clients and `assign()` consumers.
    pub generation_id: i32,
    /// "" from admin clients and `assign()` consumers.
    pub member_id: String,
    /// Set for a static member.
    pub group_instance_id: Option<String>,
    /// v2-4: explicit lifetime in ms; `None` for -1 and for versions without it (G-54).
    pub retention_time_ms: Option<i64>,
    /// v9+: an unknown group is GROUP_ID_NOT_FOUND, before it ILLEGAL_GENERATION (G-51).
    pub supports_group_id_not_found: bool,
    /// What to commit.
    pub topics: Vec<OffsetCommitTopic>,
}

/// TxnOffsetCommit: offsets that become visible when the producer's transaction commits (T-20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnOffsetCommitRequest {
    /// The group.
    pub group_id: String,
    /// Whose transaction it is.
    pub producer: Producer,
    /// Negative below v3, which do not know the group's members (T-21).
    pub generation_id: i32,
    /// "" below v3.
    pub member_id: String,
    /// Set for a static member.
    pub group_instance_id: Option<String>,
    /// What to commit.
    pub topics: Vec<OffsetCommitTopic>,
}

/// Every partition with the same error: these APIs have no other place for it.
fn refusal(topics: &[OffsetCommitTopic], error: GroupError) -> OffsetCommitReply {
    let topics = topics.iter().map(|topic| PartitionErrors {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|p| (p.partition, Some(error)))
            .collect(),
    });
    OffsetCommitReply {
        topics: topics.collect(),
    }
}

/// Offsets of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitTopic {
    /// Topic name.
    pub name: String,
    /// Its partitions.
    pub partitions: Vec<OffsetCommitPartition>,
}

/// One offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitPartition {
    /// Partition index.
    pub partition: i32,
    /// Next offset that the consumer will read; the sign is not checked.
    pub offset: Offset,
    /// Leader epoch of the last consumed record, -1 if unknown.
    pub leader_epoch: LeaderEpoch,
    /// Opaque text; "" if null.
    pub metadata: String,
}

/// OffsetDelete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDeleteRequest {
    /// The group.
    pub group_id: String,
    /// Topic and partitions whose offsets go.
    pub topics: Vec<(String, Vec<i32>)>,
}

/// One group of DeleteGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteGroupRequest {
    /// The group.
    pub group_id: String,
}
