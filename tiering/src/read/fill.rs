//! From the bucket into the cache: a part of a segment object, checked before anybody sees it.
//!
//! **Retries**: the bucket's own; damage is fetched once more, as it may have happened on the way.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use strandline_bucket::{Bucket, BucketErrorKind, RangeRead};
use uuid::Uuid;

use super::budget::ByteBudget;
use super::chunk_cache::{ChunkCache, ChunkHandle};
use super::plan::{Cut, Part};
use super::run::Piece;
use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::manifest::SegmentEntry;
use crate::metrics::TieringMetrics;
use crate::segment_object::{Footer, SegmentTail};
use crate::wire::DecodeError;

/// Everything that reading the objects of all partitions shares.
#[derive(Debug, Clone)]
pub(crate) struct Fetcher {
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) cache: ChunkCache,
    pub(crate) tails: Arc<Tails>,
    /// Bytes of fills in flight.
    pub(crate) fill_budget: ByteBudget,
    /// Bytes that answers keep besides their own.
    pub(crate) answer_budget: ByteBudget,
    pub(crate) chunk_bytes: u64,
    /// Bytes of chunks that one request brings, at most.
    pub(crate) run_bytes: u64,
    pub(crate) metrics: TieringMetrics,
}

/// One segment object to read from.
#[derive(Debug, Clone)]
pub(crate) struct SegmentRef {
    pub(crate) entry: Arc<SegmentEntry>,
    pub(crate) key: Arc<str>,
    pub(crate) cut: Cut,
}

impl Fetcher {
    pub(crate) fn segment(&self, keys: &PartitionKeys, entry: SegmentEntry) -> SegmentRef {
        let key = keys.segment(&entry.name()).into();
        let cut = Cut::of(&entry, self.chunk_bytes);
        SegmentRef {
            entry: Arc::new(entry),
            key,
            cut,
        }
    }

    /// The bytes of a part, checked; there or on their way.
    pub(crate) fn part(&self, segment: &SegmentRef, part: Part) -> ChunkHandle {
        self.handle(segment, part, None)
    }

    /// The same of a part that a run brings, if nobody else does.
    pub(crate) fn part_of_run(
        &self,
        segment: &SegmentRef,
        part: Part,
        piece: Piece,
    ) -> ChunkHandle {
        self.handle(segment, part, Some(piece))
    }

    fn handle(&self, segment: &SegmentRef, part: Part, piece: Option<Piece>) -> ChunkHandle {
        let this = self.clone();
        let segment = segment.clone();
        self.cache.get(segment.cut.key(part), move || async move {
            this.fetch(segment, part, piece).await
        })
    }

    /// The indexes of a segment.
    pub(crate) async fn tail(
        &self,
        segment: &SegmentRef,
    ) -> Result<Arc<SegmentTail>, TieringError> {
        if let Some(tail) = self.tails.get(segment.entry.uuid) {
            return Ok(tail);
        }
        let part = if segment.cut.is_whole() {
            Part::Whole
        } else {
            Part::Tail
        };
        let mut bytes = self.part(segment, part).get().await?;
        if part == Part::Whole {
            // An own copy, or the indexes would keep the batches in memory.
            let start = usize::try_from(segment.entry.log_bytes).unwrap_or(usize::MAX);
            bytes = Bytes::copy_from_slice(bytes.get(start..).unwrap_or_default());
        }
        let tail = parse_tail(&segment.entry, &bytes)
            .map_err(|error| TieringError::corrupt(&segment.key, error.to_string()))?;
        let tail = Arc::new(tail);
        self.tails.put(segment.entry.uuid, &tail);
        Ok(tail)
    }

    // Boxed, as fetching a chunk fetches the tail, and that is a part as well.
    fn fetch(
        self,
        segment: SegmentRef,
        part: Part,
        mut piece: Option<Piece>,
    ) -> BoxFuture<'static, Result<Bytes, TieringError>> {
        async move {
            let mut damage = None;
            for _ in 0..2 {
                match self.fetch_once(&segment, part, piece.take()).await? {
                    Ok(bytes) => return Ok(bytes),
                    Err(error) => {
                        tracing::warn!(key = %segment.key, ?part, %error, "damaged bytes from the store");
                        damage = Some(error);
                    }
                }
            }
            Err(match damage {
                Some(DecodeError::Version(version)) => TieringError::Version {
                    key: segment.key.to_string(),
                    version,
                    known: Footer::VERSION,
                },
                other => {
                    let why = other.map(|error| error.to_string()).unwrap_or_default();
                    TieringError::corrupt(&segment.key, why)
                }
            })
        }
        .boxed()
    }

    /// A range behind the end tells that the object is too short: damage, and not a wrong request.
    async fn range(
        &self,
        segment: &SegmentRef,
        range: Range<u64>,
    ) -> Result<Result<RangeRead, DecodeError>, TieringError> {
        match self.bucket.get_range(&segment.key, range).await {
            Ok(read) => Ok(Ok(read)),
            Err(error) if error.kind() == BucketErrorKind::Invalid => {
                Ok(Err(DecodeError::Invalid(error.to_string())))
            }
            Err(error) if error.is_not_found() => Err(TieringError::Missing {
                key: segment.key.to_string(),
                last_offset: segment.entry.last_offset,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// What a run brings, or else a request of its own.
    async fn bytes(
        &self,
        segment: &SegmentRef,
        part: Part,
        piece: Option<Piece>,
    ) -> Result<Result<RangeRead, DecodeError>, TieringError> {
        if let Some(piece) = piece
            && let Ok(read) = piece.await
        {
            return Ok(Ok(read));
        }
        let range = segment.cut.range(part);
        // Tails take no share: chunks that hold theirs wait for tails.
        let _share = match part {
            Part::Tail => None,
            _ => Some(
                self.fill_budget
                    .acquire(range.end.saturating_sub(range.start))
                    .await,
            ),
        };
        self.range(segment, range).await
    }

    async fn fetch_once(
        &self,
        segment: &SegmentRef,
        part: Part,
        piece: Option<Piece>,
    ) -> Result<Result<Bytes, DecodeError>, TieringError> {
        let range = segment.cut.range(part);
        let want = range.end.saturating_sub(range.start);
        let read = self.bytes(segment, part, piece);
        let (read, tail) = match part {
            // Side by side, so the first read of a segment does not wait twice.
            Part::Chunk(_) => {
                let (read, tail) = futures::join!(read, self.tail(segment));
                (read?, Some(tail?))
            }
            Part::Tail | Part::Whole => (read.await?, None),
        };
        let read = match read {
            Ok(read) => read,
            Err(why) => return Ok(Err(why)),
        };
        self.metrics
            .cold_fetch_bytes
            .inc_by(read.bytes.len() as u64);
        if read.bytes.len() as u64 != want || read.object_size != segment.entry.object_bytes {
            let text = format!(
                "it has {} bytes, {} are expected",
                read.object_size, segment.entry.object_bytes
            );
            return Ok(Err(DecodeError::Invalid(text)));
        }
        Ok(check(
            &segment.entry,
            part,
            range.start,
            read.bytes,
            tail.as_deref(),
        ))
    }
}

fn check(
    entry: &SegmentEntry,
    part: Part,
    start: u64,
    bytes: Bytes,
    tail: Option<&SegmentTail>,
) -> Result<Bytes, DecodeError> {
    match (part, tail) {
        (Part::Chunk(_), Some(tail)) => tail.verify(start, &bytes)?,
        (Part::Chunk(_), None) => return Err(DecodeError::Short("the indexes")),
        (Part::Tail, _) => {
            parse_tail(entry, &bytes)?;
        }
        (Part::Whole, _) => {
            let tail = parse_tail(entry, &bytes)?;
            let log = usize::try_from(entry.log_bytes).unwrap_or(usize::MAX);
            tail.verify(
                0,
                bytes.get(..log).ok_or(DecodeError::Short("the batches"))?,
            )?;
        }
    }
    Ok(bytes)
}

/// Parses the tail and compares it with what the manifest says of the object.
fn parse_tail(entry: &SegmentEntry, end: &Bytes) -> Result<SegmentTail, DecodeError> {
    let tail = SegmentTail::parse(end)?;
    let footer = &tail.footer;
    let same = footer.base_offset == entry.base_offset
        && footer.last_offset == entry.last_offset
        && footer.log_bytes == entry.log_bytes
        && footer.log_crc == entry.log_crc
        && footer.block_bytes == entry.block_bytes;
    if same {
        Ok(tail)
    } else {
        Err(DecodeError::Invalid(
            "it is another segment's object".into(),
        ))
    }
}

/// Parsed indexes, the ones used last, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct Tails {
    limit_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    tails: HashMap<Uuid, (Arc<SegmentTail>, u64)>,
    bytes: usize,
    clock: u64,
}

impl Tails {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            kept: Mutex::default(),
        }
    }

    fn get(&self, uuid: Uuid) -> Option<Arc<SegmentTail>> {
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        let (tail, used) = kept.tails.get_mut(&uuid)?;
        *used = now;
        Some(Arc::clone(tail))
    }

    fn put(&self, uuid: Uuid, tail: &Arc<SegmentTail>) {
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        if kept.tails.insert(uuid, (Arc::clone(tail), now)).is_none() {
            kept.bytes += tail.size_in_bytes();
        }
        while kept.bytes > self.limit_bytes && kept.tails.len() > 1 {
            let oldest = kept
                .tails
                .iter()
                .min_by_key(|(_, (_, used))| *used)
                .map(|(u, _)| *u);
            match oldest.and_then(|uuid| kept.tails.remove(&uuid)) {
                Some((tail, _)) => kept.bytes -= tail.size_in_bytes(),
                None => break,
            }
        }
    }
}
