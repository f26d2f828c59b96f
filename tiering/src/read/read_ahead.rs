//! What each sequential reader of a partition will want next, fetched before it asks.
//!
//! A reader is known by the offset at which its last read ended. Its window begins with a chunk,
//! doubles whenever it had to wait, crosses segment borders, and holds its chunks itself, so that
//! read-ahead works with a small cache or none. All windows of the broker share one budget; chunks
//! of a reader that stays away are let go by a task that ends with the last of them.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use strandline_types::Offset;
use uuid::Uuid;

use super::budget::{ByteBudget, BytePermit};
use super::chunk_cache::ChunkHandle;
use super::fill::{Fetcher, SegmentRef};
use super::plan::{ChunkKey, Part};
use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::manifest::ManifestView;

/// Readers of one partition that are told apart.
const MAX_STREAMS: usize = 16;
/// Reads in a row before anything is fetched ahead.
const SEQUENTIAL: u32 = 2;
const IDLE: Duration = Duration::from_secs(10);

/// One sequential reader.
#[derive(Debug)]
pub(crate) struct Stream {
    next_offset: Offset,
    /// Where `next_offset` lies, if the last read ended inside a segment.
    at: Option<(Uuid, u64)>,
    reads: u32,
    window: u64,
    held: Vec<Held>,
    used: Instant,
}

#[derive(Debug)]
struct Held {
    key: ChunkKey,
    place: (Offset, u32),
    handle: ChunkHandle,
    _permit: BytePermit,
}

/// The readers of one partition.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    budget: ByteBudget,
    max_window: u64,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    idle: Vec<Stream>,
    reaping: bool,
}

impl Stream {
    fn new(offset: Offset) -> Self {
        Self {
            next_offset: offset,
            at: None,
            reads: 0,
            window: 0,
            held: Vec::new(),
            used: Instant::now(),
        }
    }

    /// Position in `segment` of the batch that the reader wants next, if known.
    pub(crate) fn position_in(&self, segment: &SegmentRef) -> Option<u64> {
        self.at
            .filter(|(uuid, _)| *uuid == segment.entry.uuid)
            .map(|(_, position)| position)
    }

    /// A chunk that the reader holds.
    pub(crate) fn held(&self, segment: &SegmentRef, part: Part) -> Option<ChunkHandle> {
        let key = segment.cut.key(part);
        let held = self.held.iter().find(|held| held.key == key)?;
        Some(held.handle.clone())
    }

    /// Keeps only what lies at or behind a part of a segment.
    fn let_go_before(&mut self, segment: &SegmentRef, part: Part) {
        let here = place(segment, part);
        self.held.retain(|held| held.place >= here);
    }
}

/// Order of parts in the log: segment, then chunk.
fn place(segment: &SegmentRef, part: Part) -> (Offset, u32) {
    let number = match part {
        Part::Chunk(number) => number,
        Part::Whole | Part::Tail => 0,
    };
    (segment.entry.base_offset, number)
}

impl ReadAhead {
    pub(crate) fn new(budget: ByteBudget, max_window: u64) -> Arc<Self> {
        Arc::new(Self {
            budget,
            max_window,
            streams: Mutex::default(),
        })
    }

    /// The reader that goes on at `offset`, or a new one.
    pub(crate) fn begin(&self, offset: Offset) -> Stream {
        let mut streams = self.streams.lock();
        match streams
            .idle
            .iter()
            .position(|stream| stream.next_offset == offset)
        {
            Some(at) => streams.idle.swap_remove(at),
            None => Stream::new(offset),
        }
    }

    /// Ends a read: the next one of this reader will begin at `next_offset`, which lies at
    /// `position` of `segment`. Fetches ahead if it was sequential so far.
    pub(crate) async fn end(
        self: &Arc<Self>,
        mut stream: Stream,
        fetcher: &Fetcher,
        keys: &PartitionKeys,
        view: &ManifestView,
        read: Ended<'_>,
    ) -> Result<(), TieringError> {
        stream.next_offset = read.next_offset;
        stream.at = None;
        stream.reads = stream.reads.saturating_add(1);
        stream.used = Instant::now();
        let chunk = read.segment.cut.chunk_bytes;
        if stream.reads >= SEQUENTIAL {
            let grown = if read.waited {
                stream.window.saturating_mul(2)
            } else {
                stream.window
            };
            stream.window = grown.clamp(chunk, self.max_window.max(chunk));
        }
        if read.position < read.segment.cut.log_bytes {
            stream.at = Some((read.segment.entry.uuid, read.position));
            let (part, _) = read.segment.cut.part_at(read.position);
            stream.let_go_before(read.segment, part);
            // The chunk in which the reader stands is held, or each small read would fetch it; so
            // are those that the read began and did not need.
            let here = place(read.segment, part);
            for (part, handle) in &read.handles {
                if place(read.segment, *part) >= here {
                    self.hold(&mut stream, read.segment, *part, || handle.clone());
                }
            }
        } else {
            let done = read.segment.entry.base_offset;
            stream.held.retain(|held| held.place.0 > done);
        }
        if stream.reads >= SEQUENTIAL && self.max_window > 0 {
            self.fetch_ahead(&mut stream, fetcher, keys, view, &read)
                .await?;
        }
        self.keep(stream);
        Ok(())
    }

    async fn fetch_ahead(
        &self,
        stream: &mut Stream,
        fetcher: &Fetcher,
        keys: &PartitionKeys,
        view: &ManifestView,
        read: &Ended<'_>,
    ) -> Result<(), TieringError> {
        let mut left = stream.window;
        let mut segment = read.segment.clone();
        let mut position = read.position;
        while left > 0 {
            for part in segment.cut.parts(position, left) {
                if !self.hold(stream, &segment, part, || fetcher.part(&segment, part)) {
                    return Ok(());
                }
            }
            let covered = segment.cut.log_bytes.saturating_sub(position);
            if covered >= left {
                return Ok(());
            }
            left -= covered;
            let next = view.segment_for_offset(segment.entry.next_offset()).await?;
            let Some(next) = next else { return Ok(()) };
            segment = fetcher.segment(keys, next);
            position = 0;
        }
        Ok(())
    }

    /// False when the budget is used up.
    fn hold(
        &self,
        stream: &mut Stream,
        segment: &SegmentRef,
        part: Part,
        handle: impl FnOnce() -> ChunkHandle,
    ) -> bool {
        let key = segment.cut.key(part);
        if stream.held.iter().any(|held| held.key == key) {
            return true;
        }
        let range = segment.cut.range(part);
        let Some(permit) = self.budget.try_acquire(range.end - range.start) else {
            return false;
        };
        let handle = handle();
        let place = place(segment, part);
        stream.held.push(Held {
            key,
            place,
            handle,
            _permit: permit,
        });
        true
    }

    fn keep(self: &Arc<Self>, stream: Stream) {
        let mut streams = self.streams.lock();
        if streams.idle.len() >= MAX_STREAMS
            && let Some(oldest) = streams
                .idle
                .iter()
                .enumerate()
                .min_by_key(|(_, s)| s.used)
                .map(|(at, _)| at)
        {
            streams.idle.swap_remove(oldest);
        }
        streams.idle.push(stream);
        if !streams.reaping {
            streams.reaping = true;
            tokio::spawn(reap(Arc::downgrade(self)));
        }
    }

    fn let_go_of_idle(&self) -> bool {
        let mut streams = self.streams.lock();
        streams.idle.retain(|stream| stream.used.elapsed() < IDLE);
        streams.reaping = !streams.idle.is_empty();
        streams.reaping
    }
}

/// Ends when no reader is left, or the partition is gone.
async fn reap(readers: Weak<ReadAhead>) {
    loop {
        tokio::time::sleep(IDLE / 2).await;
        match readers.upgrade() {
            Some(readers) if readers.let_go_of_idle() => {}
            _ => return,
        }
    }
}

/// How a read ended.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) next_offset: Offset,
    pub(crate) segment: &'a SegmentRef,
    pub(crate) position: u64,
    /// It had to wait for a chunk.
    pub(crate) waited: bool,
    /// Chunks of the segment that were begun, from the one that was read last on.
    pub(crate) handles: Vec<(Part, ChunkHandle)>,
}
