//! How fast compaction goes through a log of 1 KiB records, in MB of log per second and per CPU
//! second, for few keys (nearly all goes) and many (nearly all stays), plain and compressed.
//!
//! `cargo run --release --example clean_bench -- <folder> [MB of log]`

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use strandline_log::{
    CleanerOptions, LogCleaner, LogConfig, LogDir, LogDirOptions, LogError, TailBudget,
};
use strandline_records::{Batch, BatchBuilder, Compression};
use strandline_types::{BrokerId, TimestampType, TopicId, TopicName, TopicPartition};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const RECORDS_PER_BATCH: u64 = 16;
const VALUE_BYTES: usize = 1000;

fn batch(first: u64, keys: u64, codec: Compression, noise: &[u8]) -> Outcome<Batch> {
    let mut builder = BatchBuilder::new(codec, TimestampType::CreateTime, 0);
    for number in first..first + RECORDS_PER_BATCH {
        // Spread, so that each batch loses some records and keeps others.
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % keys;
        let at = (number as usize * 37) % (noise.len() - VALUE_BYTES);
        let value = noise.get(at..at + VALUE_BYTES);
        builder.append(1, Some(&key.to_be_bytes()), value, &[])?;
    }
    Ok(builder.build()?)
}

/// User and system time of this process in seconds.
fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks: Result<Vec<u64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum::<u64>() as f64 / 100.0)
}

fn run(folder: &Path, bytes: u64, keys: u64, codec: Compression) -> Outcome<String> {
    let options = LogDirOptions::new("bench", BrokerId(1), TailBudget::new(0));
    let dir = LogDir::open(folder, options)?;
    let config = LogConfig {
        compact: true,
        delete: false,
        segment_bytes: 128 << 20,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    };
    let partition = TopicPartition::new(TopicName::new("bench")?, 0);
    let log = dir.create_log(partition, TopicId::random(), config)?;
    let noise: Vec<u8> = (0..1_000_000_u64)
        .map(|n| (n.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 57) as u8)
        .collect();
    let records = bytes / 1024;
    for first in (0..records).step_by(RECORDS_PER_BATCH as usize) {
        log.append_as_leader(batch(first, keys, codec, &noise)?, 0, 1)?;
        while dir.backlog_bytes() > 64 << 20 {
            std::thread::yield_now();
        }
    }
    log.roll(1)?;
    while log.written_end_offset() < log.log_end_offset() {
        std::thread::yield_now();
    }
    log.set_high_watermark(log.log_end_offset());
    log.flush()?;
    let size = log.size_in_bytes();
    let cleaner = LogCleaner::new(CleanerOptions::default());
    let (cpu, begun) = (cpu_seconds()?, Instant::now());
    let (mut rounds, mut read, mut written) = (0, 0, 0);
    // The writer may still be at the last roll.
    while rounds == 0 || log.size_in_bytes() > 2 * keys * 1100 {
        let Some(report) = cleaner.clean_dirtiest(&[Arc::clone(&log)], 1).report() else {
            if rounds > 0 {
                break;
            }
            continue;
        };
        rounds += 1;
        read += report.read_bytes;
        written += report.written_bytes;
    }
    let (cpu, seconds) = (cpu_seconds()? - cpu, begun.elapsed().as_secs_f64());
    let mb = size as f64 / 1e6;
    let line = format!(
        "{codec:?}, {keys:>7} keys: {mb:.0} MB of log, {:.0} MB read, {:.0} MB written, \
         {rounds} rounds: {:.0} MB/s, {:.0} MB per CPU s",
        read as f64 / 1e6,
        written as f64 / 1e6,
        mb / seconds,
        mb / cpu
    );
    match log.delete() {
        Ok(()) | Err(LogError::Deleted(_)) => {}
        Err(error) => return Err(error.into()),
    }
    drop(dir);
    std::fs::remove_dir_all(folder)?;
    Ok(line)
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("the folder to write in is missing")?;
    let megabytes: u64 = args.next().map_or(Ok(2000), |m| m.parse())?;
    let folder = Path::new(&folder).join(format!("clean-bench-{}", std::process::id()));
    let bytes = megabytes << 20;
    let mut out = io::stdout().lock();
    for codec in [Compression::None, Compression::Lz4, Compression::Zstd] {
        for keys in [1000, bytes / 1024 / 10, bytes / 1024 * 9 / 10] {
            writeln!(out, "{}", run(&folder, bytes, keys, codec)?)?;
        }
    }
    Ok(())
}
