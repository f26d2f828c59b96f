//! One segment: its sizes, its timestamps, its sparse indexes, its file names (SEMANTICS 6.3).

use std::path::{Path, PathBuf};

use strandline_records::BatchHeader;
use strandline_types::{NO_TIMESTAMP, Offset};

use crate::config::LogConfig;
use crate::index::Index;
use crate::offset_index::OffsetEntry;
use crate::time_index::TimeEntry;

/// The files of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum SegmentFile {
    Log,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    ProducerSnapshot,
}

impl SegmentFile {
    pub(crate) const ALL: [Self; 5] = [
        Self::Log,
        Self::OffsetIndex,
        Self::TimeIndex,
        Self::TransactionIndex,
        Self::ProducerSnapshot,
    ];

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::TransactionIndex => "txnindex",
            Self::ProducerSnapshot => "snapshot",
        }
    }

    /// Path of this file of the segment that begins at `base`.
    pub(crate) fn path(self, folder: &Path, base: Offset) -> PathBuf {
        folder.join(format!("{base:020}.{}", self.extension()))
    }

    /// As [`SegmentFile::path`], with a suffix such as `.cleaned` (L-25).
    pub(crate) fn marked_path(self, folder: &Path, base: Offset, mark: &str) -> PathBuf {
        folder.join(format!("{base:020}.{}{mark}", self.extension()))
    }

    /// Reads a file name; `None` when it is no file of a segment.
    pub(crate) fn parse(name: &str) -> Option<(Offset, Self)> {
        let (base, extension) = name.split_once('.')?;
        let kind = Self::ALL.into_iter().find(|k| k.extension() == extension)?;
        let digits = base.len() == 20 && base.bytes().all(|b| b.is_ascii_digit());
        Some((base.parse().ok().filter(|_| digits)?, kind))
    }
}

/// A segment with its files: cleaning puts another one of the same base offset in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SegmentId {
    pub(crate) base_offset: Offset,
    /// 0 for one that was appended to or loaded, then counted by the cleanings of the log.
    pub(crate) incarnation: u32,
}

/// A segment as the log's state knows it. `size` runs ahead of `written_size` by what the writer
/// has not written yet.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) base_offset: Offset,
    pub(crate) incarnation: u32,
    /// Its files still have the suffix `.swap`.
    pub(crate) is_at_swap: bool,
    pub(crate) size: u64,
    pub(crate) written_size: u64,
    /// Blocks are reserved up to this size.
    pub(crate) reserved_to: u64,
    pub(crate) max_timestamp: i64,
    /// Last offset of the first batch that has `max_timestamp`.
    pub(crate) offset_of_max_timestamp: Offset,
    /// Greatest timestamp of the first batch, -1 for none (L-2).
    pub(crate) first_timestamp: i64,
    pub(crate) created_ms: i64,
    /// When the first batch arrived; meaningless while the segment is empty.
    pub(crate) first_append_ms: i64,
    pub(crate) modified_ms: i64,
    /// Taken off `segment.ms` for this segment (L-2).
    pub(crate) jitter_ms: i64,
    pub(crate) since_index_entry: u64,
    /// It has a `.txnindex`, or will.
    pub(crate) has_aborts: bool,
    /// Its `.txnindex` holds what the writer has not flushed: the recovery point must wait for it, since
    /// nothing tells a start that entries are missing.
    pub(crate) has_unflushed_aborts: bool,
    pub(crate) offset_index: Index<OffsetEntry>,
    pub(crate) time_index: Index<TimeEntry>,
}

impl Segment {
    pub(crate) fn new(base_offset: Offset, now_ms: i64, jitter_ms: i64) -> Self {
        Self {
            base_offset,
            incarnation: 0,
            is_at_swap: false,
            size: 0,
            written_size: 0,
            reserved_to: 0,
            max_timestamp: NO_TIMESTAMP,
            offset_of_max_timestamp: -1,
            first_timestamp: NO_TIMESTAMP,
            created_ms: now_ms,
            first_append_ms: now_ms,
            modified_ms: now_ms,
            jitter_ms,
            since_index_entry: 0,
            has_aborts: false,
            has_unflushed_aborts: false,
            offset_index: Index::default(),
            time_index: Index::default(),
        }
    }

    pub(crate) fn id(&self) -> SegmentId {
        SegmentId {
            base_offset: self.base_offset,
            incarnation: self.incarnation,
        }
    }

    /// Accounts for a batch at the end of the segment, and indexes it if it is time to.
    pub(crate) fn append(&mut self, h: &BatchHeader, index_interval_bytes: u32, now_ms: i64) {
        if self.size == 0 {
            self.first_timestamp = h.max_timestamp;
            self.first_append_ms = now_ms;
        }
        if timestamp_of_records(h) > self.max_timestamp {
            self.max_timestamp = h.max_timestamp;
            self.offset_of_max_timestamp = h.last_offset();
        }
        if self.since_index_entry > u64::from(index_interval_bytes) {
            self.offset_index.push(OffsetEntry {
                relative_offset: self.relative(h.last_offset()),
                position: self.size as u32,
            });
            self.index_time();
            self.since_index_entry = 0;
        }
        self.since_index_entry += h.size_in_bytes() as u64;
        self.size += h.size_in_bytes() as u64;
        self.modified_ms = now_ms;
    }

    fn relative(&self, offset: Offset) -> u32 {
        u32::try_from(offset - self.base_offset).unwrap_or(u32::MAX)
    }

    /// Adds the greatest timestamp to the time index if it is news; the last thing before a roll
    /// or a clean end.
    pub(crate) fn index_time(&mut self) {
        let last = self.time_index.last().map_or(NO_TIMESTAMP, |e| e.timestamp);
        if self.max_timestamp > last {
            self.time_index.push(TimeEntry {
                timestamp: self.max_timestamp,
                relative_offset: self.relative(self.offset_of_max_timestamp),
            });
        }
    }

    /// True when one of the indexes can take no more (L-3).
    pub(crate) fn is_index_full(&self, config: &LogConfig) -> bool {
        let bytes = config.segment_index_bytes;
        self.offset_index.len() >= bytes / 8 || self.time_index.len() + 1 >= bytes / 12
    }

    /// What retention by time compares with: the greatest timestamp, or the time of the last
    /// change for a segment without timestamps (L-30).
    pub(crate) fn largest_timestamp(&self) -> i64 {
        if self.max_timestamp >= 0 {
            self.max_timestamp
        } else {
            self.modified_ms
        }
    }
}

/// Greatest timestamp of the records of a batch; a batch that compaction emptied keeps a timestamp in
/// its header, for the age of its producer, but no record that a lookup by time could find (O-5).
pub(crate) fn timestamp_of_records(h: &BatchHeader) -> i64 {
    if h.record_count > 0 {
        h.max_timestamp
    } else {
        NO_TIMESTAMP
    }
}
