//! A log whose local copy is lost, or behind the remote tier, begins anew at the tiered end
//! (S-31 for the only replica; DESIGN §4 "a bucket that alone is complete").
//!
//! **Crash safety**: the folder is made under a name that the next start removes, and gets its own when
//! all of it is on the device. Half of one would begin again at offsets that are tiered.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use strandline_types::{Offset, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::error::LogError;
use crate::leader_epochs::LeaderEpochs;
use crate::loader::{self, LoadRequest};
use crate::log::Log;
use crate::log::marked_name;
use crate::log_dir::LogDir;
use crate::partition_metadata;
use crate::segment::SegmentFile;
use crate::stop_summary::StopSummary;
use crate::sys;

/// What the remote tier knows of a log's past.
#[derive(Debug, Clone)]
pub struct RemoteStart {
    /// Offset after the last tiered record; the local log begins here.
    pub next_offset: Offset,
    /// First offset over both tiers.
    pub log_start_offset: Offset,
    /// Leader epochs of the tiered range.
    pub leader_epochs: LeaderEpochs,
    /// Producers as they were at `next_offset`, in Kafka's format; may be empty.
    pub producer_snapshot: Bytes,
}

impl LogDir {
    /// Creates the log of a partition whose records up to `start.next_offset` are tiered. Errors:
    /// as [`LogDir::create_log`].
    pub fn create_log_at(
        &self,
        partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        start: &RemoteStart,
    ) -> Result<Arc<Log>, LogError> {
        self.shared.check_running()?;
        self.shared.write_owed_checkpoints()?;
        let folder: Arc<Path> = self.path().join(partition.to_string()).into();
        let mut logs = self.shared.logs.write();
        let is_there = folder.try_exists();
        if is_there.map_err(|e| LogError::io("look at", folder.to_path_buf(), e))? {
            return Err(LogError::AlreadyExists(partition));
        }
        let draft = self.path().join(marked_name(&partition, "delete"));
        let made = make_folder(&draft, &folder, topic_id, start);
        let loaded = made.and_then(|()| {
            loader::load(LoadRequest {
                partition: partition.clone(),
                topic_id,
                folder: Arc::clone(&folder),
                config,
                is_clean: true,
                at_stop: &StopSummary::default(),
                recovery_point: start.next_offset,
                is_recovery_point_known: true,
                log_start: Some(start.log_start_offset),
                high_watermark: Some(start.next_offset),
                cleaned_to: None,
            })
        });
        let parts = loaded.inspect_err(|_| {
            // All in it is in the bucket; in the way of the next try it would be taken for a log.
            let _ = sys::remove_dir_all(&draft);
            let _ = sys::remove_dir_all(&folder);
        })?;
        let log = Log::assemble(parts, &self.shared);
        logs.insert(partition, Arc::clone(&log));
        self.shared.note_change();
        Ok(log)
    }
}

/// Makes the folder as `draft` and, when it is complete and on the device, gives it its name.
fn make_folder(
    draft: &Path,
    folder: &Path,
    topic_id: TopicId,
    start: &RemoteStart,
) -> Result<(), LogError> {
    sys::create_dir(draft).map_err(|e| LogError::io("create", draft, e))?;
    write_files(draft, topic_id, start)?;
    sys::sync_folder(&draft.join("."))?;
    sys::rename(draft, folder).map_err(|e| LogError::io("rename", draft, e))?;
    sys::sync_folder(folder)
}

fn write_files(folder: &Path, topic_id: TopicId, start: &RemoteStart) -> Result<(), LogError> {
    partition_metadata::write(folder, topic_id)?;
    let put = |path: std::path::PathBuf, bytes: &[u8]| {
        let write = |file| sys::write_all_at(&file, bytes, 0).and_then(|()| sys::sync_data(&file));
        let written = sys::create(&path).and_then(write);
        written.map_err(|e| LogError::io("write", path, e))
    };
    put(
        folder.join("leader-epoch-checkpoint"),
        start.leader_epochs.encode().as_bytes(),
    )?;
    if !start.producer_snapshot.is_empty() {
        let name = format!("{:020}.snapshot", start.next_offset);
        put(folder.join(name), &start.producer_snapshot)?;
    }
    put(SegmentFile::Log.path(folder, start.next_offset), &[])
}

#[cfg(test)]
mod tests {
    use strandline_types::{BrokerId, TopicName};

    use super::*;
    use crate::log_dir::LogDirOptions;
    use crate::tail::TailBudget;

    #[test]
    fn a_log_begins_where_the_bucket_ends_and_stays_so_over_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let open = || {
            let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
            LogDir::open(folder.path(), options).unwrap()
        };
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 3);
        let config = LogConfig {
            remote: true,
            ..LogConfig::default()
        };
        let id = TopicId::random();
        let start = RemoteStart {
            next_offset: 1000,
            log_start_offset: 40,
            leader_epochs: LeaderEpochs::decode("0\n2\n0 0\n3 500\n").unwrap(),
            producer_snapshot: Bytes::new(),
        };
        let check = |log: &Log| {
            let offsets = log.offsets();
            assert_eq!((offsets.log_start, offsets.local_log_start), (40, 1000));
            assert_eq!((offsets.high_watermark, offsets.log_end), (1000, 1000));
            assert_eq!(log.epoch_for_offset(600), Some(3));
            assert_eq!(log.end_offset_for_epoch(0).end_offset, 500);
        };
        let dir = open();
        // What a kill in the middle leaves is no log.
        let draft = folder.path().join(marked_name(&partition, "delete"));
        sys::create_dir(&draft).unwrap();
        write_files(&draft, id, &start).unwrap();
        check(
            &dir.create_log_at(partition, id, config.clone(), &start)
                .unwrap(),
        );
        let drafts = || std::fs::read_dir(folder.path()).unwrap().count();
        let before = drafts();
        let again = dir.create_log_at(
            TopicPartition::new(TopicName::new("t").unwrap(), 3),
            id,
            config.clone(),
            &start,
        );
        assert!(matches!(again, Err(LogError::AlreadyExists(_))));
        assert_eq!(drafts(), before);
        dir.close().unwrap();
        drop(dir);
        let loaded = open().load_logs(&|_, _| Some(config.clone())).unwrap();
        check(&loaded.logs[0]);
    }
}
