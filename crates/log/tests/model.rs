//! Random histories against a simple model: whatever happens, a read gives exactly the batches
//! that belong there (L-20…L-26, P-50…P-55, F-5, PEERS 2.14).

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use strandline_log::{AppendError, LogConfig};
use strandline_types::Offset;

use crate::support::{Fixture, Spec, bytes_of, small, stored};

/// One step of a history.
#[derive(Debug, Clone)]
enum Step {
    Append {
        count: usize,
        value_size: usize,
        producer: Option<(i64, Send)>,
    },
    Roll,
    Retain {
        bytes: i64,
    },
    DeleteRecords {
        part: u8,
    },
    Checkpoint,
    Flush,
    CloseAndOpen,
    CrashAndOpen,
    /// Crash, then cut the newest file at this part of its length.
    Cut {
        part: u16,
    },
    /// Crash, then flip a bit of the newest file.
    Flip {
        part: u16,
        bit: u8,
    },
    /// Crash, then add this many bytes to the newest file.
    Grow {
        bytes: usize,
        value: u8,
    },
    /// Crash, then remove or truncate an index.
    DropIndex {
        which: u8,
        keep: u8,
    },
    Read {
        part: u16,
        max_bytes: usize,
        upper: u16,
        min_one: bool,
    },
}

/// What an idempotent producer sends.
#[derive(Debug, Clone, Copy)]
enum Send {
    Next,
    Again(usize),
    Gap,
    OldEpoch,
    NewEpoch,
}

fn send() -> impl Strategy<Value = Send> {
    prop_oneof![
        6 => Just(Send::Next),
        3 => (0..6_usize).prop_map(Send::Again),
        1 => Just(Send::Gap),
        1 => Just(Send::OldEpoch),
        1 => Just(Send::NewEpoch),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let producer = proptest::option::of((0..3_i64, send()));
    prop_oneof![
        20 => (1..6_usize, prop_oneof![0..40_usize, 100..300_usize], producer)
            .prop_map(|(count, value_size, producer)| Step::Append { count, value_size, producer }),
        2 => Just(Step::Roll),
        2 => (0..3000_i64).prop_map(|bytes| Step::Retain { bytes }),
        1 => any::<u8>().prop_map(|part| Step::DeleteRecords { part }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Flush),
        2 => Just(Step::CloseAndOpen),
        2 => Just(Step::CrashAndOpen),
        1 => any::<u16>().prop_map(|part| Step::Cut { part }),
        1 => (any::<u16>(), 0..8_u8).prop_map(|(part, bit)| Step::Flip { part, bit }),
        1 => (1..200_usize, any::<u8>()).prop_map(|(bytes, value)| Step::Grow { bytes, value }),
        1 => any::<(u8, u8)>().prop_map(|(which, keep)| Step::DropIndex { which, keep }),
        20 => (any::<u16>(), 0..3000_usize, any::<u16>(), any::<bool>()).prop_map(
            |(part, max_bytes, upper, min_one)| Step::Read { part, max_bytes, upper, min_one }
        ),
    ]
}

struct ModelBatch {
    base: Offset,
    end: Offset,
    bytes: Bytes,
    producer: Option<(i64, i16, i32)>,
    spec: Spec,
    /// Appended in this life of the log.
    is_fresh: bool,
}

/// The whole history of the log, and where it begins now.
struct World {
    fixture: Fixture,
    history: Vec<ModelBatch>,
    start: Offset,
    /// A crash may bring the log start back to this one.
    checkpointed_start: Offset,
}

fn part_of(part: u16, whole: u64) -> u64 {
    whole * u64::from(part) / u64::from(u16::MAX)
}

impl World {
    fn new(config: LogConfig, tail: usize) -> Self {
        let fixture = Fixture::new(config, tail);
        Self {
            fixture,
            history: Vec::new(),
            start: 0,
            checkpointed_start: 0,
        }
    }

    fn end(&self) -> Offset {
        self.history.last().map_or(0, |b| b.end)
    }

    /// Epoch, next sequence and batches (newest first) of a producer.
    fn producer(&self, id: i64) -> Option<(i16, i32, Vec<&ModelBatch>)> {
        let of_id = |b: &&ModelBatch| b.producer.is_some_and(|(i, _, _)| i == id);
        let all: Vec<_> = self.history.iter().rev().filter(of_id).collect();
        let newest = all.first()?;
        let (_, epoch, sequence) = newest.producer?;
        let next = sequence + (newest.end - newest.base) as i32;
        let same = |b: &&&ModelBatch| b.producer.is_some_and(|(_, e, _)| e == epoch);
        Some((
            epoch,
            next,
            all.iter().take_while(same).take(5).copied().collect(),
        ))
    }

    fn append(&mut self, count: usize, value_size: usize, producer: Option<(i64, Send)>) {
        let mut spec = Spec {
            value_size,
            ..Spec::count(count)
        };
        let Some((id, send)) = producer else {
            return self.expect_appended(spec);
        };
        let Some((epoch, next, window)) = self.producer(id) else {
            spec.producer = Some((id, 3, 0));
            return self.expect_appended(spec);
        };
        match send {
            Send::Next => spec.producer = Some((id, epoch, next)),
            Send::NewEpoch => spec.producer = Some((id, epoch + 1, 0)),
            Send::Again(k) => {
                let Some(original) = window.get(k) else {
                    return;
                };
                let result = self.fixture.append(original.spec.build());
                match result {
                    Ok(again) => {
                        assert!(again.duplicate);
                        let offsets = (again.base_offset, again.last_offset + 1);
                        assert_eq!(offsets, (original.base, original.end));
                    }
                    // Only the last batch of a producer survives a restart (6.3).
                    Err(AppendError::OutOfOrderSequence { .. }) => {
                        assert!(k > 0 && !original.is_fresh);
                    }
                    other => panic!("{other:?}"),
                }
                return;
            }
            Send::Gap => {
                spec.producer = Some((id, epoch, next + 3));
                let result = self.fixture.append(spec.build());
                assert!(matches!(
                    result,
                    Err(AppendError::OutOfOrderSequence { .. })
                ));
                return;
            }
            Send::OldEpoch => {
                spec.producer = Some((id, epoch - 1, next));
                let result = self.fixture.append(spec.build());
                assert!(matches!(
                    result,
                    Err(AppendError::InvalidProducerEpoch { .. })
                ));
                return;
            }
        }
        self.expect_appended(spec);
    }

    fn expect_appended(&mut self, spec: Spec) {
        let batch = spec.build();
        let (base, end) = (self.end(), self.end() + spec.timestamps.len() as i64);
        let appended = self.fixture.append(batch.clone()).unwrap();
        assert_eq!(
            (appended.base_offset, appended.last_offset + 1),
            (base, end)
        );
        assert!(!appended.duplicate);
        let (bytes, producer) = (stored(batch, base), spec.producer);
        self.history.push(ModelBatch {
            base,
            end,
            bytes,
            producer,
            spec,
            is_fresh: true,
        });
    }

    fn crash(&mut self) {
        self.fixture.written();
        self.fixture.crash();
    }

    /// After a start: what is left, and from where.
    fn loaded(&mut self, left: usize, was_clean: bool) {
        self.history.truncate(left);
        for batch in &mut self.history {
            batch.is_fresh = false;
        }
        let log = self.fixture.log();
        // A log that ends before its start begins anew there (L-22).
        if self.end() < log.log_start_offset() {
            assert_eq!(log.log_end_offset(), log.log_start_offset());
            self.history.clear();
            let at = log.log_start_offset();
            let spec = Spec::default();
            let bytes = Bytes::new();
            let producer = None;
            self.history.push(ModelBatch {
                base: at,
                end: at,
                bytes,
                producer,
                spec,
                is_fresh: false,
            });
        }
        assert_eq!(log.log_end_offset(), self.end());
        assert_eq!(log.written_end_offset(), self.end());
        let start = log.log_start_offset();
        let floor = if was_clean {
            self.start
        } else {
            self.checkpointed_start
        };
        assert!(
            start <= self.start.min(self.end()) && start >= floor.min(self.end()),
            "{start}"
        );
        self.start = start;
        log.set_high_watermark(log.log_end_offset());
    }

    /// Number of batches that survive when the newest file is good only up to `position`.
    fn left_after(&self, base: Offset, position: u64) -> usize {
        let (mut at, mut left) = (0, 0);
        for (i, batch) in self.history.iter().enumerate() {
            if batch.base >= base {
                at += batch.bytes.len() as u64;
            }
            if at <= position {
                left = i + 1;
            }
        }
        left
    }

    fn damage(&mut self, step: &Step) {
        // Something unflushed, so that the whole segment is checked.
        self.append(1, 10, None);
        self.crash();
        let base = *self.fixture.segment_files().last().unwrap();
        let path = self.fixture.file(base, "log");
        let len = fs::metadata(&path).unwrap().len();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut left = self.history.len();
        match step {
            Step::Cut { part } => {
                let at = part_of(*part, len);
                file.set_len(at).unwrap();
                left = self.left_after(base, at);
            }
            Step::Flip { part, bit } if len > 0 => {
                let at = part_of(*part, len - 1);
                left = self.left_after(base, at);
                // The leader epoch lies outside the checksum: such a flip cannot be seen.
                let begins: u64 = self.history[..left]
                    .iter()
                    .filter(|b| b.base >= base)
                    .map(|b| b.bytes.len() as u64)
                    .sum();
                if (12..16).contains(&(at - begins)) || at - begins < 8 {
                    left = self.history.len();
                } else {
                    let mut byte = [0];
                    file.read_exact_at(&mut byte, at).unwrap();
                    file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
                }
            }
            Step::Grow { bytes, value } => {
                file.write_all_at(&vec![*value; *bytes], len).unwrap();
            }
            Step::DropIndex { which, keep } => {
                let bases = self.fixture.segment_files();
                let base = bases[usize::from(*which) % bases.len()];
                let kind = if which & 0x80 == 0 {
                    "index"
                } else {
                    "timeindex"
                };
                let path = self.fixture.file(base, kind);
                if let Ok(bytes) = fs::read(&path) {
                    if *keep == 0 {
                        fs::remove_file(path).unwrap();
                    } else {
                        let n = bytes.len() * usize::from(*keep) / 256;
                        fs::write(path, &bytes[..n]).unwrap();
                    }
                }
            }
            _ => {}
        }
        self.fixture.load();
        self.loaded(left, false);
    }

    fn read(&mut self, part: u16, max_bytes: usize, upper: u16, min_one: bool) {
        self.fixture.written();
        let (start, end) = (self.start, self.end());
        let span = (end - start) as u64;
        let at = start + part_of(part, span) as i64;
        let upper = start + part_of(upper, span * 5 / 4) as i64;
        let read = self
            .fixture
            .log()
            .read(at, max_bytes, upper, min_one)
            .unwrap();
        let (mut want, mut want_end) = (Vec::new(), at);
        let from = self.history.iter().filter(|b| b.end > at && b.end > b.base);
        for (i, batch) in from.enumerate() {
            let fits = want.len() + batch.bytes.len() <= max_bytes || (min_one && i == 0);
            if batch.end > upper || at >= upper || !fits {
                break;
            }
            want.extend_from_slice(&batch.bytes);
            want_end = batch.end;
        }
        assert_eq!(read.end_offset, want_end);
        assert_eq!(bytes_of(&read), want);
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append {
                count,
                value_size,
                producer,
            } => {
                self.append(*count, *value_size, *producer);
            }
            Step::Roll => {
                self.fixture.log().roll(0).unwrap();
            }
            Step::Retain { bytes } => {
                self.fixture.written();
                let log = self.fixture.log();
                let mut config = self.fixture.config.clone();
                config.retention_bytes = *bytes;
                log.update_config(config);
                let outcome = log.apply_retention(0, None).unwrap();
                assert!(outcome.log_start_offset >= self.start);
                let left = log.size_in_bytes();
                assert!(left < *bytes as u64 + 2000 || left == 0);
                let at_border = self
                    .history
                    .iter()
                    .any(|b| b.base == outcome.log_start_offset);
                let is_end = outcome.log_start_offset == self.end();
                let stayed = outcome.log_start_offset == self.start;
                assert!(stayed || at_border || is_end);
                self.start = outcome.log_start_offset;
                if outcome.deleted_segments > 0 {
                    // A crash finds the first segment that is left.
                    let first = self.fixture.segment_files()[0];
                    self.checkpointed_start = self.checkpointed_start.max(first);
                }
            }
            Step::DeleteRecords { part } => {
                self.fixture.written();
                let span = (self.end() - self.start) as u64;
                let to = self.start + (span * u64::from(*part) / 255) as i64;
                self.start = self.fixture.log().delete_records_to(to).unwrap();
                assert_eq!(self.start, to);
            }
            Step::Checkpoint => {
                self.fixture.dir().checkpoint().unwrap();
                self.checkpointed_start = self.start;
            }
            Step::Flush => {
                self.fixture.log().flush().unwrap();
            }
            Step::CloseAndOpen => {
                self.fixture.reopen_cleanly();
                self.checkpointed_start = self.start;
                self.loaded(self.history.len(), true);
            }
            Step::CrashAndOpen => {
                self.crash();
                self.fixture.load();
                self.loaded(self.history.len(), false);
            }
            Step::Read {
                part,
                max_bytes,
                upper,
                min_one,
            } => {
                self.read(*part, *max_bytes, *upper, *min_one);
            }
            damage => self.damage(damage),
        }
        let offsets = self.fixture.log().offsets();
        assert!(offsets.log_start <= offsets.local_log_start);
        assert!(offsets.last_stable <= offsets.high_watermark);
        assert!(offsets.high_watermark <= offsets.log_end);
    }

    /// Reads everything in steps of `max_bytes`: each record comes once.
    fn count_all(&self, max_bytes: usize) {
        let (mut at, mut all) = (self.start, Vec::new());
        while at < self.end() {
            let read = self.fixture.read(at, max_bytes);
            assert!(read.end_offset > at);
            at = read.end_offset;
            all.extend(bytes_of(&read));
        }
        let want = self
            .history
            .iter()
            .filter(|b| b.end > self.start && b.end > b.base);
        let want: Vec<u8> = want.flat_map(|b| b.bytes.to_vec()).collect();
        assert!(all == want, "{} bytes read of {}", all.len(), want.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2000, ..Default::default() })]

    #[test]
    fn every_history_reads_back_exactly(
        steps in vec(step(), 1..120),
        tail in prop_oneof![Just(0_usize), Just(3000), Just(1 << 20)],
        interval in prop_oneof![Just(0_u32), Just(100), Just(1000)],
    ) {
        let config = LogConfig { index_interval_bytes: interval, segment_bytes: 2000, ..small() };
        let mut world = World::new(config, tail);
        for step in &steps {
            world.run(step);
        }
        world.fixture.written();
        for max_bytes in [1, 500, 100_000] {
            world.count_all(max_bytes);
        }
    }
}

// PEERS 2.14: a fetch whose budget ends inside a sealed segment must not jump to the next one.
#[test]
fn every_record_is_counted_over_many_tiny_segments_at_every_fetch_size() {
    for tail in [0, 1 << 20] {
        let mut world = World::new(
            LogConfig {
                segment_bytes: 700,
                ..small()
            },
            tail,
        );
        for i in 0..400 {
            world.expect_appended(Spec {
                value_size: i % 97,
                ..Spec::count(1 + i % 4)
            });
        }
        world.fixture.written();
        assert!(world.fixture.log().segment_count() > 50);
        for max_bytes in [1, 61, 100, 333, 699, 700, 701, 5000, 1 << 20] {
            world.count_all(max_bytes);
        }
        world.fixture.reopen_cleanly();
        for max_bytes in [1, 333, 5000, 1 << 20] {
            world.count_all(max_bytes);
        }
        let mut sizes = HashMap::new();
        for batch in &world.history {
            *sizes.entry(batch.end - batch.base).or_insert(0) += 1;
        }
        assert_eq!(sizes.len(), 4);
    }
}
