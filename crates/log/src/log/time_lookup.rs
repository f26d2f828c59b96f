//! Finding records by time, to the record (O-5, O-9).

use std::ops::ControlFlow;

use strandline_records::{Batch, RecordPosition, max_timestamp_record, walk};
use strandline_types::{LeaderEpoch, NO_TIMESTAMP, Offset};

use super::Log;
use crate::error::LogError;
use crate::index::{Found, search_file};
use crate::segment::SegmentFile;
use crate::time_index::TimeEntry;

/// Bytes that one step of the scan reads: an index interval and what it may overshoot.
const STEP_BYTES: usize = 64 * 1024;
/// A batch that decompresses to more than this is not looked into.
const MAX_DECOMPRESSED_BYTES: usize = 256 * 1024 * 1024;

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
                let file = match self.open_file(candidate.base, SegmentFile::TimeIndex, false) {
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
        let start = self.local_log_start_offset();
        let mut best: Option<(i64, Offset)> = None;
        let mut partial = None;
        {
            let state = self.state.lock();
            self.check_open(&state)?;
            for (segment, end) in state.segments.with_ends(self.log_end_offset()) {
                let (timestamp, offset) = (segment.max_timestamp, segment.offset_of_max_timestamp);
                if end > start && offset < start && timestamp >= 0 {
                    partial = Some(end); // its greatest one was deleted
                } else if end > start && best.is_none_or(|(t, _)| t < timestamp) {
                    best = Some((timestamp, offset));
                }
            }
        }
        if let Some(end) = partial {
            let (timestamp, offset) = self.greatest_in(start, end)?;
            best = best
                .filter(|(t, _)| *t > timestamp)
                .or(Some((timestamp, offset)));
        }
        let Some((_, offset)) = best.filter(|(t, _)| *t >= 0) else {
            return Ok(None);
        };
        let read = self.read(offset, 1, Offset::MAX, true)?;
        Ok(read.batches()?.first().map(greatest_of))
    }

    /// Greatest batch timestamp in `[start, end)` and the last offset of its first batch.
    fn greatest_in(&self, start: Offset, end: Offset) -> Result<(i64, Offset), LogError> {
        let (mut best, mut at) = ((NO_TIMESTAMP, start), start);
        while at < end {
            let read = self.read(at, STEP_BYTES, end, true)?;
            for header in read.batches()?.iter().map(Batch::header) {
                if header.max_timestamp > best.0 {
                    best = (header.max_timestamp, header.last_offset());
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

/// The first record at or after both a time and an offset. Records that cannot be read (a batch
/// stored unchecked) give the batch itself.
fn first_at_or_after(batch: &Batch, timestamp: i64, from: Offset) -> Option<TimestampedOffset> {
    let header = batch.header();
    let leader_epoch = header.partition_leader_epoch;
    let mut found = None;
    let walked = walk(batch, MAX_DECOMPRESSED_BYTES, |head| {
        let offset = header
            .base_offset
            .saturating_add(i64::from(head.offset_delta));
        let record = RecordPosition {
            offset,
            timestamp: head.timestamp,
        };
        if record.timestamp < timestamp || record.offset < from {
            return ControlFlow::Continue(());
        }
        found = Some(record);
        ControlFlow::Break(())
    });
    if let Err(error) = walked
        && found.is_none()
    {
        tracing::warn!(base_offset = header.base_offset, %error, "records cannot be read");
        let offset = header.base_offset.max(from);
        return Some(TimestampedOffset {
            offset,
            timestamp: header.max_timestamp,
            leader_epoch,
        });
    }
    found.map(|r| TimestampedOffset {
        offset: r.offset,
        timestamp: r.timestamp,
        leader_epoch,
    })
}

fn greatest_of(batch: &Batch) -> TimestampedOffset {
    let header = batch.header();
    let leader_epoch = header.partition_leader_epoch;
    match max_timestamp_record(batch, MAX_DECOMPRESSED_BYTES) {
        Ok(Some(r)) => TimestampedOffset {
            offset: r.offset,
            timestamp: r.timestamp,
            leader_epoch,
        },
        _ => TimestampedOffset {
            offset: header.last_offset(),
            timestamp: header.max_timestamp,
            leader_epoch,
        },
    }
}
