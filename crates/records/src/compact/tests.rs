use proptest::prelude::*;

use super::*;
use crate::builder::BatchBuilder;
use crate::record::{Record, records};
use crate::test_batches::CODECS;

const MAX: usize = 1 << 20;

/// Key, value, timestamp.
type Spec = (u8, Option<u8>, i64);

fn batch(codec: Compression, kind: TimestampType, specs: &[Spec]) -> Batch {
    let mut builder = BatchBuilder::new(codec, kind, 100)
        .with_leader_epoch(6)
        .with_producer(9, 3, 40)
        .transactional();
    for (key, value, timestamp) in specs {
        let value = value.map(|v| [v; 30]);
        let value = value.as_ref().map(|v| v.as_slice());
        builder
            .append(*timestamp, Some(&[*key]), value, &[(b"h", Some(b"x"))])
            .unwrap();
    }
    let mut batch = builder.build().unwrap();
    if kind == TimestampType::LogAppendTime {
        batch.set_timestamps(kind, 5000);
    }
    batch
}

fn read_all(batch: &Batch) -> Vec<Record> {
    records(batch, MAX).unwrap().map(Result::unwrap).collect()
}

fn rewritten(compacted: Compacted) -> Batch {
    match compacted {
        Compacted::Rewritten(batch) => batch,
        other => panic!("{other:?}"),
    }
}

proptest! {
    // L-42: what stays is as it was, offset for offset
    #[test]
    fn records_that_stay_are_the_same_and_nothing_else_stays(
        specs in prop::collection::vec((0..6_u8, prop::option::of(any::<u8>()), 0..10_000_i64), 1..20),
        codec in 0..5_usize,
        by_broker: bool,
        kept in prop::collection::vec(any::<bool>(), 20),
        horizon in prop::option::of(any::<i64>()),
    ) {
        let kind = if by_broker { TimestampType::LogAppendTime } else { TimestampType::CreateTime };
        let batch = batch(CODECS[codec], kind, &specs);
        let keep = |r: &KeyedRecord<'_>| kept[(r.offset - 100) as usize];
        let horizon = horizon.map(|at_ms| DeleteHorizon { at_ms, is_for_marker: false });
        let open = OpenBatch::new(batch.clone(), MAX).unwrap();
        let expected: Vec<_> = read_all(&batch)
            .into_iter()
            .filter(|r| kept[(r.offset - 100) as usize])
            .collect();
        let has_tombstone = expected.iter().any(|r| r.value.is_none());
        let can = |t: i64, at: i64| t.checked_sub(at).is_some();
        let own: Vec<i64> = specs.iter().zip(&kept).filter(|(_, k)| **k).map(|(s, _)| s.2).collect();
        let is_set = horizon.is_some_and(|h| has_tombstone && own.iter().all(|t| can(*t, h.at_ms)));
        match open.compact(keep, horizon).unwrap() {
            Compacted::Nothing => prop_assert!(expected.is_empty()),
            Compacted::Unchanged => {
                prop_assert_eq!(expected.len(), specs.len());
                prop_assert!(!is_set);
            }
            Compacted::Rewritten(new) => {
                prop_assert!(expected.len() < specs.len() || is_set);
                prop_assert!(new.verify_crc().is_ok());
                prop_assert_eq!(&read_all(&new), &expected);
                let (old, new) = (batch.header(), new.header());
                prop_assert_eq!(new.delete_horizon_ms(), horizon.filter(|_| is_set).map(|h| h.at_ms));
                prop_assert_eq!((new.base_offset, new.last_offset()), (old.base_offset, old.last_offset()));
                prop_assert_eq!((new.base_sequence, new.last_sequence()), (40, old.last_sequence()));
                prop_assert_eq!((new.producer_id, new.producer_epoch, new.partition_leader_epoch), (9, 3, 6));
                let max = expected.iter().map(|r| r.timestamp).max().unwrap();
                prop_assert_eq!(new.max_timestamp, max);
                prop_assert_eq!(new.attributes.compression(), old.attributes.compression());
            }
        }
    }

    // Bytes from a damaged file: errors, never a panic.
    #[test]
    fn damaged_records_are_errors(at in 0..200_usize, flip in 1..=255_u8) {
        let batch = batch(Compression::None, TimestampType::CreateTime, &[(1, Some(2), 3); 4]);
        let mut bytes = batch.to_bytes().to_vec();
        let at = 21 + at % (bytes.len() - 21);
        bytes[at] ^= flip;
        if let Ok(bad) = Batch::from_bytes(bytes.into())
            && let Ok(open) = OpenBatch::new(bad, MAX)
        {
            let mut seen = 0;
            let walked = open.each(|_| seen += 1);
            let compacted = open.compact(|_| true, None);
            prop_assert_eq!(walked.is_ok(), compacted.is_ok());
        }
    }
}

// L-43
#[test]
fn a_horizon_is_set_for_tombstones_and_markers_only_and_stays() {
    let at = |at_ms, is_for_marker| {
        Some(DeleteHorizon {
            at_ms,
            is_for_marker,
        })
    };
    let open = |b: &Batch| OpenBatch::new(b.clone(), MAX).unwrap();
    let kind = TimestampType::CreateTime;
    let plain = batch(
        Compression::Zstd,
        kind,
        &[(1, Some(1), 10), (2, Some(2), 20)],
    );
    assert_eq!(
        open(&plain).compact(|_| true, at(777, false)),
        Ok(Compacted::Unchanged)
    );
    let marker = rewritten(open(&plain).compact(|_| true, at(777, true)).unwrap());
    assert_eq!(marker.header().delete_horizon_ms(), Some(777));
    let dead = batch(Compression::Zstd, kind, &[(1, None, 10), (2, Some(2), 20)]);
    let once = rewritten(open(&dead).compact(|_| true, at(777, false)).unwrap());
    assert_eq!(once.header().delete_horizon_ms(), Some(777));
    // The second time nothing is given, and what is there stays.
    let twice = rewritten(open(&once).compact(|r| r.offset == 101, None).unwrap());
    assert_eq!(twice.header().delete_horizon_ms(), Some(777));
    assert_eq!(read_all(&twice), &read_all(&dead)[1..]);
}

// L-42
#[test]
fn an_emptied_batch_keeps_its_producers_place() {
    for codec in CODECS {
        let full = batch(
            codec,
            TimestampType::CreateTime,
            &[(1, Some(1), 10), (2, None, 20)],
        );
        let empty = Batch::from_bytes(full.emptied().to_bytes()).unwrap();
        assert!(empty.verify_crc().is_ok());
        let (old, new) = (full.header(), empty.header());
        assert_eq!((new.record_count, empty.size_in_bytes()), (0, 61));
        assert_eq!(
            (new.last_offset(), new.last_sequence()),
            (old.last_offset(), old.last_sequence())
        );
        assert_eq!(
            (new.producer_id, new.producer_epoch, new.max_timestamp),
            (9, 3, 20)
        );
        assert!(new.attributes.is_transactional() && !new.attributes.has_delete_horizon());
        assert!(read_all(&empty).is_empty());
        let open = OpenBatch::new(empty, MAX).unwrap();
        assert_eq!(open.compact(|_| true, None), Ok(Compacted::Nothing));
    }
}
