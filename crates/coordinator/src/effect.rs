//! What a call asks its caller to do: answer requests, append records, come back in time.
//!
//! Rules: G-31, G-53, G-70, T-6, T-22, T-31, T-43.

use bytes::Bytes;
use strandline_types::{ProducerEpoch, ProducerId};

/// Names one request; chosen by the caller, unique among unanswered requests of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Names one append; grows with the order in which the appends must reach the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AppendToken(pub u64);

/// A producer as the log knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Producer {
    /// Its id.
    pub id: ProducerId,
    /// Its epoch.
    pub epoch: ProducerEpoch,
}

/// A record of an internal topic; without a value it is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoordinatorRecord {
    /// Key, with its version in the first two bytes.
    pub key: Bytes,
    /// Value, or `None` for a tombstone.
    pub value: Option<Bytes>,
}

/// How a transaction of a producer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionEnd {
    /// The producer, with the epoch of the marker.
    pub producer: Producer,
    /// True for a commit, false for an abort.
    pub committed: bool,
    /// Epoch of the transaction coordinator that decided.
    pub coordinator_epoch: i32,
    /// The end has raised the epoch, so the marker's must be above that of the transaction's
    /// records (T-42).
    pub raises_epoch: bool,
}

/// The content of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendBatch {
    /// Ordinary records; never empty.
    Records(Vec<CoordinatorRecord>),
    /// Records of a producer's transaction, without sequence numbers (T-22); never empty.
    Transactional(Producer, Vec<CoordinatorRecord>),
    /// The marker that ends a transaction (T-43).
    Marker(TransactionEnd),
}

impl AppendBatch {
    /// The records, none for a marker.
    pub fn records(&self) -> &[CoordinatorRecord] {
        match self {
            Self::Records(records) | Self::Transactional(_, records) => records,
            Self::Marker(_) => &[],
        }
    }
}

/// What to append to the shard's partition as **one** batch, in the order of the tokens.
///
/// Exactly one call of `on_append_result` must follow for each, also when it failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Given back with the result.
    pub token: AppendToken,
    /// What is written.
    pub batch: AppendBatch,
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
    /// Not committed in time; it may still commit.
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
    /// The producer of a transactional batch was fenced, or a marker comes from an old epoch (T-23).
    #[error("the producer's epoch is not the newest")]
    InvalidProducerEpoch,
    /// A transactional batch does not belong to an ongoing transaction (P-70, P-74).
    #[error("the transaction is not ongoing")]
    InvalidTransactionState,
    /// A marker comes from a transaction coordinator that was deposed (T-40).
    #[error("the transaction coordinator is deposed")]
    CoordinatorFenced,
    /// Anything else.
    #[error("the append failed")]
    Unknown,
}

/// The outcome of one call into a shard; the caller must carry out all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effects<R> {
    /// Answers that may leave now. Each request is answered exactly once.
    pub replies: Vec<(RequestId, R)>,
    /// Appends, in token order.
    pub appends: Vec<Append>,
    /// When `on_tick` must be called at the latest, in monotonic time ([`crate::Now`]); it replaces what
    /// earlier calls said. `None`: no deadline is pending.
    pub next_deadline_ms: Option<i64>,
}

impl<R> Default for Effects<R> {
    fn default() -> Self {
        Self {
            replies: Vec::new(),
            appends: Vec::new(),
            next_deadline_ms: None,
        }
    }
}

impl<R> Effects<R> {
    /// Adds an answer.
    pub fn reply(&mut self, id: RequestId, reply: R) {
        self.replies.push((id, reply));
    }
}
