//! Errors in Kafka's names, because they *are* the semantics of a group coordinator.
//!
//! Rules: G-1, G-9, G-51, G-59, G-70. The numbers are written by the broker's error_codes.rs only.

use strandline_coordinator::AppendError;

/// Why a group request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum GroupError {
    /// An error without a better name, for example a record larger than the partition accepts.
    #[error("the server met an unexpected error")]
    UnknownServerError,
    /// The topic or partition does not exist.
    #[error("this server does not host this topic-partition")]
    UnknownTopicOrPartition,
    /// The metadata of a committed offset is longer than `offset.metadata.max.bytes`.
    #[error("the metadata of the offset is too large")]
    OffsetMetadataTooLarge,
    /// The coordinator still reads its partition.
    #[error("the coordinator is loading")]
    CoordinatorLoadInProgress,
    /// The coordinator cannot serve now; the client retries.
    #[error("the coordinator is not available")]
    CoordinatorNotAvailable,
    /// Another broker is the coordinator.
    #[error("this is not the coordinator")]
    NotCoordinator,
    /// The generation of the request is not the group's.
    #[error("the generation is not the current one")]
    IllegalGeneration,
    /// No protocol in common with the group, or none at all.
    #[error("the member's protocols are not those of the group")]
    InconsistentGroupProtocol,
    /// The group id is empty or too long.
    #[error("the group id is invalid")]
    InvalidGroupId,
    /// The coordinator does not know this member.
    #[error("the member id is unknown")]
    UnknownMemberId,
    /// The session timeout is outside the allowed range.
    #[error("the session timeout is outside the allowed range")]
    InvalidSessionTimeout,
    /// The group rebalances; rejoin.
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// The commit is larger than the partition accepts.
    #[error("the committed offsets are too large to be stored")]
    InvalidCommitOffsetSize,
    /// The request contradicts itself or has a field that no client sends.
    #[error("the request is malformed")]
    InvalidRequest,
    /// Join again with the member id of this answer.
    #[error("a member id is required: join again with the given one")]
    MemberIdRequired,
    /// The group has `group.max.size` members.
    #[error("the group has its maximum size")]
    GroupMaxSizeReached,
    /// Another member has taken this group instance id.
    #[error("another member uses this group instance id")]
    FencedInstanceId,
    /// The group has members.
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// No such group.
    #[error("the group id does not exist")]
    GroupIdNotFound,
    /// A member subscribes to the topic, so its offsets stay.
    #[error("a member of the group subscribes to the topic")]
    GroupSubscribedToTopic,
    /// A transactional commit of the partition is undecided.
    #[error("a transactional offset commit is pending")]
    UnstableOffsetCommit,
    /// The producer of a transactional commit was fenced (T-23).
    #[error("the producer's epoch is not the newest")]
    InvalidProducerEpoch,
    /// A transactional commit is not part of an ongoing transaction (T-22).
    #[error("the transaction is not ongoing")]
    InvalidTxnState,
}

impl From<AppendError> for GroupError {
    /// What the client is told when its records could not be written (G-70, T-23).
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::UnknownTopicOrPartition
            | AppendError::NotEnoughReplicas
            | AppendError::NotEnoughReplicasAfterAppend
            | AppendError::RequestTimedOut => Self::CoordinatorNotAvailable,
            AppendError::NotLeaderOrFollower | AppendError::StorageError => Self::NotCoordinator,
            AppendError::InvalidProducerEpoch | AppendError::CoordinatorFenced => {
                Self::InvalidProducerEpoch
            }
            AppendError::InvalidTransactionState => Self::InvalidTxnState,
            AppendError::MessageTooLarge
            | AppendError::RecordListTooLarge
            | AppendError::Unknown => Self::UnknownServerError,
        }
    }
}
