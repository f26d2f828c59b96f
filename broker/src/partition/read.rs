//! Which tier a read is served from is decided here, and only here (DESIGN §4).
//!
//! Rules: F-9, F-10, F-20 … F-23, F-60, F-65.

use strandline_log::{LogError, LogRead};
use strandline_types::{IsolationLevel, LeaderEpoch, Offset};
use strandline_wire::{EpochEndOffset, ErrorCode};

use crate::error_codes;
use crate::partition::Partition;

/// What a reader may know of a partition, taken before anything is read (F-9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Visible {
    pub(crate) high_watermark: Offset,
    pub(crate) last_stable_offset: Offset,
    pub(crate) log_start_offset: Offset,
    /// End of what the reader may get (exclusive), by its isolation level (F-10).
    pub(crate) upper: Offset,
}

/// Where a fetch offset leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPlan {
    /// The memory or the disk of this broker.
    Local,
    /// The bucket: the offset lies below the local log start.
    Remote,
    /// There is nothing that the reader may see yet.
    AtEnd,
    /// The reader's log and ours part ways (F-23).
    Diverging(EpochEndOffset),
}

/// What a client asks of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    pub(crate) offset: Offset,
    pub(crate) current_leader_epoch: LeaderEpoch,
    /// -1 for none.
    pub(crate) last_fetched_epoch: LeaderEpoch,
    pub(crate) isolation: IsolationLevel,
}

impl Partition {
    /// The offsets as readers see them now.
    pub(crate) fn visible(&self, isolation: IsolationLevel) -> Visible {
        let offsets = self.log.offsets();
        let upper = match isolation {
            IsolationLevel::ReadUncommitted => offsets.high_watermark,
            IsolationLevel::ReadCommitted => offsets.last_stable,
        };
        Visible {
            high_watermark: offsets.high_watermark,
            last_stable_offset: offsets.last_stable,
            log_start_offset: offsets.log_start,
            upper,
        }
    }

    /// Decides where an offset is read.
    pub(crate) fn plan_read(
        &self,
        request: &ReadRequest,
    ) -> Result<(Visible, ReadPlan), ErrorCode> {
        self.check_epoch(request.current_leader_epoch)?;
        if self.log.is_offline() {
            let is_deleted = self.log.is_deleted();
            return Err(if is_deleted {
                ErrorCode::NotLeaderOrFollower
            } else {
                ErrorCode::KafkaStorageError
            });
        }
        let visible = self.visible(request.isolation);
        let offset = request.offset;
        if offset < visible.log_start_offset {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        if request.last_fetched_epoch >= 0
            && let Some(diverging) = self.divergence(request)?
        {
            return Ok((visible, ReadPlan::Diverging(diverging)));
        }
        // After the epochs: a reader that is ahead on another branch must learn where it left ours.
        if offset > self.log.log_end_offset() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let plan = if offset >= visible.upper {
            ReadPlan::AtEnd
        } else if offset < self.log.local_log_start_offset() {
            ReadPlan::Remote
        } else {
            ReadPlan::Local
        };
        Ok((visible, plan))
    }

    /// F-23.
    fn divergence(&self, request: &ReadRequest) -> Result<Option<EpochEndOffset>, ErrorCode> {
        let end = self.log.end_offset_for_epoch(request.last_fetched_epoch);
        if end.epoch < 0 || end.end_offset < 0 {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let diverges = end.epoch < request.last_fetched_epoch || end.end_offset < request.offset;
        let at = EpochEndOffset {
            epoch: end.epoch,
            end_offset: end.end_offset,
        };
        Ok(diverges.then_some(at))
    }

    /// Reads from memory only; `None` when the disk is needed.
    pub(crate) fn read_from_memory(
        &self,
        offset: Offset,
        max_bytes: usize,
        upper: Offset,
        min_one: bool,
    ) -> Option<Result<LogRead, ErrorCode>> {
        let read = self
            .log
            .read_from_memory(offset, max_bytes, upper, min_one)?;
        Some(read.map_err(|e| read_error(&e)))
    }

    /// Reads from memory or disk; blocks on the disk.
    pub(crate) fn read_local(
        &self,
        offset: Offset,
        max_bytes: usize,
        upper: Offset,
        min_one: bool,
    ) -> Result<LogRead, ErrorCode> {
        self.log
            .read(offset, max_bytes, upper, min_one)
            .map_err(|e| read_error(&e))
    }
}

fn read_error(error: &LogError) -> ErrorCode {
    match error {
        // The range moved to the bucket, or away, since the plan was made; the client asks again
        // and gets the right answer (F-21).
        LogError::OffsetOutOfRange { .. } => ErrorCode::NotLeaderOrFollower,
        other => error_codes::for_log(other),
    }
}
