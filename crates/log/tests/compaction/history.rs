//! Random histories: whatever is appended, aborted, cleaned, closed or cut off, a consumer's table of
//! keys is the model's, from every offset on, and nothing that is read was ever anything else.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use strandline_log::{CleanerOptions, LogCleaner, LogConfig};
use strandline_records::Compression;
use strandline_types::Offset;

use super::view::{committed, table, uncommitted};
use super::{batch_of, compacted, marker};
use crate::support::{Fixture, partition};

#[derive(Debug, Clone)]
enum Step {
    Append {
        keys: Vec<(u8, bool)>,
        producer: u8,
        compression: u8,
    },
    Transact {
        keys: Vec<(u8, bool)>,
        producer: u8,
    },
    End {
        producer: u8,
        committed: bool,
    },
    Roll,
    Clean {
        slots: usize,
    },
    Wait {
        ms: i64,
    },
    Retain {
        bytes: i64,
    },
    CloseAndOpen,
    CrashAndOpen,
    DropIndexes,
}

fn step() -> impl Strategy<Value = Step> {
    let keys = || vec((0..6_u8, any::<bool>()), 1..5);
    prop_oneof![
        8 => (keys(), 0..3_u8, 0..5_u8).prop_map(|(keys, producer, compression)| Step::Append {
            keys, producer, compression
        }),
        8 => (keys(), 0..3_u8).prop_map(|(keys, producer)| Step::Transact { keys, producer }),
        5 => (0..3_u8, any::<bool>()).prop_map(|(producer, committed)| Step::End {
            producer, committed
        }),
        4 => Just(Step::Roll),
        6 => prop_oneof![Just(1000_usize), 3..12_usize].prop_map(|slots| Step::Clean { slots }),
        2 => (1..1500_i64).prop_map(|ms| Step::Wait { ms }),
        1 => (0..3000_i64).prop_map(|bytes| Step::Retain { bytes }),
        1 => Just(Step::CloseAndOpen),
        1 => Just(Step::CrashAndOpen),
        1 => Just(Step::DropIndexes),
    ]
}

/// A record that was appended.
#[derive(Debug, Clone, PartialEq)]
struct Written {
    offset: Offset,
    key: String,
    value: Option<String>,
    /// The transactional producer; 0 for none.
    producer: i64,
    /// `None` while its transaction is open.
    is_committed: Option<bool>,
}

struct World {
    fixture: Fixture,
    written: Vec<Written>,
    now_ms: i64,
    next_value: u32,
    /// Next sequence by producer id, and the last batch with its offsets.
    sequences: BTreeMap<i64, i32>,
    last: BTreeMap<i64, (strandline_records::Batch, Offset)>,
    open: BTreeSet<i64>,
    /// Retention is part of the history.
    retains: bool,
}

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

impl World {
    fn append(
        &mut self,
        keys: &[(u8, bool)],
        producer: i64,
        compression: u8,
        in_transaction: bool,
    ) {
        let texts: Vec<(String, Option<String>)> = keys
            .iter()
            .map(|(key, has_value)| {
                self.next_value += 1;
                (
                    format!("k{key}"),
                    has_value.then(|| format!("v{}", self.next_value)),
                )
            })
            .collect();
        let records: Vec<_> = texts
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_deref()))
            .collect();
        let sequence = self.sequences.get(&producer).copied().unwrap_or(0);
        let identity = (producer > 0).then_some((producer, 0, sequence));
        let codec = CODECS[usize::from(compression) % 5];
        let batch = batch_of(&records, codec, identity, in_transaction);
        let appended = self.fixture.put(batch.clone());
        assert!(!appended.duplicate);
        if producer > 0 {
            self.sequences
                .insert(producer, sequence + keys.len() as i32);
            self.last.insert(producer, (batch, appended.base_offset));
        }
        for ((key, value), offset) in texts.into_iter().zip(appended.base_offset..) {
            self.written.push(Written {
                offset,
                key,
                value,
                producer: if in_transaction { producer } else { 0 },
                is_committed: (!in_transaction).then_some(true),
            });
        }
    }

    fn end(&mut self, producer: i64, committed: bool) {
        if !self.open.remove(&producer) {
            return;
        }
        self.fixture.put(marker(producer, committed));
        let open = self.written.iter_mut().filter(|w| w.producer == producer);
        open.filter(|w| w.is_committed.is_none())
            .for_each(|w| w.is_committed = Some(committed));
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append {
                keys,
                producer,
                compression,
            } => {
                // Idempotent ones are 1 and 2, those of transactions 11, 12, 13.
                self.append(keys, i64::from(*producer), *compression, false);
            }
            Step::Transact { keys, producer } => {
                let producer = 11 + i64::from(*producer);
                self.open.insert(producer);
                self.append(keys, producer, 0, true);
            }
            Step::End {
                producer,
                committed,
            } => self.end(11 + i64::from(*producer), *committed),
            Step::Roll => {
                self.fixture.log().roll(0).unwrap();
            }
            Step::Clean { slots } => {
                self.fixture.sealed();
                let cleaner = LogCleaner::new(CleanerOptions {
                    dedupe_buffer_bytes: slots * 20,
                    ..CleanerOptions::default()
                });
                let log = std::sync::Arc::clone(self.fixture.log());
                let _ = cleaner.clean_dirtiest(std::slice::from_ref(&log), self.now_ms);
                assert_eq!(
                    cleaner.status(&[log], self.now_ms).uncleanable_partitions,
                    0
                );
            }
            Step::Wait { ms } => self.now_ms += ms,
            Step::Retain { bytes } => self.retain(*bytes),
            Step::CloseAndOpen => {
                self.fixture.reopen_cleanly();
                self.reopened();
            }
            Step::CrashAndOpen => {
                self.fixture.reopen_after_crash();
                self.reopened();
            }
            Step::DropIndexes => {
                self.fixture.written();
                // Where retention took a producer's records, only a snapshot knows its sequence.
                self.fixture.crash();
                let extensions = ["index", "timeindex", "snapshot"];
                for extension in &extensions[..2 + usize::from(!self.retains)] {
                    for base in self.fixture.files_with(&format!(".{extension}")) {
                        let _ = std::fs::remove_file(self.fixture.file(base, extension));
                    }
                }
                self.fixture.load();
                self.reopened();
            }
        }
    }

    fn reopened(&mut self) {
        let log = self.fixture.log();
        log.set_high_watermark(log.log_end_offset());
        let start = log.log_start_offset();
        // L-42, P-50: each producer that has something left is where it was.
        for (producer, (batch, base)) in &self.last {
            if *base >= start {
                let again = self.fixture.append(batch.clone()).unwrap();
                assert!(again.duplicate, "producer {producer} is forgotten");
                assert_eq!(again.base_offset, *base);
            }
        }
    }

    fn retain(&mut self, bytes: i64) {
        let config = self.fixture.log().config();
        let with_delete = LogConfig {
            delete: true,
            retention_bytes: bytes,
            ..config
        };
        self.fixture.log().update_config(with_delete);
        self.fixture.log().apply_retention(0, None).unwrap();
        self.fixture.log().update_config(config);
    }

    fn check(&self) {
        let log = self.fixture.log();
        let first = log.log_start_offset();
        let end = log.log_end_offset();
        let mut starts: Vec<Offset> = (first..=end).step_by(3).collect();
        starts.push(first);
        for start in starts {
            let seen = uncommitted(log, start);
            for record in &seen {
                let was = self.written.iter().find(|w| w.offset == record.offset);
                let was = was.expect("a record that was never written");
                let text = |b: &bytes::Bytes| String::from_utf8(b.to_vec()).unwrap();
                assert_eq!(record.key.as_ref().map(text).as_ref(), Some(&was.key));
                assert_eq!(record.value.as_ref().map(text), was.value);
                assert_eq!(record.headers.len(), 1);
            }
            let stable = log.last_stable_offset();
            let visible = committed(log, start);
            let of_committed: BTreeSet<Offset> = self
                .written
                .iter()
                .filter(|w| w.is_committed == Some(true) && (start..stable).contains(&w.offset))
                .map(|w| w.offset)
                .collect();
            for record in &visible {
                assert!(
                    of_committed.contains(&record.offset),
                    "{} is not committed",
                    record.offset
                );
            }
            let mut expected = BTreeMap::new();
            for w in self
                .written
                .iter()
                .filter(|w| of_committed.contains(&w.offset))
            {
                match &w.value {
                    Some(value) => expected.insert(w.key.clone(), value.clone()),
                    None => expected.remove(&w.key),
                };
            }
            assert_eq!(table(&visible), expected, "from {start}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_history_gives_the_models_table(
        steps in vec(step(), 1..60),
        tail in prop_oneof![Just(0_usize), Just(1 << 20)],
        delete_retention_ms in prop_oneof![Just(0_i64), Just(1000)],
        segment_bytes in prop_oneof![Just(300_u64), Just(1000)],
    ) {
        let config = LogConfig { delete_retention_ms, segment_bytes, ..compacted() };
        let mut world = World {
            fixture: Fixture::new(config, tail),
            written: Vec::new(),
            now_ms: 0,
            next_value: 0,
            sequences: BTreeMap::new(),
            last: BTreeMap::new(),
            open: BTreeSet::new(),
            retains: steps.iter().any(|step| matches!(step, Step::Retain { .. })),
        };
        for step in &steps {
            world.run(step);
            world.check();
        }
        let end = world.fixture.log().log_end_offset();
        world.run(&Step::CrashAndOpen);
        prop_assert_eq!(world.fixture.log().log_end_offset(), end);
        prop_assert_eq!(world.fixture.log().partition(), &partition());
        world.check();
    }
}
