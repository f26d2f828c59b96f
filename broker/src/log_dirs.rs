//! The log directories of a broker: where each partition lies, where a new one goes, and what is left
//! when one fails (`log.dirs`, L-27).
//!
//! A directory that cannot be opened, or fails later, is offline as a whole; the others serve on. What
//! lies in it stays there: its partitions are never made anew in another one. A new topic of an old one's name
//! is made where there is room; what is left of the old one is set aside when its directory comes back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use strandline_log::{FailedLog, LoadedLogs, Log, LogConfig, LogDir, LogDirOptions, LogError};
use strandline_types::{TopicId, TopicPartition};

/// Why none of the directories can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogDirsError {
    /// A directory is another broker's, or in use; or all of them failed, and this is the first's error.
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("partition {partition} lies in two log directories, {} and {}: move one of them away", .one.display(), .other.display())]
    Twice {
        partition: TopicPartition,
        one: PathBuf,
        other: PathBuf,
    },
}

/// A directory that could not be opened at start.
#[derive(Debug)]
pub(crate) struct LostDir {
    pub(crate) path: PathBuf,
    error: LogError,
}

/// All log directories.
#[derive(Debug)]
pub(crate) struct LogDirs {
    /// Those that were opened; some may have failed since.
    open: Vec<Arc<LogDir>>,
    lost: Vec<LostDir>,
}

impl LogDirs {
    /// Opens all directories. Errors: one belongs to somebody else, or none can be opened.
    pub(crate) fn open(paths: &[PathBuf], options: &LogDirOptions) -> Result<Self, LogDirsError> {
        let mut dirs = Self {
            open: Vec::new(),
            lost: Vec::new(),
        };
        for path in paths {
            match LogDir::open(path, options.clone()) {
                Ok(dir) => dirs.open.push(dir),
                Err(error @ (LogError::Io { .. } | LogError::Corrupt { .. })) => {
                    let path = path.clone();
                    dirs.lost.push(LostDir { path, error });
                }
                // Whoever set this up must know: going on would leave data behind.
                Err(error) => return Err(error.into()),
            }
        }
        dirs.check_some_left()?;
        Ok(dirs)
    }

    /// Loads what is in them; see [`LogDir::load_logs`]. A directory that fails meanwhile is lost.
    pub(crate) fn load(
        &mut self,
        config_of: &(dyn Fn(&TopicPartition, TopicId) -> Option<LogConfig> + Sync),
    ) -> Result<LoadedLogs, LogDirsError> {
        let mut all = LoadedLogs::default();
        for dir in std::mem::take(&mut self.open) {
            match dir.load_logs(config_of) {
                Ok(loaded) => {
                    all.logs.extend(loaded.logs);
                    all.failed.extend(loaded.failed);
                    all.strays.extend(loaded.strays);
                    self.open.push(dir);
                }
                Err(error) => {
                    let path = dir.path().to_path_buf();
                    self.lost.push(LostDir { path, error });
                }
            }
        }
        self.check_some_left()?;
        check_once(&all)?;
        for LostDir { path, error } in &self.lost {
            tracing::error!(dir = %path.display(), %error, "a log directory is offline");
        }
        Ok(all)
    }

    fn check_some_left(&self) -> Result<(), LogDirsError> {
        match self.lost.first() {
            Some(lost) if self.open.is_empty() => Err(lost.error.clone().into()),
            _ => Ok(()),
        }
    }

    /// Those that were opened at start.
    pub(crate) fn all(&self) -> &[Arc<LogDir>] {
        &self.open
    }

    /// Those that were not, by path.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &Path> {
        self.lost.iter().map(|lost| lost.path.as_path())
    }

    /// Directories that are offline now.
    pub(crate) fn offline_count(&self) -> usize {
        self.lost.len() + self.open.iter().filter(|dir| dir.is_offline()).count()
    }

    /// True when nothing can be served.
    pub(crate) fn is_offline(&self) -> bool {
        self.open.iter().all(|dir| dir.is_offline())
    }

    /// The log of a partition of this topic, in whichever directory it is; never of an older topic of
    /// the name.
    pub(crate) fn log(&self, partition: &TopicPartition, topic_id: TopicId) -> Option<Arc<Log>> {
        let mut logs = self.open.iter().filter_map(|dir| dir.log(partition));
        logs.find(|log| log.topic_id() == topic_id)
    }

    /// The directory where the partition of this topic lies, or where it would be made: of those that work
    /// the one with the fewest partitions. Errors: none works.
    pub(crate) fn home(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
    ) -> Result<&Arc<LogDir>, LogError> {
        // Where an older topic's log is being deleted it is in the way; in a directory that failed it stays.
        let holds = |dir: &LogDir| {
            let log = dir.log(partition);
            log.is_some_and(|log| log.topic_id() == topic_id || !dir.is_offline())
        };
        if let Some(dir) = self.open.iter().find(|dir| holds(dir)) {
            return Ok(dir);
        }
        let online = self.open.iter().filter(|dir| !dir.is_offline());
        let least = online.min_by_key(|dir| dir.logs().len());
        least.ok_or_else(|| {
            let fault = self.open.iter().find_map(|dir| dir.fault());
            fault.map_or(LogError::Closed, LogError::Storage)
        })
    }

    /// Deletes the folder of a partition that is not loaded, wherever it is.
    pub(crate) fn delete_unloaded(&self, partition: &TopicPartition) -> Result<(), LogError> {
        let mut online = self.open.iter().filter(|dir| !dir.is_offline());
        online.try_for_each(|dir| dir.delete_unloaded(partition))
    }

    /// Writes the checkpoints of all that work; what fails is logged, and takes its directory offline.
    pub(crate) fn checkpoint(&self) {
        for dir in self.open.iter().filter(|dir| !dir.is_offline()) {
            match dir.checkpoint() {
                Ok(()) | Err(LogError::Closed) => {} // the broker is being stopped
                Err(error) => {
                    tracing::error!(dir = %dir.path().display(), %error, "write checkpoints");
                }
            }
        }
    }

    /// Closes all; what fails is logged.
    pub(crate) fn close(&self) {
        for dir in &self.open {
            if let Err(error) = dir.close() {
                tracing::error!(dir = %dir.path().display(), %error, "close the log directory");
            }
        }
    }
}

/// A copy of a partition in a second directory: nobody can tell which one is right.
fn check_once(loaded: &LoadedLogs) -> Result<(), LogDirsError> {
    let mut places: Vec<(&TopicPartition, &Path)> = Vec::new();
    places.extend(
        loaded
            .logs
            .iter()
            .map(|log| (log.partition(), log.log_dir())),
    );
    let failed = loaded.failed.iter();
    places.extend(failed.map(|FailedLog { partition, dir, .. }| (partition, &**dir)));
    places.sort_unstable();
    let twice = places.windows(2).find(|pair| pair[0].0 == pair[1].0);
    match twice {
        Some([(partition, one), (_, other)]) => Err(LogDirsError::Twice {
            partition: (*partition).clone(),
            one: one.to_path_buf(),
            other: other.to_path_buf(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use strandline_log::TailBudget;
    use strandline_types::{BrokerId, TopicName};

    use super::*;

    fn options() -> LogDirOptions {
        LogDirOptions::new("a-cluster", BrokerId(1), TailBudget::new(1 << 20))
    }

    fn id(index: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new("t").unwrap(), index)
    }

    fn topic() -> TopicId {
        "AAAAAAAAAAAAAAAAAAAAAQ".parse().unwrap()
    }

    fn create(dirs: &LogDirs, index: i32) -> PathBuf {
        let home = dirs.home(&id(index), topic()).unwrap();
        home.create_log(id(index), topic(), LogConfig::default())
            .unwrap();
        home.path().to_path_buf()
    }

    fn load(dirs: &mut LogDirs) -> Result<LoadedLogs, LogDirsError> {
        dirs.load(&|_, _| Some(LogConfig::default()))
    }

    #[test]
    fn partitions_are_spread_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
        let dirs = LogDirs::open(&paths, &options()).unwrap();
        let homes: Vec<_> = (0..6).map(|index| create(&dirs, index)).collect();
        for path in &paths {
            assert_eq!(homes.iter().filter(|home| *home == path).count(), 2);
        }
        dirs.close();
        drop(dirs);
        let mut dirs = LogDirs::open(&paths, &options()).unwrap();
        assert_eq!(load(&mut dirs).unwrap().logs.len(), 6);
        for (index, home) in (0..).zip(&homes) {
            assert_eq!(dirs.home(&id(index), topic()).unwrap().path(), home);
            assert_eq!(dirs.log(&id(index), topic()).unwrap().log_dir(), home);
        }
    }

    #[test]
    fn one_that_cannot_be_opened_is_lost_and_the_others_serve() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "file/b"].map(|name| folder.path().join(name));
        std::fs::write(folder.path().join("file"), "not a directory").unwrap();
        let mut dirs = LogDirs::open(&paths, &options()).unwrap();
        load(&mut dirs).unwrap();
        assert_eq!((dirs.offline_count(), dirs.is_offline()), (1, false));
        assert_eq!(dirs.lost().collect::<Vec<_>>(), [&paths[1]]);
        assert_eq!(create(&dirs, 0), paths[0]);
        // Alone it is a reason not to start; so is one that is somebody else's, whatever the others are.
        assert!(LogDirs::open(&paths[1..], &options()).is_err());
        let other = LogDirOptions::new("another", BrokerId(1), TailBudget::new(0));
        drop(dirs);
        let found = LogDirs::open(&[folder.path().join("c"), paths[0].clone()], &other);
        assert!(matches!(
            found,
            Err(LogDirsError::Log(LogError::WrongCluster { .. }))
        ));
    }

    // L-27, X-58
    #[test]
    fn a_new_topic_of_the_name_does_not_need_the_directory_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let dirs = LogDirs::open(&paths, &options()).unwrap();
        let (old, new) = (create(&dirs, 0), TopicId::random());
        // While its directory works, the old one is in the way until it is deleted.
        assert_eq!(dirs.home(&id(0), new).unwrap().path(), old);
        let obstacle = old.join("recovery-point-offset-checkpoint.tmp");
        std::fs::create_dir(&obstacle).unwrap();
        dirs.checkpoint();
        assert_eq!((dirs.offline_count(), dirs.is_offline()), (1, false));
        assert_eq!(dirs.home(&id(0), topic()).unwrap().path(), old);
        let home = dirs.home(&id(0), new).unwrap().path().to_path_buf();
        assert_ne!(home, old);
        assert!(dirs.log(&id(0), new).is_none());
        let dir = dirs.home(&id(0), new).unwrap();
        dir.create_log(id(0), new, LogConfig::default()).unwrap();
        assert_eq!(dirs.home(&id(0), new).unwrap().path(), home);
        assert_eq!(dirs.log(&id(0), new).unwrap().log_dir(), home);
        dirs.close();
        drop(dirs);
        std::fs::remove_dir(obstacle).unwrap();
        // The old one is a stray at the next start.
        let mut dirs = LogDirs::open(&paths, &options()).unwrap();
        let known = |_: &TopicPartition, id: TopicId| (id == new).then(LogConfig::default);
        let loaded = dirs.load(&known).unwrap();
        assert_eq!(loaded.strays, [old.join("t-0")]);
        assert_eq!(loaded.logs[0].log_dir(), home);
    }

    #[test]
    fn a_partition_in_two_directories_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        for path in &paths {
            let dirs = LogDirs::open(std::slice::from_ref(path), &options()).unwrap();
            create(&dirs, 7);
            dirs.close();
        }
        let mut dirs = LogDirs::open(&paths, &options()).unwrap();
        assert!(matches!(load(&mut dirs), Err(LogDirsError::Twice { .. })));
    }
}
