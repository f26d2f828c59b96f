//! One locked directory of logs: opening, loading, checkpoints, clean end (L-20…L-27, S-24).

mod load;
mod restore;

use std::fmt;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use strandline_types::{BrokerId, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::dir::{DirShared, OnOffline};
use crate::error::{LogError, StorageFault};
use crate::janitor::{Chore, Janitor};
use crate::leader_epochs::LeaderEpochs;
use crate::loader;
use crate::log::{Log, LogParts, marked_name};
use crate::offsets::LogOffsets;
use crate::producer_state::ProducerState;
use crate::segment::{Segment, SegmentFile};
use crate::segments::Segments;
use crate::stop_summary::StopSummary;
use crate::tail::TailBudget;
pub use load::{FailedLog, LoadedLogs};

use crate::{meta_properties, partition_metadata, sys, writer};

pub use restore::RemoteStart;

/// Up to so many changed logs are flushed file by file at a clean end; more of them with one call
/// for the whole file system, since each flush of a file costs the device a turn.
const FLUSH_ONE_BY_ONE: usize = 4;

/// What a log directory needs to know of its broker.
#[derive(Debug, Clone)]
pub struct LogDirOptions {
    /// Id of the cluster; a directory of another one is refused.
    pub cluster_id: String,
    /// Id of this node; a directory of another one is refused.
    pub node_id: BrokerId,
    /// Memory for the newest batches, shared by all directories of the broker.
    pub tail: Arc<TailBudget>,
    /// Threads that load and recover logs at start.
    pub recovery_threads: usize,
    /// Segment and index files that stay open.
    pub open_files: usize,
}

impl LogDirOptions {
    /// Options with usual numbers of threads and files.
    pub fn new(cluster_id: &str, node_id: BrokerId, tail: Arc<TailBudget>) -> Self {
        let recovery_threads = std::thread::available_parallelism().map_or(2, |n| n.get());
        Self {
            cluster_id: cluster_id.to_owned(),
            node_id,
            tail,
            recovery_threads,
            open_files: 256,
        }
    }
}

/// A directory of logs, held by this process alone, with its I/O thread and its background thread.
/// Dropping it without [`LogDir::close`] is like a crash: the next start recovers.
pub struct LogDir {
    shared: Arc<DirShared>,
    directory_id: String,
    recovery_threads: usize,
    was_clean: bool,
    power_was_lost: bool,
    is_closed: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _lock: File,
}

impl LogDir {
    /// Opens a directory, creating it if need be, and starts its two threads.
    /// Errors: another process holds it, it belongs to another cluster or node, it cannot be read
    /// or written.
    pub fn open(path: impl AsRef<Path>, options: LogDirOptions) -> Result<Arc<Self>, LogError> {
        let path: Arc<Path> = path.as_ref().into();
        fs::create_dir_all(&path).map_err(|e| LogError::io("create", path.to_path_buf(), e))?;
        let lock_path = path.join(".lock");
        let lock =
            sys::open(&lock_path, true).map_err(|e| LogError::io("open", lock_path.clone(), e))?;
        if !sys::try_lock(&lock).map_err(|e| LogError::io("lock", lock_path, e))? {
            return Err(LogError::DirectoryInUse(path.to_path_buf()));
        }
        let directory_id = meta_properties::claim(&path, &options.cluster_id, options.node_id.0)?;
        let was_clean = meta_properties::take_clean_marker(&path)?;
        let power_was_lost = meta_properties::note_boot(&path, was_clean)?;
        let shared = DirShared::new(path, options.tail, options.open_files);
        let dir = Self {
            shared: Arc::clone(&shared),
            directory_id,
            recovery_threads: options.recovery_threads.max(1),
            was_clean,
            power_was_lost,
            is_closed: AtomicBool::new(false),
            threads: Mutex::default(),
            _lock: lock,
        };
        let writer = Arc::clone(&shared);
        dir.spawn("log-writer", move || writer::run(&writer))?;
        dir.spawn("log-janitor", move || Janitor::run(&shared))?;
        Ok(Arc::new(dir))
    }

    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), LogError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(body);
        let thread = thread.map_err(|e| LogError::io("start a thread for", self.path(), e))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// The budget of the in-memory tail.
    pub fn tail(&self) -> &Arc<TailBudget> {
        &self.shared.tail
    }

    /// Bytes of the file system in all, and those that this process may still take; `None` when
    /// the system does not say.
    pub fn space(&self) -> Option<(u64, u64)> {
        let stat = rustix::fs::statvfs(self.path()).ok()?;
        Some((
            stat.f_blocks.checked_mul(stat.f_frsize)?,
            stat.f_bavail.checked_mul(stat.f_frsize)?,
        ))
    }

    /// The directory's own id, as Kafka writes it.
    pub fn directory_id(&self) -> &str {
        &self.directory_id
    }

    /// True when the last process that used the directory closed it cleanly.
    pub fn was_closed_cleanly(&self) -> bool {
        self.was_clean
    }

    /// True when the directory was not closed cleanly and the machine went down since: what was not
    /// flushed may be gone. After a process that was only killed, it is there. True at every start
    /// until [`LogDir::forget_power_loss`].
    pub fn power_was_lost(&self) -> bool {
        self.power_was_lost
    }

    /// To be called when what the power loss may have taken was looked for elsewhere: the next start
    /// need not. Errors: the disk's.
    pub fn forget_power_loss(&self) -> Result<(), LogError> {
        self.shared.check_running()?;
        meta_properties::forget_power_loss(self.path())
    }

    /// True after an I/O error: everything in it fails from then on.
    pub fn is_offline(&self) -> bool {
        self.shared.fault().is_some()
    }

    /// The error that took the directory offline.
    pub fn fault(&self) -> Option<StorageFault> {
        self.shared.fault().cloned()
    }

    /// Has `callback` called once when the directory goes offline, at once if it is.
    pub fn on_offline(&self, callback: OnOffline) {
        self.shared.on_offline(callback);
    }

    /// Bytes appended and not yet written: when it grows without end, the device is too slow.
    pub fn backlog_bytes(&self) -> usize {
        self.shared.backlog_bytes.load(Ordering::Relaxed)
    }

    /// The log of a partition.
    pub fn log(&self, partition: &TopicPartition) -> Option<Arc<Log>> {
        self.shared.logs.read().get(partition).cloned()
    }

    /// All logs, in no order.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        self.shared.all_logs()
    }

    /// Creates the log of a new partition. Errors: there is one already, or the directory is
    /// offline or cannot be written.
    pub fn create_log(
        &self,
        partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
    ) -> Result<Arc<Log>, LogError> {
        self.shared.check_running()?;
        self.shared.write_owed_checkpoints()?;
        let folder: Arc<Path> = self.path().join(partition.to_string()).into();
        // Held meanwhile, so that two cannot make the same one.
        let mut logs = self.shared.logs.write();
        match sys::create_dir(&folder) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(LogError::AlreadyExists(partition));
            }
            Err(e) => return Err(LogError::io("create", folder.to_path_buf(), e)),
        }
        let path = SegmentFile::Log.path(&folder, 0);
        let made = partition_metadata::write(&folder, topic_id).and_then(|()| {
            sys::open(&path, true).map_err(|e| LogError::io("create", path.clone(), e))
        });
        if let Err(error) = made {
            let _ = sys::remove_dir_all(&folder); // half a log would be in the way of the next try
            return Err(error);
        }
        let now_ms = loader::modified_ms(&path);
        let active = Segment::new(0, now_ms, crate::log::jitter(config.segment_jitter_ms));
        let parts = LogParts {
            partition: partition.clone(),
            topic_id,
            folder,
            config,
            segments: Segments::new(std::collections::VecDeque::new(), active),
            producers: ProducerState::default(),
            epochs: LeaderEpochs::default(),
            offsets: LogOffsets {
                log_start: 0,
                local_log_start: 0,
                last_stable: 0,
                high_watermark: 0,
                written_end: 0,
                log_end: 0,
            },
            recovery_point: 0,
            cleaned_to: None,
            // A clean end must make durable whose folder it is.
            is_changed: true,
            is_log_start_known: true,
        };
        let log = Log::assemble(parts, &self.shared);
        logs.insert(partition, Arc::clone(&log));
        self.shared.note_change();
        Ok(log)
    }

    /// Deletes the folder of a partition that is not loaded (one of [`LoadedLogs::failed`]): renamed
    /// at once, removed in the background. A folder that is not there is fine.
    pub fn delete_unloaded(&self, partition: &TopicPartition) -> Result<(), LogError> {
        if self.shared.logs.read().contains_key(partition) {
            return Err(LogError::AlreadyExists(partition.clone()));
        }
        let folder = self.path().join(partition.to_string());
        let target = self.path().join(marked_name(partition, "delete"));
        match sys::rename(&folder, &target) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(LogError::io("rename", folder, e)),
            Ok(()) => self.shared.janitor.add(Chore::RemoveFolder(target), 0),
        }
        let mut kept = self.shared.kept.lock();
        kept.forget(partition);
        self.shared.note_change();
        Ok(())
    }

    /// Writes the recovery point, log start offset and high watermark checkpoints if anything in
    /// them changed. Blocks on the device. Errors: the directory is offline, or goes offline with this; when
    /// no file handle is left, it does not, and the next call writes what this one did not.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        self.shared.check_running()?;
        self.shared.write_checkpoints().inspect_err(|error| {
            if !error.is_out_of_handles() {
                self.shared.fail(error.clone());
            }
        })
    }

    /// Ends cleanly: everything appended is written and flushed, indexes and snapshots are
    /// complete, and the marker that spares the next start its recovery is written, unless
    /// something failed, or a partition could not be loaded. Everything in the directory fails
    /// afterwards. Blocks.
    pub fn close(&self) -> Result<(), LogError> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let result = self.close_logs();
        self.stop();
        if let Err(error) = &result {
            tracing::error!(dir = %self.path().display(), %error, "not closed cleanly");
        }
        result
    }

    fn close_logs(&self) -> Result<(), LogError> {
        self.shared.check_online()?;
        let changed = self.close_files()?;
        if changed.len() > FLUSH_ONE_BY_ONE {
            let files = &self.shared.files;
            files.spare(|| sys::sync_file_system(self.path()))?;
        } else {
            changed.iter().try_for_each(|log| log.flush_closed())?;
        }
        changed.iter().for_each(|log| log.closed_on_device());
        self.shared.note_change(); // the last ones are written whatever is known of them
        self.shared.write_checkpoints()?;
        self.put_clean_marker()
    }

    /// Vouches for everything in the directory: the next start trusts it.
    fn put_clean_marker(&self) -> Result<(), LogError> {
        let unloaded = self.shared.kept.lock().partitions.len();
        if unloaded > 0 {
            // Repaired until then, they must be recovered; the others end at their recovery points.
            tracing::warn!(
                dir = %self.path().display(), unloaded,
                "no marker of a clean stop: some partitions could not be loaded"
            );
            return Ok(());
        }
        if let Err(error) = StopSummary::of(&self.shared.all_logs()).write(self.path()) {
            tracing::warn!(%error, "the next start looks at every segment");
        }
        self.shared.check_online()?; // what failed meanwhile may not be on the device
        meta_properties::put_clean_marker(self.path())
    }

    /// Completes the files of all logs, several at once: those that had changed.
    fn close_files(&self) -> Result<Vec<Arc<Log>>, LogError> {
        let logs = Mutex::new(self.shared.all_logs());
        let changed = Mutex::new(Vec::new());
        let failed = Mutex::new(Ok(()));
        std::thread::scope(|scope| {
            for _ in 0..self.recovery_threads {
                scope.spawn(|| {
                    loop {
                        let Some(log) = logs.lock().pop() else { return };
                        match log.close_files() {
                            Ok(true) => changed.lock().push(log),
                            Ok(false) | Err(LogError::Deleted(_)) => {}
                            Err(error) => *failed.lock() = Err(error),
                        }
                    }
                });
            }
        });
        failed.into_inner().map(|()| changed.into_inner())
    }

    fn stop(&self) {
        self.shared.stop();
        let me = std::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // The last handle may be dropped by a callback on one of the threads themselves.
            if thread.thread().id() != me && thread.join().is_err() {
                tracing::error!(dir = %self.path().display(), "a thread of the log panicked");
            }
        }
    }
}

impl Drop for LogDir {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for LogDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogDir")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use strandline_types::{Offset, TopicName};

    use super::*;
    use crate::testing::BatchSpec;

    fn open(folder: &Path) -> Arc<LogDir> {
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        LogDir::open(folder, options).unwrap()
    }

    fn create(dir: &LogDir) -> Arc<Log> {
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let config = LogConfig::default();
        dir.create_log(partition, TopicId::random(), config)
            .unwrap()
    }

    // L-20
    #[test]
    fn a_fault_that_comes_during_the_stop_is_not_followed_by_the_marker() {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(folder.path());
        create(&dir);
        dir.close_files().unwrap();
        let source = std::io::ErrorKind::StorageFull.into();
        dir.shared.go_offline("flush", folder.path().into(), source);
        assert!(matches!(dir.put_clean_marker(), Err(LogError::Storage(_))));
        drop(dir);
        assert!(!open(folder.path()).was_closed_cleanly());
    }

    // L-20: the recovery points behind a clean marker are trusted, and those that are missing are 0
    #[test]
    fn nothing_is_checkpointed_behind_the_stop() {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(folder.path());
        create(&dir);
        dir.close().unwrap();
        let path = folder.path().join(crate::checkpoint::RECOVERY_POINT);
        let before = fs::read_to_string(&path).unwrap();
        // One that looked whether the directory is stopped a moment before it was.
        assert!(matches!(
            dir.shared.write_checkpoints(),
            Err(LogError::Closed)
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        assert!(!dir.is_offline());
    }

    // 6.1: an idle directory is not written to
    #[test]
    fn a_checkpoint_is_written_again_when_what_is_in_it_changed() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let dir = open(folder.path());
        let log = create(&dir);
        let path = folder.path().join(crate::checkpoint::HIGH_WATERMARK);
        let file = || {
            dir.checkpoint().unwrap();
            (
                fs::metadata(&path).unwrap().ino(),
                fs::read_to_string(&path).unwrap(),
            )
        };
        let starts = || fs::read_to_string(folder.path().join(crate::checkpoint::LOG_START));
        let empty = file();
        assert_eq!(file(), empty);
        // L-26: the start of a tiered log always has a line
        for (remote, lines) in [(true, "0\n1\nt 0 0\n"), (false, "0\n0\n")] {
            log.update_config(LogConfig {
                remote,
                ..LogConfig::default()
            });
            dir.checkpoint().unwrap();
            assert_eq!(starts().unwrap(), lines);
        }
        let appended = log.append_as_leader(BatchSpec::default().build(), 0, 0);
        appended.unwrap();
        let end = log.log_end_offset();
        log.set_high_watermark(end);
        let full = file();
        assert_ne!(full.0, empty.0);
        assert!(full.1.ends_with(&format!(" {end}\n")), "{}", full.1);
        assert_eq!(file(), full);
        log.set_log_start_offset(1).unwrap();
        dir.checkpoint().unwrap();
        assert_eq!(starts().unwrap(), "0\n1\nt 0 1\n");
        // Another of that name, which is where the first one began.
        log.delete().unwrap();
        create(&dir);
        assert_eq!(file().1, empty.1);
    }

    // 6.1: whoever asks for the checkpoints finds in them what was true when it asked
    #[test]
    fn a_checkpoint_that_another_thread_is_writing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(folder.path());
        let count = 200;
        let path = folder.path().join(crate::checkpoint::HIGH_WATERMARK);
        std::thread::scope(|scope| {
            for index in 0..2 {
                let (dir, path) = (&dir, &path);
                scope.spawn(move || {
                    let partition = TopicPartition::new(TopicName::new("t").unwrap(), index);
                    let config = LogConfig::default();
                    let log = dir.create_log(partition, TopicId::random(), config);
                    let log = log.unwrap();
                    let batch = BatchSpec {
                        count,
                        ..BatchSpec::default()
                    };
                    log.append_as_leader(batch.build(), 0, 0).unwrap();
                    for offset in 1..=Offset::from(count) {
                        log.set_high_watermark(offset);
                        // Time for the other one to begin, with this change noted.
                        for _ in 0..offset * 997 % 20_000 {
                            std::hint::spin_loop();
                        }
                        dir.checkpoint().unwrap();
                        let text = fs::read_to_string(path).unwrap();
                        assert!(text.contains(&format!("t {index} {offset}\n")), "{text}");
                    }
                });
            }
        });
    }

    // L-27: one directory that fails leaves the memory of all to the others
    #[test]
    fn the_tails_of_a_directory_that_failed_are_empty() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let budget = TailBudget::new(1 << 20);
        let dirs = folders.each_ref().map(|folder| {
            let options = LogDirOptions::new("c", BrokerId(1), Arc::clone(&budget));
            LogDir::open(folder.path(), options).unwrap()
        });
        let logs = dirs.each_ref().map(|dir| create(dir));
        for log in &logs {
            let batch = BatchSpec::default().build();
            log.append_as_leader(batch, 0, 0).unwrap();
        }
        let both = budget.used_bytes();
        let source = std::io::ErrorKind::StorageFull.into();
        let path = folders[0].path().into();
        dirs[0].shared.go_offline("write", path, source);
        assert_eq!(budget.used_bytes() * 2, both);
        assert!(logs[1].read(0, 1, Offset::MAX, true).is_ok());
    }
}
