//! Compaction through the public interface: named rules, and random histories against a map.

mod history;
mod rules;
mod view;

use std::sync::Arc;

use strandline_log::{CleanReport, CleanerOptions, Log, LogCleaner, LogConfig};
use strandline_records::{Batch, BatchBuilder, Compression, EndTransactionMarker};
use strandline_types::TimestampType;

use crate::support::{Fixture, small};

/// Settings of a compacted log with tiny segments, which is cleaned whenever something is dirty.
fn compacted() -> LogConfig {
    LogConfig {
        compact: true,
        delete: false,
        min_cleanable_dirty_ratio: 0.0,
        delete_retention_ms: 1000,
        ..small()
    }
}

/// A batch with these keys and values; `None` is a tombstone.
fn keyed(records: &[(&str, Option<&str>)]) -> Batch {
    batch_of(records, Compression::None, None, false)
}

fn batch_of(
    records: &[(&str, Option<&str>)],
    compression: Compression,
    producer: Option<(i64, i16, i32)>,
    is_transactional: bool,
) -> Batch {
    let mut builder = BatchBuilder::new(compression, TimestampType::CreateTime, 0);
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.with_producer(id, epoch, sequence);
    }
    if is_transactional {
        builder = builder.transactional();
    }
    for ((key, value), timestamp) in records.iter().zip(1000..) {
        let value = value.map(str::as_bytes);
        builder
            .append(
                timestamp,
                Some(key.as_bytes()),
                value,
                &[(b"h", Some(b"1"))],
            )
            .unwrap();
    }
    builder.build().unwrap()
}

/// A batch of an open transaction.
fn in_transaction(pid: i64, sequence: i32, records: &[(&str, Option<&str>)]) -> Batch {
    batch_of(records, Compression::None, Some((pid, 0, sequence)), true)
}

fn marker(pid: i64, committed: bool) -> Batch {
    let marker = EndTransactionMarker {
        committed,
        coordinator_epoch: 0,
    };
    marker.to_batch(pid, 0, 1000).unwrap()
}

fn cleaner() -> LogCleaner {
    LogCleaner::new(CleanerOptions::default())
}

/// One round at `now_ms`, if the log is due.
fn clean(log: &Arc<Log>, now_ms: i64) -> Option<CleanReport> {
    let cleaning = cleaner().clean_dirtiest(std::slice::from_ref(log), now_ms);
    cleaning.report()
}

/// Seals what is there, and cleans it.
fn roll_and_clean(fixture: &Fixture, now_ms: i64) -> CleanReport {
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    clean(fixture.log(), now_ms).expect("a round")
}
