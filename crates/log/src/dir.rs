//! What the logs of one directory share: queue, files, fault, background thread (L-27, DESIGN §3).

mod checkpoints;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use strandline_types::TopicPartition;

use crate::checkpoint::OffsetMap;
use crate::error::{LogError, StorageFault};
use crate::files::FileCache;
use crate::janitor::Janitor;
use crate::log::Log;
use crate::tail::TailBudget;
use checkpoints::WrittenLast;

/// Between two tries to get a file handle when none is left.
const HANDLE_RETRY: Duration = Duration::from_millis(100);

/// Called once when the directory goes offline.
pub type OnOffline = Box<dyn Fn(&StorageFault) + Send + Sync>;

/// Logs that have something for the writer, in order of arrival; each at most once, so the queue
/// is bounded by the number of logs.
#[derive(Default)]
pub(crate) struct WriteQueue {
    inner: Mutex<Queued>,
    ready: Condvar,
}

#[derive(Default)]
struct Queued {
    logs: VecDeque<Arc<Log>>,
    is_stopped: bool,
}

impl WriteQueue {
    pub(crate) fn push(&self, log: Arc<Log>) {
        self.inner.lock().logs.push_back(log);
        self.ready.notify_one();
    }

    /// The next log, waiting for one; `None` after [`WriteQueue::stop`].
    pub(crate) fn pop(&self) -> Option<Arc<Log>> {
        let mut inner = self.inner.lock();
        loop {
            if inner.is_stopped {
                return None;
            }
            match inner.logs.pop_front() {
                Some(log) => return Some(log),
                None => self.ready.wait(&mut inner),
            }
        }
    }

    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_stopped = true;
        inner.logs.clear();
        self.ready.notify_all();
    }
}

/// The partitions that could not be loaded, and their entries of the checkpoint files.
#[derive(Debug, Default)]
pub(crate) struct KeptOffsets {
    pub(crate) partitions: HashSet<TopicPartition>,
    pub(crate) recovery: OffsetMap,
    pub(crate) log_start: OffsetMap,
    pub(crate) high_watermark: OffsetMap,
    pub(crate) cleaned_to: OffsetMap,
}

impl KeptOffsets {
    pub(crate) fn forget(&mut self, partition: &TopicPartition) {
        self.partitions.remove(partition);
        self.recovery.remove(partition);
        self.log_start.remove(partition);
        self.high_watermark.remove(partition);
        self.cleaned_to.remove(partition);
    }
}

pub(crate) struct DirShared {
    pub(crate) path: Arc<Path>,
    pub(crate) queue: WriteQueue,
    pub(crate) files: FileCache,
    pub(crate) tail: Arc<TailBudget>,
    pub(crate) janitor: Janitor,
    /// Bytes appended and not yet written.
    pub(crate) backlog_bytes: AtomicUsize,
    /// The file system takes reservations.
    pub(crate) can_reserve: AtomicBool,
    pub(crate) logs: RwLock<HashMap<TopicPartition, Arc<Log>>>,
    /// Partitions that could not be loaded: their checkpointed offsets must stay.
    pub(crate) kept: Mutex<KeptOffsets>,
    checkpoints: Mutex<WrittenLast>,
    /// Something that the checkpoints hold may differ from them.
    is_changed: AtomicBool,
    /// They were to be written, and were not.
    is_checkpoint_owed: AtomicBool,
    fault: OnceLock<StorageFault>,
    is_stopped: AtomicBool,
    on_offline: Mutex<Vec<OnOffline>>,
}

impl DirShared {
    pub(crate) fn new(path: Arc<Path>, tail: Arc<TailBudget>, open_files: usize) -> Arc<Self> {
        Arc::new(Self {
            path,
            queue: WriteQueue::default(),
            files: FileCache::new(open_files),
            tail,
            janitor: Janitor::default(),
            backlog_bytes: AtomicUsize::new(0),
            can_reserve: AtomicBool::new(true),
            logs: RwLock::default(),
            kept: Mutex::default(),
            checkpoints: Mutex::default(),
            is_changed: AtomicBool::new(true),
            is_checkpoint_owed: AtomicBool::new(false),
            fault: OnceLock::new(),
            is_stopped: AtomicBool::new(false),
            on_offline: Mutex::default(),
        })
    }

    pub(crate) fn fault(&self) -> Option<&StorageFault> {
        self.fault.get()
    }

    pub(crate) fn check_online(&self) -> Result<(), LogError> {
        self.fault
            .get()
            .map_or(Ok(()), |fault| Err(fault.clone().into()))
    }

    /// As [`DirShared::check_online`], and fails too when the threads are gone.
    pub(crate) fn check_running(&self) -> Result<(), LogError> {
        self.check_online()?;
        if self.is_stopped.load(Ordering::Acquire) {
            Err(LogError::Closed)
        } else {
            Ok(())
        }
    }

    /// Does `work` as soon as there is a file handle for it: for the threads that no error may stop. What
    /// it promises is not promised until then. `work` begins anew each time.
    pub(crate) fn with_handles<T>(
        &self,
        work: impl Fn() -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut is_told = false;
        loop {
            match self.files.spare(&work) {
                Err(error) if error.is_out_of_handles() => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::error!(%error, "no file handle is left: writing waits for one");
                    }
                    self.check_running()?;
                    std::thread::sleep(HANDLE_RETRY);
                }
                other => return other,
            }
        }
    }

    pub(crate) fn on_offline(&self, callback: OnOffline) {
        if let Some(fault) = self.fault.get() {
            callback(fault);
        } else {
            self.on_offline.lock().push(callback);
        }
    }

    /// Takes the directory offline: every log learns of it, appends and reads fail from now on.
    pub(crate) fn go_offline(&self, operation: &'static str, path: PathBuf, source: io::Error) {
        let dir = Arc::clone(&self.path);
        let fault = StorageFault {
            dir,
            operation,
            path,
            source: Arc::new(source),
        };
        if self.fault.set(fault.clone()).is_err() {
            return;
        }
        tracing::error!(%fault, "log directory goes offline");
        for log in self.all_logs() {
            log.drop_pending(&fault.clone().into());
        }
        self.tail.sweep();
        let callbacks = std::mem::take(&mut *self.on_offline.lock());
        for callback in callbacks {
            callback(&fault);
        }
    }

    /// As [`DirShared::go_offline`], from an error of a step on one file. That the directory is stopped is
    /// no fault.
    pub(crate) fn fail(&self, error: LogError) {
        match error {
            LogError::Io {
                operation,
                path,
                source,
            } => {
                let source = io::Error::new(source.kind(), source);
                self.go_offline(operation, path, source);
            }
            LogError::Storage(_) | LogError::Closed => {}
            other => {
                let source = io::Error::other(other.to_string());
                self.go_offline("use", self.path.to_path_buf(), source);
            }
        }
    }

    pub(crate) fn all_logs(&self) -> Vec<Arc<Log>> {
        self.logs.read().values().cloned().collect()
    }

    /// No checkpoint is written while this is held.
    #[cfg(test)]
    pub(crate) fn hold_checkpoints(&self) -> impl Sized + '_ {
        self.checkpoints.lock()
    }

    /// Ends the threads and wakes who waits for them.
    pub(crate) fn stop(&self) {
        {
            // None is written from here on: it would be empty, and stand behind the clean marker.
            let _not_meanwhile = self.checkpoints.lock();
            self.is_stopped.store(true, Ordering::Release);
        }
        self.queue.stop();
        self.janitor.stop();
        let logs = std::mem::take(&mut *self.logs.write());
        for log in logs.into_values() {
            log.drop_pending(&LogError::Closed);
        }
        self.tail.sweep();
    }
}

impl fmt::Debug for DirShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirShared")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
