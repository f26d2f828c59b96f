//! How fast a log takes batches, and what a byte costs: MB/s and CPU seconds per GB of the whole
//! process (validation and sockets are not part of it).
//!
//! `cargo run --release --example append_bench -- <folder> [GB per case]`

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use strandline_log::{Log, LogConfig, LogDir, LogDirOptions, TailBudget};
use strandline_records::{Attributes, Batch, BatchHeader};
use strandline_types::{BrokerId, Offset, TopicId, TopicName, TopicPartition};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of a partition that may be appended and not written, as if so much were in flight.
const IN_FLIGHT: usize = 8 << 20;
const RING_BYTES: usize = 64 << 20;
const TAIL_BYTES: usize = 256 << 20;

#[derive(Default)]
struct Written {
    ends: Mutex<Vec<Offset>>,
    changed: Condvar,
}

fn batch(size: usize) -> Batch {
    let records = (size / 1024).max(1) as i32;
    let header = BatchHeader {
        base_offset: 0,
        batch_length: 0,
        partition_leader_epoch: 0,
        magic: 2,
        crc: 0,
        attributes: Attributes::default(),
        last_offset_delta: records - 1,
        base_timestamp: 1,
        max_timestamp: 1,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: records,
    };
    Batch::build(&header, Bytes::from(vec![0x5a; size]))
}

/// User and system time of this process in seconds.
fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks: Result<Vec<u64>, _> = ticks.map(str::parse).collect();
    Ok(ticks?.iter().sum::<u64>() as f64 / 100.0)
}

fn run(folder: &Path, partitions: usize, size: usize, total: usize) -> Outcome<(f64, f64)> {
    let options = LogDirOptions::new("bench", BrokerId(1), TailBudget::new(TAIL_BYTES));
    let dir = LogDir::open(folder, options)?;
    let written = Arc::new(Written {
        ends: Mutex::new(vec![0; partitions]),
        ..Default::default()
    });
    let mut logs: Vec<Arc<Log>> = Vec::new();
    for n in 0..partitions {
        let tp = TopicPartition::new(TopicName::new("bench")?, n as i32);
        let log = dir.create_log(tp, TopicId::random(), LogConfig::default())?;
        let told = Arc::clone(&written);
        log.set_on_written(Box::new(move |end| {
            if let (Ok(end), Some(slot)) = (end, told.ends.lock().get_mut(n)) {
                *slot = end;
            }
            told.changed.notify_one();
        }));
        logs.push(log);
    }
    // As many batches as a processor cannot keep in its near caches.
    let ring: Vec<Batch> = (0..(RING_BYTES / size).max(2))
        .map(|_| batch(size))
        .collect();
    let template = batch(size);
    // Ahead by at most this many batches, so that memory stays in bounds.
    let ahead = (IN_FLIGHT / size).max(2) as i64 * i64::from(template.header().record_count);
    let (cpu, begun) = (cpu_seconds()?, Instant::now());
    let rounds = total / size / partitions;
    for round in 0..rounds {
        for (n, log) in logs.iter().enumerate() {
            let batch = ring[(round * partitions + n) % ring.len()].clone();
            let end = log.append_as_leader(batch, 0, 1)?.last_offset + 1;
            let mut ends = written.ends.lock();
            while ends.get(n).is_some_and(|written| end - written > ahead) {
                written.changed.wait(&mut ends);
            }
        }
    }
    for (n, log) in logs.iter().enumerate() {
        let end = log.log_end_offset();
        let mut ends = written.ends.lock();
        while ends.get(n).is_some_and(|written| *written < end) {
            written.changed.wait(&mut ends);
        }
    }
    let (cpu, seconds) = (cpu_seconds()? - cpu, begun.elapsed().as_secs_f64());
    let gigabytes = (rounds * partitions * template.size_in_bytes()) as f64 / 1e9;
    drop(logs);
    drop(dir);
    std::fs::remove_dir_all(folder)?;
    Ok((gigabytes * 1000.0 / seconds, cpu / gigabytes))
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("the folder to write in is missing")?;
    let gigabytes: f64 = args.next().map_or(Ok(1.0), |g| g.parse())?;
    let mut out = io::stdout().lock();
    for partitions in [1, 6] {
        for size in [1 << 10, 16 << 10, 128 << 10, 1 << 20] {
            let total = (gigabytes * 1e9) as usize;
            let total = if size < 16 << 10 { total / 4 } else { total };
            let folder = Path::new(&folder).join(format!("append-bench-{}", std::process::id()));
            let (mb_s, cpu) = run(&folder, partitions, size, total)?;
            let kib = size >> 10;
            writeln!(
                out,
                "{partitions} partitions, {kib:>4} KiB: {mb_s:>6.0} MB/s, {cpu:.3} CPU s/GB"
            )?;
        }
    }
    Ok(())
}
