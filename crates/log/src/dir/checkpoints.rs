//! When the checkpoints of a directory are written, and from what (SEMANTICS 6.1).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use strandline_types::{Offset, TopicPartition};

use super::{DirShared, KeptOffsets};
use crate::checkpoint::{self, OffsetMap};
use crate::error::LogError;
use crate::log::Log;
use crate::sys;

/// A checkpoint file, and what it says of a log.
struct Checkpoint {
    name: &'static str,
    of_log: fn(&Log) -> Option<Offset>,
    of_kept: fn(&KeptOffsets) -> &OffsetMap,
}

const LOG_START: Checkpoint = Checkpoint {
    name: checkpoint::LOG_START,
    of_log: |log| log.checkpoint_offsets().2,
    of_kept: |kept| &kept.log_start,
};
const CLEANED_TO: Checkpoint = Checkpoint {
    name: checkpoint::CLEANED_TO,
    of_log: |log| log.lock_state().cleaned_to,
    of_kept: |kept| &kept.cleaned_to,
};
const RECOVERY_POINT: Checkpoint = Checkpoint {
    name: checkpoint::RECOVERY_POINT,
    of_log: |log| Some(log.checkpoint_offsets().0),
    of_kept: |kept| &kept.recovery,
};
/// In the order in which they are written.
const CHECKPOINTS: [Checkpoint; 4] = [
    RECOVERY_POINT,
    LOG_START,
    Checkpoint {
        name: checkpoint::HIGH_WATERMARK,
        of_log: |log| Some(log.checkpoint_offsets().1),
        of_kept: |kept| &kept.high_watermark,
    },
    CLEANED_TO,
];

/// What each checkpoint file was written from last, by its name.
pub(super) type WrittenLast = HashMap<&'static str, Written>;

/// What a checkpoint was written from. Compared as it was found: sorting and printing thousands of
/// partitions every few seconds is what an idle broker would do most.
#[derive(PartialEq)]
pub(super) struct Written {
    of_logs: Vec<(u64, Option<Offset>)>,
    kept: Vec<(TopicPartition, Offset)>,
}

impl DirShared {
    /// To be called after each change of what [`Self::write_checkpoints`] writes, under the same lock.
    pub(crate) fn note_change(&self) {
        // Looking first leaves the line to all processors.
        if !self.is_changed.load(Ordering::Relaxed) {
            self.is_changed.store(true, Ordering::Release);
        }
    }

    /// Writes all checkpoints whose content changed (6.1): recovery points, log start offsets, high
    /// watermarks, how far logs are cleaned. Where nothing did, no log is looked at: that of thousands
    /// costs an idle broker.
    pub(crate) fn write_checkpoints(&self) -> Result<(), LogError> {
        self.with_logs(|logs, written| {
            // Under the lock: when this returns, what was noted before the call is on the disk,
            // whoever wrote it.
            if !self.is_changed.swap(false, Ordering::AcqRel) {
                #[cfg(debug_assertions)]
                self.check_unchanged(logs, written);
                return Ok(());
            }
            logs.extend(self.all_logs());
            let all = CHECKPOINTS
                .iter()
                .try_for_each(|checkpoint| self.write_checkpoint(checkpoint, logs, written));
            if all.is_err() {
                self.note_change();
            }
            self.is_checkpoint_owed
                .store(all.is_err(), Ordering::Release);
            all
        })
    }

    /// Writes those that could not be written last time: what they say of a log that is gone must not meet a
    /// new one of its name.
    pub(crate) fn write_owed_checkpoints(&self) -> Result<(), LogError> {
        if self.is_checkpoint_owed.load(Ordering::Acquire) {
            self.write_checkpoints()?;
        }
        Ok(())
    }

    /// Writes how far each log is cleaned (L-49).
    pub(crate) fn write_cleaner_checkpoint(&self) -> Result<(), LogError> {
        self.write_one(&CLEANED_TO)
    }

    pub(crate) fn write_recovery_checkpoint(&self) -> Result<(), LogError> {
        self.write_one(&RECOVERY_POINT)
    }

    pub(crate) fn write_log_start_checkpoint(&self) -> Result<(), LogError> {
        self.write_one(&LOG_START)
    }

    fn write_one(&self, checkpoint: &Checkpoint) -> Result<(), LogError> {
        self.with_logs(|logs, written| {
            logs.extend(self.all_logs());
            self.write_checkpoint(checkpoint, logs, written)
        })
    }

    /// Runs `body` under the lock of the checkpoints, with an empty list for the logs.
    fn with_logs(
        &self,
        body: impl FnOnce(&mut Vec<Arc<Log>>, &mut WrittenLast) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        // Let go of after the lock: with the last handle of a log the directory's may go.
        let mut logs = Vec::new();
        // Held while offsets are collected: whoever writes later must not know less.
        let mut written = self.checkpoints.lock();
        self.check_running()?;
        body(&mut logs, &mut written)
    }

    fn write_checkpoint(
        &self,
        checkpoint: &Checkpoint,
        logs: &[Arc<Log>],
        written: &mut WrittenLast,
    ) -> Result<(), LogError> {
        let of_logs = logs.iter().map(|l| (l.number(), (checkpoint.of_log)(l)));
        let found = Written {
            of_logs: of_logs.collect(),
            kept: entries((checkpoint.of_kept)(&self.kept.lock())).collect(),
        };
        if written.get(checkpoint.name) == Some(&found) {
            return Ok(());
        }
        let of_logs = logs.iter().zip(&found.of_logs);
        let of_logs = of_logs.filter_map(|(l, (_, at))| Some((l.partition().clone(), (*at)?)));
        let mut all: Vec<_> = of_logs.chain(found.kept.iter().cloned()).collect();
        let text = checkpoint::encode(&mut all);
        let path = self.path.join(checkpoint.name);
        self.files
            .spare(|| sys::replace_file(&path, text.as_bytes(), true))?;
        written.insert(checkpoint.name, found);
        Ok(())
    }

    /// A change that nobody noted would be missing from the checkpoints.
    #[cfg(debug_assertions)]
    fn check_unchanged(&self, logs: &mut Vec<Arc<Log>>, written: &WrittenLast) {
        logs.extend(self.all_logs());
        for checkpoint in &CHECKPOINTS {
            let of_logs = logs.iter().map(|l| (l.number(), (checkpoint.of_log)(l)));
            let is_current = written
                .get(checkpoint.name)
                .is_some_and(|w| of_logs.eq(w.of_logs.iter().copied()));
            // Looked at last: there may be something new meanwhile, or a fault.
            let may_differ =
                self.is_changed.load(Ordering::Acquire) || self.check_running().is_err();
            assert!(
                is_current || may_differ,
                "a change of {} was not noted",
                checkpoint.name
            );
        }
    }
}

fn entries(map: &OffsetMap) -> impl Iterator<Item = (TopicPartition, Offset)> {
    map.iter()
        .map(|(partition, offset)| (partition.clone(), *offset))
}
