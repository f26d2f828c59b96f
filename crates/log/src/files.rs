//! Open files of a log directory, bounded: an idle segment holds no handle.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use strandline_types::Offset;

use crate::error::LogError;
use crate::segment::SegmentFile;
use crate::sys;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileKey {
    /// Number of the log, unique in the process's life.
    pub(crate) log: u64,
    pub(crate) base: Offset,
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
        {
            let mut inner = self.inner.lock();
            inner.uses += 1;
            let now = inner.uses;
            if let Some((file, used)) = inner.files.get_mut(&key) {
                *used = now;
                return Ok(Arc::clone(file));
            }
        }
        let path = key.kind.path(folder, key.base);
        let file = sys::open(&path, create).map_err(|e| LogError::io("open", path, e))?;
        let file = Arc::new(file);
        let mut inner = self.inner.lock();
        if inner.files.len() >= self.capacity {
            inner.drop_oldest(self.capacity);
        }
        let now = inner.uses;
        Ok(Arc::clone(&inner.files.entry(key).or_insert((file, now)).0))
    }

    /// Drops the handles of the segments of `log` for which `gone` holds.
    pub(crate) fn forget(&self, log: u64, gone: impl Fn(Offset) -> bool) {
        self.inner
            .lock()
            .files
            .retain(|key, _| key.log != log || !gone(key.base));
    }
}

impl Inner {
    /// Drops the eighth that was not used for longest, so that the search for it is rare.
    fn drop_oldest(&mut self, capacity: usize) {
        let mut uses: Vec<u64> = self.files.values().map(|(_, used)| *used).collect();
        uses.sort_unstable();
        let Some(limit) = uses.get(capacity / 8) else {
            return;
        };
        self.files.retain(|_, (_, used)| *used > *limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handles_used_last_stay_and_the_number_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let cache = FileCache::new(16);
        let open = |base| {
            let key = FileKey {
                log: 1,
                base,
                kind: SegmentFile::Log,
            };
            cache.open(key, folder.path(), true).unwrap()
        };
        let first = open(0);
        for base in 1..200 {
            open(base);
            assert!(Arc::ptr_eq(&first, &open(0)), "{base}");
            assert!(cache.inner.lock().files.len() <= 16);
        }
        cache.forget(1, |base| base == 0);
        assert!(!Arc::ptr_eq(&first, &open(0)));
        let missing = FileKey {
            log: 1,
            base: 999,
            kind: SegmentFile::Log,
        };
        assert!(
            cache
                .open(missing, folder.path(), false)
                .unwrap_err()
                .is_not_found()
        );
    }
}
