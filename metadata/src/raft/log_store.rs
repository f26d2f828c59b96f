//! openraft's log on our write-ahead log: entries, vote, committed, truncations and purges in one
//! sequence of frames.
//!
//! **Consistency.** The index in memory changes in the order in which frames are queued, under one
//! lock; so what is read is what will be durable, and the order in the file is the order of the calls.
//! **Crash safety.** Entries and votes are acknowledged after `fdatasync`. `committed` is not synced: it
//! only saves work after a restart.

mod index;
mod recovery;

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::codec::Writer;
use crate::error::OpenError;
use crate::raft::encoding::{decode_entry, encode_entry, encode_log_id, encode_opt_log_id};
use crate::raft::log_store::index::{Index, Location, Slot};
use crate::raft::types::{Entry, LogId, TypeConfig, Vote};
use crate::raft::wal::{FRAME_HEADER_LEN, Job, MAX_BODY_LEN, Parsed, Wal, parse_frame};

/// Kinds of frames.
const ENTRY: u8 = 1;
const VOTE: u8 = 2;
const COMMITTED: u8 = 3;
const TRUNCATE: u8 = 4;
const PURGE: u8 = 5;

/// Sizes; tests make them small.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogStoreOptions {
    /// A file is full beyond this many bytes.
    pub(crate) file_bytes: u64,
    /// Entries kept in memory, in bytes.
    pub(crate) cache_bytes: usize,
    /// Most bytes of entries that one read for a follower returns.
    pub(crate) read_bytes: usize,
}

impl Default for LogStoreOptions {
    fn default() -> Self {
        Self {
            file_bytes: 8 * 1024 * 1024,
            cache_bytes: 4 * 1024 * 1024,
            read_bytes: 4 * 1024 * 1024,
        }
    }
}

/// The log of one raft node. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct LogStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: LogStoreOptions,
    state: Mutex<State>,
    wal: Wal,
    /// Lock of the directory: whoever forgets to stop the node must not have two writers.
    _lock: Option<Arc<File>>,
}

/// What the frames that were queued so far add up to.
#[derive(Debug, Default)]
struct State {
    index: Index,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
    /// Where the next frame goes.
    file: u64,
    position: u64,
    next_seq: u64,
    /// Bytes of entries since the log was opened.
    appended_bytes: u64,
}

impl LogStore {
    /// Opens the log in `dir`, which exists; creates it if it is empty.
    /// The `lock` is held as long as anything of the log is in use.
    pub(crate) fn open(
        dir: &Path,
        options: LogStoreOptions,
        lock: Option<Arc<File>>,
    ) -> Result<Self, OpenError> {
        let (state, wal) = recovery::open(dir)?;
        Ok(Self {
            shared: Arc::new(Shared {
                options,
                state: Mutex::new(state),
                wal,
                _lock: lock,
            }),
        })
    }

    /// Syncs everything and ends the writer thread. Blocks; later writes fail.
    pub(crate) fn stop(&self) {
        self.shared.wal.stop();
    }

    /// Bytes of entries appended since the log was opened.
    pub(crate) fn appended_bytes(&self) -> u64 {
        self.shared.state.lock().appended_bytes
    }

    /// Queues a state frame and waits until it is durable.
    async fn write_synced(&self, change: impl FnOnce(&mut State) -> (u8, Bytes)) -> io::Result<()> {
        let (sent, received) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            let (kind, body) = change(&mut state);
            let mut jobs = Vec::new();
            let done = Box::new(move |result| drop(sent.send(result)));
            state.place(
                kind,
                body,
                Some(done),
                self.shared.options.file_bytes,
                &mut jobs,
            );
            if kind == PURGE {
                jobs.push(Job::RemoveBelow(state.first_needed_file()));
                state.forget_files();
            }
            self.shared.wal.submit(jobs);
        }
        received
            .await
            .map_err(|_| io::Error::other("the metadata log is shut down"))?
    }

    fn read(&self, range: impl RangeBounds<u64>, max_bytes: usize) -> io::Result<Vec<Entry>> {
        // Bytes are taken under the lock, decoded outside; a file stays readable after its removal.
        let slots = {
            let mut state = self.shared.state.lock();
            let start = match range.start_bound() {
                Bound::Included(start) => *start,
                Bound::Excluded(before) => before.saturating_add(1),
                Bound::Unbounded => 0,
            };
            let end = match range.end_bound() {
                Bound::Included(last) => last.saturating_add(1),
                Bound::Excluded(end) => *end,
                Bound::Unbounded => u64::MAX,
            };
            state.index.range(start, end, max_bytes)?
        };
        slots
            .into_iter()
            .map(|slot| match slot {
                Slot::Cached(body) => decode(&body),
                Slot::OnDisk(file, location) => decode(&read_frame(&file, location)?),
            })
            .collect()
    }
}

impl State {
    /// Gives the next frame its place, beginning a new file first if this one is full.
    fn place(
        &mut self,
        kind: u8,
        body: Bytes,
        done: Option<crate::raft::wal::Done>,
        file_bytes: u64,
        jobs: &mut Vec<Job>,
    ) -> Location {
        if self.position >= file_bytes {
            self.file += 1;
            self.position = recovery::FIRST_POSITION;
            jobs.push(Job::Roll {
                number: self.file,
                first_seq: self.next_seq,
            });
            // So that older files can go: what they said about the state is said again.
            for (kind, body) in self.head() {
                self.push_frame(kind, body, None, jobs);
            }
        }
        self.push_frame(kind, body, done, jobs)
    }

    fn push_frame(
        &mut self,
        kind: u8,
        body: Bytes,
        done: Option<crate::raft::wal::Done>,
        jobs: &mut Vec<Job>,
    ) -> Location {
        let len = (FRAME_HEADER_LEN + body.len()) as u64;
        let location = Location {
            file: self.file,
            position: self.position,
            len,
            seq: self.next_seq,
        };
        jobs.push(Job::Write {
            seq: self.next_seq,
            kind,
            body,
            done,
        });
        self.position += len;
        self.next_seq += 1;
        location
    }

    fn head(&self) -> Vec<(u8, Bytes)> {
        let mut frames = Vec::new();
        frames.extend(
            self.vote
                .map(|vote| (VOTE, crate::raft::encoding::encode_vote(&vote).into())),
        );
        frames.extend(self.purged.map(|id| (PURGE, log_id_body(&id))));
        frames.push((COMMITTED, opt_log_id_body(self.committed.as_ref())));
        frames
    }

    fn first_needed_file(&self) -> u64 {
        self.index.first_file().unwrap_or(self.file).min(self.file)
    }

    fn forget_files(&mut self) {
        let first = self.first_needed_file();
        self.index.forget_files_below(first);
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(range, usize::MAX)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.shared.state.lock().vote)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(start..end, self.shared.options.read_bytes)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let state = self.shared.state.lock();
        Ok(LogState {
            last_purged_log_id: state.purged,
            last_log_id: state.index.last().or(state.purged),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let vote = *vote;
        self.write_synced(move |state| {
            state.vote = Some(vote);
            (VOTE, crate::raft::encoding::encode_vote(&vote).into())
        })
        .await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let mut state = self.shared.state.lock();
        state.committed = committed;
        let body = opt_log_id_body(committed.as_ref());
        let mut jobs = Vec::new();
        state.place(
            COMMITTED,
            body,
            None,
            self.shared.options.file_bytes,
            &mut jobs,
        );
        self.shared.wal.submit(jobs);
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.shared.state.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|entry| (entry.log_id, Bytes::from(encode_entry(&entry))))
            .collect();
        let options = self.shared.options;
        let mut state = self.shared.state.lock();
        let mut jobs = Vec::new();
        let mut done: Option<crate::raft::wal::Done> =
            Some(Box::new(move |result| callback.io_completed(result)));
        // It could not be read again.
        if entries.iter().any(|(_, body)| body.len() > MAX_BODY_LEN) {
            return Err(io::Error::other("an entry of the metadata log is too long"));
        }
        let count = entries.len();
        for (at, (log_id, body)) in entries.into_iter().enumerate() {
            // One acknowledgement, of the last entry, stands for all.
            let done = if at + 1 == count { done.take() } else { None };
            state.appended_bytes += body.len() as u64;
            let location = state.place(ENTRY, body.clone(), done, options.file_bytes, &mut jobs);
            state.index.push(log_id, location, body);
        }
        state
            .index
            .shrink_cache(options.cache_bytes, self.shared.wal.written());
        self.shared.wal.submit(jobs);
        drop(state);
        if let Some(done) = done {
            done(Ok(()));
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        self.write_synced(move |state| {
            state
                .index
                .truncate_from(last_log_id.map_or(0, |id| id.index + 1));
            (TRUNCATE, opt_log_id_body(last_log_id.as_ref()))
        })
        .await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.write_synced(move |state| {
            state.purged = state.purged.max(Some(log_id));
            state.index.purge_to(log_id.index);
            (PURGE, log_id_body(&log_id))
        })
        .await
    }
}

fn log_id_body(id: &LogId) -> Bytes {
    let mut out = Writer::default();
    encode_log_id(id, &mut out);
    out.out.into()
}

fn opt_log_id_body(id: Option<&LogId>) -> Bytes {
    let mut out = Writer::default();
    encode_opt_log_id(id, &mut out);
    out.out.into()
}

fn decode(body: &[u8]) -> io::Result<Entry> {
    decode_entry(body).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn read_frame(file: &File, location: Location) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(location.len).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, location.position)?;
    match parse_frame(&bytes) {
        Parsed::Frame(frame, _) if frame.seq == location.seq && frame.kind == ENTRY => {
            Ok(Bytes::copy_from_slice(frame.body))
        }
        Parsed::Frame(..) | Parsed::End | Parsed::Bad(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "the metadata log was damaged after it was opened: file {} at byte {}",
                location.file, location.position
            ),
        )),
    }
}

#[cfg(test)]
mod tests;
