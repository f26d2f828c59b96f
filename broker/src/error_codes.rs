//! The one place where errors of other crates become Kafka's codes. No wildcard arms: a new error
//! must be given its code.
#![deny(clippy::wildcard_enum_match_arm)]

use strandline_group_coordinator::GroupError;
use strandline_log::{AppendError, LogError};
use strandline_metadata::RequestError;
use strandline_records::RejectKind;
use strandline_wire::ErrorCode;

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
        AppendError::InvalidTransactionState { .. } => ErrorCode::InvalidTxnState,
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
    }
}

/// Reading committed offsets never times out for the client (G-58).
pub(crate) fn for_offset_fetch(error: GroupError) -> ErrorCode {
    for_group(error)
}
