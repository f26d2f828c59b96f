//! Finding records by time, to the record (O-5, O-9).

use strandline_records::{
    Batch, BatchHeader, MAX_LOOKUP_BYTES, RecordPosition, first_record_at_or_after,
    max_timestamp_record,
};
use strandline_types::{LeaderEpoch, NO_TIMESTAMP, Offset};

use super::Log;
use crate::error::LogError;
use crate::index::{Found, search_file};
use crate::segment::{SegmentFile, SegmentId, timestamp_of_records};
use crate::time_index::TimeEntry;

/// Bytes that one step of the scan reads: an index interval and what it may overshoot.
const STEP_BYTES: usize = 64 * 1024;

/// A record found by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Offset of the record.
    pub offset: Offset,
    /// Timestamp of the record in ms.
    pub timestamp: i64,
    /// Leader epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

/// The segment to scan, and where to begin.
struct Candidate {
    id: SegmentId,
    base: Offset,
    end: Offset,
    hint: Found<TimeEntry>,
}

impl Log {
    /// The first local record at or after `timestamp` (ms), below `upper` (exclusive); `None` when
    /// there is none (O-2, O-5). Reads and decompresses one batch or a few, so it may block.
    pub fn offset_for_timestamp(
        &self,
        timestamp: i64,
        upper: Offset,
    ) -> Result<Option<TimestampedOffset>, LogError> {
        let mut from = self.local_log_start_offset();
        while let Some(candidate) = self.candidate(timestamp, from)? {
            match self.scan(&candidate, timestamp, from, upper) {
                Ok(Some(found)) => return Ok((found.offset < upper).then_some(found)),
                Ok(None) => from = candidate.end,
                // Retention moved the start meanwhile (O-7).
                Err(LogError::OffsetOutOfRange {
                    local_log_start_offset,
                    ..
                }) if local_log_start_offset > from => {
                    from = local_log_start_offset;
                }
                Err(e) => return Err(e),
            }
            if from >= upper {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn candidate(&self, timestamp: i64, from: Offset) -> Result<Option<Candidate>, LogError> {
        let state = self.state.lock();
        self.check_open(&state)?;
        let mut segments = state.segments.with_ends(self.log_end_offset());
        let found = segments.find(|(s, end)| *end > from && s.max_timestamp >= timestamp);
        Ok(found.map(|(segment, end)| Candidate {
            id: segment.id(),
            base: segment.base_offset,
            end,
            hint: segment.time_index.last_where(|e| e.timestamp <= timestamp),
        }))
    }

    /// The first record at or after `timestamp` in one segment.
    fn scan(
        &self,
        candidate: &Candidate,
        timestamp: i64,
        from: Offset,
        upper: Offset,
    ) -> Result<Option<TimestampedOffset>, LogError> {
        let mut at = self.hinted(candidate, timestamp)?.max(from);
        while at < candidate.end {
            let read = self.read(at, STEP_BYTES, candidate.end, true)?;
            for batch in read.batches()? {
                if batch.header().max_timestamp >= timestamp
                    && let Some(found) = first_at_or_after(&batch, timestamp, from)
                {
                    return Ok(Some(found));
                }
            }
            // The hint is the last offset of a batch, which may begin below an `upper` inside it.
            if read.end_offset <= at || read.end_offset >= upper {
                break;
            }
            at = read.end_offset;
        }
        Ok(None)
    }

    /// Before this offset of the candidate all records are older.
    fn hinted(&self, candidate: &Candidate, timestamp: i64) -> Result<Offset, LogError> {
        let entry = match candidate.hint {
            Found::Entry(entry) => Some(entry),
            Found::Nowhere => None,
            Found::InFile(count) => {
                let file = match self.open_segment_file(candidate.id, SegmentFile::TimeIndex) {
                    // Deleted or replaced meanwhile: the reading finds that out.
                    Err(e) if e.is_not_found() => return Ok(candidate.base),
                    other => other?,
                };
                search_file(&file, count, |e: &TimeEntry| e.timestamp <= timestamp).map_err(
                    |e| {
                        let path = SegmentFile::TimeIndex.path(&self.folder, candidate.base);
                        LogError::io("read", path, e)
                    },
                )?
            }
        };
        let relative = entry.map_or(0, |e: TimeEntry| i64::from(e.relative_offset));
        Ok(candidate.base.saturating_add(relative))
    }

    /// The first local record with the greatest timestamp (O-9); `None` when no record has one.
    pub fn max_timestamp_record(&self) -> Result<Option<TimestampedOffset>, LogError> {
        loop {
            let swaps = self.state.lock().swaps;
            let found = self.find_max_timestamp_record();
            // A cleaning in between may have moved what the segments said.
            if self.state.lock().swaps == swaps {
                return found;
            }
        }
    }

    fn find_max_timestamp_record(&self) -> Result<Option<TimestampedOffset>, LogError> {
        let start = self.local_log_start_offset();
        let mut best: Option<Greatest> = None;
        let mut first = None;
        {
            let state = self.state.lock();
            self.check_open(&state)?;
            for (segment, end) in state.segments.with_ends(self.log_end_offset()) {
                let greatest = Greatest {
                    timestamp: segment.max_timestamp,
                    offset: segment.offset_of_max_timestamp,
                };
                if end <= start {
                    continue;
                }
                if segment.base_offset < start {
                    first = Some((greatest, end)); // a part of it was deleted
                } else if best.is_none_or(|b| b.timestamp < greatest.timestamp) {
                    best = Some(greatest);
                }
            }
        }
        if let Some((greatest, end)) = first {
            let left = self.greatest_left(greatest, start, end)?;
            best = best.filter(|b| b.timestamp > left.timestamp).or(Some(left));
        }
        let Some(best) = best.filter(|b| b.timestamp >= 0) else {
            return Ok(None);
        };
        let batch = self.batch_at(best.offset)?;
        Ok(batch.map(|batch| greatest_of(&batch, start)))
    }

    fn batch_at(&self, offset: Offset) -> Result<Option<Batch>, LogError> {
        let read = self.read(offset, 1, Offset::MAX, true)?;
        Ok(read.batches()?.into_iter().next())
    }

    /// What is left of a segment's greatest timestamp, when the log begins inside the segment.
    fn greatest_left(
        &self,
        greatest: Greatest,
        start: Offset,
        end: Offset,
    ) -> Result<Greatest, LogError> {
        if greatest.offset >= start
            && let Some(batch) = self.batch_at(greatest.offset)?
            && batch.header().base_offset >= start
        {
            return Ok(greatest);
        }
        self.greatest_in(start, end)
    }

    /// The greatest timestamp in `[start, end)`.
    fn greatest_in(&self, start: Offset, end: Offset) -> Result<Greatest, LogError> {
        let mut best = Greatest {
            timestamp: NO_TIMESTAMP,
            offset: start,
        };
        let mut at = start;
        while at < end {
            let read = self.read(at, STEP_BYTES, end, true)?;
            for batch in read.batches()? {
                let header = batch.header();
                let timestamp = if header.base_offset < start {
                    greatest_of(&batch, start).timestamp
                } else {
                    timestamp_of_records(&header)
                };
                if timestamp > best.timestamp {
                    let offset = header.last_offset();
                    best = Greatest { timestamp, offset };
                }
            }
            if read.end_offset <= at {
                break;
            }
            at = read.end_offset;
        }
        Ok(best)
    }
}

/// A greatest timestamp in ms, and the last offset of the first batch that has it.
#[derive(Debug, Clone, Copy)]
struct Greatest {
    timestamp: i64,
    offset: Offset,
}

/// The first record at or after both a time and an offset. Records that cannot be read (a batch
/// stored unchecked) give the batch itself.
fn first_at_or_after(batch: &Batch, timestamp: i64, from: Offset) -> Option<TimestampedOffset> {
    let header = batch.header();
    let found = first_record_at_or_after(batch, timestamp, from, MAX_LOOKUP_BYTES);
    let found = found.unwrap_or_else(|error| {
        tracing::warn!(base_offset = header.base_offset, %error, "records cannot be read");
        Some(RecordPosition::first_unread(&header, from))
    });
    found.map(|record| position_in(&header, record))
}

/// The first record at or after an offset with the greatest timestamp.
fn greatest_of(batch: &Batch, from: Offset) -> TimestampedOffset {
    let header = batch.header();
    let found = max_timestamp_record(batch, from, MAX_LOOKUP_BYTES);
    let found = found.ok().flatten();
    let found = found.unwrap_or_else(|| RecordPosition::greatest_unread(&header));
    position_in(&header, found)
}

fn position_in(header: &BatchHeader, record: RecordPosition) -> TimestampedOffset {
    TimestampedOffset {
        offset: record.offset,
        timestamp: record.timestamp,
        leader_epoch: header.partition_leader_epoch,
    }
}
