//! Writes by the thread that appends, instead of the directory's writer, as long as they are quick.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::dir::DirShared;
use crate::log::Log;
use crate::writer;

// A disk that hangs may hold up one such thread, and no more: the others find it taken.

/// Largest batch. For a larger one it pays that the next request is read while it is written.
const MOST_BYTES: usize = 32 * 1024;
/// More than this waiting for the writer: it is busy, or the disk is.
const MOST_BACKLOG_BYTES: usize = 1024 * 1024;
/// A write that took longer was held up by the disk; for less the thread may just have had to wait
/// for a processor.
const QUICK: Duration = Duration::from_millis(10);
/// After one that was slow the writer does it for so many times as long: threads of requests are
/// held up for a hundredth of the time at most.
const PAUSE_FACTOR: u32 = 100;

/// Whether the appending thread may write.
#[derive(Debug)]
pub(crate) struct Here {
    since: Instant,
    is_taken: AtomicBool,
    /// Milliseconds after `since`; 0: it never was closed; `u64::MAX`: it always is.
    closed_until_ms: AtomicU64,
}

impl Here {
    pub(crate) fn new() -> Self {
        // With one processor there is one such thread, which everybody would wait for.
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let is_possible = processors > 1 || cfg!(test);
        Self {
            since: Instant::now(),
            is_taken: AtomicBool::new(false),
            closed_until_ms: AtomicU64::new(if is_possible { 0 } else { u64::MAX }),
        }
    }

    pub(crate) fn is_open(&self, dir: &DirShared, bytes: usize) -> bool {
        let until_ms = self.closed_until_ms.load(Ordering::Relaxed);
        bytes <= MOST_BYTES
            && !self.is_taken.load(Ordering::Relaxed)
            && dir.backlog_bytes.load(Ordering::Relaxed) <= MOST_BACKLOG_BYTES
            && (until_ms == 0 || ms(self.since.elapsed()) >= until_ms)
    }

    fn took(&self, took: Duration) {
        if took > QUICK {
            let until = self.since.elapsed() + took * PAUSE_FACTOR;
            self.closed_until_ms.fetch_max(ms(until), Ordering::Relaxed);
        }
    }
}

/// The duty to write what a log has pending, or nothing. The duty comes with a small batch when the directory's writer is
/// idle and writes have been quick: to wake that thread, and to be woken by it, takes longer than the
/// write. Dropped, it goes to the writer.
#[derive(Debug)]
#[must_use = "the sooner it is written the sooner it is acknowledged"]
pub struct WriteTurn(Option<Arc<Log>>);

impl WriteTurn {
    /// Somebody else's turn.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The log counts as scheduled already.
    pub(crate) fn of(log: Arc<Log>) -> Self {
        Self(Some(log))
    }

    /// Writes, unless another thread does it for a log of the directory: then it is left to the writer.
    /// Whoever waits is told by this call, so no lock may be held that they take.
    pub fn write(mut self) {
        if let Some(log) = self.0.take() {
            let dir = log.dir();
            if dir.here.is_taken.swap(true, Ordering::Acquire) {
                dir.queue.push(Arc::clone(&log));
                return;
            }
            let began = Instant::now();
            writer::serve_or_fail(dir, &log, &mut Vec::new());
            dir.here.took(began.elapsed());
            dir.here.is_taken.store(false, Ordering::Release);
        }
    }
}

impl Drop for WriteTurn {
    fn drop(&mut self) {
        if let Some(log) = self.0.take() {
            let dir = Arc::clone(log.dir());
            dir.queue.push(log);
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use strandline_types::{BrokerId, TopicId, TopicName, TopicPartition};

    use super::*;
    use crate::testing::BatchSpec;
    use crate::{AppendChecks, LogConfig, LogDir, LogDirOptions, TailBudget};

    fn log(folder: &std::path::Path, config: LogConfig) -> (Arc<LogDir>, Arc<Log>) {
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        let dir = LogDir::open(folder, options).unwrap();
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let log = dir.create_log(partition, TopicId::random(), config);
        (dir, log.unwrap())
    }

    fn append(log: &Arc<Log>, spec: BatchSpec) -> WriteTurn {
        let checks = AppendChecks::default();
        log.append_for_turn(spec.build(), 0, checks, 0).unwrap().1
    }

    /// What the writer's thread will have written, whichever thread that is.
    fn writers(log: &Log) -> mpsc::Receiver<std::thread::ThreadId> {
        let (sender, receiver) = mpsc::channel();
        log.set_on_written(Box::new(move |_| {
            let _ = sender.send(std::thread::current().id());
        }));
        receiver
    }

    #[test]
    fn the_thread_that_appends_a_small_batch_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let (_dir, log) = log(folder.path(), LogConfig::default());
        let by = writers(&log);
        let me = std::thread::current().id();
        // The first one brings the leader epoch with it, which is a file of its own.
        assert!(append(&log, BatchSpec::default()).0.is_none());
        by.recv().unwrap();
        // It is told before its turn is over.
        let turn = loop {
            let turn = append(&log, BatchSpec::default());
            if turn.0.is_some() {
                break turn;
            }
            by.recv().unwrap();
        };
        assert!(log.written_end_offset() < log.log_end_offset());
        // Whoever comes meanwhile is served with it.
        let second = append(&log, BatchSpec::default());
        assert!(second.0.is_none());
        turn.write();
        assert_eq!(log.written_end_offset(), log.log_end_offset());
        assert_eq!(by.recv().unwrap(), me);
        // A turn that nobody takes is the writer's.
        drop(append(&log, BatchSpec::default()));
        assert_ne!(by.recv().unwrap(), me);
    }

    #[test]
    fn what_takes_time_is_left_to_the_writer() {
        let small = LogConfig {
            segment_bytes: 100,
            ..LogConfig::default()
        };
        let flushed = LogConfig {
            flush_messages: 1,
            ..LogConfig::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let (_dir, log) = log(folder.path(), LogConfig::default());
        let by = writers(&log);
        let large = BatchSpec {
            size: MOST_BYTES,
            ..BatchSpec::default()
        };
        assert!(append(&log, large).0.is_none());
        by.recv().unwrap();
        log.update_config(flushed);
        assert!(append(&log, BatchSpec::default()).0.is_none());
        by.recv().unwrap();
        // A roll comes first.
        log.update_config(small);
        assert!(append(&log, BatchSpec::default()).0.is_none());
        by.recv().unwrap();
        assert_eq!(log.written_end_offset(), 3);
    }

    #[test]
    fn one_thread_at_a_time_and_none_for_a_hundred_times_as_long_as_a_slow_write_took() {
        let folder = tempfile::tempdir().unwrap();
        let (_dir, log) = log(folder.path(), LogConfig::default());
        let dir = log.dir();
        let here = &dir.here;
        here.took(QUICK);
        assert!(here.is_open(dir, 1));
        here.is_taken.store(true, Ordering::Relaxed);
        assert!(!here.is_open(dir, 1), "one at a time");
        // It was free when the turn was given.
        here.is_taken.store(false, Ordering::Relaxed);
        let by = writers(&log);
        append(&log, BatchSpec::default()).write();
        let turn = loop {
            by.recv().unwrap();
            let turn = append(&log, BatchSpec::default());
            if turn.0.is_some() {
                break turn;
            }
        };
        here.is_taken.store(true, Ordering::Relaxed);
        turn.write();
        assert_ne!(by.recv().unwrap(), std::thread::current().id());
        here.is_taken.store(false, Ordering::Relaxed);
        here.took(Duration::from_secs(1));
        assert!(!here.is_open(dir, 1));
        let until = here.closed_until_ms.load(Ordering::Relaxed);
        assert!((100_000..110_000).contains(&until), "{until}");
        here.closed_until_ms.store(1, Ordering::Relaxed);
        while here.since.elapsed() < Duration::from_millis(2) {}
        assert!(here.is_open(dir, 1));
        dir.backlog_bytes
            .store(MOST_BACKLOG_BYTES + 1, Ordering::Relaxed);
        assert!(!here.is_open(dir, 1), "the writer is busy");
        dir.backlog_bytes.store(0, Ordering::Relaxed);
    }
}
