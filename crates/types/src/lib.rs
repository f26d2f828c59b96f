//! The vocabulary of Strandline: identifiers, offsets and enumerations that every other crate speaks.
//!
//! No logic beyond validation and display, no I/O, no async.

mod id;
mod isolation;
mod offset;
mod topic;

pub use id::{BrokerId, ParseTopicIdError, TopicId};
pub use isolation::{IsolationLevel, RequiredAcks, TimestampType};
pub use offset::{
    LeaderEpoch, ListOffsetsTimestamp, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId, UNKNOWN_OFFSET,
};
pub use topic::{
    CONSUMER_OFFSETS_TOPIC, InvalidTopicName, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC,
    TopicName, TopicPartition, is_internal_topic,
};
