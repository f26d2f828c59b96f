//! Reading whole batches from the tail and the files (F-4, F-5, F-10, F-20).

use std::fs::File;

use strandline_types::Offset;

use super::Log;
use crate::error::LogError;
use crate::fetch::{FetchPart, FileSlice, LogRead};
use crate::index::{Found, search_file};
use crate::offset_index::OffsetEntry;
use crate::offsets::get;
use crate::scan::{BatchWalk, WalkError};
use crate::segment::{SegmentFile, SegmentId};

/// Header walks read this much at once: an index interval.
const WINDOW_BYTES: usize = 4096;
/// A read ends after this many pieces, so that tiny segments do not make it long.
const MAX_PARTS: usize = 256;

/// What limits one read.
#[derive(Debug, Clone, Copy)]
struct Limits {
    max_bytes: usize,
    upper: Offset,
    min_one: bool,
}

/// A segment as it was under the lock.
struct SegmentView {
    id: SegmentId,
    base: Offset,
    /// Bytes that are written.
    size: u64,
    /// Offset after them.
    end_offset: Offset,
    /// The segment is followed by another one.
    next_base: Option<Offset>,
    at_start: Found<OffsetEntry>,
    at_upper: Found<OffsetEntry>,
    /// Entries of the offset index that are in its file.
    in_file: u32,
}

/// Outcome of reading one segment.
enum SegmentRead {
    /// A range, the offset after it, and whether the segment ends there.
    Slice(FileSlice, Offset, bool),
    /// Nothing fits, or nothing is below the upper bound.
    Nothing,
    /// The segment has nothing at or above the offset; go on at this one.
    GoOn(Offset),
    /// Cleaning put another one in its place meanwhile; look again (L-47).
    Replaced,
}

impl Log {
    /// Reads whole batches from the one that holds `start`, ending at or below `upper`
    /// (exclusive), at most `max_bytes` in all; with `min_one` the first batch comes whatever its
    /// size. Touches the index files and batch headers, so it may block on the page cache or the
    /// device; [`Log::read_from_memory`] does not.
    ///
    /// Errors: [`LogError::OffsetOutOfRange`] below the local log start offset or above the log
    /// end offset. At the end, or at `upper`, the read is empty. So it is below an `upper` that was
    /// taken before a cleaning, when all that was left below it was replaced by what came behind it:
    /// an empty read is no error and no end, look at the offsets again (L-47).
    pub fn read(
        &self,
        start: Offset,
        max_bytes: usize,
        upper: Offset,
        min_one: bool,
    ) -> Result<LogRead, LogError> {
        let upper = self.check_range(start)?.min(upper);
        let mut read = LogRead::empty(start);
        while read.end_offset < upper && read.parts.len() < MAX_PARTS {
            let limits = Limits {
                max_bytes: max_bytes.saturating_sub(read.size_in_bytes),
                upper,
                min_one: min_one && read.parts.is_empty(),
            };
            let at = read.end_offset;
            if let Some(tail) = self.tail.read(at, limits.max_bytes, upper, limits.min_one) {
                read.add_tail(tail);
                break;
            }
            match self.read_segment(at, limits) {
                Ok(SegmentRead::Slice(slice, end_offset, ends)) => {
                    read.size_in_bytes += slice.len;
                    read.end_offset = end_offset;
                    read.parts.push(FetchPart::File(slice));
                    if !ends {
                        break;
                    }
                }
                Ok(SegmentRead::GoOn(next)) if next > at => read.end_offset = next,
                Ok(SegmentRead::Replaced) => {}
                Ok(_) => break,
                // Retention took the segment away meanwhile: what was read stays good.
                Err(e) if e.is_not_found() && !read.parts.is_empty() => break,
                Err(e) if e.is_not_found() => {
                    self.check_range(start)?;
                    return Err(self.read_failed(e));
                }
                Err(e) => return Err(self.read_failed(e)),
            }
        }
        if read.parts.is_empty() {
            read.end_offset = start;
        }
        Ok(read)
    }

    /// As [`Log::read`], from memory only: `None` when the range does not begin in the tail.
    pub fn read_from_memory(
        &self,
        start: Offset,
        max_bytes: usize,
        upper: Offset,
        min_one: bool,
    ) -> Option<Result<LogRead, LogError>> {
        let upper = match self.check_range(start) {
            Ok(end) => end.min(upper),
            Err(e) => return Some(Err(e)),
        };
        let mut read = LogRead::empty(start);
        if start < upper {
            read.add_tail(self.tail.read(start, max_bytes, upper, min_one)?);
        }
        Some(Ok(read))
    }

    /// The log end offset, if `start` can be read.
    fn check_range(&self, start: Offset) -> Result<Offset, LogError> {
        self.check_open(&self.state.lock())?;
        let offsets = self.offsets.view();
        if start < offsets.local_log_start || start > offsets.log_end {
            return Err(LogError::OffsetOutOfRange {
                requested: start,
                log_start_offset: offsets.log_start,
                local_log_start_offset: offsets.local_log_start,
                log_end_offset: offsets.log_end,
            });
        }
        Ok(offsets.log_end)
    }

    fn read_failed(&self, error: LogError) -> LogError {
        tracing::error!(partition = %self.partition, %error, "cannot read the log");
        error
    }

    fn view_segment(&self, at: Offset, upper: Offset) -> Result<Option<SegmentView>, LogError> {
        let state = self.state.lock();
        self.check_open(&state)?;
        let Some((segment, next_base)) = state.segments.floor(at) else {
            return Ok(None);
        };
        let base = segment.base_offset;
        let last_at_most = |offset: Offset| {
            move |e: &OffsetEntry| base.saturating_add(i64::from(e.relative_offset)) <= offset
        };
        let written_end = get(&self.offsets.written_end);
        let view = SegmentView {
            id: segment.id(),
            base,
            size: segment.written_size,
            end_offset: next_base.unwrap_or(written_end).min(written_end),
            next_base,
            at_start: segment.offset_index.last_where(last_at_most(at)),
            at_upper: segment
                .offset_index
                .last_where(last_at_most(upper.saturating_sub(1))),
            in_file: segment.offset_index.file_len(),
        };
        Ok(Some(view))
    }

    fn read_segment(&self, at: Offset, limits: Limits) -> Result<SegmentRead, LogError> {
        let Some(view) = self.view_segment(at, limits.upper)? else {
            return Ok(SegmentRead::Nothing);
        };
        match self.read_view(&view, at, limits) {
            Err(e) if e.is_not_found() && self.is_replaced(view.id) => Ok(SegmentRead::Replaced),
            other => other,
        }
    }

    fn read_view(
        &self,
        view: &SegmentView,
        at: Offset,
        limits: Limits,
    ) -> Result<SegmentRead, LogError> {
        // Only past what is wholly written: the rest of a segment is in the tail.
        let go_on = view.next_base.filter(|next| *next == view.end_offset);
        let go_on = go_on.map_or(SegmentRead::Nothing, SegmentRead::GoOn);
        if view.size == 0 || at >= view.end_offset {
            return Ok(go_on);
        }
        let file = self.open_segment_file(view.id, SegmentFile::Log)?;
        let Some((start, first_end, first_next)) = self.find_batch(view, &file, at)? else {
            return Ok(go_on);
        };
        let first_fits = first_end - start <= limits.max_bytes as u64 || limits.min_one;
        if first_next > limits.upper || !first_fits {
            return Ok(SegmentRead::Nothing);
        }
        let limit = start.saturating_add(limits.max_bytes as u64);
        let (end, end_offset) = if view.end_offset <= limits.upper && view.size <= limit {
            (view.size, view.end_offset)
        } else {
            self.find_end(view, &file, (first_end, first_next), limit, limits.upper)?
        };
        let len = usize::try_from(end - start).unwrap_or(usize::MAX);
        let ends = end == view.size && view.next_base.is_some();
        Ok(SegmentRead::Slice(
            FileSlice {
                file,
                position: start,
                len,
            },
            end_offset,
            ends,
        ))
    }

    /// Position, end and next offset of the first batch whose last offset is at or above `at`.
    fn find_batch(
        &self,
        view: &SegmentView,
        file: &File,
        at: Offset,
    ) -> Result<Option<(u64, u64, Offset)>, LogError> {
        let base = view.base;
        let wanted = |e: &OffsetEntry| base.saturating_add(i64::from(e.relative_offset)) <= at;
        let from = self.look_up(view, file, view.at_start, wanted)?;
        let mut walk = BatchWalk::new(file, from, view.size, WINDOW_BYTES);
        while let Some(batch) = self.step(view, &mut walk)? {
            if batch.header.last_offset() >= at {
                return Ok(Some((
                    batch.position,
                    batch.end(),
                    batch.header.next_offset(),
                )));
            }
        }
        Ok(None)
    }

    /// The last batch border at or below position `limit` and offset `upper`, at or behind `from`
    /// (itself a border), with its offset.
    fn find_end(
        &self,
        view: &SegmentView,
        file: &File,
        from: (u64, Offset),
        limit: u64,
        upper: Offset,
    ) -> Result<(u64, Offset), LogError> {
        let base = view.base;
        let by_offset = |e: &OffsetEntry| base.saturating_add(i64::from(e.relative_offset)) < upper;
        let by_position = |e: &OffsetEntry| u64::from(e.position) <= limit;
        let mut close = self.look_up(view, file, view.at_upper, by_offset)?;
        if close > limit {
            let at = self.look_up_by_position(view, file, by_position)?;
            close = close.min(at);
        }
        let (mut end, mut end_offset) = from;
        let mut walk = BatchWalk::new(file, close.max(end), view.size, WINDOW_BYTES);
        // Damage ends the read here: what is before it is good, the next read meets it.
        while let Ok(Some(batch)) = self.step(view, &mut walk) {
            if batch.end() > limit || batch.header.next_offset() > upper {
                // A border even when nothing before it was walked.
                if batch.position > end {
                    (end, end_offset) = (batch.position, batch.header.base_offset);
                }
                return Ok((end, end_offset));
            }
            (end, end_offset) = (batch.end(), batch.header.next_offset());
        }
        Ok((end, end_offset))
    }

    fn step(
        &self,
        view: &SegmentView,
        walk: &mut BatchWalk<'_>,
    ) -> Result<Option<crate::scan::FileBatch>, LogError> {
        let path = || SegmentFile::Log.path(&self.folder, view.base);
        let batch = walk.next().map_err(|e| match e {
            WalkError::Io(e) => LogError::io("read", path(), e),
            damaged @ WalkError::Damaged { .. } => LogError::corrupt(path(), damaged.to_string()),
        })?;
        match batch {
            Some(batch) if batch.header.next_offset() > view.end_offset => {
                let reason = format!("position {}: offsets pass the end", batch.position);
                Err(LogError::corrupt(path(), reason))
            }
            batch => Ok(batch),
        }
    }

    /// Where the entry that the index gives says, if a batch with its offset begins there; 0
    /// without an entry or when the index is wrong, which costs time but no exactness.
    fn look_up(
        &self,
        view: &SegmentView,
        file: &File,
        found: Found<OffsetEntry>,
        wanted: impl Fn(&OffsetEntry) -> bool,
    ) -> Result<u64, LogError> {
        let entry = match found {
            Found::Entry(entry) => Some(entry),
            Found::Nowhere => None,
            Found::InFile(count) => {
                let index = self.open_segment_file(view.id, SegmentFile::OffsetIndex)?;
                search_file(&index, count, wanted).map_err(|e| {
                    let path = SegmentFile::OffsetIndex.path(&self.folder, view.base);
                    LogError::io("read", path, e)
                })?
            }
        };
        let Some(entry) = entry else { return Ok(0) };
        let position = u64::from(entry.position);
        let mut walk = BatchWalk::new(file, position, view.size, 0);
        let offset = view.base.saturating_add(i64::from(entry.relative_offset));
        match walk.next() {
            Ok(Some(batch)) if batch.header.last_offset() == offset => Ok(position),
            Err(WalkError::Io(e)) => Err(LogError::io(
                "read",
                SegmentFile::Log.path(&self.folder, view.base),
                e,
            )),
            _ if position >= view.size => Ok(view.size), // indexed, not written yet
            _ => {
                let base = view.base;
                tracing::error!(partition = %self.partition, base, "the offset index is wrong");
                Ok(0)
            }
        }
    }

    fn look_up_by_position(
        &self,
        view: &SegmentView,
        file: &File,
        wanted: impl Fn(&OffsetEntry) -> bool + Copy,
    ) -> Result<u64, LogError> {
        let found = {
            let mut state = self.state.lock();
            let segment = state.segments.at_mut(view.base);
            segment.map_or(Found::InFile(view.in_file), |s| {
                s.offset_index.last_where(wanted)
            })
        };
        self.look_up(view, file, found, wanted)
    }
}
