use proptest::prelude::*;

use super::*;
use crate::builder::BatchBuilder;
use crate::test_batches::{
    CODECS, RawRecord, any_codec, any_records, batch_of, batch_with, dense, header, with_length,
};

const MAX: usize = 1 << 24;

fn heads(batch: &Batch) -> Result<Vec<RecordHead>, BatchError> {
    let mut heads = Vec::new();
    walk(batch, MAX, |head| {
        heads.push(*head);
        ControlFlow::Continue(())
    })?;
    Ok(heads)
}

fn timed(codec: Compression, kind: TimestampType, times: &[i64]) -> Batch {
    let mut builder = BatchBuilder::new(codec, kind, 500);
    for time in times {
        builder.append(*time, None, Some(&[7; 3000]), &[]).unwrap();
    }
    builder.build().unwrap()
}

fn position(offset: Offset, timestamp: i64) -> Result<Option<RecordPosition>, BatchError> {
    Ok(Some(RecordPosition { offset, timestamp }))
}

// P-35
#[test]
fn a_walk_shows_each_record_without_its_payload() {
    for codec in CODECS {
        let mut records = dense(300);
        records[1] = RawRecord {
            offset_delta: 1,
            timestamp_delta: -7,
            ..RawRecord::default()
        };
        let heads = heads(&batch_with(&header(codec, 300), &records)).unwrap();
        assert_eq!(heads.len(), 300);
        assert_eq!(
            heads[1],
            RecordHead {
                index: 1,
                offset: 1,
                offset_delta: 1,
                timestamp: 993,
                key_size: None,
                value_size: None,
                header_count: 0
            }
        );
        assert_eq!(
            (heads[299].key_size, heads[299].value_size),
            (Some(7), Some(100))
        );
        assert_eq!((heads[299].offset, heads[299].header_count), (299, 2));
    }
}

// O-5
#[test]
fn lookup_by_time_finds_the_first_record_not_the_batch() {
    for codec in CODECS {
        let batch = timed(codec, TimestampType::CreateTime, &[10, 30, 20, 40]);
        let find = |time| first_record_at_or_after(&batch, time, 0, MAX);
        assert_eq!(find(0), position(500, 10));
        assert_eq!(find(11), position(501, 30));
        assert_eq!(find(40), position(503, 40));
        assert_eq!(find(41), Ok(None));
        // Where the log begins inside the batch.
        let late = first_record_at_or_after(&batch, 11, 502, MAX);
        assert_eq!(late, position(502, 20));
    }
}

// O-5, O-9
#[test]
fn under_log_append_time_every_record_has_the_batch_time() {
    let mut batch = timed(Compression::Lz4, TimestampType::CreateTime, &[10, 30]);
    batch.set_timestamps(TimestampType::LogAppendTime, 77);
    assert_eq!(
        first_record_at_or_after(&batch, 77, 0, MAX),
        position(500, 77)
    );
    assert_eq!(first_record_at_or_after(&batch, 78, 0, MAX), Ok(None));
    assert_eq!(max_timestamp_record(&batch, 0, MAX), position(500, 77));
}

// O-9
#[test]
fn the_greatest_timestamp_leads_to_its_first_record() {
    for codec in CODECS {
        let mut batch = timed(codec, TimestampType::CreateTime, &[10, 40, 20, 40]);
        assert_eq!(max_timestamp_record(&batch, 502, MAX), position(503, 40));
        assert_eq!(max_timestamp_record(&batch, 504, MAX), Ok(None));
        assert_eq!(max_timestamp_record(&batch, 0, MAX), position(501, 40));
        // A header that is wrong costs a longer walk, not the answer.
        batch.set_timestamps(TimestampType::CreateTime, 99);
        assert_eq!(max_timestamp_record(&batch, 0, MAX), position(501, 40));
        let none = timed(codec, TimestampType::CreateTime, &[-1, -1]);
        assert_eq!(max_timestamp_record(&none, 0, MAX), Ok(None));
    }
}

// L-42
#[test]
fn gaps_and_empty_batches_of_compaction_are_walked() {
    let mut sparse = dense(2);
    sparse[0].offset_delta = 3;
    sparse[1].offset_delta = 8;
    let gaps = BatchHeader {
        last_offset_delta: 9,
        ..header(Compression::Gzip, 2)
    };
    let offsets: Vec<_> = heads(&batch_with(&gaps, &sparse)).unwrap();
    assert_eq!(offsets.iter().map(|h| h.offset).collect::<Vec<_>>(), [3, 8]);
    let empty = BatchHeader {
        last_offset_delta: 9,
        ..header(Compression::None, 0)
    };
    assert_eq!(
        heads(&Batch::build(&empty, bytes::Bytes::new())),
        Ok(vec![])
    );
}

fn fault_of(codec: Compression, plain: &[u8]) -> BatchError {
    heads(&batch_of(&header(codec, 1), plain)).unwrap_err()
}

// P-33: what is wrong is named, whatever the codec
#[test]
fn malformed_records_are_refused() {
    // attributes, timestamp delta, offset delta, key, value, headers
    let cases: [(Vec<u8>, RecordFault); 9] = [
        (vec![0x01], RecordFault::Length(-1)),
        (
            with_length(&[0, 0, 0, 1, 1, 0, 0]),
            RecordFault::LengthMismatch(7),
        ),
        (with_length(&[0, 0, 0, 1, 1]), RecordFault::Truncated),
        (
            with_length(&[0, 0, 0, 3, 1, 0]),
            RecordFault::FieldLength(-2),
        ),
        (
            with_length(&[0, 0, 0, 1, 1, 1]),
            RecordFault::HeaderCount(-1),
        ),
        (
            with_length(&[0, 0, 0, 1, 1, 2, 1, 0]),
            RecordFault::HeaderKey(-1),
        ),
        (
            with_length(&[0, 0, 2, 1, 1, 0]),
            RecordFault::OffsetDelta(1),
        ),
        (with_length(&[0, 0x80, 0, 0, 1, 1, 0]), RecordFault::Varint),
        // A key that reaches beyond its record into the next bytes.
        (
            [with_length(&[0, 0, 0, 8, 1, 0]), vec![0; 9]].concat(),
            RecordFault::LengthMismatch(6),
        ),
    ];
    for codec in CODECS {
        for (plain, fault) in &cases {
            assert_eq!(
                fault_of(codec, plain),
                BatchError::Record {
                    index: 0,
                    fault: *fault
                }
            );
        }
    }
}

// P-35: Java's addition would wrap
#[test]
fn a_timestamp_that_overflows_is_refused() {
    let record = RawRecord {
        timestamp_delta: i64::MAX,
        ..RawRecord::default()
    };
    let fault = RecordFault::Timestamp(i64::MAX);
    assert_eq!(
        heads(&batch_with(&header(Compression::None, 1), &[record])),
        Err(BatchError::Record { index: 0, fault })
    );
}

// P-33
#[test]
fn missing_and_trailing_records_are_refused() {
    for codec in CODECS {
        let three = dense(3);
        let few = heads(&batch_with(&header(codec, 4), &three));
        assert_eq!(few, Err(RecordFault::Truncated.at(3)), "{codec:?}");
        let many = heads(&batch_with(&header(codec, 2), &three));
        assert_eq!(
            many,
            Err(BatchError::TrailingBytes { records: 2 }),
            "{codec:?}"
        );
    }
}

#[test]
fn a_claimed_number_of_records_or_headers_costs_nothing() {
    let huge = header(Compression::Zstd, i32::MAX);
    assert_eq!(
        heads(&batch_with(&huge, &dense(1))),
        Err(RecordFault::Truncated.at(1))
    );
    let negative = header(Compression::None, -5);
    assert_eq!(
        heads(&batch_with(&negative, &[])),
        Err(BatchError::RecordCount(-5))
    );
    let mut body = vec![0, 0, 0, 1, 1];
    crate::varint::put_varint(&mut body, i32::MAX);
    let error = fault_of(Compression::None, &with_length(&body));
    assert!(
        matches!(error, BatchError::Record { index: 0, .. }),
        "{error:?}"
    );
}

// P-32: a walk needs a window, not the whole
#[test]
fn a_walk_stops_at_the_cap() {
    for codec in &CODECS[1..] {
        let batch = batch_with(&header(*codec, 1000), &dense(1000));
        let see = |_: &RecordHead| ControlFlow::Continue(());
        assert_eq!(
            walk(&batch, 10_000, see),
            Err(BatchError::DecompressedTooLarge { max: 10_000 })
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_walk_and_the_records_agree(codec in any_codec(), raw in any_records()) {
        let batch = batch_with(&header(codec, raw.len() as i32), &raw);
        let heads = heads(&batch).unwrap();
        let records: Vec<_> = crate::records(&batch, MAX).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(heads.len(), records.len());
        for (head, record) in heads.iter().zip(&records) {
            prop_assert_eq!(head.offset, record.offset);
            prop_assert_eq!(head.timestamp, record.timestamp);
            prop_assert_eq!(head.key_size, record.key.as_ref().map(|b| b.len()));
            prop_assert_eq!(head.value_size, record.value.as_ref().map(|b| b.len()));
            prop_assert_eq!(head.header_count as usize, record.headers.len());
        }
    }

    // Whatever the quick walk takes, the careful one takes as the same.
    #[test]
    fn the_quick_walk_and_the_careful_one_agree(
        mut raw in any_records(), keep_headers: bool, flips in prop::collection::vec((any::<u16>(), any::<u8>()), 0..3),
    ) {
        if !keep_headers {
            raw.iter_mut().for_each(|record| record.headers.clear());
        }
        let header = header(Compression::None, raw.len() as i32);
        let mut bytes = batch_with(&header, &raw).body().to_vec();
        for (at, bits) in flips {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= bits;
        }
        let (mut quick, mut careful) = (SliceSource(&bytes), SliceSource(&bytes));
        let mut taken = 0;
        for index in 0..raw.len() as i32 {
            let Some(head) = quick_record(&header, &mut quick, index) else { break };
            let Ok(same) = walk_record(&header, &mut careful, &mut NoSink, index) else {
                return Err(TestCaseError::fail("only the quick walk takes it"));
            };
            prop_assert_eq!(head, same);
            prop_assert_eq!(quick.0.len(), careful.0.len());
            taken += 1;
        }
        if !keep_headers && bytes[..] == batch_with(&header, &raw).body()[..] {
            prop_assert_eq!(taken, raw.len(), "it is for all common records");
        }
    }
}
