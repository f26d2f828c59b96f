//! A cleaned segment while it is written, under the suffix `.cleaned` (L-44, L-45).
//!
//! **Crash safety**: the next start removes what has that suffix.

use std::fs::{File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use strandline_records::Batch;
use strandline_types::Offset;

use crate::cleaner::plan::GroupFacts;
use crate::error::LogError;
use crate::log::{CLEANED, CLEANED_KINDS, FolderUse};
use crate::segment::{Segment, SegmentFile};
use crate::sys;
use crate::transaction_index::AbortedTransaction;

/// A flush of this much at a time, so that the one at the end does not hold up the other files of the
/// device.
const FLUSH_BYTES: u64 = 16 * 1024 * 1024;
/// Positions in Kafka's indexes are signed.
const MAX_SEGMENT_BYTES: u64 = i32::MAX as u64;

/// A segment that is being made.
pub(crate) struct CleanedSegment<'l> {
    folder: &'l Path,
    file: File,
    segment: Segment,
    index_interval_bytes: u32,
    buffer: Vec<u8>,
    buffer_bytes: usize,
    flushed: u64,
    aborted: Vec<AbortedTransaction>,
}

impl<'l> CleanedSegment<'l> {
    /// Begins one at `base`. Writes go out in pieces of about `buffer_bytes`.
    pub(crate) fn create(
        folder: &'l Path,
        base: Offset,
        index_interval_bytes: u32,
        buffer_bytes: usize,
    ) -> Result<Self, LogError> {
        // What an attempt before left behind is none of this one.
        for kind in CLEANED_KINDS {
            sys::remove_if_there(&kind.marked_path(folder, base, CLEANED))?;
        }
        let path = SegmentFile::Log.marked_path(folder, base, CLEANED);
        let file = sys::open(&path, true).map_err(|e| LogError::io("create", path, e))?;
        Ok(Self {
            folder,
            file,
            segment: Segment::new(base, 0, 0),
            index_interval_bytes,
            buffer: Vec::with_capacity(buffer_bytes),
            buffer_bytes,
            flushed: 0,
            aborted: Vec::new(),
        })
    }

    pub(crate) fn facts(&self) -> GroupFacts {
        GroupFacts {
            base_offset: self.segment.base_offset,
            size: self.segment.size,
            offset_entries: self.segment.offset_index.len(),
            time_entries: self.segment.time_index.len(),
        }
    }

    /// Adds a batch. Errors: it cannot be written, or the segment would be larger than any may be.
    pub(crate) fn append(&mut self, batch: &Batch, modified_ms: i64) -> Result<(), LogError> {
        if self.segment.size + batch.size_in_bytes() as u64 > MAX_SEGMENT_BYTES {
            let reason = "the cleaned segment would exceed 2 GiB";
            return Err(LogError::corrupt(self.path(SegmentFile::Log), reason));
        }
        self.segment
            .append(&batch.header(), self.index_interval_bytes, modified_ms);
        self.buffer.extend_from_slice(batch.head());
        self.buffer.extend_from_slice(batch.body());
        if self.buffer.len() >= self.buffer_bytes {
            self.write()?;
        }
        Ok(())
    }

    /// Keeps the entry of an aborted transaction whose marker was added.
    pub(crate) fn note_aborted(&mut self, aborted: AbortedTransaction) {
        self.aborted.push(aborted);
    }

    fn path(&self, kind: SegmentFile) -> PathBuf {
        kind.marked_path(self.folder, self.segment.base_offset, CLEANED)
    }

    fn write(&mut self) -> Result<(), LogError> {
        let at = self.segment.size - self.buffer.len() as u64;
        sys::write_all_at(&self.file, &self.buffer, at)
            .map_err(|e| LogError::io("write", self.path(SegmentFile::Log), e))?;
        self.buffer.clear();
        if self.segment.size - self.flushed > FLUSH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LogError> {
        self.flushed = self.segment.size;
        sys::sync_data(&self.file)
            .map_err(|e| LogError::io("flush", self.path(SegmentFile::Log), e))
    }

    /// Completes the files and flushes them, names included. The time of the last change is that of
    /// the newest segment that went into it (L-45).
    pub(crate) fn finish(mut self, modified_ms: i64) -> Result<Segment, LogError> {
        self.segment.index_time();
        self.write()?;
        let time = UNIX_EPOCH + Duration::from_millis(u64::try_from(modified_ms).unwrap_or(0));
        self.file
            .set_times(FileTimes::new().set_modified(time))
            .and_then(|()| sys::sync_data(&self.file))
            .map_err(|e| LogError::io("flush", self.path(SegmentFile::Log), e))?;
        let offsets = self.segment.offset_index.take_bytes(|_| true);
        let times = self.segment.time_index.take_bytes(|_| true);
        self.put(SegmentFile::OffsetIndex, &offsets.bytes)?;
        self.put(SegmentFile::TimeIndex, &times.bytes)?;
        if !self.aborted.is_empty() {
            let encoded = self.aborted.iter().map(AbortedTransaction::encode);
            let bytes: Vec<u8> = encoded.flatten().collect();
            self.put(SegmentFile::TransactionIndex, &bytes)?;
        }
        sys::sync_folder(&self.path(SegmentFile::Log))?;
        let mut segment = self.segment;
        segment.offset_index.written(offsets.count);
        segment.time_index.written(times.count);
        segment.written_size = segment.size;
        segment.has_aborts = !self.aborted.is_empty();
        segment.modified_ms = modified_ms;
        segment.created_ms = modified_ms;
        Ok(segment)
    }

    fn put(&self, kind: SegmentFile, bytes: &[u8]) -> Result<(), LogError> {
        let path = self.path(kind);
        let write = || {
            let file = sys::create(&path)?;
            sys::write_all_at(&file, bytes, 0)?;
            sys::sync_data(&file)
        };
        write().map_err(|e| LogError::io("write", path.clone(), e))
    }

    /// Removes what earlier rounds left behind: beside a later swap it would void that (L-25). Only while
    /// no other round works on the log.
    pub(crate) fn discard_all(folder: &FolderUse<'_>) -> Result<(), LogError> {
        let folder = folder.path();
        let entries = std::fs::read_dir(folder).map_err(|e| LogError::io("list", folder, e))?;
        let mut is_changed = false;
        for entry in entries {
            let path = entry.map_err(|e| LogError::io("list", folder, e))?.path();
            if path.to_string_lossy().ends_with(CLEANED) {
                sys::remove_if_there(&path)?;
                is_changed = true;
            }
        }
        if is_changed {
            sys::sync_folder(&folder.join("."))?;
        }
        Ok(())
    }

    /// Removes the files of one that is not needed.
    pub(crate) fn discard(folder: &FolderUse<'_>, base: Offset) -> Result<(), LogError> {
        // The log file last: as long as it is there, the others are void.
        for kind in CLEANED_KINDS {
            sys::remove_if_there(&kind.marked_path(folder.path(), base, CLEANED))?;
        }
        Ok(())
    }
}
