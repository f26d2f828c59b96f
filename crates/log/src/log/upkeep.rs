//! What time does to a log: rolling by age, DeleteRecords, local retention (L-5, L-30…L-33, S-20).

use std::path::PathBuf;

use strandline_types::Offset;

use super::{Log, LogState, Status};
use crate::error::LogError;
use crate::janitor::Chore;
use crate::leader_epochs::LeaderEpochs;
use crate::offsets::{get, set};
use crate::retention::{self, LogFacts, SegmentFacts};
use crate::segment::{Segment, SegmentFile};
use crate::sys;

/// By so much the clock of one thread may be ahead of another one's, which looked before.
const CLOCK_SLACK_MS: i64 = 1000;

/// True for what arrived more than `max_delay_ms` ago, and for what arrived later than now: that came before the clock
/// was set back, and nobody knows when.
pub fn waits_too_long(arrived_ms: i64, now_ms: i64, max_delay_ms: i64) -> bool {
    let age = now_ms.saturating_sub(arrived_ms);
    age > max_delay_ms || age < -CLOCK_SLACK_MS
}

/// What a pass of local retention did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionOutcome {
    /// Segments that left the log.
    pub deleted_segments: usize,
    /// Their size in bytes.
    pub deleted_bytes: u64,
    /// The active segment was sealed so that it can be uploaded (L-5).
    pub rolled: bool,
    /// Log start offset afterwards.
    pub log_start_offset: Offset,
    /// Local log start offset afterwards.
    pub local_log_start_offset: Offset,
}

impl Log {
    /// Seals the active segment unless it is empty; whether it did.
    pub fn roll(&self, now_ms: i64) -> Result<bool, LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        Ok(self.roll_if_not_empty(&mut state, now_ms))
    }

    pub(super) fn roll_if_not_empty(&self, state: &mut LogState, now_ms: i64) -> bool {
        let due = state.segments.active().size > 0;
        if due {
            self.roll_locked(state, self.log_end_offset(), now_ms);
        }
        due
    }

    /// Seals the active segment if its first batch has waited too long, so that it can be uploaded; whether
    /// it did. See [`waits_too_long`].
    pub fn roll_if_older_than(&self, now_ms: i64, max_delay_ms: i64) -> Result<bool, LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        let first_ms = state.segments.active().first_append_ms;
        Ok(waits_too_long(first_ms, now_ms, max_delay_ms)
            && self.roll_if_not_empty(&mut state, now_ms))
    }

    /// DeleteRecords: moves the log start offset up to `offset`, at most to the high watermark.
    /// The new log start offset; one that is already higher stays. Retention removes the files.
    /// Errors: `offset` is above the high watermark or negative.
    pub fn delete_records_to(&self, offset: Offset) -> Result<Offset, LogError> {
        let offsets = self.offsets.view();
        if offset > offsets.high_watermark || offset < 0 {
            return Err(LogError::OffsetOutOfRange {
                requested: offset,
                log_start_offset: offsets.log_start,
                local_log_start_offset: offsets.local_log_start,
                log_end_offset: offsets.log_end,
            });
        }
        self.set_log_start_offset(offset)
    }

    /// Raises the log start offset (the tier's retention did, or the leader said so), and the
    /// local one if it was below. It never goes down. The new value.
    pub fn set_log_start_offset(&self, offset: Offset) -> Result<Offset, LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        self.raise_log_start(&mut state, offset.min(self.log_end_offset()));
        Ok(self.log_start_offset())
    }

    /// Lowers the log start offset after a restart to where the remote tier begins, when the
    /// checkpoint was lost (L-26). Only for tiered logs; the local log start offset stays.
    pub fn restore_log_start_offset(&self, offset: Offset) -> Result<(), LogError> {
        let state = self.state.lock();
        self.check_open(&state)?;
        if state.config.remote && offset >= 0 && offset < self.log_start_offset() {
            set(&self.offsets.log_start, offset);
            self.dir.note_change();
        }
        self.is_log_start_known
            .store(true, std::sync::atomic::Ordering::Release);
        Ok(())
    }

    /// Takes what the remote tier knows of epochs that begin before all that are known here: after a power
    /// loss the checkpoint may have been made anew from local batches (S-13).
    pub fn restore_leader_epochs(&self, older: &LeaderEpochs) -> Result<(), LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        if state.epochs.complete_with(older) {
            self.push_epochs(&mut state);
        }
        Ok(())
    }

    fn raise_log_start(&self, state: &mut LogState, offset: Offset) {
        self.raise_local_log_start(offset);
        if offset > self.log_start_offset() {
            set(&self.offsets.log_start, offset);
            self.dir.note_change();
            if state.epochs.truncate_from_start(offset) {
                self.push_epochs(state);
            }
        }
    }

    fn raise_local_log_start(&self, offset: Offset) {
        if offset > get(&self.offsets.local_log_start) {
            set(&self.offsets.local_log_start, offset);
        }
    }

    /// One pass of local retention. `highest_offset_in_remote_storage` (inclusive) is what the
    /// tier has for certain; only with it tiered segments may go (S-20). Waits for the writer,
    /// and writes checkpoints, so call it from a thread that may block.
    pub fn apply_retention(
        &self,
        now_ms: i64,
        highest_offset_in_remote_storage: Option<Offset>,
    ) -> Result<RetentionOutcome, LogError> {
        self.retain(now_ms, highest_offset_in_remote_storage, true)
    }

    /// The same, but never rolls the active segment of a tiered log (L-5): for passes that come more often than
    /// segments should end.
    pub fn apply_retention_to_sealed(
        &self,
        now_ms: i64,
        highest_offset_in_remote_storage: Option<Offset>,
    ) -> Result<RetentionOutcome, LogError> {
        self.retain(now_ms, highest_offset_in_remote_storage, false)
    }

    fn retain(
        &self,
        now_ms: i64,
        highest_offset_in_remote_storage: Option<Offset>,
        may_roll: bool,
    ) -> Result<RetentionOutcome, LogError> {
        let mut outcome = RetentionOutcome::default();
        let _only_pass = self.retaining.lock();
        let (left_behind, folder) = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            let mut left_behind = std::mem::take(&mut state.left_behind);
            left_behind.sort_unstable_by_key(|s| s.base_offset);
            (left_behind, self.use_folder_locked(&mut state))
        };
        self.remove(left_behind, &mut outcome)?;
        drop(folder);
        // The files are renamed without the lock, and may have to wait for the device before.
        let (removed, _folder) = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            let mut plan = self.plan(&state, now_ms, highest_offset_in_remote_storage);
            if state.is_swapping {
                plan.delete = 0; // the next pass will find what is due now
            }
            outcome.rolled =
                may_roll && plan.roll_active && self.roll_if_not_empty(&mut state, now_ms);
            let removed = if plan.delete == state.segments.len() {
                // L-5: all of them, so an empty one at the end comes first.
                self.roll_if_not_empty(&mut state, now_ms);
                let base = state.segments.active().base_offset;
                self.wait_until(&mut state, |s| {
                    s.status != Status::Open || s.writing >= base
                })?;
                self.check_open(&state)?;
                // The lock was away: some may have gone or become one, and new ones are not due.
                let ends = state.segments.iter().skip(1).map(|s| s.base_offset);
                let due = ends.take_while(|end| *end <= base).count();
                // What is being swapped now is left to the next pass.
                let due = if state.is_swapping { 0 } else { due };
                self.take_out(&mut state, due)
            } else {
                self.take_out(&mut state, plan.delete)
            };
            (removed, self.use_folder_locked(&mut state))
        };
        outcome.log_start_offset = self.log_start_offset();
        outcome.local_log_start_offset = self.local_log_start_offset();
        self.remove(removed, &mut outcome)?;
        Ok(outcome)
    }

    /// Has the files of segments that were taken out removed. Errors: some are there still, and are left to
    /// the next pass.
    fn remove(
        &self,
        segments: Vec<Segment>,
        outcome: &mut RetentionOutcome,
    ) -> Result<(), LogError> {
        if segments.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.mark_deleted(&segments) {
            self.state.lock().left_behind.extend(segments);
            return Err(error);
        }
        outcome.deleted_segments += segments.len();
        outcome.deleted_bytes += segments.iter().map(|s| s.size).sum::<u64>();
        Ok(())
    }

    fn plan(
        &self,
        state: &LogState,
        now_ms: i64,
        highest_offset_in_remote_storage: Option<Offset>,
    ) -> retention::RetentionPlan {
        let offsets = self.offsets.view();
        let active = state.segments.active().base_offset;
        let facts = state
            .segments
            .with_ends(offsets.log_end)
            .map(|(s, next_offset)| SegmentFacts {
                next_offset,
                size: s.size,
                largest_timestamp: s.largest_timestamp(),
                is_active: s.base_offset == active,
            });
        let facts: Vec<_> = facts.collect();
        let log = LogFacts {
            log_start: offsets.log_start,
            high_watermark: offsets.high_watermark.min(offsets.written_end),
            highest_offset_in_remote_storage,
        };
        let mut plan = retention::plan(facts.into_iter(), &log, &state.config, now_ms);
        // The writer may still be at a sealed segment.
        let at_writer = state
            .segments
            .iter()
            .take_while(|s| s.base_offset < state.writing)
            .count();
        if plan.delete > at_writer && at_writer + 1 < state.segments.len() {
            plan.delete = at_writer;
        }
        plan
    }

    /// Moves the start offsets first (L-32), then takes the segments out.
    fn take_out(&self, state: &mut LogState, count: usize) -> Vec<Segment> {
        if count == 0 {
            return Vec::new();
        }
        let first_kept = state.segments.iter().nth(count).map(|s| s.base_offset);
        let Some(first_kept) = first_kept else {
            return Vec::new();
        };
        if state.config.tiers_before_deletion() {
            self.raise_local_log_start(first_kept);
        } else {
            self.raise_log_start(state, first_kept);
        }
        let removed = state.segments.remove_first(count);
        state.removals += removed.len();
        self.dir.note_change();
        removed
    }

    /// Renames the files of `segments` and has them removed later (L-32).
    fn mark_deleted(&self, segments: &[Segment]) -> Result<(), LogError> {
        let (is_remote, delay_ms, first_kept) = {
            let state = self.state.lock();
            let (config, first_kept) = (&state.config, state.segments.first_base());
            (config.remote, config.file_delete_delay_ms, first_kept)
        };
        if is_remote {
            // L-26: after a crash the first local segment would pass for the log's start.
            self.dir.write_log_start_checkpoint()?;
        }
        // P-60: from here on it is all that is known of producers whose batches go.
        self.flush_if_there(&SegmentFile::ProducerSnapshot.path(&self.folder, first_kept))?;
        let mut paths = Vec::new();
        for segment in segments {
            for kind in SegmentFile::ALL {
                let path = kind.path(&self.folder, segment.base_offset);
                let target = deleted_path(path.clone());
                match sys::rename(&path, &target) {
                    Ok(()) => paths.push(target),
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                        // By a pass that failed behind it, perhaps.
                        paths.extend(target.try_exists().unwrap_or(false).then_some(target));
                    }
                    Err(e) => return Err(LogError::io("rename", path, e)),
                }
            }
        }
        self.flush_folder()?;
        {
            // After a failure the checkpoint says for ever where the log starts.
            let mut state = self.state.lock();
            state.removals -= segments.len();
            self.dir.note_change();
        }
        let bases: Vec<Offset> = segments.iter().map(|s| s.base_offset).collect();
        self.dir
            .files
            .forget(self.number, |base| bases.binary_search(&base).is_ok());
        self.dir.janitor.add(Chore::RemoveFiles(paths), delay_ms);
        Ok(())
    }
}

fn deleted_path(path: PathBuf) -> PathBuf {
    let mut name = path.into_os_string();
    name.push(".deleted");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use parking_lot::Mutex;
    use strandline_records::{BatchBuilder, Compression};
    use strandline_types::{BrokerId, TimestampType, TopicId, TopicName, TopicPartition};

    use super::*;
    use crate::cleaner::{CleanerOptions, LogCleaner};
    use crate::config::LogConfig;
    use crate::loader;
    use crate::log_dir::{LogDir, LogDirOptions};
    use crate::tail::TailBudget;
    use crate::testing::BatchSpec;

    fn until(done: impl Fn() -> bool) {
        while !done() {
            std::thread::yield_now();
        }
    }

    // L-5, L-30, L-32
    #[test]
    fn retention_does_not_wait_for_a_segment_that_a_deleted_log_never_begins() {
        let folder = tempfile::tempdir().unwrap();
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        let dir = LogDir::open(folder.path(), options).unwrap();
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let config = LogConfig {
            retention_bytes: 0,
            ..LogConfig::default()
        };
        let log = dir
            .create_log(partition, TopicId::random(), config)
            .unwrap();
        // The writer is kept busy until this ends.
        let (busy, writer) = mpsc::channel::<()>();
        let writer = Mutex::new(writer);
        log.set_on_written(Box::new(move |written| {
            if written.is_ok() {
                let _ = writer.lock().recv();
            }
        }));
        log.append_as_leader(BatchSpec::default().build(), 0, 0)
            .unwrap();
        until(|| log.written_end_offset() == 1);
        log.set_high_watermark(1);
        let begin = |work: fn(&Log) -> bool| {
            let (done, outcome) = mpsc::channel();
            let log = Arc::clone(&log);
            std::thread::spawn(move || done.send(work(&log)));
            outcome
        };
        let retention = begin(|log| {
            let outcome = log.apply_retention(0, None);
            matches!(outcome, Err(LogError::Deleted(_)))
        });
        until(|| log.lock_state().waiters > 0);
        let deletion = begin(|log| log.delete().is_ok());
        until(|| log.lock_state().pending.is_empty());
        drop(busy);
        let long = Duration::from_secs(20);
        assert_eq!(retention.recv_timeout(long), Ok(true));
        assert_eq!(deletion.recv_timeout(long), Ok(true));
    }

    // L-32, L-46
    #[test]
    fn retention_takes_nothing_that_came_while_it_waited_for_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        let dir = LogDir::open(folder.path(), options).unwrap();
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let config = LogConfig {
            compact: true,
            min_cleanable_dirty_ratio: 0.0,
            retention_bytes: 0,
            ..LogConfig::default()
        };
        let log = dir
            .create_log(partition, TopicId::random(), config)
            .unwrap();
        let append = || {
            let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
            batch.append(1000, Some(b"k"), Some(b"v"), &[]).unwrap();
            log.append_as_leader(batch.build().unwrap(), 0, 0)
        };
        for next in 1..3 {
            append().unwrap();
            log.roll(0).unwrap();
            until(|| log.lock_state().writing == next);
        }
        // The writer is kept busy behind the third batch until this ends.
        let (busy, writer) = mpsc::channel::<()>();
        let writer = Mutex::new(writer);
        log.set_on_written(Box::new(move |_| {
            let _ = writer.lock().recv();
        }));
        append().unwrap();
        until(|| log.written_end_offset() == 3);
        log.set_high_watermark(3);
        std::thread::scope(|scope| {
            let retention = scope.spawn(|| log.apply_retention(0, None));
            until(|| log.lock_state().waiters > 0);
            let cleaner = LogCleaner::new(CleanerOptions::default());
            let cleaned = cleaner.clean_dirtiest(&[Arc::clone(&log)], 0);
            assert!(cleaned.report().is_some());
            append().unwrap();
            log.roll(0).unwrap();
            drop(busy);
            let outcome = retention.join().unwrap().unwrap();
            assert_eq!((outcome.deleted_segments, outcome.log_start_offset), (2, 3));
        });
    }

    // L-26, L-32, 6.6: after a power cut the files may be back
    #[test]
    fn the_checkpoint_says_where_a_log_starts_until_the_files_before_are_gone_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        let dir = LogDir::open(folder.path(), options).unwrap();
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let log = dir.create_log(partition, TopicId::random(), LogConfig::default());
        let log = log.unwrap();
        log.append_as_leader(BatchSpec::default().build(), 0, 0)
            .unwrap();
        log.roll(0).unwrap();
        until(|| log.lock_state().writing == 1);
        log.set_high_watermark(1);
        log.delete_records_to(1).unwrap();
        let line = || log.checkpoint_offsets().2;
        assert_eq!(line(), Some(1));
        let removed = log.take_out(&mut log.lock_state(), 1);
        assert_eq!(line(), Some(1));
        log.mark_deleted(&removed).unwrap();
        assert_eq!(line(), None);
    }

    // L-32
    #[test]
    fn what_retention_could_not_remove_goes_with_the_next_pass() {
        let folder = tempfile::tempdir().unwrap();
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        let dir = LogDir::open(folder.path(), options).unwrap();
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let config = LogConfig {
            file_delete_delay_ms: 0,
            ..LogConfig::default()
        };
        let log = dir.create_log(partition, TopicId::random(), config);
        let log = log.unwrap();
        for next in 1..4 {
            log.append_as_leader(BatchSpec::default().build(), 0, 0)
                .unwrap();
            log.roll(0).unwrap();
            until(|| log.lock_state().writing == next);
        }
        log.set_high_watermark(3);
        let files = || {
            let names = loader::names(log.folder()).unwrap();
            let is_old = |name: &&String| name.starts_with(&format!("{:020}.", 0));
            names.iter().filter(is_old).count()
        };
        log.delete_records_to(1).unwrap();
        // In the way of the time index, so that others are renamed and that one is not.
        let path = SegmentFile::TimeIndex.path(log.folder(), 0);
        std::fs::create_dir(deleted_path(path.clone())).unwrap();
        assert!(log.apply_retention(0, None).is_err());
        assert_eq!(log.local_log_start_offset(), 1);
        log.delete_records_to(2).unwrap();
        assert!(log.apply_retention_to_sealed(0, None).is_err());
        assert!(files() > 0 && log.lock_state().removals > 0);
        std::fs::remove_dir(deleted_path(path)).unwrap();
        let outcome = log.apply_retention_to_sealed(0, None).unwrap();
        assert_eq!(outcome.deleted_segments, 2);
        assert_eq!(log.lock_state().removals, 0);
        until(|| files() == 0);
    }

    // X-58, L-32: a topic of the same name owns the same paths
    #[test]
    fn retention_touches_nothing_of_a_log_that_takes_the_place_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let options = || LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        let dir = LogDir::open(folder.path(), options()).unwrap();
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let config = LogConfig {
            remote: true,
            local_retention_bytes: 0,
            file_delete_delay_ms: 0,
            ..LogConfig::default()
        };
        let create = || {
            let log = dir.create_log(partition.clone(), TopicId::random(), config.clone());
            let log = log.unwrap();
            log.append_as_leader(BatchSpec::default().build(), 0, 0)
                .unwrap();
            until(|| log.written_end_offset() == 1);
            log.set_high_watermark(1);
            log
        };
        let log = create();
        log.roll(0).unwrap();
        until(|| log.lock_state().writing == 1);
        std::thread::scope(|scope| {
            let held = log.dir.hold_checkpoints();
            let retention = scope.spawn(|| log.apply_retention(0, Some(0)));
            until(|| log.segment_count() == 1);
            let anew = scope.spawn(|| {
                log.delete().unwrap();
                create();
            });
            until(|| anew.is_finished() || log.lock_state().waiters > 0);
            drop(held);
            assert_eq!(retention.join().unwrap().unwrap().deleted_segments, 1);
            anew.join().unwrap();
        });
        drop((log, dir));
        let dir = LogDir::open(folder.path(), options()).unwrap();
        let loaded = dir.load_logs(&|_, _| Some(config.clone())).unwrap();
        let log = loaded.logs.first().unwrap();
        let offsets = log.offsets();
        assert_eq!((offsets.local_log_start, offsets.log_end), (0, 1));
    }
}
