//! A log whose local copy is lost, or behind the remote tier, begins anew at the tiered end
//! (S-31 for the only replica; DESIGN §4 "a bucket that alone is complete").

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use strandline_types::{Offset, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::error::LogError;
use crate::leader_epochs::LeaderEpochs;
use crate::loader::{self, LoadRequest};
use crate::log::Log;
use crate::log_dir::LogDir;
use crate::partition_metadata;
use crate::segment::SegmentFile;

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
        let folder: Arc<Path> = self.path().join(partition.to_string()).into();
        let mut logs = self.shared.logs.write();
        match fs::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(LogError::AlreadyExists(partition));
            }
            Err(e) => return Err(LogError::io("create", folder.to_path_buf(), e)),
        }
        write_files(&folder, topic_id, start)?;
        let parts = loader::load(LoadRequest {
            partition: partition.clone(),
            topic_id,
            folder,
            config,
            is_clean: true,
            recovery_point: start.next_offset,
            log_start: Some(start.log_start_offset),
            high_watermark: Some(start.next_offset),
        })?;
        let log = Log::assemble(parts, &self.shared);
        logs.insert(partition, Arc::clone(&log));
        Ok(log)
    }
}

fn write_files(folder: &Path, topic_id: TopicId, start: &RemoteStart) -> Result<(), LogError> {
    partition_metadata::write(folder, topic_id)?;
    let put = |path: std::path::PathBuf, bytes: &[u8]| {
        fs::write(&path, bytes).map_err(|e| LogError::io("write", path, e))
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
        check(
            &dir.create_log_at(partition, id, config.clone(), &start)
                .unwrap(),
        );
        dir.close().unwrap();
        drop(dir);
        let loaded = open().load_logs(&|_, _| Some(config.clone())).unwrap();
        check(&loaded.logs[0]);
    }
}
