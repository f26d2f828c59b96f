//! The offsets of a log, their order, and who may move each (SEMANTICS 6.1, F-9).

use std::sync::atomic::{AtomicI64, Ordering};

use strandline_types::Offset;

/// A consistent view of a log's offsets:
/// `log_start <= local_log_start`, `log_start <= last_stable <= high_watermark <= log_end`,
/// `written_end <= log_end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOffsets {
    /// First offset over both tiers (inclusive). Moved by DeleteRecords and retention.
    pub log_start: Offset,
    /// First offset on the local disk (inclusive). Moved by local retention.
    pub local_log_start: Offset,
    /// Below it no transaction is open (exclusive, F-30). Moved by markers and the high watermark.
    pub last_stable: Offset,
    /// Below it everything is replicated (exclusive). Moved by the partition's leader logic.
    pub high_watermark: Offset,
    /// Below it everything is in the page cache or better (exclusive). Moved by the writer.
    pub written_end: Offset,
    /// Offset of the next record. Moved by appends.
    pub log_end: Offset,
}

/// The live offsets. Written under the log's lock only; read anywhere.
#[derive(Debug)]
pub(crate) struct Offsets {
    pub(crate) log_start: AtomicI64,
    pub(crate) local_log_start: AtomicI64,
    pub(crate) last_stable: AtomicI64,
    pub(crate) high_watermark: AtomicI64,
    pub(crate) written_end: AtomicI64,
    pub(crate) log_end: AtomicI64,
    /// Below it everything is on the device (exclusive, L-27).
    pub(crate) recovery_point: AtomicI64,
}

impl Offsets {
    pub(crate) fn new(view: LogOffsets, recovery_point: Offset) -> Self {
        Self {
            log_start: view.log_start.into(),
            local_log_start: view.local_log_start.into(),
            last_stable: view.last_stable.into(),
            high_watermark: view.high_watermark.into(),
            written_end: view.written_end.into(),
            log_end: view.log_end.into(),
            recovery_point: recovery_point.into(),
        }
    }

    /// Reads the smaller offsets first: each only grows, so the order holds without a lock.
    pub(crate) fn view(&self) -> LogOffsets {
        let log_start = self.log_start.load(Ordering::Acquire);
        let local_log_start = self.local_log_start.load(Ordering::Acquire);
        let last_stable = self.last_stable.load(Ordering::Acquire);
        let high_watermark = self.high_watermark.load(Ordering::Acquire);
        let written_end = self.written_end.load(Ordering::Acquire);
        let log_end = self.log_end.load(Ordering::Acquire);
        LogOffsets {
            log_start,
            local_log_start,
            // The beginning of an open transaction may have been deleted: what is left is no less
            // stable than the log's start.
            last_stable: last_stable.max(log_start),
            high_watermark,
            written_end,
            log_end,
        }
    }
}

pub(crate) fn get(offset: &AtomicI64) -> Offset {
    offset.load(Ordering::Acquire)
}

pub(crate) fn set(offset: &AtomicI64, value: Offset) {
    offset.store(value, Ordering::Release);
}
