//! Moving a partition's segments to the bucket, and retention over both tiers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use strandline_env::{Clock, Pool};
use strandline_log::{LogError, RetentionOutcome, waits_too_long};
use strandline_tiering::{ExpireRequest, RemotePartition, TieringError};
use strandline_types::Offset;

use crate::partition::Partition;

/// Longest time to wait after retention in the bucket has failed.
const MAX_EXPIRY_WAIT_MS: i64 = 30_000;

/// What of a partition is not in the bucket yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TierLag {
    pub(crate) bytes: u64,
    /// Age of the oldest append among them, in ms.
    pub(crate) age_ms: i64,
}

fn as_io(error: LogError) -> io::Error {
    io::Error::other(error)
}

impl Partition {
    /// What waits for the bucket.
    pub(crate) fn tier_lag(&self, now_ms: i64) -> TierLag {
        let from = self
            .remote
            .highest_offset()
            .map_or(0, |highest| highest + 1);
        let waiting = self.log.behind(from);
        let age_ms = waiting
            .first_append_ms
            .map_or(0, |at| now_ms.saturating_sub(at).max(0));
        TierLag {
            bytes: waiting.bytes,
            age_ms,
        }
    }

    /// True when [`Partition::tier`] would find something to do. Cheap.
    pub(crate) fn needs_tiering(&self, now_ms: i64) -> bool {
        let config = self.config();
        if !self.remote.exists() {
            return false;
        }
        if !config.remote_storage_enable {
            return self.must_purge();
        }
        self.remote.is_purged.store(false, Ordering::Relaxed);
        // The chain says what is in the bucket; until it is read, nobody knows.
        let Some(remote) = self.remote.get() else {
            return self.log.log_end_offset() > 0;
        };
        let next = remote
            .highest_offset()
            .map_or(self.log.log_start_offset(), |h| h + 1);
        let is_sealed = self.log.active_base_offset() > next;
        let delay_ms = config.strandline_tier_max_delay_ms;
        let is_late = delay_ms > 0 && {
            let first_ms = self.log.behind(next).first_append_ms;
            first_ms.is_some_and(|at| waits_too_long(at, now_ms, delay_ms))
        };
        !config.remote_log_copy_disable && (is_sealed || is_late)
            || self.log.log_start_offset() < remote.view().log_start_offset()
            || self.expiry_is_due(&remote, now_ms)
    }

    /// True when retention may have something to do in the bucket.
    pub(crate) fn expiry_is_due(&self, remote: &RemotePartition, now_ms: i64) -> bool {
        let config = self.config();
        let view = remote.view();
        if view.base_offset().is_none() {
            return false;
        }
        let next_ms = self.remote.next_expiry_ms.load(Ordering::Relaxed);
        // One too far away is of a clock that was set back.
        let is_time =
            now_ms >= next_ms || next_ms.saturating_sub(now_ms) > self.remote.expiry_interval_ms;
        let has_failed = self.remote.has_expiry_failed.load(Ordering::Relaxed);
        if !is_time && (has_failed && !self.must_expire_first(remote)) {
            return false;
        }
        if self.log.log_start_offset() > view.log_start_offset() {
            return true;
        }
        if !is_time {
            return false;
        }
        // Judged by what is known here: an idle partition costs the store no request.
        let is_deleting = config.cleanup_policy.delete;
        let is_too_old = || {
            config.retention_ms >= 0
                && view.may_hold_older_than(now_ms.saturating_sub(config.retention_ms))
        };
        // Less than a segment of it stays, so this is how a log with a limit is most of the time.
        let is_too_large = || {
            u64::try_from(config.retention_bytes)
                .is_ok_and(|limit| view.size_in_bytes() + self.tier_lag(now_ms).bytes > limit)
        };
        view.has_due_deletes(now_ms) || is_deleting && (is_too_old() || is_too_large())
    }

    /// DeleteRecords went beyond what is tiered: the bucket's end must move too, or the next segment would leave
    /// a gap behind it.
    fn must_expire_first(&self, remote: &RemotePartition) -> bool {
        let end = remote.view().end_offset();
        end.is_some_and(|end| self.log.log_start_offset() > end)
    }

    /// Applies retention to the bucket, uploads the first sealed segment that is not there, and lets local copies
    /// go. True when there may be more to upload.
    pub(crate) async fn tier(
        self: &Arc<Self>,
        io: &Pool,
        clock: &Clock,
    ) -> Result<bool, TieringError> {
        if self.must_purge() {
            self.purge(io, clock).await?;
            return Ok(false);
        }
        let remote = self.remote.open(self.leader_epoch()).await?;
        if remote.view().manifest().deleted {
            // Tiering was switched on again before all of it was gone: nothing can follow this chain (8.1).
            remote.delete_all(clock.now_ms()).await?;
            self.remote.forget();
            return Ok(false);
        }
        self.remote
            .check_joins(&remote, self.log.log_end_offset())?;
        self.follow_log_start(&remote, io).await?;
        self.expire_or_wait(&remote, io, clock).await?;
        let mut has_uploaded = false;
        if !self.config().remote_log_copy_disable {
            self.roll_late(io, clock).await?;
            has_uploaded = self.upload_sealed(&remote, io, clock).await?;
        }
        let (partition, now_ms) = (Arc::clone(self), clock.now_ms());
        self.run(io, move || partition.let_tiered_go(now_ms))
            .await?;
        Ok(has_uploaded)
    }

    /// Tiering was switched off, and what is in the bucket shall go (8.1).
    fn must_purge(&self) -> bool {
        let config = self.config();
        !config.remote_storage_enable
            && config.remote_log_delete_on_disable
            && !self.remote.is_purged.load(Ordering::Relaxed)
    }

    /// Moves the log start to the disk, and deletes what is in the bucket.
    async fn purge(self: &Arc<Self>, io: &Pool, clock: &Clock) -> Result<(), TieringError> {
        let partition = Arc::clone(self);
        self.run(io, move || {
            partition
                .log
                .set_log_start_offset(partition.log.local_log_start_offset())
        })
        .await?;
        self.remote.delete_all(self.leader_epoch(), clock).await?;
        self.remote.forget();
        self.remote.is_purged.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Runs something that blocks on the disk.
    async fn run<T: Send + 'static>(
        &self,
        io: &Pool,
        work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
    ) -> Result<T, TieringError> {
        let done = io.run(work).await.map_err(|_| TieringError::Cancelled)?;
        done.map_err(|e| TieringError::Source(as_io(e)))
    }

    /// Seals the active segment when its records have waited long enough (`strandline.tier.max.delay.ms`).
    async fn roll_late(self: &Arc<Self>, io: &Pool, clock: &Clock) -> Result<(), TieringError> {
        let delay_ms = self.config().strandline_tier_max_delay_ms;
        if delay_ms <= 0 {
            return Ok(());
        }
        let (partition, clock) = (Arc::clone(self), clock.clone());
        self.run(io, move || {
            // The time of now: what came while this waited for a thread is not of a clock that was set back.
            let now_ms = clock.now_ms();
            partition.log.roll_if_older_than(now_ms, delay_ms)
        })
        .await?;
        Ok(())
    }

    /// S-1: ascending, below the high watermark and the last stable offset. One segment, so that none of the few
    /// that upload at a time keeps its turn for all that it has; false when there is none.
    async fn upload_sealed(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        io: &Pool,
        clock: &Clock,
    ) -> Result<bool, TieringError> {
        let end = remote.view().end_offset();
        let from = end.unwrap_or(0).max(self.log.log_start_offset());
        let offsets = self.log.offsets();
        let limit = offsets.high_watermark.min(offsets.last_stable);
        let partition = Arc::clone(self);
        let sealed = self
            .run(io, move || partition.log.first_sealed_segment(from, limit))
            .await?;
        let Some(segment) = sealed else {
            return Ok(false);
        };
        let (base_offset, bytes) = (segment.base_offset, segment.size_in_bytes);
        let source = Arc::new(segment);
        match remote.upload(source, limit, clock.now_ms()).await {
            Ok(_) => {
                let partition = &self.id;
                tracing::debug!(%partition, base_offset, bytes, "segment tiered");
            }
            // An earlier attempt had committed it after all; anything else would not go away.
            Err(overlap @ TieringError::Overlap { .. }) => {
                remote.refresh().await?;
                if remote.view().end_offset() <= end {
                    return Err(overlap);
                }
            }
            Err(e) => return Err(e),
        }
        Ok(true)
    }

    /// What the bucket no longer has is no longer part of the log: a start that moved there and was
    /// not checkpointed here (S-22).
    async fn follow_log_start(
        self: &Arc<Self>,
        remote: &RemotePartition,
        io: &Pool,
    ) -> Result<(), TieringError> {
        let start = remote.view().log_start_offset();
        if start <= self.log.log_start_offset() {
            return Ok(());
        }
        self.keep_log_start(start, io).await
    }

    /// Moves the log start, and keeps it at once: a kill must not bring back a start whose records
    /// are gone.
    async fn keep_log_start(
        self: &Arc<Self>,
        start: Offset,
        io: &Pool,
    ) -> Result<(), TieringError> {
        let partition = Arc::clone(self);
        self.run(io, move || {
            partition.log.set_log_start_offset(start)?;
            partition.log.persist_log_start()
        })
        .await
    }

    /// Lets local segments go, and rolls the active one when it is due (S-20, L-30, L-5); blocks on the disk. To be
    /// called each `log.retention.check.interval.ms`.
    pub(crate) fn apply_local_retention(&self, now_ms: i64) -> Result<(), LogError> {
        let outcome = self
            .log
            .apply_retention(now_ms, self.remote.highest_offset())?;
        self.note_deleted(outcome);
        Ok(())
    }

    /// The same without a roll, so that a log which keeps nothing here does not become an object each second.
    fn let_tiered_go(&self, now_ms: i64) -> Result<(), LogError> {
        let outcome = self
            .log
            .apply_retention_to_sealed(now_ms, self.remote.highest_offset())?;
        self.note_deleted(outcome);
        Ok(())
    }

    fn note_deleted(&self, outcome: RetentionOutcome) {
        if outcome.deleted_segments > 0 {
            let partition = &self.id;
            let (segments, bytes) = (outcome.deleted_segments, outcome.deleted_bytes);
            tracing::debug!(%partition, segments, bytes, "local segments deleted");
            self.waiters.advance(self.log.high_watermark());
        }
    }

    /// A bucket that cannot say what has expired holds up no upload that can do without.
    pub(crate) async fn expire_or_wait(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        io: &Pool,
        clock: &Clock,
    ) -> Result<(), TieringError> {
        let expired = self.expire(remote, io, clock).await;
        match expired {
            Err(error) if !self.must_expire_first(remote) => {
                self.remote.has_expiry_failed.store(true, Ordering::Relaxed);
                let wait_ms = self.remote.expiry_interval_ms.min(MAX_EXPIRY_WAIT_MS);
                let next_ms = clock.now_ms().saturating_add(wait_ms);
                self.remote.next_expiry_ms.store(next_ms, Ordering::Relaxed);
                let partition = &self.id;
                tracing::warn!(%partition, %error, wait_ms, "retention in the bucket failed, will try again");
                Ok(())
            }
            other => other,
        }
    }

    /// S-21, S-22: the bucket follows the log start, and the log start follows retention.
    async fn expire(
        self: &Arc<Self>,
        remote: &Arc<RemotePartition>,
        io: &Pool,
        clock: &Clock,
    ) -> Result<(), TieringError> {
        let now_ms = clock.now_ms();
        if !self.expiry_is_due(remote, now_ms) {
            return Ok(());
        }
        let config = self.config();
        let is_deleting = config.cleanup_policy.delete;
        let request = ExpireRequest {
            log_start_offset: self.log.log_start_offset(),
            retention_ms: if is_deleting { config.retention_ms } else { -1 },
            retention_bytes: if is_deleting {
                config.retention_bytes
            } else {
                -1
            },
            local_unuploaded_bytes: self.tier_lag(now_ms).bytes,
        };
        let expired = remote.expire(now_ms, request).await?;
        let goes_on = expired.is_cut && expired.segments > 0;
        let wait_ms = if goes_on {
            0
        } else {
            self.remote.expiry_interval_ms
        };
        let next_ms = now_ms.saturating_add(wait_ms);
        self.remote.next_expiry_ms.store(next_ms, Ordering::Relaxed);
        let has_failed = &self.remote.has_expiry_failed;
        has_failed.store(false, Ordering::Relaxed);
        if expired.segments > 0 {
            let partition = &self.id;
            let (segments, start) = (expired.segments, expired.log_start_offset);
            tracing::debug!(%partition, segments, log_start_offset = start, "tiered segments expired");
        }
        if expired.log_start_offset <= self.log.log_start_offset() {
            return Ok(());
        }
        self.keep_log_start(expired.log_start_offset, io).await
    }
}
