//! What a log's lock guards, and what its writer is given to do.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use strandline_records::Batch;
use strandline_types::{Offset, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::leader_epochs::LeaderEpochs;
use crate::offsets::LogOffsets;
use crate::producer_state::ProducerState;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::transaction_index::AbortedTransaction;

/// What the log's lock guards.
pub(crate) struct LogState {
    pub(crate) config: LogConfig,
    pub(crate) segments: Segments,
    /// Base offset of the segment that the writer is at.
    pub(crate) writing: Offset,
    /// What the writer has to do, in order.
    pub(crate) pending: Vec<WriteItem>,
    /// The writer has this log in its queue or in its hands.
    pub(crate) is_scheduled: bool,
    pub(crate) status: Status,
    pub(crate) producers: ProducerState,
    pub(crate) epochs: LeaderEpochs,
    /// Aborted transactions that are not in their segment's file yet.
    pub(crate) unwritten_aborts: Vec<AbortedTransaction>,
    /// Threads that wait on `progress`.
    pub(crate) waiters: usize,
    /// Those that work on the folder by name: it must not be given up meanwhile.
    pub(crate) folder_users: usize,
    /// Segments that left, whose files a power cut could bring back.
    pub(crate) removals: usize,
    /// Those of them whose files a pass of retention could not rename: the next one does.
    pub(crate) left_behind: Vec<Segment>,
    /// Something was appended, or recovered, since the last clean end.
    pub(crate) is_changed: bool,
    /// When the next flush is due that is planned for `flush.ms`.
    pub(crate) flush_due: Option<Instant>,
    /// Where the last cleaning ended, `None` before the first (L-49).
    pub(crate) cleaned_to: Option<Offset>,
    /// Cleaned segments that were put in so far.
    pub(crate) swaps: u32,
    /// One is being put in: no other segment may leave meanwhile.
    pub(crate) is_swapping: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Open,
    Closed,
    Deleted,
}

/// One step of the writer.
#[derive(Debug)]
pub(crate) enum WriteItem {
    Batch(Arc<Batch>),
    /// Finish the segment being written, begin this one.
    Roll(Box<RollItem>),
    /// Replace `leader-epoch-checkpoint`.
    Epochs(Box<str>),
    /// Add to `.txnindex` of the segment being written.
    Aborted(Box<AbortedTransaction>),
}

#[derive(Debug)]
pub(crate) struct RollItem {
    pub(crate) base: Offset,
    pub(crate) producer_snapshot: bytes::Bytes,
}

/// What a log consists of when it is created or loaded.
pub(crate) struct LogParts {
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) folder: Arc<Path>,
    pub(crate) config: LogConfig,
    pub(crate) segments: Segments,
    pub(crate) producers: ProducerState,
    pub(crate) epochs: LeaderEpochs,
    pub(crate) offsets: LogOffsets,
    pub(crate) recovery_point: Offset,
    pub(crate) cleaned_to: Option<Offset>,
    /// A clean end would find something to do.
    pub(crate) is_changed: bool,
    /// False when a tiered log's start is only where the disk begins (L-26).
    pub(crate) is_log_start_known: bool,
}
