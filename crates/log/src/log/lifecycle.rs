//! Flushing, closing cleanly, deleting, and what happens when the directory fails (L-27, S-24).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use strandline_types::{Offset, TopicId, TopicPartition};

use super::{Log, Status, WriteItem};
use crate::error::LogError;
use crate::janitor::{self, Chore};
use crate::offsets::{get, set};
use crate::segment::{SegmentFile, SegmentId};
use crate::{leader_epochs, partition_metadata, producer_snapshot, sys, writer};

const MAX_FILE_NAME: usize = 255;

impl Log {
    /// Flushes everything that is written to the device and moves the recovery point (L-27).
    /// Blocks on the device.
    pub fn flush(&self) -> Result<(), LogError> {
        self.flush_to(self.written_end_offset())
    }

    /// Flushes everything that was appended before the call; waits for the writer. Blocks.
    pub(crate) fn flush_appended(&self) -> Result<(), LogError> {
        let end = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            let end = self.log_end_offset();
            self.wait_until(&mut state, |s| {
                s.status != Status::Open || self.written_end_offset() >= end
            })?;
            self.check_open(&state)?;
            end
        };
        self.flush_to(end)
    }

    /// Flushes what is written below `offset`.
    pub(crate) fn flush_to(&self, offset: Offset) -> Result<(), LogError> {
        let from = self.recovery_point();
        let end = offset.min(self.written_end_offset());
        if end <= from {
            return Ok(());
        }
        let segments: Vec<(SegmentId, Option<Offset>)> = {
            let state = self.state.lock();
            self.check_open(&state)?;
            let ends = state.segments.with_ends(self.log_end_offset());
            let touched = ends.filter(|(s, next)| *next > from && s.base_offset < end);
            touched
                .map(|(s, next)| {
                    let is_sealed = next <= end && s.base_offset < state.writing;
                    (s.id(), is_sealed.then_some(next))
                })
                .collect()
        };
        for (segment, sealed_at) in segments {
            match self.flush_segment(segment, sealed_at) {
                Err(e) if e.is_not_found() => {} // retention was faster
                other => other?,
            }
        }
        let state = self.state.lock();
        if end > self.recovery_point() {
            set(&self.offsets.recovery_point, end);
            self.dir.note_change();
        }
        drop(state);
        Ok(())
    }

    /// Plans the flush that `flush.ms` asks for, unless one is planned that comes as soon.
    pub(crate) fn plan_flush(&self, flush_ms: i64) {
        if flush_ms == i64::MAX {
            return;
        }
        let Some(at) = janitor::due(flush_ms) else {
            return;
        };
        let mut state = self.state.lock();
        if state.flush_due.is_none_or(|planned| at < planned) {
            state.flush_due = Some(at);
            drop(state);
            let chore = Chore::FlushDue(self.me.clone());
            self.dir.janitor.add_at(chore, at);
        }
    }

    /// The flush that was planned. One that was planned for later, when `flush.ms` was larger, stays.
    pub(crate) fn flush_planned(&self) -> Result<(), LogError> {
        {
            let mut state = self.state.lock();
            let now = Instant::now();
            state.flush_due = state.flush_due.filter(|at| *at > now);
        }
        self.flush()
    }

    /// Flushes the segment at `base`, which ends at `next`, with its indexes, and all before it.
    pub(crate) fn flush_rolled(&self, base: Offset, next: Offset) -> Result<(), LogError> {
        if self.recovery_point() < next {
            return self.flush_to(next);
        }
        // Its records were flushed while it was active; its indexes were not.
        let segment = {
            let mut state = self.state.lock();
            state.segments.at_mut(base).map(|s| s.id())
        };
        match segment.map(|segment| self.flush_segment(segment, Some(next))) {
            Some(Err(e)) if e.is_not_found() => Ok(()),
            Some(result) => result,
            None => Ok(()), // retention, or cleaning, was faster
        }
    }

    /// Flushes a segment; one that is sealed at an offset with its indexes, and the producers there, from
    /// which a recovery of what follows begins (P-60).
    fn flush_segment(&self, segment: SegmentId, sealed_at: Option<Offset>) -> Result<(), LogError> {
        let base = segment.base_offset;
        let sync = |kind: SegmentFile, file: &File| {
            sys::sync_data(file)
                .map_err(|e| LogError::io("flush", kind.path(&self.folder, base), e))
        };
        sync(
            SegmentFile::Log,
            &*self.open_segment_file(segment, SegmentFile::Log)?,
        )?;
        if let Some(end) = sealed_at {
            for kind in [SegmentFile::OffsetIndex, SegmentFile::TimeIndex] {
                sync(kind, &*self.open_segment_file(segment, kind)?)?;
            }
            self.flush_if_there(&SegmentFile::ProducerSnapshot.path(&self.folder, end))?;
        }
        self.flush_transaction_index(base)?;
        self.flush_names()
    }

    /// Flushes a file that is only there when something was aborted. Of an active segment, too: unlike
    /// the other indexes it does not show at a start that something is missing in it (5.8).
    pub(crate) fn flush_transaction_index(&self, base: Offset) -> Result<(), LogError> {
        self.flush_if_there(&SegmentFile::TransactionIndex.path(&self.folder, base))
    }

    /// Makes durable what a flushed record is found by: the names of the files, the folder's own, whose
    /// folder it is, and in which leader epochs its records were written. A start asks the batches for
    /// those only from the recovery point on.
    pub(crate) fn flush_names(&self) -> Result<(), LogError> {
        let made = self.names_made.load(Ordering::Acquire);
        let durable = self.names_durable.load(Ordering::Acquire);
        if durable == 0 {
            let path = self.folder.join(partition_metadata::FILE_NAME);
            self.dir.files.spare(|| sys::sync_path(&path))?;
        }
        if self.epochs_made.load(Ordering::Acquire) > durable {
            self.flush_if_there(&self.folder.join(leader_epochs::FILE_NAME))?;
        }
        self.flush_folder()?;
        self.dir.files.spare(|| sys::sync_folder(&self.folder))?;
        self.names_durable.fetch_max(made, Ordering::Release);
        Ok(())
    }

    /// Makes the names in the folder durable.
    pub(super) fn flush_folder(&self) -> Result<(), LogError> {
        let any = SegmentFile::Log.path(&self.folder, 0);
        self.dir.files.spare(|| sys::sync_folder(&any))
    }

    pub(super) fn flush_if_there(&self, path: &Path) -> Result<(), LogError> {
        match self.dir.files.spare(|| sys::sync_path(path)) {
            Err(e) if e.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Notes that a file was made whose name a flush must cover.
    pub(crate) fn name_made(&self) {
        self.names_made.fetch_add(1, Ordering::Release);
    }

    /// Notes that the file of the leader epochs was replaced, which a flush must cover. For the writer
    /// alone, as [`Log::name_made`].
    pub(crate) fn epochs_written(&self) {
        let next = self.names_made.load(Ordering::Relaxed) + 1;
        self.epochs_made.store(next, Ordering::Release); // before: a flush in between must see it
        self.name_made();
    }

    /// True when there is nothing for [`Log::flush_names`] to do.
    pub(crate) fn are_names_durable(&self) -> bool {
        self.names_durable.load(Ordering::Acquire) == self.names_made.load(Ordering::Acquire)
    }

    /// Drops what the writer has not written, because it never will be, and what is in memory. The
    /// arrivals of the tail are left to [`crate::tail::TailBudget::sweep`].
    pub(crate) fn drop_pending(&self, why: &LogError) {
        let mut state = self.state.lock();
        let is_lost = self.log_end_offset() > self.written_end_offset();
        let pending = std::mem::take(&mut state.pending);
        let bytes: usize = pending
            .iter()
            .map(|item| {
                if let WriteItem::Batch(b) = item {
                    b.size_in_bytes()
                } else {
                    0
                }
            })
            .sum();
        self.dir.backlog_bytes.fetch_sub(bytes, Ordering::Relaxed);
        state.is_scheduled = false;
        if matches!(why, LogError::Closed) && state.status == Status::Open {
            state.status = Status::Closed;
        }
        self.wake_waiters(&state);
        drop(state);
        // Nothing is appended or read any more, and what is not written would stay in memory for ever.
        self.tail.empty(&self.dir.tail);
        if is_lost {
            self.notify_written(Err(why.clone()));
        }
    }

    /// Ends cleanly, the device aside: everything written, indexes complete, producers saved.
    /// Whether anything had changed, so that [`Log::closed_on_device`] must follow.
    pub(crate) fn close_files(&self) -> Result<bool, LogError> {
        let (base, end, snapshot) = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            state.status = Status::Closed;
            self.wait_until(&mut state, |s| s.pending.is_empty() && !s.is_scheduled)?;
            if !state.is_changed {
                return Ok(false);
            }
            let active = state.segments.active_mut();
            active.index_time();
            let base = active.base_offset;
            (
                base,
                self.log_end_offset(),
                producer_snapshot::encode(&state.producers),
            )
        };
        writer::seal_files(self, base)?;
        let path = SegmentFile::ProducerSnapshot.path(&self.folder, end);
        // Where the active segment is empty it may replace all that is known of producers whose batches
        // are gone (P-60); elsewhere batches are there, and one flush for all of it follows.
        let files = &self.dir.files;
        let old = if base == end {
            files.spare(|| match fs::read(&path) {
                Ok(old) => Ok(Some(old)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(LogError::io("read", &path, e)),
            })?
        } else {
            None
        };
        if old.as_deref() != Some(&*snapshot) {
            files.spare(|| sys::replace_file(&path, &snapshot, old.is_some()))?;
        }
        Ok(true)
    }

    /// Flushes the files of a closed log.
    pub(crate) fn flush_closed(&self) -> Result<(), LogError> {
        let (from, end) = (self.recovery_point(), self.log_end_offset());
        let segments: Vec<(SegmentId, Offset)> = {
            let state = self.state.lock();
            let ends = state.segments.with_ends(end);
            ends.filter(|(_, next)| *next > from)
                .map(|(s, next)| (s.id(), next))
                .collect()
        };
        for (segment, end) in segments {
            self.flush_segment(segment, Some(end))?;
        }
        self.flush_names()?;
        let path = SegmentFile::ProducerSnapshot.path(&self.folder, end);
        self.dir.files.spare(|| sys::sync_path(&path))
    }

    /// Notes that a closed log is on the device as a whole.
    pub(crate) fn closed_on_device(&self) {
        let _state = self.state.lock();
        set(&self.offsets.recovery_point, self.log_end_offset());
        self.dir.note_change();
    }

    /// Deletes the log: its folder is renamed at once and removed after `file.delete.delay.ms`.
    /// Waits for the writer to let go of it, and for retention and the cleaner to let go of the folder.
    pub fn delete(&self) -> Result<(), LogError> {
        let (config, target) = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            state.status = Status::Deleted;
            self.wake_waiters(&state); // what they wait for may be in the list that is dropped here
            let pending = std::mem::take(&mut state.pending);
            let bytes: usize = pending
                .iter()
                .map(|item| {
                    if let WriteItem::Batch(b) = item {
                        b.size_in_bytes()
                    } else {
                        0
                    }
                })
                .sum();
            self.dir.backlog_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.wait_until(&mut state, |s| !s.is_scheduled && s.folder_users == 0)?;
            (
                state.config.file_delete_delay_ms,
                self.marked_folder("delete"),
            )
        };
        self.tail.clear(&self.dir.tail);
        self.notify_written(Err(LogError::Deleted(self.partition.clone())));
        {
            let mut logs = self.dir.logs.write();
            logs.remove(&self.partition);
            self.dir.note_change();
        }
        sys::rename(&self.folder, &target)
            .map_err(|e| LogError::io("rename", self.folder.to_path_buf(), e))?;
        self.dir.files.forget(self.number, |_| true);
        self.dir.janitor.add(Chore::RemoveFolder(target), config);
        Ok(())
    }

    fn marked_folder(&self, mark: &str) -> PathBuf {
        self.dir.path.join(marked_name(&self.partition, mark))
    }

    /// True once nothing can be appended or read any more.
    pub fn is_deleted(&self) -> bool {
        self.state.lock().status == Status::Deleted
    }

    pub(crate) fn checkpoint_offsets(&self) -> (Offset, Offset, Option<Offset>) {
        let state = self.state.lock();
        let offsets = self.offsets.view();
        // Elsewhere it is where the first segment on the device begins.
        let is_needed = state.config.remote
            || state.removals > 0
            || offsets.log_start > state.segments.first_base();
        let log_start = is_needed.then_some(offsets.log_start);
        (
            get(&self.offsets.recovery_point),
            offsets.high_watermark,
            log_start,
        )
    }
}

/// Kafka's name of a folder on its way out: `<topic>-<n>.<uuid>-<mark>`, at most 255 bytes.
pub(crate) fn marked_name(partition: &TopicPartition, mark: &str) -> String {
    let suffix = format!(
        "-{}.{}-{mark}",
        partition.partition,
        TopicId::random().0.simple()
    );
    let room = MAX_FILE_NAME.saturating_sub(suffix.len());
    let topic = partition.topic.as_str();
    format!("{}{suffix}", topic.get(..room).unwrap_or(topic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strandline_types::TopicName;

    #[test]
    fn a_long_name_stays_a_legal_file_name() {
        let topic = TopicName::new(&"x".repeat(249)).unwrap();
        let name = marked_name(&TopicPartition::new(topic, 12345), "delete");
        assert_eq!(name.len(), 255);
        assert!(name.ends_with("-delete"));
    }
}
