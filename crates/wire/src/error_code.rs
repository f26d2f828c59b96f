//! Kafka's error codes (SEMANTICS 0.5).

macro_rules! codes {
    ($($name:ident = $code:literal $(, $r:ident)?;)*) => {
        /// An error code of the protocol, by Kafka's name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i16)]
        #[expect(missing_docs, reason = "the names are Kafka's, and say it")]
        pub enum ErrorCode { $($name = $code,)* }

        impl ErrorCode {
            /// The number on the wire.
            pub const fn code(self) -> i16 {
                self as i16
            }

            /// True when clients try again.
            pub const fn is_retriable(self) -> bool {
                match self { $(Self::$name => codes!(@r $($r)?),)* }
            }

            /// All codes that the broker knows, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
        }
    };
    (@r) => { false };
    (@r $r:ident) => { true };
}

codes! {
    UnknownServerError = -1;
    None = 0;
    OffsetOutOfRange = 1;
    CorruptMessage = 2, r;
    UnknownTopicOrPartition = 3, r;
    InvalidFetchSize = 4;
    LeaderNotAvailable = 5, r;
    NotLeaderOrFollower = 6, r;
    RequestTimedOut = 7, r;
    BrokerNotAvailable = 8;
    ReplicaNotAvailable = 9, r;
    MessageTooLarge = 10;
    OffsetMetadataTooLarge = 12;
    NetworkException = 13, r;
    CoordinatorLoadInProgress = 14, r;
    CoordinatorNotAvailable = 15, r;
    NotCoordinator = 16, r;
    InvalidTopicException = 17;
    RecordListTooLarge = 18;
    NotEnoughReplicas = 19, r;
    NotEnoughReplicasAfterAppend = 20, r;
    InvalidRequiredAcks = 21;
    IllegalGeneration = 22;
    InconsistentGroupProtocol = 23;
    InvalidGroupId = 24;
    UnknownMemberId = 25;
    InvalidSessionTimeout = 26;
    RebalanceInProgress = 27;
    InvalidCommitOffsetSize = 28;
    TopicAuthorizationFailed = 29;
    GroupAuthorizationFailed = 30;
    ClusterAuthorizationFailed = 31;
    InvalidTimestamp = 32;
    UnsupportedVersion = 35;
    TopicAlreadyExists = 36;
    InvalidPartitions = 37;
    InvalidReplicationFactor = 38;
    InvalidReplicaAssignment = 39;
    InvalidConfig = 40;
    NotController = 41, r;
    InvalidRequest = 42;
    UnsupportedForMessageFormat = 43;
    PolicyViolation = 44;
    OutOfOrderSequenceNumber = 45;
    DuplicateSequenceNumber = 46;
    InvalidProducerEpoch = 47;
    InvalidTxnState = 48;
    InvalidProducerIdMapping = 49;
    InvalidTransactionTimeout = 50;
    ConcurrentTransactions = 51;
    TransactionCoordinatorFenced = 52;
    TransactionalIdAuthorizationFailed = 53;
    SecurityDisabled = 54;
    OperationNotAttempted = 55;
    KafkaStorageError = 56, r;
    LogDirNotFound = 57;
    UnknownProducerId = 59;
    NonEmptyGroup = 68;
    GroupIdNotFound = 69;
    FetchSessionIdNotFound = 70, r;
    InvalidFetchSessionEpoch = 71, r;
    ListenerNotFound = 72, r;
    TopicDeletionDisabled = 73;
    FencedLeaderEpoch = 74, r;
    UnknownLeaderEpoch = 75, r;
    UnsupportedCompressionType = 76;
    OffsetNotAvailable = 78, r;
    MemberIdRequired = 79;
    GroupMaxSizeReached = 81;
    FencedInstanceId = 82;
    GroupSubscribedToTopic = 86;
    InvalidRecord = 87;
    UnstableOffsetCommit = 88, r;
    ThrottlingQuotaExceeded = 89, r;
    ProducerFenced = 90;
    UnknownTopicId = 100, r;
    InconsistentTopicId = 103, r;
    TransactionalIdNotFound = 105;
    FetchSessionTopicIdError = 106, r;
    OffsetMovedToTieredStorage = 109;
    FencedMemberEpoch = 110;
    StaleMemberEpoch = 113;
    MismatchedEndpointType = 114;
    UnsupportedEndpointType = 115;
    TransactionAbortable = 120;
    InvalidRegularExpression = 128;
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::ResponseError;

    #[test]
    fn codes_and_retriability_agree_with_the_protocol_crate() {
        for &code in ErrorCode::ALL {
            let Some(theirs) = ResponseError::try_from_code(code.code()) else {
                assert_eq!(code, ErrorCode::None);
                continue;
            };
            assert_eq!(
                format!("{theirs:?}"),
                format!("{code:?}"),
                "{}",
                code.code()
            );
            assert_eq!(theirs.is_retriable(), code.is_retriable(), "{code:?}");
        }
    }
}
