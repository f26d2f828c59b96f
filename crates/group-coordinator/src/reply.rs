//! The answers of a shard; the broker writes them in the version of the request.
//!
//! Rules: G-8, G-9, G-31, G-42, G-50, G-59.

use bytes::Bytes;
use strandline_coordinator::AppendError;

use crate::error::GroupError;

/// The outcome of one call into a shard; the caller must carry out all of it.
pub type Effects = strandline_coordinator::Effects<Reply>;

/// Answer to a [`crate::Request`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// JoinGroup.
    Join(JoinReply),
    /// SyncGroup.
    Sync(SyncReply),
    /// Heartbeat.
    Heartbeat(Result<(), GroupError>),
    /// LeaveGroup.
    Leave(LeaveReply),
    /// OffsetCommit.
    OffsetCommit(OffsetCommitReply),
    /// TxnOffsetCommit, which answers as OffsetCommit does.
    TxnOffsetCommit(OffsetCommitReply),
    /// What became of a marker, from [`crate::GroupShard::end_transaction`].
    TransactionEnd(Result<(), AppendError>),
    /// OffsetDelete.
    OffsetDelete(OffsetDeleteReply),
    /// One group of DeleteGroups.
    DeleteGroup(Result<(), GroupError>),
}

/// Answer to JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinReply {
    /// `None` for success.
    pub error: Option<GroupError>,
    /// -1 on errors, except a static member whose new id could not be written (G-20).
    pub generation_id: i32,
    /// v7+.
    pub protocol_type: Option<String>,
    /// `None` is "" below v7 and null from v7 on (G-9).
    pub protocol_name: Option<String>,
    /// "" on errors.
    pub leader: String,
    /// v9+: the leader must not assign (G-20).
    pub skip_assignment: bool,
    /// The member's id, new or echoed.
    pub member_id: String,
    /// For the leader all members, else empty (G-8).
    pub members: Vec<JoinReplyMember>,
}

impl JoinReply {
    /// G-9.
    pub fn failed(member_id: impl Into<String>, error: GroupError) -> Self {
        Self {
            error: Some(error),
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: String::new(),
            skip_assignment: false,
            member_id: member_id.into(),
            members: Vec::new(),
        }
    }
}

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinReplyMember {
    /// Member id.
    pub member_id: String,
    /// v5+.
    pub group_instance_id: Option<String>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// Answer to SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncReply {
    /// `None` for success.
    pub error: Option<GroupError>,
    /// v5+.
    pub protocol_type: Option<String>,
    /// v5+.
    pub protocol_name: Option<String>,
    /// Empty, never null (G-31, X-21).
    pub assignment: Bytes,
}

impl SyncReply {
    /// An error and nothing else.
    pub fn failed(error: GroupError) -> Self {
        Self {
            error: Some(error),
            protocol_type: None,
            protocol_name: None,
            assignment: Bytes::new(),
        }
    }
}

/// Answer to LeaveGroup. Below v3 the single member's error is the top-level one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveReply {
    /// The whole request failed; `members` is empty then.
    pub error: Option<GroupError>,
    /// In the order of the request.
    pub members: Vec<LeaveReplyMember>,
}

/// One member of a LeaveGroup answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveReplyMember {
    /// As in the request.
    pub member_id: String,
    /// As in the request.
    pub group_instance_id: Option<String>,
    /// `None` for success.
    pub error: Option<GroupError>,
}

/// Answer to OffsetCommit: every partition of the request, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitReply {
    /// Per topic.
    pub topics: Vec<PartitionErrors>,
}

impl OffsetCommitReply {
    /// Puts an error on every partition that has none of its own.
    pub(crate) fn fail_pending(&mut self, error: GroupError) {
        for (_, outcome) in self
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions)
        {
            outcome.get_or_insert(error);
        }
    }
}

/// Outcome per partition of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionErrors {
    /// Topic name.
    pub name: String,
    /// Partition index and error, `None` for success.
    pub partitions: Vec<(i32, Option<GroupError>)>,
}

/// Answer to OffsetDelete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetDeleteReply {
    /// The whole request failed; `topics` is empty then.
    pub error: Option<GroupError>,
    /// Per topic, in the order of the request.
    pub topics: Vec<PartitionErrors>,
}
