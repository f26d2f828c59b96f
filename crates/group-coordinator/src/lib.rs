//! The coordinator of consumer groups: classic groups and committed offsets of one partition of
//! `__consumer_offsets`, as a state machine without I/O, clock or randomness.
//!
//! A [`GroupShard`] takes requests and the time, and returns [`Effects`]: answers that may leave,
//! records to append, and when to come back. Its caller appends the records, waits until they are
//! committed and reports that with [`GroupShard::on_append_result`], which releases the answers
//! that depended on them. After a failover a [`Loader`] rebuilds the state from the partition.
//!
//! Rules: G-1…G-82, T-20…T-23, T-43.

mod classic;
mod config;
mod context;
mod error;
mod group;
mod id_source;
mod invariants;
mod load;
mod offsets;
mod query;
mod records;
mod reply;
mod request;
mod shard;
mod staged;
mod subscription;
mod timers;

pub use config::GroupConfig;
pub use error::GroupError;
pub use id_source::IdSource;
pub use invariants::BrokenInvariant;
pub use load::Loader;
pub use query::{
    FetchedOffset, FetchedTopic, GroupDescription, GroupState, ListGroupsFilter, ListedGroup,
    MemberDescription, OffsetFetchQuery,
};
pub use records::{CommittedOffset, GroupMetadata, MemberMetadata, RecordKey};
pub use reply::{
    Effects, JoinReply, JoinReplyMember, LeaveReply, LeaveReplyMember, OffsetCommitReply,
    OffsetDeleteReply, PartitionErrors, Reply, SyncReply,
};
pub use request::{
    DeleteGroupRequest, HeartbeatRequest, JoinRequest, LeaveRequest, LeavingMember,
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, OffsetDeleteRequest, Request,
    SyncRequest, TxnOffsetCommitRequest,
};
pub use shard::GroupShard;
