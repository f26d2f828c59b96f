//! What the read-only requests ask and get.
//!
//! Rules: G-55, G-80, G-81.

use bytes::Bytes;
use strandline_types::{LeaderEpoch, NO_PARTITION_LEADER_EPOCH, Offset, UNKNOWN_OFFSET};

use crate::error::GroupError;
use crate::records::CommittedOffset;

/// OffsetFetch of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetFetchQuery {
    /// The group.
    pub group_id: String,
    /// Topic and partitions; `None` for all that are committed.
    pub topics: Option<Vec<(String, Vec<i32>)>>,
    /// v7+: partitions with an undecided transactional commit are errors (G-56).
    pub require_stable: bool,
}

/// Committed offsets of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedTopic {
    /// Topic name.
    pub name: String,
    /// Its partitions.
    pub partitions: Vec<FetchedOffset>,
}

/// A committed offset, or the absence of one: offset -1, epoch -1, metadata "", no error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedOffset {
    /// Partition index.
    pub partition: i32,
    /// Next offset to read, -1 if there is no commit.
    pub offset: Offset,
    /// As committed, -1 if unknown (G-53).
    pub leader_epoch: LeaderEpoch,
    /// As committed.
    pub metadata: String,
    /// `None` for success.
    pub error: Option<GroupError>,
}

impl FetchedOffset {
    /// G-55.
    pub(crate) fn new(partition: i32, committed: Option<&CommittedOffset>) -> Self {
        Self {
            partition,
            offset: committed.map_or(UNKNOWN_OFFSET, |committed| committed.offset),
            leader_epoch: committed.map_or(NO_PARTITION_LEADER_EPOCH, |committed| {
                committed.leader_epoch
            }),
            metadata: committed
                .map(|committed| committed.metadata.clone())
                .unwrap_or_default(),
            error: None,
        }
    }

    /// G-56.
    pub(crate) fn unstable(partition: i32) -> Self {
        Self {
            error: Some(GroupError::UnstableOffsetCommit),
            ..Self::new(partition, None)
        }
    }
}

/// State of a group, with Kafka's exact words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Waiting for members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignment.
    CompletingRebalance,
    /// Members have their assignments.
    Stable,
    /// Being deleted.
    Dead,
}

impl GroupState {
    /// The word on the wire (G-80).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// One group of DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its state.
    pub state: GroupState,
    /// "" for a simple group.
    pub protocol_type: String,
    /// The chosen protocol, "" unless Stable.
    pub protocol_data: String,
    /// In the order in which they first joined.
    pub members: Vec<MemberDescription>,
}

/// One member of a described group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// Member id.
    pub member_id: String,
    /// v4+.
    pub group_instance_id: Option<String>,
    /// Client id.
    pub client_id: String,
    /// As given when it joined.
    pub client_host: String,
    /// Metadata for the chosen protocol; empty unless Stable.
    pub metadata: Bytes,
    /// Empty unless Stable.
    pub assignment: Bytes,
}

/// Filters of ListGroups; an empty list lets everything pass. Names are compared without case and
/// surrounding space; unknown ones match nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListGroupsFilter {
    /// v4+.
    pub states: Vec<String>,
    /// v5+.
    pub types: Vec<String>,
}

/// One group of ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// Group id.
    pub group_id: String,
    /// "" for a simple group.
    pub protocol_type: String,
    /// v4+.
    pub state: GroupState,
    /// v5+; `classic`.
    pub group_type: &'static str,
}
