//! The one place where errors of other crates become Kafka's codes. No wildcard arms: a new error
//! must be given its code.
#![deny(clippy::wildcard_enum_match_arm)]

use strandline_coordinator::AppendError as CoordinatorAppendError;
use strandline_group_coordinator::GroupError;
use strandline_log::{AppendError, LogError};
use strandline_metadata::RequestError;
use strandline_records::RejectKind;
use strandline_transaction_coordinator::TransactionError;
use strandline_wire::ErrorCode;

use crate::api::admission::Generation;
use crate::coordinators::MarkerError;

/// A batch that was refused before it reached the log (2.2).
pub(crate) fn for_rejected(kind: RejectKind) -> ErrorCode {
    match kind {
        RejectKind::InvalidRecord => ErrorCode::InvalidRecord,
        RejectKind::CorruptMessage => ErrorCode::CorruptMessage,
        RejectKind::MessageTooLarge => ErrorCode::MessageTooLarge,
        RejectKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
        RejectKind::UnsupportedCompression => ErrorCode::UnsupportedCompressionType,
    }
}

/// A batch that the log refused (2.4, P-23).
pub(crate) fn for_append(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::InvalidTransactionState { .. } | AppendError::NotVerified { .. } => {
            ErrorCode::InvalidTxnState
        }
        // Clients send no markers; a coordinator's own write is told by its name.
        AppendError::CoordinatorFenced { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::BatchLargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
        AppendError::InvalidBatch(_) => ErrorCode::InvalidRecord,
        AppendError::Batch(_) => ErrorCode::CorruptMessage,
        AppendError::Log(e) => for_log(e),
    }
}

/// The log cannot do what was asked.
pub(crate) fn for_log(error: &LogError) -> ErrorCode {
    match error {
        LogError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        LogError::Storage(_) | LogError::Io { .. } => ErrorCode::KafkaStorageError,
        LogError::Corrupt { .. } => ErrorCode::CorruptMessage,
        // The partition leaves this broker; the client looks for it again.
        LogError::Deleted(_) | LogError::Closed => ErrorCode::NotLeaderOrFollower,
        LogError::AlreadyExists(_)
        | LogError::DirectoryInUse(_)
        | LogError::WrongCluster { .. }
        | LogError::WrongNode { .. } => ErrorCode::KafkaStorageError,
    }
}

/// The controller refused (section 9).
pub(crate) fn for_metadata(error: &RequestError) -> ErrorCode {
    match error {
        RequestError::TopicAlreadyExists(_) => ErrorCode::TopicAlreadyExists,
        RequestError::InvalidTopicName(_) => ErrorCode::InvalidTopicException,
        RequestError::InvalidPartitions(_) => ErrorCode::InvalidPartitions,
        RequestError::InvalidReplicationFactor(_) => ErrorCode::InvalidReplicationFactor,
        RequestError::InvalidReplicaAssignment(_) => ErrorCode::InvalidReplicaAssignment,
        RequestError::UnknownTopicOrPartition(_) => ErrorCode::UnknownTopicOrPartition,
        RequestError::UnknownTopicId(_) => ErrorCode::UnknownTopicId,
        RequestError::InvalidConfig(_) => ErrorCode::InvalidConfig,
        RequestError::InvalidRequest(_) => ErrorCode::InvalidRequest,
        RequestError::PolicyViolation(_) => ErrorCode::PolicyViolation,
        RequestError::Timeout => ErrorCode::RequestTimedOut,
        RequestError::NotController | RequestError::Unavailable(_) => ErrorCode::NotController,
        // Between brokers and features only: no client request that is served can meet them.
        RequestError::StaleBrokerEpoch { .. }
        | RequestError::BrokerIdNotRegistered(_)
        | RequestError::InvalidUpdateVersion(_) => ErrorCode::UnknownServerError,
    }
}

/// A topic that Metadata should have created was not: clients read it as a topic's state and know
/// few codes there.
pub(crate) fn for_auto_creation(error: &RequestError) -> ErrorCode {
    match error {
        // It is on its way, or may be.
        RequestError::TopicAlreadyExists(_) | RequestError::Timeout => {
            ErrorCode::LeaderNotAvailable
        }
        RequestError::InvalidTopicName(_) => ErrorCode::InvalidTopicException,
        RequestError::InvalidPartitions(_)
        | RequestError::InvalidReplicationFactor(_)
        | RequestError::InvalidReplicaAssignment(_)
        | RequestError::UnknownTopicOrPartition(_)
        | RequestError::UnknownTopicId(_)
        | RequestError::InvalidConfig(_)
        | RequestError::InvalidRequest(_)
        | RequestError::PolicyViolation(_)
        | RequestError::NotController
        | RequestError::Unavailable(_)
        | RequestError::StaleBrokerEpoch { .. }
        | RequestError::BrokerIdNotRegistered(_)
        | RequestError::InvalidUpdateVersion(_) => ErrorCode::UnknownTopicOrPartition,
    }
}

/// A group coordinator refused (section 4).
pub(crate) fn for_group(error: GroupError) -> ErrorCode {
    match error {
        GroupError::UnknownServerError => ErrorCode::UnknownServerError,
        GroupError::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
        GroupError::OffsetMetadataTooLarge => ErrorCode::OffsetMetadataTooLarge,
        GroupError::CoordinatorLoadInProgress => ErrorCode::CoordinatorLoadInProgress,
        GroupError::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        GroupError::NotCoordinator => ErrorCode::NotCoordinator,
        GroupError::IllegalGeneration => ErrorCode::IllegalGeneration,
        GroupError::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
        GroupError::InvalidGroupId => ErrorCode::InvalidGroupId,
        GroupError::UnknownMemberId => ErrorCode::UnknownMemberId,
        GroupError::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
        GroupError::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        GroupError::InvalidCommitOffsetSize => ErrorCode::InvalidCommitOffsetSize,
        GroupError::InvalidRequest => ErrorCode::InvalidRequest,
        GroupError::MemberIdRequired => ErrorCode::MemberIdRequired,
        GroupError::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
        GroupError::FencedInstanceId => ErrorCode::FencedInstanceId,
        GroupError::NonEmptyGroup => ErrorCode::NonEmptyGroup,
        GroupError::GroupIdNotFound => ErrorCode::GroupIdNotFound,
        GroupError::GroupSubscribedToTopic => ErrorCode::GroupSubscribedToTopic,
        GroupError::UnstableOffsetCommit => ErrorCode::UnstableOffsetCommit,
        GroupError::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
        GroupError::InvalidTxnState => ErrorCode::InvalidTxnState,
    }
}

/// Reading committed offsets never times out for the client, and no client gives up: Java consumers before
/// 3.9 know no other way to be sent to another coordinator (G-58).
pub(crate) fn for_offset_fetch(error: GroupError) -> ErrorCode {
    if error == GroupError::CoordinatorNotAvailable {
        ErrorCode::NotCoordinator
    } else {
        for_group(error)
    }
}

/// Whether a client's version of an API knows PRODUCER_FENCED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    Known,
    /// INVALID_PRODUCER_EPOCH says it to older clients (T-4, T-11, T-30).
    Unknown,
}

impl Fenced {
    /// The API knows it from `first` on.
    pub(crate) fn known_from(version: i16, first: i16) -> Self {
        if version >= first {
            Self::Known
        } else {
            Self::Unknown
        }
    }
}

/// A transaction coordinator refused (section 5).
pub(crate) fn for_transaction(error: TransactionError, fenced: Fenced) -> ErrorCode {
    match error {
        TransactionError::UnknownServerError => ErrorCode::UnknownServerError,
        TransactionError::CoordinatorLoadInProgress => ErrorCode::CoordinatorLoadInProgress,
        TransactionError::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        TransactionError::NotCoordinator => ErrorCode::NotCoordinator,
        TransactionError::InvalidRequest => ErrorCode::InvalidRequest,
        TransactionError::InvalidTransactionTimeout => ErrorCode::InvalidTransactionTimeout,
        TransactionError::InvalidProducerIdMapping => ErrorCode::InvalidProducerIdMapping,
        TransactionError::ProducerFenced => match fenced {
            Fenced::Known => ErrorCode::ProducerFenced,
            Fenced::Unknown => ErrorCode::InvalidProducerEpoch,
        },
        TransactionError::ConcurrentTransactions => ErrorCode::ConcurrentTransactions,
        TransactionError::InvalidTxnState => ErrorCode::InvalidTxnState,
        TransactionError::TransactionAbortable => ErrorCode::TransactionAbortable,
        TransactionError::TransactionalIdNotFound => ErrorCode::TransactionalIdNotFound,
    }
}

/// The coordinator did not let a producer write as a part of its transaction (P-70, P-72, P-73).
pub(crate) fn for_produce_admission(error: TransactionError, generation: Generation) -> ErrorCode {
    if must_come_back(error, generation) {
        // Retriable for every client, and keeps its sequence (P-72).
        ErrorCode::NotEnoughReplicas
    } else {
        for_admission(error, generation)
    }
}

/// The same for offsets that are committed in a transaction (T-22).
pub(crate) fn for_offsets_admission(error: TransactionError, generation: Generation) -> ErrorCode {
    if must_come_back(error, generation) {
        // The group coordinator has no other word for it that every client knows.
        ErrorCode::CoordinatorLoadInProgress
    } else {
        for_admission(error, generation)
    }
}

/// The coordinator cannot be asked now; or it is busy with the last end, which only clients of the
/// second generation expect.
fn must_come_back(error: TransactionError, generation: Generation) -> bool {
    let is_busy = error == TransactionError::ConcurrentTransactions;
    error.is_about_coordinator() || (is_busy && generation != Generation::Second)
}

fn for_admission(error: TransactionError, generation: Generation) -> ErrorCode {
    if error == TransactionError::TransactionAbortable && generation == Generation::First {
        ErrorCode::InvalidTxnState
    } else {
        for_transaction(error, Fenced::Unknown)
    }
}

/// A partition did not take a marker (T-40).
pub(crate) fn for_marker(error: MarkerError) -> ErrorCode {
    let error = match error {
        MarkerError::Unknown => return ErrorCode::UnknownTopicOrPartition,
        MarkerError::NotLeader => return ErrorCode::NotLeaderOrFollower,
        MarkerError::Append(error) => error,
    };
    match error {
        CoordinatorAppendError::UnknownTopicOrPartition => ErrorCode::UnknownTopicOrPartition,
        CoordinatorAppendError::NotEnoughReplicas => ErrorCode::NotEnoughReplicas,
        CoordinatorAppendError::NotEnoughReplicasAfterAppend => {
            ErrorCode::NotEnoughReplicasAfterAppend
        }
        CoordinatorAppendError::RequestTimedOut => ErrorCode::RequestTimedOut,
        CoordinatorAppendError::NotLeaderOrFollower => ErrorCode::NotLeaderOrFollower,
        CoordinatorAppendError::StorageError => ErrorCode::KafkaStorageError,
        CoordinatorAppendError::MessageTooLarge => ErrorCode::MessageTooLarge,
        CoordinatorAppendError::RecordListTooLarge => ErrorCode::RecordListTooLarge,
        CoordinatorAppendError::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
        CoordinatorAppendError::InvalidTransactionState => ErrorCode::InvalidTxnState,
        CoordinatorAppendError::CoordinatorFenced => ErrorCode::TransactionCoordinatorFenced,
        CoordinatorAppendError::Unknown => ErrorCode::UnknownServerError,
    }
}
