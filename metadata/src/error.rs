//! The two errors of the crate: why the metadata could not be opened, and why a request was refused.

use std::io;
use std::path::{Path, PathBuf};

use strandline_types::TopicId;

use crate::codec::DecodeError;

/// Why a request to the controller was refused, in Kafka's terms. The texts are for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// D-3: TOPIC_ALREADY_EXISTS (36).
    #[error("topic '{0}' already exists")]
    TopicAlreadyExists(String),
    /// D-1, D-2: INVALID_TOPIC_EXCEPTION (17).
    #[error("{0}")]
    InvalidTopicName(String),
    /// D-8: INVALID_PARTITIONS (37).
    #[error("{0}")]
    InvalidPartitions(String),
    /// D-7: INVALID_REPLICATION_FACTOR (38).
    #[error("{0}")]
    InvalidReplicationFactor(String),
    /// D-6: INVALID_REPLICA_ASSIGNMENT (39).
    #[error("{0}")]
    InvalidReplicaAssignment(String),
    /// UNKNOWN_TOPIC_OR_PARTITION (3): no topic of this name.
    #[error("this server does not host topic '{0}'")]
    UnknownTopicOrPartition(String),
    /// UNKNOWN_TOPIC_ID (100): no topic of this id.
    #[error("this server does not host the topic with id {0}")]
    UnknownTopicId(TopicId),
    /// D-4, D-41, D-43: INVALID_CONFIG (40).
    #[error("{0}")]
    InvalidConfig(String),
    /// INVALID_REQUEST (42).
    #[error("{0}")]
    InvalidRequest(String),
    /// D-9, D-11: POLICY_VIOLATION (44).
    #[error("{0}")]
    PolicyViolation(String),
    /// STALE_BROKER_EPOCH (77): a newer registration of the broker exists.
    #[error("broker epoch {given} is not the current epoch {current}")]
    StaleBrokerEpoch {
        /// What the broker sent.
        given: i64,
        /// What is registered.
        current: i64,
    },
    /// BROKER_ID_NOT_REGISTERED (102).
    #[error("broker {0} is not registered")]
    BrokerIdNotRegistered(i32),
    /// D-61: INVALID_UPDATE_VERSION (95).
    #[error("{0}")]
    InvalidUpdateVersion(String),
    /// REQUEST_TIMED_OUT (7): not committed yet; the operation goes on (D-15).
    #[error("the operation was not committed in time; it may still be")]
    Timeout,
    /// NOT_CONTROLLER (41): another node leads the quorum, or none does; nothing was done.
    #[error("this node does not lead the metadata quorum")]
    NotController,
    /// The metadata log failed or was shut down. Whether a write in flight survives is unknown.
    #[error("the metadata log is not available: {0}")]
    Unavailable(String),
}

/// Why the metadata directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An operation on a file failed.
    #[error("{action} {}", .path.display())]
    Io {
        /// Verb, such as "create".
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another process has the directory open.
    #[error("metadata directory {} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// The directory belongs to another cluster.
    #[error(
        "metadata directory {} belongs to cluster {found}, not to cluster {expected}",
        .path.display()
    )]
    WrongCluster {
        /// The directory.
        path: PathBuf,
        /// Cluster id found there.
        found: String,
        /// Cluster id that was asked for.
        expected: String,
    },
    /// The directory belongs to another node.
    #[error("metadata directory {} belongs to node {found}, not to node {expected}", .path.display())]
    WrongNode {
        /// The directory.
        path: PathBuf,
        /// Node id found there.
        found: i32,
        /// Node id that was asked for.
        expected: i32,
    },
    /// The wanted cluster id is not 16 bytes in URL-safe base64, or is all zero.
    #[error("cluster id '{0}' is not 22 characters of URL-safe base64, or is zero")]
    InvalidClusterId(String),
    /// `meta.properties` does not say what it must.
    #[error("{}: {reason}", .path.display())]
    Properties {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A log or snapshot file is damaged in a place that a crash cannot explain.
    #[error("{} is corrupted at byte {position}: {reason}", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where, in bytes from its start.
        position: u64,
        /// What is wrong.
        reason: String,
    },
    /// A file was written by a newer version of Strandline.
    #[error("{} has format version {found}; this version reads up to {newest}", .path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that we know.
        newest: u32,
    },
    /// The raft node did not come up.
    #[error("start the metadata quorum: {0}")]
    Raft(String),
}

impl OpenError {
    /// For `map_err` on a file operation.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    pub(crate) fn corrupt(path: &Path, position: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_path_buf(),
            position,
            reason: reason.into(),
        }
    }
}

/// A record does not fit the image: the log and the code disagree, and applying it could only make
/// this node differ from the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The bytes are not records that we know.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The record names a topic id that does not exist.
    #[error("{record} for the unknown topic id {topic_id}")]
    UnknownTopicId {
        /// Kafka's name of the record.
        record: &'static str,
        /// The id.
        topic_id: TopicId,
    },
    /// The record names a partition that does not exist, or creates one out of order.
    #[error("{record} for partition {partition} of topic id {topic_id}, which has {count}")]
    PartitionOutOfOrder {
        /// Kafka's name of the record.
        record: &'static str,
        /// The topic.
        topic_id: TopicId,
        /// Index in the record.
        partition: i32,
        /// Partitions that exist.
        count: usize,
    },
    /// A topic is created whose name or id exists.
    #[error("topic {name} ({topic_id}) is created a second time")]
    DuplicateTopic {
        /// The name.
        name: String,
        /// The id.
        topic_id: TopicId,
    },
    /// The record names a broker that is not registered.
    #[error("{record} for the unregistered broker {broker_id}")]
    UnknownBroker {
        /// Kafka's name of the record.
        record: &'static str,
        /// The broker.
        broker_id: i32,
    },
    /// The record would break an invariant of the image.
    #[error("invariant {0} is broken")]
    Invariant(&'static str),
}
