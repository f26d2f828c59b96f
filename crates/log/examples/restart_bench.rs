//! How long a directory takes to open: after a clean end, and after a kill.
//!
//! `cargo run --release --example restart_bench -- <folder> [GB] [partitions]`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use strandline_log::{Log, LogConfig, LogDir, LogDirOptions, TailBudget};
use strandline_records::{Batch, BatchBuilder, Compression};
use strandline_types::{BrokerId, TimestampType, TopicId, TopicName, TopicPartition};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A batch of 16 records of 1 KiB, as an idempotent producer sends it.
fn batch(producer: i64, sequence: i32, value: &Bytes) -> Outcome<Batch> {
    let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0)
        .with_producer(producer, 0, sequence);
    for _ in 0..16 {
        builder.append(1, Some(b"key"), Some(value), &[])?;
    }
    Ok(builder.build()?)
}

fn open(folder: &Path) -> Outcome<Arc<LogDir>> {
    let options = LogDirOptions::new("bench", BrokerId(1), TailBudget::new(64 << 20));
    Ok(LogDir::open(folder, options)?)
}

fn fill(dir: &LogDir, logs: &[Arc<Log>], from: i32, bytes: usize) -> Outcome<i32> {
    let value = Bytes::from(vec![0x5a; 1000]);
    let size = batch(0, 0, &value)?.size_in_bytes();
    let mut sequence = from;
    for _ in 0..bytes / size / logs.len() {
        for (producer, log) in (0_i64..).zip(logs) {
            log.append_as_leader(batch(producer, sequence, &value)?, 0, 1)?;
        }
        sequence += 16;
        while dir.backlog_bytes() > 64 << 20 {
            std::thread::yield_now();
        }
    }
    for log in logs {
        while log.written_end_offset() < log.log_end_offset() {
            std::thread::yield_now();
        }
    }
    Ok(sequence)
}

/// Opens, loads, and checks that everything is there.
fn reopen(folder: &Path, partitions: usize) -> Outcome<(Arc<LogDir>, Vec<Arc<Log>>, f64)> {
    let begun = Instant::now();
    let dir = open(folder)?;
    let loaded = dir.load_logs(&|_, _| Some(LogConfig::default()))?;
    let seconds = begun.elapsed().as_secs_f64();
    if loaded.logs.len() != partitions || !loaded.failed.is_empty() {
        return Err("not every partition was loaded".into());
    }
    Ok((dir, loaded.logs, seconds))
}

fn run(folder: PathBuf, bytes: usize, partitions: usize) -> Outcome<()> {
    let mut out = io::stdout().lock();
    let dir = open(&folder)?;
    let mut logs = Vec::new();
    for n in 0..partitions {
        let partition = TopicPartition::new(TopicName::new("bench")?, n as i32);
        logs.push(dir.create_log(partition, TopicId::random(), LogConfig::default())?);
    }
    let end = fill(&dir, &logs, 0, bytes)?;
    // Dropping without closing is like a kill.
    drop((dir, logs));
    let (dir, logs, seconds) = reopen(&folder, partitions)?;
    writeln!(out, "after a kill, nothing flushed: {seconds:.2} s")?;
    dir.close()?;
    drop((dir, logs));
    let (dir, logs, seconds) = reopen(&folder, partitions)?;
    writeln!(out, "after a clean end: {seconds:.2} s")?;
    fill(&dir, &logs, end, bytes / 20)?;
    drop((dir, logs));
    let (_dir, _logs, seconds) = reopen(&folder, partitions)?;
    writeln!(out, "after a kill, 5 % not flushed: {seconds:.2} s")?;
    Ok(())
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("the folder to write in is missing")?;
    let gigabytes: f64 = args.next().map_or(Ok(10.0), |g| g.parse())?;
    let partitions = args.next().map_or(Ok(200), |n| n.parse())?;
    let folder = Path::new(&folder).join(format!("restart-bench-{}", std::process::id()));
    let done = run(folder.clone(), (gigabytes * 1e9) as usize, partitions);
    std::fs::remove_dir_all(&folder)?;
    done
}
