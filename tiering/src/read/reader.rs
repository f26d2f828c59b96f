//! One read: whole batches from the one that holds an offset, through as many segments as fit.
//! Rules: F-4, F-64, F-66, S-15.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use strandline_records::{BATCH_HEAD_BYTES, BatchHeader};
use strandline_types::Offset;

use super::chunk_cache::ChunkHandle;
use super::collector::{Choice, Collector};
use super::fill::{Fetcher, SegmentRef};
use super::piece::piece;
use super::plan::Part;
use super::read_ahead::Stream;
use crate::error::TieringError;

/// Chunks of one read that are fetched at the same time.
const PARALLEL_CHUNKS: usize = 8;

/// The chunk that is being walked.
#[derive(Debug)]
struct Current {
    part: Part,
    start: u64,
    bytes: Bytes,
    handle: ChunkHandle,
}

/// Walks the batches of one segment.
pub(crate) struct SegmentReader<'a> {
    fetcher: &'a Fetcher,
    segment: &'a SegmentRef,
    stream: Option<&'a Stream>,
    pub(crate) position: u64,
    next_offset: Offset,
    started: VecDeque<(Part, ChunkHandle, bool)>,
    current: Option<Current>,
    /// A chunk was not there when it was needed.
    pub(crate) waited: bool,
}

impl<'a> SegmentReader<'a> {
    pub(crate) fn new(
        fetcher: &'a Fetcher,
        segment: &'a SegmentRef,
        stream: Option<&'a Stream>,
        position: u64,
    ) -> Self {
        let next_offset = segment.entry.base_offset;
        Self {
            fetcher,
            segment,
            stream,
            position,
            next_offset,
            started: VecDeque::new(),
            current: None,
            waited: false,
        }
    }

    /// Starts fetching what a read needs; true when it can begin without waiting.
    pub(crate) fn begin(&mut self, into: &Collector) -> bool {
        if self.started.is_empty() {
            self.start(into.wanted());
        }
        let first = self.started.front();
        first.is_none_or(|(_, handle, _)| handle.is_ready())
    }

    /// Reads until the collector is full or the segment ends. After an error the collector holds the whole batches
    /// before [`SegmentReader::position`].
    pub(crate) async fn collect(&mut self, into: &mut Collector) -> Result<(), TieringError> {
        self.begin(into);
        while self.position < self.segment.cut.log_bytes && !into.full {
            if let Some(run) = self.run_in_chunk(into).await? {
                into.read.parts.push(run);
                continue;
            }
            if into.full || self.position >= self.segment.cut.log_bytes {
                return Ok(());
            }
            self.stitch(into).await?;
        }
        Ok(())
    }

    /// The next batch, whole; `None` at the end of the segment.
    pub(crate) async fn next_batch(
        &mut self,
        wanted: impl Fn(&BatchHeader) -> bool,
    ) -> Result<Option<(BatchHeader, Bytes)>, TieringError> {
        while self.position < self.segment.cut.log_bytes {
            let head = self.copy(self.position, BATCH_HEAD_BYTES as u64).await?;
            let header = self.header(&head)?;
            let at = self.position;
            self.position += header.size_in_bytes() as u64;
            if wanted(&header) {
                let bytes = self.copy(at, header.size_in_bytes() as u64).await?;
                return Ok(Some((header, bytes)));
            }
        }
        Ok(None)
    }

    /// The chunk that was read last, and those behind it that were begun.
    pub(crate) fn into_handles(self) -> Vec<(Part, ChunkHandle)> {
        let current = self.current.map(|current| (current.part, current.handle));
        let started = self.started.into_iter();
        current
            .into_iter()
            .chain(started.map(|(part, handle, _)| (part, handle)))
            .collect()
    }

    /// Starts fetching what a read of `bytes` needs.
    fn start(&mut self, bytes: u64) {
        for part in self
            .segment
            .cut
            .parts(self.position, bytes)
            .into_iter()
            .take(PARALLEL_CHUNKS)
        {
            let (handle, held) = self.handle(part);
            self.started.push_back((part, handle, held));
        }
    }

    /// And whether the reader held it already.
    fn handle(&self, part: Part) -> (ChunkHandle, bool) {
        match self
            .stream
            .and_then(|stream| stream.held(self.segment, part))
        {
            Some(handle) => (handle, true),
            None => (self.fetcher.part(self.segment, part), false),
        }
    }

    /// The chunk with the byte at `position`, and the position of its first byte.
    async fn chunk_at(&mut self, position: u64) -> Result<(u64, Bytes), TieringError> {
        let (part, start) = self.segment.cut.part_at(position);
        if let Some(current) = self.current.as_ref().filter(|current| current.part == part) {
            return Ok((current.start, current.bytes.clone()));
        }
        while self
            .started
            .front()
            .is_some_and(|(first, ..)| *first != part)
        {
            self.started.pop_front();
        }
        let (handle, held) = match self.started.pop_front() {
            Some((_, handle, held)) => (handle, held),
            None => self.handle(part),
        };
        self.waited |= !handle.is_ready();
        let whole = match handle.get().await {
            Ok(bytes) => bytes,
            // It was fetched ahead, perhaps in worse times.
            Err(_) if held => self.fetcher.part(self.segment, part).get().await?,
            Err(error) => return Err(error),
        };
        // A whole object has its indexes behind the batches.
        let log = self.segment.cut.log_bytes - start;
        let end = usize::try_from(log).unwrap_or(usize::MAX).min(whole.len());
        let bytes = whole.slice(..end);
        let handle = ChunkHandle::Ready(whole);
        self.current = Some(Current {
            part,
            start,
            bytes: bytes.clone(),
            handle,
        });
        Ok((start, bytes))
    }

    /// Batches from the position on that lie in one chunk, as one piece of it.
    async fn run_in_chunk(&mut self, into: &mut Collector) -> Result<Option<Bytes>, TieringError> {
        let (start, chunk) = self.chunk_at(self.position).await?;
        let at = |position: u64| usize::try_from(position - start).unwrap_or(usize::MAX);
        let mut run = at(self.position)..at(self.position);
        while let Some(rest) = chunk
            .get(run.end..)
            .filter(|rest| rest.len() >= BATCH_HEAD_BYTES)
        {
            let header = match self.header(rest) {
                Ok(header) => header,
                Err(error) if run.is_empty() => return Err(error),
                // What lies before it is good; it is met again.
                Err(_) => break,
            };
            let size = header.size_in_bytes();
            if size > rest.len() {
                break;
            }
            match into.choose(&header) {
                Choice::Stop => break,
                Choice::Take => run.end += size,
                Choice::Skip => run = run.end + size..run.end + size,
            }
            self.position += size as u64;
            self.next_offset = header.next_offset();
        }
        Ok((!run.is_empty()).then(|| piece(&chunk, run, &self.fetcher.answer_budget)))
    }

    /// The batch at the position, which spans chunks.
    async fn stitch(&mut self, into: &mut Collector) -> Result<(), TieringError> {
        let head = self.copy(self.position, BATCH_HEAD_BYTES as u64).await?;
        let header = self.header(&head)?;
        let size = header.size_in_bytes() as u64;
        let before = into.mark();
        match into.choose(&header) {
            Choice::Stop => return Ok(()),
            Choice::Take => {
                if let Err(error) = self.take(size, into).await {
                    into.back_to(before);
                    return Err(error);
                }
            }
            Choice::Skip => {}
        }
        self.position += size;
        self.next_offset = header.next_offset();
        Ok(())
    }

    /// The batch of `size` bytes at the position, in as many pieces as chunks that it lies in.
    async fn take(&mut self, size: u64, into: &mut Collector) -> Result<(), TieringError> {
        let mut at = self.position;
        let end = at.saturating_add(size);
        while at < end {
            let (chunk, range) = self.within(at, end).await?;
            at += range.len() as u64;
            let piece = piece(&chunk, range, &self.fetcher.answer_budget);
            into.read.parts.push(piece);
        }
        Ok(())
    }

    async fn copy(&mut self, from: u64, len: u64) -> Result<Bytes, TieringError> {
        let end = from.saturating_add(len);
        let (chunk, range) = self.within(from, end).await?;
        if range.len() as u64 == len {
            return Ok(chunk.slice(range));
        }
        let mut out = BytesMut::with_capacity(usize::try_from(len).unwrap_or(usize::MAX));
        out.extend_from_slice(&chunk[range]);
        while (out.len() as u64) < len {
            let (chunk, range) = self.within(from + out.len() as u64, end).await?;
            out.extend_from_slice(&chunk[range]);
        }
        Ok(out.freeze())
    }

    /// The chunk with the byte at `from`, and where in it the bytes from there on lie, up to `end` or its own end;
    /// at least one.
    async fn within(&mut self, from: u64, end: u64) -> Result<(Bytes, Range<usize>), TieringError> {
        if end > self.segment.cut.log_bytes {
            return Err(self.corrupt("a batch reaches behind the end"));
        }
        let (start, chunk) = self.chunk_at(from).await?;
        let at = usize::try_from(from - start).unwrap_or(usize::MAX);
        let rest = chunk.len().saturating_sub(at);
        let len = usize::try_from(end - from).unwrap_or(usize::MAX).min(rest);
        if len == 0 {
            return Err(self.corrupt("a chunk is shorter than it should be"));
        }
        Ok((chunk, at..at + len))
    }

    /// The checksums of the blocks were right, so what is wrong here was wrong when it was uploaded.
    fn header(&self, bytes: &[u8]) -> Result<BatchHeader, TieringError> {
        let header = BatchHeader::parse(bytes).map_err(|error| self.corrupt(&error.to_string()))?;
        let entry = &self.segment.entry;
        if header.base_offset < self.next_offset || header.last_offset() > entry.last_offset {
            return Err(self.corrupt("its offsets are out of order"));
        }
        Ok(header)
    }

    fn corrupt(&self, why: &str) -> TieringError {
        TieringError::corrupt(
            &self.segment.key,
            format!("at byte {}: {why}", self.position),
        )
    }
}
