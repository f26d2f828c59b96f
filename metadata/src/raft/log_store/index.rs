//! Where each entry lies, and the newest ones in memory.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::raft::types::LogId;
use crate::raft::wal::log_path;

/// Place of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Location {
    pub(super) file: u64,
    pub(super) position: u64,
    /// Of the whole frame.
    pub(super) len: u64,
    pub(super) seq: u64,
}

#[derive(Debug)]
struct Item {
    log_id: LogId,
    location: Location,
    cached: Option<Bytes>,
}

/// Bytes of an entry, or where to read them.
#[derive(Debug)]
pub(super) enum Slot {
    Cached(Bytes),
    OnDisk(Arc<File>, Location),
}

/// Entries without gaps, oldest first.
#[derive(Debug, Default)]
pub(super) struct Index {
    dir: PathBuf,
    items: VecDeque<Item>,
    /// Items before this one are not cached.
    cached_from: usize,
    cached_bytes: usize,
    /// Files opened for reading.
    files: BTreeMap<u64, Arc<File>>,
}

impl Index {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            ..Self::default()
        }
    }

    pub(super) fn last(&self) -> Option<LogId> {
        self.items.back().map(|item| item.log_id)
    }

    pub(super) fn first(&self) -> Option<LogId> {
        self.items.front().map(|item| item.log_id)
    }

    /// Number of the oldest file that holds an entry.
    pub(super) fn first_file(&self) -> Option<u64> {
        self.items.front().map(|item| item.location.file)
    }

    /// Adds the next entry, in memory.
    pub(super) fn push(&mut self, log_id: LogId, location: Location, body: Bytes) {
        self.cached_bytes += body.len();
        self.items.push_back(Item {
            log_id,
            location,
            cached: Some(body),
        });
    }

    /// Adds the next entry, which lies in its file.
    pub(super) fn push_recovered(&mut self, log_id: LogId, location: Location) {
        self.items.push_back(Item {
            log_id,
            location,
            cached: None,
        });
        self.cached_from = self.items.len();
    }

    /// Lets go of the oldest cached entries beyond `limit` bytes that are in their file.
    pub(super) fn shrink_cache(&mut self, limit: usize, written: u64) {
        while self.cached_bytes > limit
            && let Some(item) = self.items.get_mut(self.cached_from)
            && item.location.seq <= written
        {
            self.cached_bytes -= item.cached.take().map_or(0, |body| body.len());
            self.cached_from += 1;
        }
    }

    /// Removes the entries from `index` on.
    pub(super) fn truncate_from(&mut self, index: u64) {
        while self
            .items
            .back()
            .is_some_and(|item| item.log_id.index >= index)
        {
            self.items
                .pop_back()
                .into_iter()
                .for_each(|item| self.uncache(&item));
        }
        self.cached_from = self.cached_from.min(self.items.len());
    }

    /// Removes the entries up to `index`, inclusive.
    pub(super) fn purge_to(&mut self, index: u64) {
        while self
            .items
            .front()
            .is_some_and(|item| item.log_id.index <= index)
        {
            self.items
                .pop_front()
                .into_iter()
                .for_each(|item| self.uncache(&item));
            self.cached_from = self.cached_from.saturating_sub(1);
        }
    }

    fn uncache(&mut self, item: &Item) {
        self.cached_bytes -= item.cached.as_ref().map_or(0, Bytes::len);
    }

    /// Entries from `start` to `end`, exclusive; after the first, no more than `max_bytes`.
    pub(super) fn range(
        &mut self,
        start: u64,
        end: u64,
        max_bytes: usize,
    ) -> io::Result<Vec<Slot>> {
        let Some(first) = self.first().map(|id| id.index) else {
            return Ok(Vec::new());
        };
        let skip = usize::try_from(start.saturating_sub(first)).unwrap_or(usize::MAX);
        let mut slots = Vec::new();
        let mut bytes = 0_u64;
        for item in self
            .items
            .iter()
            .skip(skip)
            .take_while(|item| item.log_id.index < end)
        {
            bytes += item.location.len;
            if !slots.is_empty() && bytes > max_bytes as u64 {
                break;
            }
            slots.push(match &item.cached {
                Some(body) => Slot::Cached(body.clone()),
                None => {
                    let file = open(&self.dir, &mut self.files, item.location.file)?;
                    Slot::OnDisk(file, item.location)
                }
            });
        }
        Ok(slots)
    }

    /// Closes files that are about to be removed.
    pub(super) fn forget_files_below(&mut self, file: u64) {
        self.files = self.files.split_off(&file);
    }
}

fn open(dir: &Path, files: &mut BTreeMap<u64, Arc<File>>, number: u64) -> io::Result<Arc<File>> {
    if let Some(file) = files.get(&number) {
        return Ok(Arc::clone(file));
    }
    let file = Arc::new(File::open(log_path(dir, number))?);
    files.insert(number, Arc::clone(&file));
    Ok(file)
}

#[cfg(test)]
impl Index {
    pub(super) fn location_of(&self, index: u64) -> Option<Location> {
        self.items
            .iter()
            .find(|item| item.log_id.index == index)
            .map(|item| item.location)
    }
}
