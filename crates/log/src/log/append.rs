//! Appending as leader: sequence check, offset, roll, tail, writer (2.3, P-40, P-50…P-57, L-1…L-4).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use strandline_records::{Batch, BatchHeader, EndTransactionMarker};
use strandline_types::{LeaderEpoch, NO_TIMESTAMP, Offset, TimestampType};

use super::{Log, LogState, RollItem, WriteItem};
use crate::error::AppendError;
use crate::offsets::{get, set};
use crate::producer_snapshot;
use crate::producer_state::{BatchMemory, Verdict};
use crate::roll::should_roll;
use crate::segment::Segment;
use crate::verification::AppendChecks;

/// A body below this size is copied, so that it does not keep a large receive buffer alive.
const DETACH_BELOW_BYTES: usize = 8 * 1024;

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record (inclusive).
    pub base_offset: Offset,
    /// Offset of the last record (inclusive). Acknowledge only when `written_end_offset()` is
    /// above it, for a duplicate too.
    pub last_offset: Offset,
    /// The batch's time in ms when the broker set it, -1 for CreateTime (P-83).
    pub log_append_time_ms: i64,
    /// First offset over both tiers.
    pub log_start_offset: Offset,
    /// The batch was there already; the offsets are those of the original (P-50).
    pub duplicate: bool,
}

impl Log {
    /// Takes a validated batch: gives it its offsets and `epoch`, and queues it for the writer.
    /// Returns before it is written: see [`Appended::last_offset`] and [`Log::set_on_written`].
    /// On an error nothing was appended.
    pub fn append_as_leader(
        &self,
        batch: Batch,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        self.append_checked(batch, epoch, AppendChecks::default(), now_ms)
    }

    /// As [`Log::append_as_leader`], with what transactions demand beside it.
    pub fn append_checked(
        &self,
        mut batch: Batch,
        epoch: LeaderEpoch,
        checks: AppendChecks,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        if batch.body().len() < DETACH_BELOW_BYTES {
            batch.detach_body();
        }
        let header = batch.header();
        if header.last_offset_delta < 0 {
            return Err(AppendError::InvalidBatch(
                "the last offset delta is negative".into(),
            ));
        }
        let appended = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            let segment_bytes = state.config.segment_bytes;
            if batch.size_in_bytes() as u64 > segment_bytes {
                let size = batch.size_in_bytes();
                return Err(AppendError::BatchLargerThanSegment {
                    size,
                    segment_bytes,
                }); // P-23
            }
            let end = self
                .log_end_offset()
                .checked_add(i64::from(header.last_offset_delta) + 1);
            if end.is_none() {
                return Err(AppendError::InvalidBatch("the offsets are used up".into()));
            }
            match state.producers.check(&batch, &header, checks)? {
                Verdict::Duplicate(original) => return Ok(self.duplicate(&header, original)),
                Verdict::Append(marker) => {
                    self.append_locked(&mut state, batch, header, epoch, marker, now_ms)
                }
            }
        };
        self.dir.tail.enforce();
        Ok(appended)
    }

    fn duplicate(&self, header: &BatchHeader, original: BatchMemory) -> Appended {
        let by_broker = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        Appended {
            base_offset: original.last_offset - i64::from(original.offset_delta),
            last_offset: original.last_offset,
            log_append_time_ms: if by_broker {
                original.timestamp
            } else {
                NO_TIMESTAMP
            },
            log_start_offset: self.log_start_offset(),
            duplicate: true,
        }
    }

    fn append_locked(
        &self,
        state: &mut LogState,
        mut batch: Batch,
        mut header: BatchHeader,
        epoch: LeaderEpoch,
        marker: Option<EndTransactionMarker>,
        now_ms: i64,
    ) -> Appended {
        state.is_changed = true;
        let base_offset = get(&self.offsets.log_end);
        batch.set_offset_and_epoch(base_offset, epoch);
        header.base_offset = base_offset;
        header.partition_leader_epoch = epoch;
        self.assign_epoch_locked(state, epoch, base_offset);
        if should_roll(state.segments.active(), &header, &state.config, now_ms).is_some() {
            self.roll_locked(state, base_offset, now_ms);
        }
        let interval = state.config.index_interval_bytes;
        state
            .segments
            .active_mut()
            .append(&header, interval, now_ms);
        match marker {
            None => state.producers.apply_data(&header),
            Some(marker) => {
                if let Some(aborted) = state.producers.apply_marker(&header, marker) {
                    state.segments.active_mut().has_aborts = true;
                    state.unwritten_aborts.push(aborted);
                    self.push_item(state, WriteItem::Aborted(Box::new(aborted)));
                }
            }
        }
        let batch = Arc::new(batch);
        self.tail.push(Arc::clone(&batch), &self.dir.tail);
        set(&self.offsets.log_end, header.next_offset());
        self.dir
            .backlog_bytes
            .fetch_add(batch.size_in_bytes(), Ordering::Relaxed);
        self.push_item(state, WriteItem::Batch(batch));
        let by_broker = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        Appended {
            base_offset,
            last_offset: header.last_offset(),
            log_append_time_ms: if by_broker {
                header.max_timestamp
            } else {
                NO_TIMESTAMP
            },
            log_start_offset: self.log_start_offset(),
            duplicate: false,
        }
    }

    /// Seals the active segment and begins one at `base`.
    pub(super) fn roll_locked(&self, state: &mut LogState, base: Offset, now_ms: i64) {
        state.is_changed = true;
        state.segments.active_mut().index_time();
        let jitter_ms = jitter(state.config.segment_jitter_ms);
        state.segments.roll(Segment::new(base, now_ms, jitter_ms));
        let producer_snapshot = producer_snapshot::encode(&state.producers);
        self.push_item(
            state,
            WriteItem::Roll(Box::new(RollItem {
                base,
                producer_snapshot,
            })),
        );
    }
}

/// A random number in `[0, bound)`.
pub(crate) fn jitter(bound_ms: i64) -> i64 {
    if bound_ms <= 0 {
        return 0;
    }
    (RandomState::new().hash_one(0_u8) >> 1) as i64 % bound_ms
}
