//! The background thread of a directory: flushes rolled segments, removes what was deleted
//! (L-27, L-32, S-24).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use strandline_types::Offset;

use crate::dir::DirShared;
use crate::error::LogError;
use crate::log::Log;
use crate::sys;

/// After so long a flush is tried again for which there was no file handle.
const HANDLE_RETRY_MS: i64 = 1000;

/// Something to do, now or later.
#[derive(Debug)]
pub(crate) enum Chore {
    /// Flush a rolled segment, from its base offset to the next one, and all before it.
    FlushRolled(Weak<Log>, Offset, Offset),
    /// Flush a log that has had unflushed data for `flush.ms`.
    FlushDue(Weak<Log>),
    /// Remove files.
    RemoveFiles(Vec<PathBuf>),
    /// Remove a folder with all that is in it.
    RemoveFolder(PathBuf),
}

#[derive(Debug, Default)]
pub(crate) struct Janitor {
    inner: Mutex<Chores>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Chores {
    due: BinaryHeap<Reverse<Due>>,
    count: u64,
    is_stopped: bool,
}

#[derive(Debug)]
struct Due {
    at: Instant,
    number: u64,
    chore: Chore,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// In `delay_ms`; `None` when that is beyond what the clock can express: never.
pub(crate) fn due(delay_ms: i64) -> Option<Instant> {
    let delay = Duration::from_millis(u64::try_from(delay_ms).unwrap_or(0));
    Instant::now().checked_add(delay)
}

impl Janitor {
    /// Queues a chore for `delay_ms` from now.
    pub(crate) fn add(&self, chore: Chore, delay_ms: i64) {
        // Never: the next start removes it.
        if let Some(at) = due(delay_ms) {
            self.add_at(chore, at);
        }
    }

    pub(crate) fn add_at(&self, chore: Chore, at: Instant) {
        let mut inner = self.inner.lock();
        if inner.is_stopped {
            return;
        }
        inner.count += 1;
        let number = inner.count;
        inner.due.push(Reverse(Due { at, number, chore }));
        self.ready.notify_one();
    }

    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.is_stopped = true;
        inner.due.clear();
        self.ready.notify_all();
    }

    fn next(&self) -> Option<Chore> {
        let mut inner = self.inner.lock();
        loop {
            if inner.is_stopped {
                return None;
            }
            let Some(at) = inner.due.peek().map(|Reverse(due)| due.at) else {
                self.ready.wait(&mut inner);
                continue;
            };
            if at <= Instant::now() {
                return inner.due.pop().map(|Reverse(due)| due.chore);
            }
            self.ready.wait_until(&mut inner, at);
        }
    }

    /// The thread's body; ends after [`Janitor::stop`].
    pub(crate) fn run(dir: &Arc<DirShared>) {
        while let Some(chore) = dir.janitor.next() {
            match chore {
                Chore::FlushRolled(ref to_flush, base, next) => {
                    if let Some(log) = to_flush.upgrade() {
                        report(dir, log.flush_rolled(base, next), chore);
                    }
                }
                Chore::FlushDue(ref to_flush) => {
                    if let Some(log) = to_flush.upgrade() {
                        report(dir, log.flush_planned(), chore);
                    }
                }
                Chore::RemoveFiles(paths) => {
                    for path in paths {
                        if let Err(error) = sys::remove_if_there(&path) {
                            tracing::warn!(%error, "cannot remove a deleted file");
                        }
                    }
                }
                Chore::RemoveFolder(path) => remove_folder(&path),
            }
        }
    }
}

fn report(dir: &DirShared, result: Result<(), LogError>, chore: Chore) {
    match result {
        Err(error) if error.is_out_of_handles() => {
            tracing::warn!(%error, "no file handle is left: a flush is put off");
            dir.janitor.add(chore, HANDLE_RETRY_MS);
        }
        Ok(()) | Err(LogError::Deleted(_) | LogError::Closed | LogError::Storage(_)) => {}
        Err(error) => dir.fail(error),
    }
}

pub(crate) fn remove_folder(path: &Path) {
    match sys::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a deleted partition");
        }
        _ => {}
    }
}
