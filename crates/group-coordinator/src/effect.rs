//! What a call asks its caller to do: answer requests, append records, come back in time.
//!
//! Rules: G-31, G-53, G-70.

use bytes::Bytes;

use crate::error::GroupError;
use crate::reply::Reply;

/// Names one request; chosen by the caller, unique among unanswered requests of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names one append; grows with the order in which the appends must reach the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppendToken(pub u64);

/// A record of `__consumer_offsets`; without a value it is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// Key, with its version in the first two bytes.
    pub key: Bytes,
    /// Value, or `None` for a tombstone.
    pub value: Option<Bytes>,
}

/// Records to append to the shard's partition as **one** batch, in the order of the tokens.
///
/// Exactly one call of `on_append_result` must follow for each, also when it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Given back with the result.
    pub token: AppendToken,
    /// Never empty.
    pub records: Vec<CoordinatorRecord>,
}

/// Why an append did not commit, as the partition says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AppendError {
    /// The partition is not there.
    #[error("the partition does not exist")]
    UnknownTopicOrPartition,
    /// Fewer replicas in sync than `min.insync.replicas`.
    #[error("not enough replicas in sync")]
    NotEnoughReplicas,
    /// The same, noticed after the leader had written.
    #[error("not enough replicas in sync after the append")]
    NotEnoughReplicasAfterAppend,
    /// Not committed within `offsets.commit.timeout.ms`; it may still commit.
    #[error("not committed in time")]
    RequestTimedOut,
    /// Leadership has moved.
    #[error("not the leader of the partition")]
    NotLeaderOrFollower,
    /// The disk failed.
    #[error("storage error")]
    StorageError,
    /// Batch larger than `max.message.bytes`.
    #[error("the batch is too large")]
    MessageTooLarge,
    /// Batch larger than a segment.
    #[error("the batch is larger than a segment")]
    RecordListTooLarge,
    /// Anything else.
    #[error("the append failed")]
    Unknown,
}

impl AppendError {
    /// What the client is told (G-70).
    pub fn to_group_error(self) -> GroupError {
        match self {
            Self::UnknownTopicOrPartition
            | Self::NotEnoughReplicas
            | Self::NotEnoughReplicasAfterAppend
            | Self::RequestTimedOut => GroupError::CoordinatorNotAvailable,
            Self::NotLeaderOrFollower | Self::StorageError => GroupError::NotCoordinator,
            Self::MessageTooLarge | Self::RecordListTooLarge | Self::Unknown => {
                GroupError::UnknownServerError
            }
        }
    }
}

/// The outcome of one call into a shard; the caller must carry out all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effects {
    /// Answers that may leave now. Each request is answered exactly once.
    pub replies: Vec<(RequestId, Reply)>,
    /// Appends, in token order.
    pub appends: Vec<Append>,
    /// When `on_tick` must be called at the latest, in ms since the Unix epoch; it replaces what
    /// earlier calls said. `None`: no deadline is pending.
    pub next_deadline_ms: Option<i64>,
}

impl Effects {
    pub(crate) fn reply(&mut self, id: RequestId, reply: Reply) {
        self.replies.push((id, reply));
    }
}
