//! What each sequential reader of a partition will want next, fetched before it asks.
//!
//! A reader is known by the offset at which its last read ended. Its window begins with two chunks,
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
/// Parts that one reader holds at most: of small segments many fit into its window, each a request of its own.
const MAX_PARTS: usize = 64;
/// Reads in a row before anything is fetched ahead of a reader of little.
const SEQUENTIAL: u32 = 2;
/// Chunks that the window begins with.
const FIRST_CHUNKS: u64 = 2;
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
        let is_sequential = stream.reads >= SEQUENTIAL || read.took_a_lot;
        if is_sequential {
            let grown = if read.waited {
                stream.window.saturating_mul(2)
            } else {
                stream.window
            };
            let widest = self.max_window.max(chunk);
            stream.window = grown.clamp(widest.min(chunk * FIRST_CHUNKS), widest);
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
        if is_sequential && self.max_window > 0 {
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
        let chunk = read.segment.cut.chunk_bytes;
        // At least two runs are on their way at any time once the window is wide.
        let run = fetcher.run_bytes.min(stream.window / 2).max(chunk);
        let reach = stream.window + run - chunk;
        let (missing, has_more) = missing(stream, fetcher, keys, view, read, reach).await?;
        let bytes: u64 = missing.iter().map(|missing| missing.bytes).sum();
        let is_urgent = missing.first().is_some_and(|m| m.ahead < stream.window / 2);
        // Chunks gather until they make a run, unless the reader comes near or none will follow.
        if run > chunk && bytes < run && has_more && !is_urgent {
            return Ok(());
        }
        for some in runs(&missing, run) {
            if !self.hold_run(stream, fetcher, some) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// False when the budget is used up.
    fn hold_run(&self, stream: &mut Stream, fetcher: &Fetcher, run: &[Missing]) -> bool {
        let sizes: Vec<u64> = run.iter().map(|missing| missing.bytes).collect();
        let Some(first) = run.first() else {
            return true;
        };
        let Some(permits) = self.budget.try_acquire_each(&sizes) else {
            // Better a single chunk than nothing for a reader that is about to wait.
            if run.len() > 1 && first.ahead < first.bytes {
                self.hold_run(stream, fetcher, &run[..1]);
            }
            return false;
        };
        let segment = &first.segment;
        let parts: Vec<Part> = run.iter().map(|missing| missing.part).collect();
        let handles = fetcher.parts(segment, &parts);
        for ((part, handle), permit) in parts.into_iter().zip(handles).zip(permits) {
            stream.held.push(Held {
                key: segment.cut.key(part),
                place: place(segment, part),
                handle,
                _permit: permit,
            });
        }
        true
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

/// A part that the window covers and the reader does not hold.
#[derive(Debug)]
struct Missing {
    segment: SegmentRef,
    part: Part,
    bytes: u64,
    /// Bytes between the reader and the part.
    ahead: u64,
}

/// What is missing of the next `reach` bytes, and whether the tier goes on behind them.
async fn missing(
    stream: &Stream,
    fetcher: &Fetcher,
    keys: &PartitionKeys,
    view: &ManifestView,
    read: &Ended<'_>,
    reach: u64,
) -> Result<(Vec<Missing>, bool), TieringError> {
    let mut found = Vec::new();
    let mut segment = read.segment.clone();
    let (mut position, mut ahead) = (read.position, 0);
    loop {
        for part in segment.cut.parts(position, reach - ahead) {
            let key = segment.cut.key(part);
            if stream.held.iter().all(|held| held.key != key) {
                if stream.held.len() + found.len() >= MAX_PARTS {
                    return Ok((found, true));
                }
                let range = segment.cut.range(part);
                found.push(Missing {
                    segment: segment.clone(),
                    part,
                    bytes: range.end - range.start,
                    ahead: ahead + range.start.saturating_sub(position),
                });
            }
        }
        ahead += segment.cut.log_bytes.saturating_sub(position);
        if ahead >= reach {
            return Ok((found, true));
        }
        let next = view.segment_for_offset(segment.entry.next_offset()).await?;
        let Some(next) = next else {
            return Ok((found, false));
        };
        segment = fetcher.segment(keys, next);
        position = 0;
    }
}

/// Parts that one request can bring: of one segment, one behind the other, `run_bytes` together at most.
fn runs(missing: &[Missing], run_bytes: u64) -> impl Iterator<Item = &[Missing]> {
    let mut bytes = 0;
    missing.chunk_by(move |a, b| {
        bytes = bytes.max(a.bytes) + b.bytes;
        let follow = match (a.part, b.part) {
            (Part::Chunk(a), Part::Chunk(b)) => a + 1 == b,
            _ => false,
        };
        let joined = follow && a.segment.entry.uuid == b.segment.entry.uuid && bytes <= run_bytes;
        if !joined {
            bytes = 0;
        }
        joined
    })
}

/// How a read ended.
#[derive(Debug)]
pub(crate) struct Ended<'a> {
    pub(crate) next_offset: Offset,
    pub(crate) segment: &'a SegmentRef,
    pub(crate) position: u64,
    /// It got as much as a reader asks for who wants all there is.
    pub(crate) took_a_lot: bool,
    /// It had to wait for a chunk.
    pub(crate) waited: bool,
    /// Chunks of the segment that were begun, from the one that was read last on.
    pub(crate) handles: Vec<(Part, ChunkHandle)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests_support::entry;
    use crate::read::plan::Cut;

    fn missing(base_offset: Offset, parts: &[Part]) -> Vec<Missing> {
        let entry = entry(base_offset, base_offset + 9);
        let cut = Cut::of(&entry, 64);
        let segment = SegmentRef {
            entry: Arc::new(entry),
            key: "key".into(),
            cut,
        };
        let missing = |part: &Part| Missing {
            segment: segment.clone(),
            part: *part,
            bytes: 10,
            ahead: 0,
        };
        parts.iter().map(missing).collect()
    }

    #[test]
    fn a_run_is_of_one_segment_without_gaps_and_no_longer_than_it_may_be() {
        use Part::{Chunk, Whole};
        let mut all = missing(0, &[Chunk(1), Chunk(2), Chunk(3), Chunk(4), Chunk(6)]);
        all.extend(missing(10, &[Chunk(7), Chunk(8)]));
        all.extend(missing(20, &[Whole]));
        all.extend(missing(30, &[Whole]));
        let lengths = |run_bytes| runs(&all, run_bytes).map(<[_]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(1000), [4, 1, 2, 1, 1]);
        assert_eq!(lengths(30), [3, 1, 1, 2, 1, 1]);
        assert_eq!(lengths(20), [2, 2, 1, 2, 1, 1]);
        assert_eq!(lengths(0), [1; 9]);
    }
}
