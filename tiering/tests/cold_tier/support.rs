//! A log to upload from, its model, and tiers over several stores.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use prometheus_client::registry::Registry;
use strandline_bucket::faulty::FaultyStore;
use strandline_bucket::{Bucket, BucketOptions, RetryPolicies};
use strandline_records::{Batch, BatchBuilder, Compression};
use strandline_tiering::{
    AbortedTransaction, EpochStart, RemotePartition, RemotePartitionId, RemoteTier,
    RemoteTierOptions, SegmentSource,
};
use strandline_types::{BrokerId, Offset, TimestampType, TopicId};
use uuid::Uuid;

/// A sealed segment in memory.
#[derive(Debug, Clone)]
pub(crate) struct MemorySegment {
    pub(crate) base: Offset,
    pub(crate) next: Offset,
    pub(crate) bytes: Bytes,
    pub(crate) epochs: Vec<EpochStart>,
    pub(crate) aborted: Vec<AbortedTransaction>,
    pub(crate) snapshot: Bytes,
}

impl SegmentSource for MemorySegment {
    fn base_offset(&self) -> Offset {
        self.base
    }
    fn next_offset(&self) -> Offset {
        self.next
    }
    fn size_in_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn leader_epochs(&self) -> Vec<EpochStart> {
        self.epochs.clone()
    }
    fn aborted_transactions(&self) -> io::Result<Vec<AbortedTransaction>> {
        Ok(self.aborted.clone())
    }
    fn producer_snapshot(&self) -> io::Result<Bytes> {
        Ok(self.snapshot.clone())
    }
    fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let start = position as usize;
        if start + len > self.bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(self.bytes.slice(start..start + len))
    }
}

/// A batch to make: records, bytes of each value, timestamp of the first, epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spec {
    pub(crate) records: usize,
    pub(crate) value_bytes: usize,
    pub(crate) timestamp: i64,
    pub(crate) epoch: i32,
    pub(crate) compression: Compression,
}

impl Spec {
    pub(crate) fn plain(records: usize, value_bytes: usize, timestamp: i64) -> Self {
        Self {
            records,
            value_bytes,
            timestamp,
            epoch: 0,
            compression: Compression::None,
        }
    }
}

pub(crate) fn batch(base: Offset, spec: Spec) -> Batch {
    let mut builder = BatchBuilder::new(spec.compression, TimestampType::CreateTime, base)
        .with_leader_epoch(spec.epoch);
    for i in 0..spec.records {
        let value = vec![(base as u8).wrapping_add(i as u8); spec.value_bytes];
        builder
            .append(spec.timestamp + i as i64, Some(b"key"), Some(&value), &[])
            .unwrap();
    }
    builder.build().unwrap()
}

/// All batches of a log, in segments.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    pub(crate) segments: Vec<Vec<Batch>>,
    pub(crate) next: Offset,
}

impl Log {
    /// One segment per list of specs.
    pub(crate) fn new(segments: &[Vec<Spec>]) -> Self {
        let mut log = Self::default();
        for specs in segments {
            log.push(specs);
        }
        log
    }

    pub(crate) fn push(&mut self, specs: &[Spec]) {
        let mut segment = Vec::new();
        for spec in specs {
            let batch = batch(self.next, *spec);
            self.next = batch.header().next_offset();
            segment.push(batch);
        }
        self.segments.push(segment);
    }

    /// `segments` segments of `batches` batches of ten records with 20 bytes each.
    pub(crate) fn regular(segments: usize, batches: usize) -> Self {
        let mut log = Self::default();
        for s in 0..segments {
            let specs: Vec<Spec> = (0..batches)
                .map(|b| Spec::plain(10, 20, ((s * batches + b) * 100) as i64))
                .collect();
            log.push(&specs);
        }
        log
    }

    pub(crate) fn source(&self, at: usize) -> MemorySegment {
        let batches = &self.segments[at];
        let mut bytes = BytesMut::new();
        batches
            .iter()
            .for_each(|batch| bytes.extend_from_slice(&batch.to_bytes()));
        MemorySegment {
            base: batches[0].header().base_offset,
            next: batches[batches.len() - 1].header().next_offset(),
            bytes: bytes.freeze(),
            epochs: Vec::new(),
            aborted: Vec::new(),
            snapshot: Bytes::from(format!("snapshot {at}")),
        }
    }

    pub(crate) async fn upload(&self, partition: &RemotePartition) {
        for at in 0..self.segments.len() {
            let source = Arc::new(self.source(at));
            partition
                .upload(source, self.next, at as i64)
                .await
                .unwrap();
        }
    }

    pub(crate) fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.segments.iter().flatten()
    }

    /// What a read must return: whole batches from the one that holds `offset`.
    pub(crate) fn expected(
        &self,
        offset: Offset,
        max_bytes: usize,
        min_one: bool,
    ) -> (Vec<u8>, Offset) {
        let mut out = Vec::new();
        let mut end = offset;
        for batch in self
            .batches()
            .filter(|batch| batch.header().last_offset() >= offset)
        {
            let fits = out.len() + batch.size_in_bytes() <= max_bytes;
            if !fits && (!min_one || !out.is_empty()) {
                break;
            }
            out.extend_from_slice(&batch.to_bytes());
            end = batch.header().next_offset();
        }
        (out, end)
    }
}

pub(crate) fn id(partition: i32) -> RemotePartitionId {
    RemotePartitionId {
        topic_id: TopicId(Uuid::from_u128(0xfeed)),
        topic: "flights".into(),
        partition,
    }
}

pub(crate) fn options() -> BucketOptions {
    BucketOptions {
        retry: RetryPolicies::eager(),
        ..BucketOptions::default()
    }
}

pub(crate) fn faulty() -> (Arc<FaultyStore>, Arc<Bucket>) {
    let store = FaultyStore::in_memory();
    let bucket = Bucket::over_store(Arc::clone(&store) as _, options(), &mut Registry::default());
    (store, bucket)
}

pub(crate) fn bucket(url: &str) -> Arc<Bucket> {
    Bucket::open(url, options(), &mut Registry::default()).unwrap()
}

/// Small everything, so that little data crosses all borders.
pub(crate) fn small(bucket: &Arc<Bucket>) -> RemoteTierOptions {
    let mut options = RemoteTierOptions::new(
        Arc::clone(bucket),
        "cluster",
        BrokerId(1),
        "/nowhere".into(),
    );
    options.cache_memory_bytes = 1 << 20;
    options.chunk_bytes = 1024;
    options.block_bytes = 256;
    options.index_interval_bytes = 700;
    options.seal_segments = 4;
    options.read_ahead_max_bytes = 16 << 10;
    options
}

pub(crate) fn tier(options: RemoteTierOptions) -> RemoteTier {
    RemoteTier::open(options, &mut Registry::default()).unwrap()
}

/// A bucket in memory and one in a directory, which lives as long as the guard.
pub(crate) fn stores() -> Vec<(Arc<Bucket>, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().unwrap();
    let local = bucket(&format!("file://{}", dir.path().join("bucket").display()));
    vec![(bucket("memory:"), None), (local, Some(dir))]
}

/// Reads, and compares; where the read ends. It may end with a segment, when the next one is not there yet.
pub(crate) async fn assert_reads(
    partition: &RemotePartition,
    log: &Log,
    offset: Offset,
    max_bytes: usize,
    min_one: bool,
) -> Offset {
    let read = partition.read(offset, max_bytes, min_one).await.unwrap();
    let got: Vec<u8> = read.parts.iter().flatten().copied().collect();
    assert_eq!(got.len(), read.size_in_bytes);
    let (mut expected, mut end) = log.expected(offset, max_bytes, min_one);
    if !got.is_empty() && got.len() < expected.len() {
        let (whole, next) = log.expected(offset, got.len(), min_one);
        let lasts = log.segments.iter().filter_map(|segment| segment.last());
        let mut ends = lasts.map(|batch| batch.header().next_offset());
        assert!(ends.any(|end| end == next), "it ends within a segment");
        // F-66: the segment may go on without records.
        let bases = log.batches().map(|batch| batch.header().base_offset);
        let after = bases.filter(|base| *base >= next).min();
        assert!(after.is_none_or(|base| read.end_offset <= base));
        (expected, end) = (whole, read.end_offset.max(next));
    }
    assert!(
        got == expected,
        "offset {offset}, max {max_bytes}: {} bytes, {} expected",
        got.len(),
        expected.len()
    );
    assert_eq!(read.end_offset, end, "offset {offset}, max {max_bytes}");
    end
}
