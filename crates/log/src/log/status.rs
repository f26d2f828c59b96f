//! What others ask a log about itself: is it well, what is not tiered yet.

use std::sync::atomic::Ordering;

use strandline_types::Offset;

use crate::error::LogError;
use crate::log::{Log, Status};

/// The part of a log from an offset on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behind {
    /// Bytes of the segments that reach behind the offset.
    pub bytes: u64,
    /// When the first of them got its first batch, in ms since the epoch; `None` without any.
    pub first_append_ms: Option<i64>,
}

impl Log {
    /// True when the log takes and gives nothing any more: its directory failed, or it is closed.
    pub fn is_offline(&self) -> bool {
        self.dir.fault().is_some() || self.state.lock().status != Status::Open
    }

    /// Bytes that wait to be written in the log's directory, those of all its logs.
    pub fn dir_backlog_bytes(&self) -> usize {
        self.dir.backlog_bytes.load(Ordering::Relaxed)
    }

    /// False after the checkpoint of a tiered log's start was lost: the log start offset is then
    /// where the disk begins, until [`Log::restore_log_start_offset`] corrects it (L-26).
    pub fn is_log_start_known(&self) -> bool {
        self.is_log_start_known.load(Ordering::Acquire)
    }

    /// Writes the log start offset to the directory's checkpoint now; otherwise it is there after
    /// the next periodic one, and a kill before that brings an older start back. Blocks.
    pub fn persist_log_start(&self) -> Result<(), LogError> {
        self.dir.write_log_start_checkpoint()
    }

    /// Writes the recovery point to the directory's checkpoint now. Blocks.
    pub(crate) fn persist_recovery_point(&self) -> Result<(), LogError> {
        self.dir.write_recovery_checkpoint()
    }

    /// First offset of the segment that is appended to; everything below is sealed.
    pub fn active_base_offset(&self) -> Offset {
        self.state.lock().segments.active().base_offset
    }

    /// What lies at and behind `offset`, by whole segments.
    pub fn behind(&self, offset: Offset) -> Behind {
        let state = self.state.lock();
        let mut behind = Behind::default();
        for (segment, end) in state.segments.with_ends(self.log_end_offset()) {
            if end > offset && segment.size > 0 {
                behind.bytes += segment.size;
                behind
                    .first_append_ms
                    .get_or_insert(segment.first_append_ms);
            }
        }
        behind
    }
}
