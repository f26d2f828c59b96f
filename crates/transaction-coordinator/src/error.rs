//! Errors in Kafka's names, because they *are* the semantics of a transaction coordinator.
//!
//! Rules: T-1…T-4, T-10…T-12, T-30…T-33. The numbers are written by the broker's error_codes.rs
//! only, and so is what older versions of an API get instead.

use strandline_coordinator::AppendError;

/// Why a request about a transaction was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum TransactionError {
    /// An error without a better name.
    #[error("the server met an unexpected error")]
    UnknownServerError,
    /// The coordinator still reads its partition.
    #[error("the coordinator is loading")]
    CoordinatorLoadInProgress,
    /// The coordinator cannot serve now; the client retries.
    #[error("the coordinator is not available")]
    CoordinatorNotAvailable,
    /// Another broker is the coordinator.
    #[error("this is not the coordinator")]
    NotCoordinator,
    /// The transactional id is empty or too long.
    #[error("the request is malformed")]
    InvalidRequest,
    /// The timeout is not positive, or above `transaction.max.timeout.ms`.
    #[error("the transaction timeout is outside the allowed range")]
    InvalidTransactionTimeout,
    /// The id is unknown, or belongs to another producer id.
    #[error("the producer id does not belong to the transactional id")]
    InvalidProducerIdMapping,
    /// A newer producer has taken the transactional id.
    #[error("a newer producer uses the transactional id")]
    ProducerFenced,
    /// Another change of the transaction is under way; the client retries.
    #[error("another change of the transaction is under way")]
    ConcurrentTransactions,
    /// The transaction is not in a state that allows this.
    #[error("the state of the transaction does not allow this")]
    InvalidTxnState,
    /// The partition is not in the transaction: the client must abort.
    #[error("the partition is not part of the transaction")]
    TransactionAbortable,
    /// No such transactional id.
    #[error("the transactional id does not exist")]
    TransactionalIdNotFound,
}

impl TransactionError {
    /// The same request may be granted later.
    pub fn may_go_well_later(self) -> bool {
        self.is_about_coordinator() || self == Self::ConcurrentTransactions
    }

    /// The coordinator is elsewhere, or cannot answer now: the same question may go well later.
    pub fn is_about_coordinator(self) -> bool {
        matches!(
            self,
            Self::CoordinatorLoadInProgress | Self::CoordinatorNotAvailable | Self::NotCoordinator
        )
    }
}

impl From<AppendError> for TransactionError {
    /// What the client is told when the new state could not be written.
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::UnknownTopicOrPartition
            | AppendError::NotEnoughReplicas
            | AppendError::NotEnoughReplicasAfterAppend
            | AppendError::RequestTimedOut => Self::CoordinatorNotAvailable,
            AppendError::NotLeaderOrFollower | AppendError::StorageError => Self::NotCoordinator,
            AppendError::MessageTooLarge
            | AppendError::RecordListTooLarge
            | AppendError::InvalidProducerEpoch
            | AppendError::InvalidTransactionState
            | AppendError::CoordinatorFenced
            | AppendError::Unknown => Self::UnknownServerError,
        }
    }
}
