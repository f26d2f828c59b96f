//! Loading all logs of a directory at start, several at once (L-20…L-26, R-20, S-24).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use strandline_types::{TopicId, TopicName, TopicPartition};

use super::LogDir;
use crate::checkpoint::{self, OffsetMap};
use crate::config::LogConfig;
use crate::error::LogError;
use crate::janitor::Chore;
use crate::loader::{self, LoadRequest};
use crate::log::{Log, marked_name};
use crate::partition_metadata;
use crate::stop_summary::StopSummary;
use crate::sys;

/// A partition that could not be loaded; its folder is as it was.
#[derive(Debug)]
pub struct FailedLog {
    /// The partition.
    pub partition: TopicPartition,
    /// The log directory that it lies in.
    pub dir: Arc<Path>,
    /// Why.
    pub error: LogError,
}

/// What [`LogDir::load_logs`] found.
#[derive(Debug, Default)]
pub struct LoadedLogs {
    /// Partitions that are ready.
    pub logs: Vec<Arc<Log>>,
    /// Partitions that are offline.
    pub failed: Vec<FailedLog>,
    /// Folders whose topic is not known any more; renamed to `…-stray`.
    pub strays: Vec<PathBuf>,
}

impl LogDir {
    /// Loads every partition folder, several at once, and recovers what a crash left (L-20…L-26).
    /// `config_of` gives the settings, or `None` for a partition that this broker no longer has.
    /// Leftovers of deletions are removed. Errors: the directory itself cannot be read; a
    /// partition that cannot be loaded is in [`LoadedLogs::failed`].
    pub fn load_logs(
        &self,
        config_of: &(dyn Fn(&TopicPartition, TopicId) -> Option<LogConfig> + Sync),
    ) -> Result<LoadedLogs, LogError> {
        let checkpoints = Checkpoints::read(self.path(), self.was_clean);
        let folders = Mutex::new(self.partition_folders()?);
        let loaded = Mutex::new(LoadedLogs::default());
        std::thread::scope(|scope| {
            for _ in 0..self.recovery_threads {
                scope.spawn(|| {
                    loop {
                        let Some((partition, folder)) = folders.lock().pop() else {
                            return;
                        };
                        let outcome = self.load_one(&partition, &folder, &checkpoints, config_of);
                        let mut loaded = loaded.lock();
                        match outcome {
                            Ok(Some(log)) => loaded.logs.push(log),
                            Ok(None) => loaded.strays.push(folder),
                            Err(error) => {
                                tracing::error!(%partition, %error, "partition cannot be loaded");
                                loaded.failed.push(FailedLog {
                                    partition,
                                    dir: Arc::clone(&self.shared.path),
                                    error,
                                });
                            }
                        }
                    }
                });
            }
        });
        let mut loaded = loaded.into_inner();
        loaded.logs.sort_by(|a, b| a.partition().cmp(b.partition()));
        let mut logs = self.shared.logs.write();
        for log in &loaded.logs {
            logs.insert(log.partition().clone(), Arc::clone(log));
        }
        drop(logs);
        let mut kept = self.shared.kept.lock();
        for FailedLog { partition, .. } in &loaded.failed {
            kept.partitions.insert(partition.clone());
            let keep = |from: &OffsetMap, to: &mut OffsetMap| {
                if let Some(offset) = from.get(partition) {
                    to.insert(partition.clone(), *offset);
                }
            };
            keep(&checkpoints.recovery, &mut kept.recovery);
            keep(&checkpoints.log_start, &mut kept.log_start);
            keep(&checkpoints.high_watermark, &mut kept.high_watermark);
            keep(&checkpoints.cleaned_to, &mut kept.cleaned_to);
        }
        drop(kept);
        self.shared.note_change();
        // Entries of partitions that are gone must not meet a new one of their name.
        self.shared.write_checkpoints()?;
        Ok(loaded)
    }

    /// Partition folders; those on their way out are removed in the background.
    fn partition_folders(&self) -> Result<Vec<(TopicPartition, PathBuf)>, LogError> {
        let fail = |e| LogError::io("list", self.path(), e);
        let mut folders = Vec::new();
        for entry in fs::read_dir(self.path()).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
                continue;
            };
            if !path.is_dir() {
                continue;
            }
            if name.ends_with("-delete") && name.contains('.') {
                self.shared.janitor.add(Chore::RemoveFolder(path), 0);
            } else if let Some(partition) = parse_folder_name(name) {
                folders.push((partition, path));
            } else {
                tracing::warn!(folder = %path.display(), "not a partition, left alone");
            }
        }
        Ok(folders)
    }

    fn load_one(
        &self,
        partition: &TopicPartition,
        folder: &Path,
        checkpoints: &Checkpoints,
        config_of: &(dyn Fn(&TopicPartition, TopicId) -> Option<LogConfig> + Sync),
    ) -> Result<Option<Arc<Log>>, LogError> {
        let known_recovery_point = checkpoints.recovery.get(partition).copied();
        let recovery_point = known_recovery_point.unwrap_or(0);
        let topic_id = match partition_metadata::read(folder) {
            Ok(id) => id.unwrap_or(TopicId::ZERO),
            // It is on the device before anything in the folder is: the cut took all of it.
            Err(LogError::Corrupt { .. }) if self.power_was_lost && recovery_point == 0 => {
                TopicId::ZERO
            }
            Err(error) => return Err(error),
        };
        let Some(config) = config_of(partition, topic_id) else {
            let target = self.path().join(marked_name(partition, "stray"));
            tracing::warn!(%partition, to = %target.display(), "stray partition is set aside");
            sys::rename(folder, &target).map_err(|e| LogError::io("rename", folder, e))?;
            return Ok(None);
        };
        let parts = loader::load(LoadRequest {
            partition: partition.clone(),
            topic_id,
            folder: folder.into(),
            config,
            is_clean: self.was_clean,
            at_stop: &checkpoints.at_stop,
            recovery_point,
            is_recovery_point_known: known_recovery_point.is_some(),
            log_start: checkpoints.log_start.get(partition).copied(),
            high_watermark: checkpoints.high_watermark.get(partition).copied(),
            cleaned_to: checkpoints.cleaned_to.get(partition).copied(),
        })?;
        Ok(Some(Log::assemble(parts, &self.shared)))
    }
}

/// The checkpoint files of a directory at start. One that cannot be read counts as empty: more is
/// recovered than needed, nothing is lost.
struct Checkpoints {
    recovery: OffsetMap,
    log_start: OffsetMap,
    high_watermark: OffsetMap,
    cleaned_to: OffsetMap,
    /// Empty unless the end was clean.
    at_stop: StopSummary,
}

impl Checkpoints {
    fn read(dir: &Path, was_clean: bool) -> Self {
        let read = |name: &str| -> OffsetMap {
            checkpoint::read(&dir.join(name)).unwrap_or_else(|error| {
                tracing::warn!(%error, "a checkpoint is ignored");
                OffsetMap::new()
            })
        };
        Self {
            recovery: read(checkpoint::RECOVERY_POINT),
            log_start: read(checkpoint::LOG_START),
            high_watermark: read(checkpoint::HIGH_WATERMARK),
            cleaned_to: read(checkpoint::CLEANED_TO),
            at_stop: Some(StopSummary::take(dir))
                .filter(|_| was_clean)
                .unwrap_or_default(),
        }
    }
}

/// Reads `<topic>-<partition>`.
fn parse_folder_name(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let digits = partition.bytes().all(|b| b.is_ascii_digit());
    let partition = partition.parse().ok().filter(|_| digits)?;
    Some(TopicPartition::new(TopicName::new(topic).ok()?, partition))
}
