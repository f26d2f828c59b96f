//! What can go wrong in the hot log, as facts with values (P-50…P-57, F-20, L-20).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strandline_records::BatchError;
use strandline_types::{Offset, ProducerEpoch, ProducerId, TopicPartition};

/// An I/O error that took a whole log directory offline. Cheap to clone: it is told to every
/// log of the directory.
#[derive(Debug, Clone, thiserror::Error)]
#[error("log directory {} is offline: {operation} {}: {source}", dir.display(), path.display())]
pub struct StorageFault {
    /// The log directory.
    pub dir: Arc<Path>,
    /// What was tried, as a verb.
    pub operation: &'static str,
    /// The file that it was tried on.
    pub path: PathBuf,
    /// The system's answer.
    #[source]
    pub source: Arc<io::Error>,
}

/// A log or its directory cannot do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// The offset is below the local log start offset or above the log end offset (F-20). When it
    /// is at or above `log_start_offset` and below `local_log_start_offset`, the remote tier has it.
    #[error(
        "offset {requested} is out of range: log start {log_start_offset}, local log start \
         {local_log_start_offset}, log end {log_end_offset}"
    )]
    OffsetOutOfRange {
        /// Offset asked for.
        requested: Offset,
        /// First offset over both tiers.
        log_start_offset: Offset,
        /// First offset on the local disk.
        local_log_start_offset: Offset,
        /// Offset after the last record.
        log_end_offset: Offset,
    },
    /// The directory is offline after an I/O error.
    #[error(transparent)]
    Storage(#[from] StorageFault),
    /// An I/O error that concerns one file only (at start, or while reading it).
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: Arc<io::Error>,
    },
    /// A file's content is not what was written there.
    #[error("{} is corrupt: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The log was deleted.
    #[error("the log of {0} is deleted")]
    Deleted(TopicPartition),
    /// The log or its directory was closed.
    #[error("the log directory is closed")]
    Closed,
    /// A log of this partition is already there.
    #[error("a log of {0} already exists in this directory")]
    AlreadyExists(TopicPartition),
    /// Another process holds the directory.
    #[error("log directory {} is in use by another process", .0.display())]
    DirectoryInUse(PathBuf),
    /// The directory belongs to another cluster.
    #[error(
        "log directory {} belongs to cluster {found}, this broker is of cluster {expected}",
        path.display()
    )]
    WrongCluster {
        /// The directory.
        path: PathBuf,
        /// Cluster id in the directory.
        found: String,
        /// Cluster id of this broker.
        expected: String,
    },
    /// The directory belongs to another node of the cluster.
    #[error(
        "log directory {} belongs to node {found}, this broker is node {expected}",
        path.display()
    )]
    WrongNode {
        /// The directory.
        path: PathBuf,
        /// Node id in the directory.
        found: String,
        /// Node id of this broker.
        expected: i32,
    },
}

impl LogError {
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.into(),
            source: Arc::new(source),
        }
    }

    pub(crate) fn corrupt(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.into(),
            reason: reason.into(),
        }
    }

    /// True when the process or the system has no file handle left.
    pub(crate) fn is_out_of_handles(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        let errno = source
            .raw_os_error()
            .map(rustix::io::Errno::from_raw_os_error);
        matches!(
            errno,
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
        )
    }

    /// True when the file was not there (it was renamed or removed meanwhile).
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// A batch was not appended; nothing of it is stored.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The sequence does not follow the last one (P-52, P-53, P-54): OUT_OF_ORDER_SEQUENCE_NUMBER.
    #[error(
        "out of order sequence number of producer {producer_id} epoch {producer_epoch}: got \
         {sequence}, expected {expected}"
    )]
    OutOfOrderSequence {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch in the batch.
        producer_epoch: ProducerEpoch,
        /// First sequence in the batch.
        sequence: i32,
        /// Sequence that would have been accepted.
        expected: i32,
    },
    /// The epoch is older than the known one (P-51): INVALID_PRODUCER_EPOCH.
    #[error("producer {producer_id} sent epoch {producer_epoch}, epoch {current} is already known")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch in the batch.
        producer_epoch: ProducerEpoch,
        /// Newest epoch seen here.
        current: ProducerEpoch,
    },
    /// A plain batch of a producer that has a transaction open here (P-57): INVALID_TXN_STATE.
    #[error("producer {producer_id} has an open transaction and sent a non-transactional batch")]
    InvalidTransactionState {
        /// The producer.
        producer_id: ProducerId,
    },
    /// A transactional batch whose transaction is not open here, and whose coordinator did not
    /// vouch for it, or did so before the transaction ended (P-70, P-74): INVALID_TXN_STATE.
    #[error("a batch of producer {producer_id} is not part of an ongoing transaction")]
    NotVerified {
        /// The producer.
        producer_id: ProducerId,
    },
    /// A marker of a deposed coordinator (T-40): TRANSACTION_COORDINATOR_FENCED.
    #[error(
        "marker for producer {producer_id} with coordinator epoch {coordinator_epoch}, epoch \
         {current} is already known"
    )]
    CoordinatorFenced {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch in the marker.
        coordinator_epoch: i32,
        /// Newest epoch seen here.
        current: i32,
    },
    /// Larger than a segment may be (P-23): RECORD_LIST_TOO_LARGE.
    #[error("a batch of {size} bytes does not fit into a segment of {segment_bytes} bytes")]
    BatchLargerThanSegment {
        /// Size of the batch.
        size: usize,
        /// `segment.bytes`.
        segment_bytes: u64,
    },
    /// The batch cannot be stored as it is (P-24, a malformed marker).
    #[error("invalid batch: {0}")]
    InvalidBatch(String),
    /// The batch's bytes are wrong.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The log cannot take anything now.
    #[error(transparent)]
    Log(#[from] LogError),
}
