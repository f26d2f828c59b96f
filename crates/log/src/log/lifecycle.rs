//! Flushing, closing cleanly, deleting, and what happens when the directory fails (L-27, S-24).

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use strandline_types::{Offset, TopicId, TopicPartition};

use super::{Log, Status, WriteItem};
use crate::error::LogError;
use crate::janitor::Chore;
use crate::offsets::{get, set};
use crate::segment::SegmentFile;
use crate::{producer_snapshot, sys, writer};

const MAX_FILE_NAME: usize = 255;

impl Log {
    /// Flushes everything that is written to the device and moves the recovery point (L-27).
    /// Blocks on the device.
    pub fn flush(&self) -> Result<(), LogError> {
        self.flush_to(self.written_end_offset())
    }

    /// Flushes what is written below `offset`.
    pub(crate) fn flush_to(&self, offset: Offset) -> Result<(), LogError> {
        let from = self.recovery_point();
        let end = offset.min(self.written_end_offset());
        if end <= from {
            return Ok(());
        }
        let bases: Vec<(Offset, bool)> = {
            let state = self.state.lock();
            self.check_open(&state)?;
            let ends = state.segments.with_ends(self.log_end_offset());
            let touched = ends.filter(|(s, next)| *next > from && s.base_offset < end);
            touched
                .map(|(s, next)| (s.base_offset, next <= end && s.base_offset < state.writing))
                .collect()
        };
        for (base, is_sealed) in bases {
            match self.flush_segment(base, is_sealed) {
                Err(e) if e.is_not_found() => {} // retention was faster
                other => other?,
            }
        }
        let state = self.state.lock();
        if end > self.recovery_point() {
            set(&self.offsets.recovery_point, end);
        }
        drop(state);
        Ok(())
    }

    /// Flushes the segment at `base`, which ends at `next`, with its indexes, and all before it.
    pub(crate) fn flush_rolled(&self, base: Offset, next: Offset) -> Result<(), LogError> {
        if self.recovery_point() < next {
            return self.flush_to(next);
        }
        // Its records were flushed while it was active; its indexes were not.
        match self.flush_segment(base, true) {
            Err(e) if e.is_not_found() => Ok(()),
            other => other,
        }
    }

    fn flush_segment(&self, base: Offset, is_sealed: bool) -> Result<(), LogError> {
        let sync = |kind: SegmentFile, file: &File| {
            file.sync_data()
                .map_err(|e| LogError::io("flush", kind.path(&self.folder, base), e))
        };
        sync(
            SegmentFile::Log,
            &*self.open_file(base, SegmentFile::Log, false)?,
        )?;
        if is_sealed {
            for kind in [SegmentFile::OffsetIndex, SegmentFile::TimeIndex] {
                sync(kind, &*self.open_file(base, kind, false)?)?;
            }
            // Only there when something was aborted.
            if let Ok(file) = File::open(SegmentFile::TransactionIndex.path(&self.folder, base)) {
                sync(SegmentFile::TransactionIndex, &file)?;
            }
        }
        // The names too: those of the segment's files, and the folder's own.
        sys::sync_folder(&SegmentFile::Log.path(&self.folder, base))?;
        sys::sync_folder(&self.folder)
    }

    /// Drops what the writer has not written, because it never will be.
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
        sys::replace_file(&path, &snapshot, false)?;
        Ok(true)
    }

    /// Flushes the files of a closed log.
    pub(crate) fn flush_closed(&self) -> Result<(), LogError> {
        let (from, end) = (self.recovery_point(), self.log_end_offset());
        let bases: Vec<Offset> = {
            let state = self.state.lock();
            let ends = state.segments.with_ends(end);
            ends.filter(|(_, next)| *next > from)
                .map(|(s, _)| s.base_offset)
                .collect()
        };
        for base in bases {
            self.flush_segment(base, true)?;
        }
        let path = SegmentFile::ProducerSnapshot.path(&self.folder, end);
        let flushed = File::open(&path).and_then(|file| file.sync_data());
        flushed.map_err(|e| LogError::io("flush", path, e))
    }

    /// Notes that a closed log is on the device as a whole.
    pub(crate) fn closed_on_device(&self) {
        set(&self.offsets.recovery_point, self.log_end_offset());
    }

    /// Deletes the log: its folder is renamed at once and removed after `file.delete.delay.ms`.
    /// Waits for the writer to let go of it.
    pub fn delete(&self) -> Result<(), LogError> {
        let (config, target) = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            state.status = Status::Deleted;
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
            self.wait_until(&mut state, |s| !s.is_scheduled)?;
            (
                state.config.file_delete_delay_ms,
                self.marked_folder("delete"),
            )
        };
        self.notify_written(Err(LogError::Deleted(self.partition.clone())));
        self.dir.logs.write().remove(&self.partition);
        fs::rename(&self.folder, &target)
            .map_err(|e| LogError::io("rename", self.folder.to_path_buf(), e))?;
        self.dir.files.forget(self.number, |_| true);
        self.tail.clear(&self.dir.tail);
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
        let inside = state.config.remote || offsets.log_start > state.segments.first_base();
        let log_start = inside.then_some(offsets.log_start);
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
