//! Open files of a log directory, bounded: an idle segment holds no handle.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use strandline_types::Offset;

use crate::error::LogError;
use crate::segment::{SegmentFile, SegmentId};
use crate::sys;

const SPARE_TRIES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    /// Number of the log, unique in the process's life.
    pub(crate) log: u64,
    pub(crate) segment: SegmentId,
    pub(crate) kind: SegmentFile,
}

/// The handles used last. A handle that was given out stays valid however long it is held.
#[derive(Debug)]
pub(crate) struct FileCache {
    capacity: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<FileKey, (Arc<File>, u64)>,
    uses: u64,
}

impl FileCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(8),
            inner: Mutex::default(),
        }
    }

    /// The open file of `key` in `folder`; opened, and with `create` created, if need be.
    pub(crate) fn open(
        &self,
        key: FileKey,
        folder: &Path,
        create: bool,
    ) -> Result<Arc<File>, LogError> {
        if let Some(file) = self.get(key) {
            return Ok(file);
        }
        let path = key.kind.path(folder, key.segment.base_offset);
        let file = sys::open(&path, create).map_err(|e| LogError::io("open", path, e))?;
        Ok(self.put(key, file))
    }

    /// The open file of `key`, if it is open.
    pub(crate) fn get(&self, key: FileKey) -> Option<Arc<File>> {
        let mut inner = self.inner.lock();
        inner.uses += 1;
        let now = inner.uses;
        let (file, used) = inner.files.get_mut(&key)?;
        *used = now;
        Some(Arc::clone(file))
    }

    /// Keeps an open file; the one that is kept already wins.
    pub(crate) fn put(&self, key: FileKey, file: File) -> Arc<File> {
        let mut inner = self.inner.lock();
        if inner.files.len() >= self.capacity {
            inner.drop_oldest(self.capacity / 8);
        }
        let now = inner.uses;
        let (file, _) = inner.files.entry(key).or_insert((Arc::new(file), now));
        Arc::clone(file)
    }

    /// Does `work`; when it finds no free handle, gives up cached ones and tries again. Others may
    /// take them at the same time, so more than once. Errors: its own, [`LogError::is_out_of_handles`]
    /// when there is nothing left to give up.
    pub(crate) fn spare<T>(&self, work: impl Fn() -> Result<T, LogError>) -> Result<T, LogError> {
        for _ in 0..SPARE_TRIES {
            match work() {
                Err(error) if error.is_out_of_handles() => {
                    if self.inner.lock().drop_oldest(self.capacity / 2) == 0 {
                        return Err(error);
                    }
                    tracing::warn!(%error, "no free file handle, giving up cached ones");
                }
                other => return other,
            }
        }
        work()
    }

    /// Drops the handles of the segments of `log` for which `gone` holds.
    pub(crate) fn forget(&self, log: u64, gone: impl Fn(Offset) -> bool) {
        self.inner
            .lock()
            .files
            .retain(|key, _| key.log != log || !gone(key.segment.base_offset));
    }
}

impl Inner {
    /// Drops those `count` that were not used for longest; several, so that the search is rare. How many
    /// there were to drop.
    fn drop_oldest(&mut self, count: usize) -> usize {
        let mut uses: Vec<u64> = self.files.values().map(|(_, used)| *used).collect();
        uses.sort_unstable();
        let limit = uses.get(count).or(uses.last()).copied().unwrap_or(0);
        self.files.retain(|_, (_, used)| *used > limit);
        uses.len() - self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handles_used_last_stay_and_the_number_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = FileCache::new(16);
        let key = |base_offset| FileKey {
            log: 1,
            segment: SegmentId {
                base_offset,
                incarnation: 0,
            },
            kind: SegmentFile::Log,
        };
        let open = |base| cache.open(key(base), folder.path(), true).unwrap();
        let first = open(0);
        for base in 1..200 {
            open(base);
            assert!(Arc::ptr_eq(&first, &open(0)), "{base}");
            assert!(cache.inner.lock().files.len() <= 16);
        }
        cache.forget(1, |base| base == 0);
        assert!(!Arc::ptr_eq(&first, &open(0)));
        assert!(
            cache
                .open(key(999), folder.path(), false)
                .unwrap_err()
                .is_not_found()
        );
    }
}
