//! Measures a cold replay beside a plain loop of parallel ranged GETs on the same store.
//!
//! `cargo run --release -p strandline-tiering --example measure -- URL [segments] [MiB each]
//! [fetch KiB] [chunk KiB] [endpoint]`; the URL is `file:///path` or `s3://bucket/prefix`.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use prometheus_client::registry::Registry;
use strandline_bucket::{Bucket, BucketOptions, S3Options};
use strandline_records::{BatchBuilder, Compression};
use strandline_tiering::{
    AbortedTransaction, EpochStart, RemotePartition, RemotePartitionId, RemoteTier,
    RemoteTierOptions, SegmentSource,
};
use strandline_types::{BrokerId, Offset, TimestampType, TopicId};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Segment {
    base: Offset,
    next: Offset,
    bytes: Bytes,
}

impl SegmentSource for Segment {
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
        Vec::new()
    }
    fn aborted_transactions(&self) -> io::Result<Vec<AbortedTransaction>> {
        Ok(Vec::new())
    }
    fn producer_snapshot(&self) -> io::Result<Bytes> {
        Ok(Bytes::new())
    }
    fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes> {
        let start = position as usize;
        Ok(self.bytes.slice(start..start + len))
    }
}

fn segment(base: Offset, size: usize) -> Result<Segment, Failure> {
    let mut bytes = BytesMut::with_capacity(size + (1 << 20));
    let mut next = base;
    let value = vec![b'x'; 1000];
    while bytes.len() < size {
        let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, next);
        for i in 0..64 {
            builder.append(next + i, None, Some(&value), &[])?;
        }
        let batch = builder.build()?;
        next = batch.header().next_offset();
        bytes.extend_from_slice(&batch.to_bytes());
    }
    Ok(Segment {
        base,
        next,
        bytes: bytes.freeze(),
    })
}

fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    line.split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0)
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = stat
        .split_whitespace()
        .skip(13)
        .take(2)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

fn say(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}");
}

fn report(what: &str, bytes: u64, started: Instant, cpu: f64) {
    let seconds = started.elapsed().as_secs_f64();
    let mb = bytes as f64 / 1e6;
    let cpu_per_gb = (cpu_seconds() - cpu) / (mb / 1e3);
    let rss = rss_kib() / 1024;
    say(&format!(
        "{what}: {:.0} MB/s, {cpu_per_gb:.2} CPU s/GB, RSS {rss} MiB",
        mb / seconds
    ));
}

/// What the store gives to who just wants the bytes: ranges of 4 MiB, eight at a time.
async fn plain_gets(bucket: &Arc<Bucket>, partition: &RemotePartition) -> Result<u64, Failure> {
    let all = bucket.list("", None).await?;
    let segments: Vec<_> = all
        .into_iter()
        .filter(|o| !o.key.contains("/manifest/") && !o.key.contains("/sealed/"))
        .collect();
    let chunk = 4_u64 << 20;
    let ranges = segments.iter().flat_map(|object| {
        (0..object.size.div_ceil(chunk)).map(move |i| {
            (
                object.key.clone(),
                i * chunk..((i + 1) * chunk).min(object.size),
            )
        })
    });
    let lens: Vec<u64> = stream::iter(ranges)
        .map(|(key, range)| async move {
            bucket
                .get_range(&key, range)
                .await
                .map(|read| read.bytes.len() as u64)
        })
        .buffered(8)
        .try_collect()
        .await?;
    let _ = partition;
    Ok(lens.iter().sum())
}

async fn replay(partition: &RemotePartition, fetch: usize) -> Result<u64, Failure> {
    let (mut offset, mut bytes) = (0, 0);
    let end = partition.view().end_offset().unwrap_or(0);
    while offset < end {
        let read = partition.read(offset, fetch, true).await?;
        offset = read.end_offset;
        bytes += read.size_in_bytes as u64;
    }
    Ok(bytes)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        args.get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let url = args
        .first()
        .cloned()
        .unwrap_or_else(|| "memory:".to_owned());
    let (segments, mib) = (number(1, 8), number(2, 64));
    let (fetch, chunk) = (number(3, 1024) << 10, number(4, 4096) << 10);
    let s3 = S3Options {
        endpoint: args.get(5).cloned(),
        path_style: true,
        ..S3Options::default()
    };
    let options = BucketOptions {
        s3,
        ..BucketOptions::default()
    };
    let bucket = Bucket::open(&url, options, &mut Registry::default())?;
    bucket.probe().await?;
    say(&format!("opened, RSS {} KiB", rss_kib()));
    let tier = |memory: u64| {
        let dir = std::env::temp_dir().join("strandline-measure-cache");
        let mut options = RemoteTierOptions::new(Arc::clone(&bucket), "measure", BrokerId(1), dir);
        (options.chunk_bytes, options.cache_memory_bytes) = (chunk, memory);
        options.cache_disk_bytes = Some(number(6, 0) << 20);
        RemoteTier::open(options, &mut Registry::default())
    };
    let id = RemotePartitionId {
        topic_id: TopicId::random(),
        topic: "measure".into(),
        partition: 0,
    };
    let writer = tier(0)?.open_partition(id.clone(), 0).await?;
    let (mut base, mut total) = (0, 0);
    for _ in 0..segments {
        let source = Arc::new(segment(base, (mib << 20) as usize)?);
        base = source.next;
        total += source.bytes.len() as u64;
        let (started, cpu, bytes) = (Instant::now(), cpu_seconds(), source.bytes.len() as u64);
        writer.upload(source, Offset::MAX, 0).await?;
        report("upload", bytes, started, cpu);
    }
    for round in 0..3 {
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let bytes = plain_gets(&bucket, &writer).await?;
        report(&format!("plain GETs, round {round}"), bytes, started, cpu);
        let cold = tier(64 << 20)?;
        let partition = cold.open_partition(id.clone(), 0).await?;
        let (started, cpu) = (Instant::now(), cpu_seconds());
        let bytes = replay(&partition, fetch as usize).await?;
        report(&format!("replay, round {round}"), bytes, started, cpu);
        if bytes != total {
            return Err(format!("{bytes} bytes of {total}").into());
        }
        cold.close().await;
    }
    writer.delete_all(0).await?;
    Ok(())
}
