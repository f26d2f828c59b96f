//! Compaction of the hot log: which log is cleaned next, by how many at a time, what failed
//! (`cleanup.policy=compact`, L-40…L-49).
//!
//! The decisions are in [`plan`], [`retention`] and [`transactions`]; [`round`] carries one out.
//! **Crash safety**: a round that is cut off leaves the log as it was, segment by segment; the next one
//! begins where the last completed one ended.

mod offset_map;
mod output;
pub(crate) mod plan;
mod retention;
mod round;
mod source;
mod throttle;
mod transactions;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strandline_types::TopicPartition;

use crate::error::LogError;
use crate::log::Log;
use plan::CleanPlan;
use round::{Round, RoundError};
use throttle::Throttle;

/// Wait before a log whose cleaning failed is tried again, in ms; doubled with each failure.
const FIRST_RETRY_MS: i64 = 15_000;
const MAX_RETRY_MS: i64 = 3_600_000;

/// How the cleaner works; Kafka's settings `log.cleaner.…`.
#[derive(Debug, Clone)]
pub struct CleanerOptions {
    /// Threads that call [`LogCleaner::clean_dirtiest`], which share the memory below.
    pub threads: usize,
    /// Memory for the maps of keys, in bytes (`dedupe.buffer.size`).
    pub dedupe_buffer_bytes: usize,
    /// How full a map may be, 0 to 1 (`io.buffer.load.factor`).
    pub load_factor: f64,
    /// Memory for reading and writing, in bytes (`io.buffer.size`).
    pub io_buffer_bytes: usize,
    /// Bytes that all threads together read and write in a second (`io.max.bytes.per.second`).
    pub max_bytes_per_second: f64,
    /// A batch that decompresses to more than this, in bytes, stays as it is, and so do older records of its
    /// keys, and all tombstones behind it.
    pub max_decompressed_bytes: usize,
}

impl Default for CleanerOptions {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            threads: 1,
            dedupe_buffer_bytes: 128 * 1024 * 1024,
            load_factor: 0.9,
            io_buffer_bytes: 512 * 1024,
            max_bytes_per_second: f64::MAX,
            max_decompressed_bytes: 256 * 1024 * 1024,
        }
    }
}

/// What one round did.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanReport {
    /// The log that was cleaned.
    pub partition: TopicPartition,
    /// Bytes read, the dirty part twice.
    pub read_bytes: u64,
    /// Bytes of the cleaned segments.
    pub written_bytes: u64,
    /// Bytes of the segments that they replace.
    pub replaced_bytes: u64,
    /// How full the map of keys was, 0 to 1.
    pub map_utilization: f64,
}

/// What became of a call of [`LogCleaner::clean_dirtiest`].
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Cleaning {
    /// A log was cleaned.
    Done(CleanReport),
    /// One was begun, and not completed; others may be due.
    CutShort,
    /// None is due.
    NothingDue,
}

impl Cleaning {
    /// Of a log that was cleaned.
    pub fn report(self) -> Option<CleanReport> {
        match self {
            Self::Done(report) => Some(report),
            Self::CutShort | Self::NothingDue => None,
        }
    }
}

/// How the logs stand, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CleanerStatus {
    /// Greatest share of a log that is dirty and could be cleaned, 0 to 1.
    pub max_dirty_ratio: f64,
    /// Longest time that a record has been longer uncleaned than `max.compaction.lag.ms`, in ms.
    pub max_compaction_delay_ms: i64,
    /// Logs whose last cleaning failed.
    pub uncleanable_partitions: usize,
    /// Their bytes that could be cleaned.
    pub uncleanable_bytes: u64,
}

/// Cleans compacted logs, one per calling thread.
#[derive(Debug)]
pub struct LogCleaner {
    options: CleanerOptions,
    throttle: Throttle,
    inner: Mutex<Inner>,
}

/// By the numbers of logs, which are unique in the process's life.
#[derive(Debug, Default)]
struct Inner {
    in_progress: HashSet<u64>,
    failures: HashMap<u64, Failure>,
}

#[derive(Debug, Clone, Copy)]
struct Failure {
    at_ms: i64,
    wait_ms: i64,
}

impl Failure {
    /// Not for a clock that was set back since, which might make it wait for as long again.
    fn is_waiting(&self, now_ms: i64) -> bool {
        (self.at_ms..self.at_ms.saturating_add(self.wait_ms)).contains(&now_ms)
    }
}

/// A log that is to be cleaned, and how far.
struct Candidate<'l> {
    log: &'l Arc<Log>,
    plan: CleanPlan,
}

impl LogCleaner {
    /// A cleaner that nobody has called yet.
    pub fn new(options: CleanerOptions) -> Self {
        Self {
            throttle: Throttle::new(options.max_bytes_per_second),
            options,
            inner: Mutex::default(),
        }
    }

    /// Cleans the dirtiest of `logs` that is due and that nobody else is cleaning. One whose cleaning
    /// failed is not due for a while: that is logged. Blocks for long.
    pub fn clean_dirtiest(&self, logs: &[Arc<Log>], now_ms: i64) -> Cleaning {
        let Some(Candidate { log, plan }) = self.take_dirtiest(logs, now_ms) else {
            return Cleaning::NothingDue;
        };
        let in_progress = InProgress {
            cleaner: self,
            number: log.number(),
        };
        let done = Round::new(log, plan, now_ms, &self.options, &self.throttle).run();
        drop(in_progress);
        let mut inner = self.inner.lock();
        let partition = log.partition();
        match done {
            Ok(report) => {
                inner.failures.remove(&log.number());
                tracing::info!(
                    %partition, plan.first_dirty, plan.end, report.replaced_bytes,
                    report.written_bytes, "a log was cleaned"
                );
                Cleaning::Done(report)
            }
            Err(RoundError::Stopped | RoundError::Changed) => Cleaning::CutShort,
            // Whatever it met, it is the end of the log that it met.
            Err(RoundError::Failed(_)) if log.is_deleted() => Cleaning::CutShort,
            Err(RoundError::Failed(error)) => {
                let wait_ms = inner.failed(log.number(), now_ms);
                tracing::error!(%partition, %error, wait_ms, "a log cannot be cleaned");
                Cleaning::CutShort
            }
        }
    }

    fn take_dirtiest<'l>(&self, logs: &'l [Arc<Log>], now_ms: i64) -> Option<Candidate<'l>> {
        let mut inner = self.inner.lock();
        let present: HashSet<u64> = logs.iter().map(|log| log.number()).collect();
        inner.failures.retain(|number, _| present.contains(number));
        let (mut candidates, mut plans) = (Vec::new(), Vec::new());
        for log in logs {
            let number = log.number();
            let waits = inner
                .failures
                .get(&number)
                .is_some_and(|f| f.is_waiting(now_ms));
            if waits || inner.in_progress.contains(&number) {
                continue;
            }
            // Errors: it is closed, and has no facts either.
            let _ = log.roll_for_compaction(now_ms);
            let Some(facts) = log.clean_facts() else {
                continue;
            };
            let config = log.config();
            let plan = plan::plan(&facts, &config, now_ms);
            candidates.push(Candidate { log, plan });
            plans.push((plan, config.min_cleanable_dirty_ratio));
        }
        let candidate = candidates.swap_remove(plan::dirtiest(&plans)?);
        inner.in_progress.insert(candidate.log.number());
        Some(candidate)
    }

    /// How these logs stand.
    pub fn status(&self, logs: &[Arc<Log>], now_ms: i64) -> CleanerStatus {
        let failed: HashSet<u64> = self.inner.lock().failures.keys().copied().collect();
        let mut status = CleanerStatus::default();
        for log in logs {
            let Some(facts) = log.clean_facts() else {
                continue;
            };
            let plan = plan::plan(&facts, &log.config(), now_ms);
            status.max_dirty_ratio = status.max_dirty_ratio.max(plan.dirty_ratio());
            status.max_compaction_delay_ms = status.max_compaction_delay_ms.max(plan.overdue_ms);
            if failed.contains(&log.number()) {
                status.uncleanable_partitions += 1;
                status.uncleanable_bytes += plan.dirty_bytes;
            }
        }
        status
    }

    /// Waits for `time`, or until [`LogCleaner::stop`].
    pub fn wait(&self, time: Duration) {
        self.throttle.wait(time);
    }

    /// Ends what is being done, as soon as it can be left.
    pub fn stop(&self) {
        self.throttle.stop();
    }

    /// True after [`LogCleaner::stop`].
    pub fn is_stopped(&self) -> bool {
        self.throttle.is_stopped()
    }
}

/// A log that is being cleaned, until the round has ended in whatever way.
struct InProgress<'c> {
    cleaner: &'c LogCleaner,
    number: u64,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.cleaner.inner.lock().in_progress.remove(&self.number);
    }
}

impl Inner {
    /// Notes a failure; the wait before the next try, in ms.
    fn failed(&mut self, number: u64, now_ms: i64) -> i64 {
        let before = self.failures.get(&number).map_or(0, |f| f.wait_ms);
        let wait_ms = (before * 2).clamp(FIRST_RETRY_MS, MAX_RETRY_MS);
        let at_ms = now_ms;
        self.failures.insert(number, Failure { at_ms, wait_ms });
        wait_ms
    }
}

impl From<LogError> for RoundError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Closed | LogError::Deleted(_) | LogError::Storage(_) => Self::Stopped,
            other => Self::Failed(other),
        }
    }
}
