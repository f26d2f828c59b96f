//! A swap that is cut off after each of its steps, by a kill or by a power cut.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use strandline_records::{Batch, BatchBuilder, Compression, records};
use strandline_types::{BrokerId, TimestampType, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

use super::*;
use crate::cleaner::{CleanerOptions, LogCleaner};
use crate::{LogConfig, LogDir, LogDirOptions, TailBudget};

const SEGMENTS: i64 = 5;

fn config() -> LogConfig {
    LogConfig {
        compact: true,
        delete: false,
        min_cleanable_dirty_ratio: 0.0,
        ..LogConfig::default()
    }
}

fn open(folder: &Path) -> Arc<LogDir> {
    let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(0));
    LogDir::open(folder, options).unwrap()
}

fn batch(records: &[(&str, &str)]) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
    for (key, value) in records {
        builder
            .append(1000, Some(key.as_bytes()), Some(value.as_bytes()), &[])
            .unwrap();
    }
    builder.build().unwrap()
}

fn load(dir: &LogDir) -> Arc<Log> {
    let mut loaded = dir.load_logs(&|_, _| Some(config())).unwrap();
    assert!(loaded.failed.is_empty(), "{:?}", loaded.failed);
    loaded.logs.remove(0)
}

fn table(log: &Log) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut table = BTreeMap::new();
    let mut at = log.log_start_offset();
    while at < log.log_end_offset() {
        let read = log.read(at, 1 << 20, Offset::MAX, true).unwrap();
        assert!(read.end_offset > at);
        for batch in read.batches().unwrap() {
            for record in records(&batch, 1 << 20).unwrap() {
                let record = record.unwrap();
                table.insert(record.key.unwrap().to_vec(), record.value.unwrap().to_vec());
            }
        }
        at = read.end_offset;
    }
    table
}

/// A directory before its cleaning, with the files that the cleaning makes beside it.
struct Before {
    dir: TempDir,
    table: BTreeMap<Vec<u8>, Vec<u8>>,
    end: Offset,
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, name) = entry.map(|e| (e.path(), e.file_name())).unwrap();
        if entry.is_dir() {
            copy_folder(&entry, &to.join(name));
        } else if name != ".lock" {
            fs::copy(&entry, to.join(name)).unwrap();
        }
    }
}

fn folder(dir: &Path) -> PathBuf {
    dir.join("t-0")
}

/// Segments of which the last two hold nothing that stays, but for the end of the round.
fn before() -> Before {
    let temp = TempDir::new().unwrap();
    let dir = open(temp.path());
    let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
    let log = dir
        .create_log(partition, TopicId::random(), config())
        .unwrap();
    for i in 0..SEGMENTS {
        let (key, value) = (format!("k{i}"), format!("v{i}"));
        let shared = ("shared", value.as_str());
        log.append_as_leader(batch(&[(&key, &value), shared, shared]), 0, 0)
            .unwrap();
        log.append_as_leader(batch(&[shared]), 0, 0).unwrap();
        log.roll(0).unwrap();
    }
    log.append_as_leader(batch(&[("shared", "last")]), 0, 0)
        .unwrap();
    log.append_as_leader(batch(&[("active", "1")]), 0, 0)
        .unwrap();
    log.roll(0).unwrap();
    let end = log.log_end_offset();
    {
        let mut state = log.lock_state();
        let active = state.segments.active().base_offset;
        log.wait_until(&mut state, |s| s.writing == active).unwrap();
    }
    log.set_high_watermark(end);
    let table = table(&log);
    dir.close().unwrap();
    drop((log, dir));
    // The same directory, cleaned, lends its files.
    let cleaned = TempDir::new().unwrap();
    copy_folder(temp.path(), cleaned.path());
    let dir = open(cleaned.path());
    let log = load(&dir);
    log.set_high_watermark(end);
    let cleaner = LogCleaner::new(CleanerOptions::default());
    let done = cleaner.clean_dirtiest(&[Arc::clone(&log)], 0);
    done.report().unwrap();
    assert_eq!(log.segment_count(), 2);
    for kind in CLEANED_KINDS {
        let made = kind.path(&folder(cleaned.path()), 0);
        if made.try_exists().unwrap() {
            fs::copy(made, kind.marked_path(&folder(temp.path()), 0, CLEANED)).unwrap();
        }
    }
    Before {
        dir: temp,
        table,
        end,
    }
}

impl Before {
    fn bases(&self) -> Vec<Offset> {
        let names = crate::loader::names(&folder(self.dir.path())).unwrap();
        let mut bases: Vec<_> = names
            .iter()
            .filter_map(|n| SegmentFile::parse(n))
            .filter(|(_, kind)| *kind == SegmentFile::Log)
            .map(|(base, _)| base)
            .collect();
        bases.pop(); // the active one
        bases
    }

    /// What the next start makes of it after these renames.
    fn check(&self, renames: &[(PathBuf, PathBuf)]) {
        let copy = TempDir::new().unwrap();
        copy_folder(self.dir.path(), copy.path());
        let moved = |path: &Path| {
            let name = path.file_name().unwrap();
            folder(copy.path()).join(name)
        };
        for (from, to) in renames {
            rename(&moved(from), &moved(to), false).unwrap();
        }
        let dir = open(copy.path());
        let log = load(&dir);
        log.set_high_watermark(log.log_end_offset());
        assert_eq!(log.log_end_offset(), self.end);
        assert_eq!(table(&log), self.table);
        for name in crate::loader::names(log.folder()).unwrap() {
            assert!(
                ![CLEANED, SWAP, DELETED]
                    .iter()
                    .any(|mark| name.ends_with(mark)),
                "{name}"
            );
        }
        // And it can be cleaned, from whatever is there now.
        let cleaner = LogCleaner::new(CleanerOptions::default());
        let _ = cleaner.clean_dirtiest(&[Arc::clone(&log)], 0);
        assert_eq!(table(&log), self.table);
        assert_eq!(cleaner.status(&[log], 0).uncleanable_partitions, 0);
    }
}

/// The renames of each stage; what is before a stage is on the device.
fn stages(steps: &[SwapStep]) -> Vec<Vec<(PathBuf, PathBuf)>> {
    let stages = steps.split(|step| *step == SwapStep::SyncFolder);
    stages
        .map(|stage| {
            let renames = stage.iter().filter_map(|step| match step {
                SwapStep::Rename { from, to, .. } => Some((from.clone(), to.clone())),
                _ => None,
            });
            renames.collect()
        })
        .collect()
}

// L-25, L-45
#[test]
fn a_swap_that_is_killed_at_any_step_loses_nothing() {
    let before = before();
    let steps = swap_steps(&folder(before.dir.path()), &before.bases());
    let renames: Vec<_> = stages(&steps).concat();
    assert!(renames.len() > 4 + 4 * 4);
    for done in 0..=renames.len() {
        before.check(&renames[..done]);
    }
}

// L-25: a power cut may keep any of the names of the stage that was not flushed
#[test]
fn a_swap_that_a_power_cut_ends_loses_nothing() {
    let before = before();
    let stages = stages(&swap_steps(&folder(before.dir.path()), &before.bases()));
    let mut durable: Vec<(PathBuf, PathBuf)> = Vec::new();
    let mut random = 0x9E37_79B9_u32;
    for stage in stages {
        for _ in 0..12 {
            let some = stage.iter().filter(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                random >> 31 == 1
            });
            let renames: Vec<_> = durable.iter().chain(some).cloned().collect();
            before.check(&renames);
        }
        durable.extend(stage);
    }
}

// L-47: the name that a file has during a swap is not its own for long
#[test]
fn a_file_of_another_swap_is_never_taken_for_this_segments() {
    let before = before();
    let dir = open(before.dir.path());
    let log = load(&dir);
    log.set_high_watermark(before.end);
    let cleaner = LogCleaner::new(CleanerOptions::default());
    let done = cleaner.clean_dirtiest(&[Arc::clone(&log)], 0);
    done.report().unwrap();
    let cleaned = log.lock_state().segments.iter().next().unwrap().id();
    let kind = SegmentFile::Log;
    let (path, swap) = (
        kind.path(log.folder(), 0),
        kind.marked_path(log.folder(), 0, SWAP),
    );
    let opened = || log.open_by_name(cleaned, kind, true);
    let size = |file: fs::File| file.metadata().unwrap().len();
    let own = fs::metadata(&path).unwrap().len();
    // It was still called so when the caller looked; now the next one is.
    fs::write(&swap, b"another").unwrap();
    assert_eq!(size(opened().unwrap()), own);
    // While it is called so, what has its own name is what it replaces.
    fs::remove_file(&swap).unwrap();
    fs::rename(&path, &swap).unwrap();
    fs::write(&path, b"replaced").unwrap();
    log.lock_state().segments.at_mut(0).unwrap().is_at_swap = true;
    assert_eq!(size(opened().unwrap()), own);
    // Not even if that cannot be opened just now.
    fs::remove_file(&swap).unwrap();
    fs::create_dir(&swap).unwrap();
    assert!(opened().is_err());
}
