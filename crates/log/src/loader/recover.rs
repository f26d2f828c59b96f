//! One segment at start: a cheap check of its indexes, or its recovery batch by batch (L-20, L-21).

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use strandline_types::{NO_TIMESTAMP, Offset};

use super::tidy;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::index::{self, Index, IndexEntry};
use crate::log::jitter;
use crate::offset_index::{self, OffsetEntry};
use crate::producer_state::ProducerState;
use crate::replay::{self, Extent};
use crate::scan::{BatchWalk, FileBatch, WalkError};
use crate::segment::{Segment, SegmentFile, timestamp_of_records};
use crate::stop_summary::SegmentSummary;
use crate::sys;
use crate::time_index::{self, TimeEntry};
use crate::transaction_index::{self, AbortedTransaction};

const CHECK_WINDOW: usize = 4096;
const RECOVER_WINDOW: usize = 1024 * 1024;

/// Outcome of the cheap check.
pub(super) enum Checked {
    /// The segment, and the offset after it.
    Good(Segment, Offset),
    /// Why it must be recovered.
    Damaged(String),
}

fn open(folder: &Path, base: Offset) -> Result<(File, Metadata), LogError> {
    let path = SegmentFile::Log.path(folder, base);
    let file = sys::open(&path, false).map_err(|e| LogError::io("open", path.clone(), e))?;
    let metadata = file.metadata();
    let metadata = metadata.map_err(|e| LogError::io("look at", path, e))?;
    Ok((file, metadata))
}

fn read_entries<E: IndexEntry>(
    folder: &Path,
    base: Offset,
    kind: SegmentFile,
) -> Result<Option<Vec<E>>, LogError> {
    let path = kind.path(folder, base);
    match fs::read(&path) {
        Ok(bytes) => Ok(index::decode_all(&bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(LogError::io("read", path, e)),
    }
}

/// A new in-memory segment with the times that only the file system knows.
fn blank(folder: &Path, base: Offset, config: &LogConfig) -> Segment {
    let modified_ms = tidy::modified_ms(&SegmentFile::Log.path(folder, base));
    let mut segment = Segment::new(base, modified_ms, jitter(config.segment_jitter_ms));
    segment.modified_ms = modified_ms;
    segment
}

/// When the first batch came: its own time if that is plausible, else the file's.
fn set_first(segment: &mut Segment, first: &FileBatch) {
    segment.first_timestamp = first.header.max_timestamp;
    if first.header.max_timestamp >= 0 {
        segment.first_append_ms = segment.modified_ms.min(first.header.max_timestamp);
    }
}

/// Checks that the indexes are whole and agree with the log: entries in order and in range, the
/// last one close enough to the end, batches consistent from there on (L-21). Batches are not read where
/// the segment is as it was at a clean end.
pub(super) fn check_segment(
    folder: &Path,
    base: Offset,
    next_base: Option<Offset>,
    at_stop: Option<&SegmentSummary>,
    config: &LogConfig,
) -> Result<Checked, LogError> {
    let (file, metadata) = open(folder, base)?;
    let size = metadata.len();
    let offsets = read_entries::<OffsetEntry>(folder, base, SegmentFile::OffsetIndex)?;
    let times = read_entries::<TimeEntry>(folder, base, SegmentFile::TimeIndex)?;
    let span = next_base.map_or(1 << 31, |next| (next - base).unsigned_abs());
    let (offsets, times) = match (offsets, times) {
        (Some(offsets), Some(times)) => (offsets, times),
        (None, None) if size == 0 => (Vec::new(), Vec::new()),
        _ => {
            return Ok(Checked::Damaged(
                "an index is missing or has an odd size".into(),
            ));
        }
    };
    if !offset_index::is_sane(&offsets, size, span) || !time_index::is_sane(&times, span) {
        return Ok(Checked::Damaged(
            "an index is out of order or out of range".into(),
        ));
    }
    let Ok(aborted) = transaction_index::read(&SegmentFile::TransactionIndex.path(folder, base))
    else {
        return Ok(Checked::Damaged("the transaction index is corrupt".into()));
    };
    let mut segment = blank(folder, base, config);
    segment.size = size;
    segment.written_size = size;
    segment.has_aborts = !aborted.is_empty();
    segment.has_unflushed_aborts = segment.has_aborts;
    segment.offset_index = Index::in_file(offsets.len() as u32, offsets.last().copied());
    segment.time_index = Index::in_file(times.len() as u32, times.last().copied());
    segment.max_timestamp = times.last().map_or(NO_TIMESTAMP, |e| e.timestamp);
    segment.offset_of_max_timestamp = times
        .last()
        .map_or(-1, |e| base.saturating_add(i64::from(e.relative_offset)));
    let known = at_stop.and_then(|summary| summary.complete(&mut segment, &metadata));
    let end = known.map_or_else(|| walk_end(&file, &mut segment, config), Ok);
    match end {
        // Its marker was lost with the power; another one will take its offset (5.8).
        Ok(end) if aborted.last().is_some_and(|last| last.last_offset >= end) => Ok(
            Checked::Damaged("the transaction index goes beyond the log".into()),
        ),
        Ok(end) if next_base.is_none_or(|next| end <= next) => Ok(Checked::Good(segment, end)),
        Ok(_) => Ok(Checked::Damaged(
            "its offsets reach into the next segment".into(),
        )),
        Err(WalkError::Io(e)) => Err(LogError::io("read", SegmentFile::Log.path(folder, base), e)),
        Err(damaged) => Ok(Checked::Damaged(damaged.to_string())),
    }
}

/// Walks from the last index entry to the end: the offset after the segment.
fn walk_end(file: &File, segment: &mut Segment, config: &LogConfig) -> Result<Offset, WalkError> {
    let wrong = |position, reason: &str| WalkError::Damaged {
        position,
        reason: reason.into(),
    };
    let base = segment.base_offset;
    if segment.size == 0 {
        return Ok(base);
    }
    let mut first = BatchWalk::new(file, 0, segment.size, 0);
    if let Some(first) = first.next()? {
        set_first(segment, &first);
    }
    let from = segment.offset_index.last();
    let start = from.map_or(0, |e| u64::from(e.position));
    let mut walk = BatchWalk::new(file, start, segment.size, CHECK_WINDOW);
    let mut next_offset = base;
    segment.since_index_entry = 0;
    while let Some(batch) = walk.next()? {
        let is_entry = from.is_some() && batch.position == start;
        let expected = from.map_or(0, |e| base.saturating_add(i64::from(e.relative_offset)));
        if is_entry && batch.header.last_offset() != expected {
            return Err(wrong(start, "the offset index points to another batch"));
        }
        if batch.header.base_offset < next_offset {
            return Err(wrong(batch.position, "offsets go back"));
        }
        if segment.since_index_entry > u64::from(config.index_interval_bytes) && !is_entry {
            return Err(wrong(batch.position, "the offset index is too short"));
        }
        if timestamp_of_records(&batch.header) > segment.max_timestamp {
            return Err(wrong(batch.position, "the time index is too short"));
        }
        next_offset = batch.header.next_offset();
        segment.since_index_entry += batch.header.size_in_bytes() as u64;
    }
    Ok(next_offset)
}

/// A segment after its recovery.
pub(super) struct Recovered {
    pub(super) segment: Segment,
    pub(super) next_offset: Offset,
    /// The producers at its end.
    pub(super) producers: ProducerState,
    /// Why the file was cut, if it was.
    pub(super) cut: Option<String>,
}

/// The recovery of one segment.
pub(super) struct Recovery<'r> {
    pub(super) folder: &'r Path,
    /// The segments before it.
    pub(super) before: &'r [Extent],
    pub(super) base: Offset,
    pub(super) next_base: Option<Offset>,
    /// The segments behind it, which go when this one is cut.
    pub(super) later: &'r [Offset],
    pub(super) config: &'r LogConfig,
    /// Nobody flushes what lies below it once more.
    pub(super) recovery_point: Offset,
    /// The file ends at the last valid batch afterwards; without it damage is an error, and checksums
    /// are left to the readers.
    pub(super) may_cut: bool,
}

impl Recovery<'_> {
    /// Goes through every batch once, and writes the indexes anew.
    pub(super) fn run(&self) -> Result<Recovered, LogError> {
        let path = SegmentFile::Log.path(self.folder, self.base);
        let (file, metadata) = open(self.folder, self.base)?;
        let mut segment = blank(self.folder, self.base, self.config);
        let mut producers = replay::producers_before(self.folder, self.before, self.base)?;
        let (mut aborted, mut next_offset) = (Vec::new(), self.base);
        let modified_ms = segment.modified_ms;
        let mut walk = BatchWalk::new(&file, 0, metadata.len(), RECOVER_WINDOW);
        let stop = loop {
            let batch = match next_valid(&mut walk, self, next_offset) {
                Ok(Some(batch)) => batch,
                Ok(None) => break None,
                Err(WalkError::Io(e)) => return Err(LogError::io("read", path, e)),
                Err(damaged) => break Some(damaged.to_string()),
            };
            segment.append(&batch.header, self.config.index_interval_bytes, modified_ms);
            if batch.position == 0 {
                set_first(&mut segment, &batch);
            }
            let entry = replay::replay_batch(&mut producers, &walk, &batch);
            aborted.extend(entry.map_err(|e| LogError::io("read", path.clone(), e))?);
            next_offset = batch.header.next_offset();
        };
        if let Some(reason) = &stop {
            if !self.may_cut {
                return Err(LogError::corrupt(path, reason.clone()));
            }
            // Before the cut: a start that ends in between would leave them behind a hole.
            tidy::remove_segments(self.folder, self.later)?;
        }
        // Also without a cut: blocks reserved behind the end go back.
        sys::set_len(&file, segment.size).map_err(|e| LogError::io("trim", path, e))?;
        segment.written_size = segment.size;
        if self.next_base.is_some() || stop.is_some() {
            segment.index_time();
        }
        write_indexes(self.folder, &mut segment)?;
        segment.has_aborts = !aborted.is_empty();
        segment.has_unflushed_aborts = segment.has_aborts;
        let is_flushed = next_offset <= self.recovery_point;
        write_transaction_index(self.folder, self.base, &aborted, is_flushed)?;
        Ok(Recovered {
            segment,
            next_offset,
            producers,
            cut: stop,
        })
    }
}

fn next_valid(
    walk: &mut BatchWalk<'_>,
    recovery: &Recovery<'_>,
    next_offset: Offset,
) -> Result<Option<FileBatch>, WalkError> {
    let (base, next_base) = (recovery.base, recovery.next_base);
    let Some(batch) = walk.next()? else {
        return Ok(None);
    };
    let wrong = |reason: &str| {
        Err(WalkError::Damaged {
            position: batch.position,
            reason: reason.into(),
        })
    };
    if batch.header.base_offset < next_offset {
        return wrong("offsets go back");
    }
    let last_offset = batch.header.last_offset();
    if last_offset < next_offset || last_offset - base > i64::from(i32::MAX) {
        return wrong("the offset is out of the segment's range");
    }
    if next_base.is_some_and(|next| last_offset >= next) {
        return wrong("its offsets reach into the next segment");
    }
    if recovery.may_cut {
        walk.verify(&batch)?;
    }
    Ok(Some(batch))
}

fn write_indexes(folder: &Path, segment: &mut Segment) -> Result<(), LogError> {
    let offsets = segment.offset_index.take_bytes(|_| true);
    let times = segment.time_index.take_bytes(|_| true);
    let base = segment.base_offset;
    for (kind, bytes) in [
        (SegmentFile::OffsetIndex, &offsets),
        (SegmentFile::TimeIndex, &times),
    ] {
        sys::replace_file(&kind.path(folder, base), &bytes.bytes, false)?;
    }
    segment.offset_index.written(offsets.count);
    segment.time_index.written(times.count);
    Ok(())
}

fn write_transaction_index(
    folder: &Path,
    base: Offset,
    aborted: &[AbortedTransaction],
    sync: bool,
) -> Result<(), LogError> {
    let path = SegmentFile::TransactionIndex.path(folder, base);
    let encoded = aborted.iter().map(AbortedTransaction::encode);
    let bytes: Vec<u8> = encoded.flatten().collect();
    if fs::read(&path).unwrap_or_default() == bytes && !bytes.is_empty() {
        return Ok(()); // after most crashes; what was flushed stays so
    }
    if !bytes.is_empty() {
        return sys::replace_file(&path, &bytes, sync);
    }
    sys::remove_if_there(&path)?;
    if sync {
        sys::sync_folder(&path)
    } else {
        Ok(())
    }
}
