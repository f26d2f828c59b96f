//! One partition on this broker: its log, its leadership, its waiters, its remote half.
//!
//! The log knows bytes and offsets; this type knows who may append, what is committed and who waits
//! for it. Rules: P-9, P-10, P-80 … P-84, F-6, F-20, F-22.

mod aborted;
pub(crate) mod read;
pub(crate) mod tiering;
mod transactions;
mod waiters;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use strandline_config::TopicConfig;
use strandline_log::{AppendError, Appended, Log, LogConfig, LogError};
use strandline_records::{Batch, ValidateOptions};
use strandline_types::{LeaderEpoch, Offset, TopicPartition};
use strandline_wire::ErrorCode;
use tokio::sync::Notify;

use crate::error_codes;
use crate::partition::tiering::RemoteHalf;
use crate::partition::waiters::Waiters;
use crate::settings;

pub(crate) use aborted::Aborted;

/// A partition that this broker leads.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: TopicPartition,
    pub(crate) log: Arc<Log>,
    pub(crate) remote: Arc<RemoteHalf>,
    leader_epoch: AtomicI32,
    config: ArcSwap<TopicConfig>,
    waiters: Waiters,
}

/// Why a wait for an append ended without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitError {
    /// The time that the request gives is over; the data stays (P-80).
    TimedOut,
    /// The log directory failed.
    Storage,
    /// The partition is gone from this broker (P-81).
    NotLeader,
}

impl Partition {
    /// Takes over a log as its leader.
    pub(crate) fn new(
        log: Arc<Log>,
        id: TopicPartition,
        leader_epoch: LeaderEpoch,
        config: Arc<TopicConfig>,
        remote: RemoteHalf,
    ) -> Arc<Self> {
        let partition = Arc::new(Self {
            id,
            log,
            remote: Arc::new(remote),
            leader_epoch: AtomicI32::new(-1),
            config: ArcSwap::new(config),
            waiters: Waiters::default(),
        });
        let weak = Arc::downgrade(&partition);
        partition.log.set_on_written(Box::new(move |written| {
            if let Some(partition) = weak.upgrade() {
                partition.on_written(written);
            }
        }));
        partition.become_leader(leader_epoch);
        partition
    }

    /// Starts, or goes on, as leader of this epoch.
    pub(crate) fn become_leader(&self, epoch: LeaderEpoch) {
        let old = self.leader_epoch.swap(epoch, Ordering::AcqRel);
        if old != epoch
            && let Err(e) = self.log.assign_epoch(epoch)
        {
            tracing::error!(partition = %self.id, error = %e, "leader epoch is not recorded");
        }
        self.on_written(Ok(self.log.written_end_offset()));
    }

    /// The epoch of this leadership.
    pub(crate) fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch.load(Ordering::Acquire)
    }

    /// The settings in force.
    pub(crate) fn config(&self) -> Arc<TopicConfig> {
        self.config.load_full()
    }

    /// Puts new settings in force.
    pub(crate) fn set_config(&self, config: Arc<TopicConfig>, log: LogConfig) {
        self.log.update_config(log);
        self.config.store(config);
    }

    /// What a produced batch is checked against.
    pub(crate) fn validate_options(&self, full_check: bool) -> ValidateOptions {
        settings::validate_options(&self.config.load(), full_check)
    }

    /// Compares the epoch that a client knows with ours; -1 is no epoch (F-22).
    pub(crate) fn check_epoch(&self, client_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        let ours = self.leader_epoch();
        match client_epoch {
            e if e < 0 || e == ours => Ok(()),
            e if e < ours => Err(ErrorCode::FencedLeaderEpoch),
            _ => Err(ErrorCode::UnknownLeaderEpoch),
        }
    }

    /// Appends a validated batch. It is readable, and acknowledged, once it is written.
    pub(crate) fn append(&self, batch: Batch, now_ms: i64) -> Result<Appended, AppendError> {
        self.log
            .append_as_leader(batch, self.leader_epoch(), now_ms)
    }

    /// Waits until everything below `end_offset` is committed, for at most `timeout`.
    pub(crate) async fn committed(
        &self,
        end_offset: Offset,
        timeout: Duration,
    ) -> Result<(), CommitError> {
        if self.log.high_watermark() >= end_offset {
            return Ok(());
        }
        let done = self.waiters.wait_for(end_offset);
        // It may have happened between the look and the entry into the list.
        self.waiters.advance(self.log.high_watermark());
        // So may the end of the log, of which nobody is told twice.
        if let Some(why) = self.ended() {
            self.waiters.fail(why);
        }
        match tokio::time::timeout(timeout, done).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(CommitError::NotLeader),
            Err(_) => Err(CommitError::TimedOut),
        }
    }

    /// Why nothing will be committed here any more.
    fn ended(&self) -> Option<CommitError> {
        if self.log.is_deleted() {
            return Some(CommitError::NotLeader);
        }
        self.log.is_offline().then_some(CommitError::Storage)
    }

    /// Calls when everything below `end_offset` is committed, or will never be: here and now, or by
    /// the thread that commits it. The call must not block.
    pub(crate) fn on_committed(
        &self,
        end_offset: Offset,
        call: impl FnOnce(Result<(), CommitError>) + Send + 'static,
    ) {
        self.waiters.call_at(end_offset, call);
        // It may have happened before the entry into the list.
        if self.log.high_watermark() >= end_offset {
            self.waiters.advance(self.log.high_watermark());
        } else if let Some(why) = self.ended() {
            self.waiters.fail(why);
        }
    }

    /// Wakes `notify` at each change of what can be read here (F-6).
    pub(crate) fn watch(&self, notify: &Arc<Notify>) {
        self.waiters.watch(notify);
    }

    /// The directory's writer has written up to here. As the only replica, that commits it.
    fn on_written(&self, written: Result<Offset, LogError>) {
        match written {
            Ok(end_offset) => {
                self.log.set_high_watermark(end_offset);
                self.waiters.advance(end_offset);
            }
            Err(_) => self.waiters.fail(CommitError::Storage),
        }
    }

    /// Leaves this broker: nobody waits here any longer.
    pub(crate) fn resign(&self) {
        self.waiters.fail(CommitError::NotLeader);
    }

    /// Moves the log start up to `offset` (6.6); returns the low watermark.
    pub(crate) fn delete_records(&self, offset: Offset) -> Result<Offset, ErrorCode> {
        let high_watermark = self.log.high_watermark();
        let target = if offset == -1 { high_watermark } else { offset };
        if target < 0 || target > high_watermark {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let is_new = target > self.log.log_start_offset();
        self.log
            .delete_records_to(target)
            // What is deleted stays deleted, also over a kill. Also where it was deleted before: that
            // request may have failed, or be at it still.
            .and_then(|_| self.log.persist_log_start())
            .map_err(|e| error_codes::for_log(&e))?;
        if is_new {
            self.waiters.advance(high_watermark);
        }
        Ok(self.log.log_start_offset())
    }
}
