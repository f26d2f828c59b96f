use proptest::prelude::*;

use super::*;
use crate::batch::{Attributes, BATCH_HEAD_BYTES};
use crate::builder::BatchBuilder;
use crate::control::EndTransactionMarker;
use crate::record::{Record, records};
use crate::test_batches::{
    CODECS, RawRecord, any_codec, any_records, batch_of, batch_with, dense, header,
};

const NOW: i64 = 1_000_000;
const MAX: usize = 1 << 24;

fn validate(batch: &Batch, options: &ValidateOptions) -> Result<Batch, RejectedBatch> {
    validate_produce(batch.to_bytes(), options, NOW)
}

fn kind(batch: &Batch, options: &ValidateOptions) -> RejectKind {
    validate(batch, options).unwrap_err().kind
}

fn options() -> ValidateOptions {
    ValidateOptions::default()
}

fn to_codec(compression: Compression) -> ValidateOptions {
    let compression = TargetCompression::Codec {
        compression,
        level: Some(1),
    };
    ValidateOptions {
        compression,
        ..options()
    }
}

fn read(batch: &Batch) -> Vec<Record> {
    records(batch, MAX).unwrap().map(Result::unwrap).collect()
}

/// A header that differs from a right one in one place.
fn off(change: impl FnOnce(&mut BatchHeader)) -> BatchHeader {
    let mut header = header(Compression::None, 3);
    change(&mut header);
    header
}

fn flag(header: &mut BatchHeader, bit: i16) {
    header.attributes = Attributes(header.attributes.0 | bit);
}

/// A batch of three right records with that header.
fn three(header: &BatchHeader) -> Batch {
    batch_with(header, &dense(3))
}

/// Right records; the header's greatest timestamp is right too.
fn right(codec: Compression, count: i32) -> Batch {
    let max_timestamp = 1000 + i64::from(count - 1).min(6);
    batch_with(
        &BatchHeader {
            max_timestamp,
            ..header(codec, count)
        },
        &dense(count),
    )
}

#[test]
fn a_right_batch_passes_untouched_and_uncopied() {
    for codec in CODECS {
        let bytes = right(codec, 50).to_bytes();
        let batch = validate_produce(bytes.clone(), &options(), NOW).unwrap();
        assert_eq!(batch.to_bytes(), bytes);
        assert!(bytes.as_ptr_range().contains(&batch.body().as_ptr()));
    }
}

// P-5
#[test]
fn exactly_one_batch_of_version_2_is_taken() {
    let bytes = right(Compression::None, 3).to_bytes();
    let reject = |bytes: &[u8]| validate_produce(Bytes::copy_from_slice(bytes), &options(), NOW);
    assert_eq!(reject(&[]).unwrap_err().kind, RejectKind::InvalidRecord);
    assert_eq!(
        reject(&bytes.repeat(2)).unwrap_err().kind,
        RejectKind::InvalidRecord
    );
    for magic in [0, 1, 3, 0xff] {
        let mut other = bytes.to_vec();
        other[16] = magic;
        assert_eq!(reject(&other).unwrap_err().kind, RejectKind::InvalidRecord);
        // Older formats have less than a header's bytes.
        assert_eq!(
            reject(&other[..30]).unwrap_err().kind,
            RejectKind::InvalidRecord
        );
    }
}

// P-20
#[test]
fn the_base_offset_must_be_zero() {
    let batch = three(&off(|h| h.base_offset = 5));
    assert_eq!(kind(&batch, &options()), RejectKind::InvalidRecord);
}

// P-21
#[test]
fn the_size_is_checked_as_sent() {
    let batch = right(Compression::Zstd, 3);
    let exact = ValidateOptions {
        max_message_bytes: batch.size_in_bytes(),
        ..options()
    };
    assert!(validate(&batch, &exact).is_ok());
    let less = ValidateOptions {
        max_message_bytes: batch.size_in_bytes() - 1,
        ..options()
    };
    assert_eq!(kind(&batch, &less), RejectKind::MessageTooLarge);
}

// P-21
#[test]
fn the_size_is_checked_again_as_stored() {
    let batch = right(Compression::Zstd, 500);
    let plain = right(Compression::None, 500).size_in_bytes();
    for limit in [plain - 1, batch.size_in_bytes()] {
        let options = ValidateOptions {
            max_message_bytes: limit,
            ..to_codec(Compression::None)
        };
        assert_eq!(kind(&batch, &options), RejectKind::MessageTooLarge);
    }
    let enough = ValidateOptions {
        max_message_bytes: plain,
        ..to_codec(Compression::None)
    };
    assert!(validate(&batch, &enough).is_ok());
    // A codec holds bytes back: the last word is the whole.
    for codec in [Compression::Snappy, Compression::Lz4] {
        let sent = right(Compression::Gzip, 500);
        let stored = validate(&sent, &to_codec(codec)).unwrap();
        let size = stored.size_in_bytes();
        let exact = ValidateOptions {
            max_message_bytes: size,
            ..to_codec(codec)
        };
        assert!(sent.size_in_bytes() < size, "{codec:?}");
        assert_eq!(validate(&sent, &exact), Ok(stored));
        let less = ValidateOptions {
            max_message_bytes: size - 1,
            ..to_codec(codec)
        };
        assert_eq!(kind(&sent, &less), RejectKind::MessageTooLarge, "{codec:?}");
    }
}

// P-22
#[test]
fn damaged_and_cut_batches_are_corrupt() {
    let bytes = right(Compression::Lz4, 3).to_bytes();
    let kind = |bytes: Vec<u8>| {
        validate_produce(bytes.into(), &options(), NOW)
            .unwrap_err()
            .kind
    };
    for at in 17..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x40;
        assert_eq!(kind(damaged), RejectKind::CorruptMessage, "byte {at}");
    }
    for keep in [1, 16, 17, 60, 61, bytes.len() - 1] {
        assert_eq!(
            kind(bytes[..keep].to_vec()),
            RejectKind::CorruptMessage,
            "{keep} bytes"
        );
    }
    assert_eq!(
        kind([&bytes[..], &[0; 3]].concat()),
        RejectKind::CorruptMessage
    );
    for length in [-1_i32, 0, 48, i32::MAX, i32::MIN] {
        let mut damaged = bytes.to_vec();
        damaged[8..12].copy_from_slice(&length.to_be_bytes());
        assert_eq!(kind(damaged), RejectKind::CorruptMessage, "length {length}");
    }
}

// P-24
#[test]
fn record_count_and_last_offset_delta_must_agree() {
    for (count, last) in [
        (3, 3),
        (3, 1),
        (0, -1),
        (0, 2),
        (-1, -2),
        (i32::MIN, i32::MAX),
    ] {
        let batch = three(&off(|h| {
            h.record_count = count;
            h.last_offset_delta = last;
        }));
        assert_eq!(
            kind(&batch, &options()),
            RejectKind::InvalidRecord,
            "{count} {last}"
        );
    }
    // Both right to each other, and wrong to the records.
    for count in [2, 4, i32::MAX] {
        for codec in CODECS {
            let batch = three(&header(codec, count));
            assert_eq!(
                kind(&batch, &options()),
                RejectKind::InvalidRecord,
                "{count}"
            );
        }
    }
}

// P-25
#[test]
fn only_the_broker_writes_control_batches() {
    let marker = EndTransactionMarker {
        committed: true,
        coordinator_epoch: 1,
    };
    let batch = marker.to_batch(5, 0, 1000).unwrap();
    assert_eq!(kind(&batch, &options()), RejectKind::InvalidRecord);
    let ours = ValidateOptions {
        allow_control: true,
        ..to_codec(Compression::Zstd)
    };
    assert_eq!(validate(&batch, &ours), Ok(batch));
}

// P-26
#[test]
fn a_producer_needs_a_sequence_and_an_epoch() {
    let idempotent = |epoch, sequence| {
        three(&off(|h| {
            h.producer_id = 9;
            h.producer_epoch = epoch;
            h.base_sequence = sequence;
        }))
    };
    assert!(validate(&idempotent(0, 0), &options()).is_ok());
    assert_eq!(
        kind(&idempotent(0, -1), &options()),
        RejectKind::InvalidRecord
    );
    assert_eq!(
        kind(&idempotent(-1, 0), &options()),
        RejectKind::InvalidRecord
    );
}

// P-27
#[test]
fn a_transaction_needs_a_producer() {
    let batch = three(&off(|h| flag(h, 1 << 4)));
    assert_eq!(kind(&batch, &options()), RejectKind::InvalidRecord);
}

// P-28
#[test]
fn offsets_that_are_not_dense_are_written_anew() {
    for codec in CODECS {
        for deltas in [
            [0, 0, 0],
            [2, 1, 0],
            [0, 1, 3],
            [-4, i32::MAX, i32::MIN],
            [0, 1, 100],
        ] {
            let mut sparse = dense(3);
            for (record, delta) in sparse.iter_mut().zip(deltas) {
                record.offset_delta = delta;
            }
            let header = BatchHeader {
                producer_id: 4,
                producer_epoch: 1,
                base_sequence: 30,
                ..header(codec, 3)
            };
            let stored = validate(&batch_with(&header, &sparse), &options()).unwrap();
            let expected = batch_with(
                &BatchHeader {
                    max_timestamp: 1002,
                    ..header
                },
                &dense(3),
            );
            assert!(stored.verify_crc().is_ok());
            assert_eq!(read(&stored), read(&expected), "{codec:?} {deltas:?}");
            assert_eq!(
                BatchHeader {
                    crc: 0,
                    batch_length: 0,
                    ..stored.header()
                },
                BatchHeader {
                    crc: 0,
                    batch_length: 0,
                    ..expected.header()
                }
            );
        }
    }
}

// P-29, P-34
#[test]
fn a_compacted_topic_needs_keys() {
    let compacted = ValidateOptions {
        compacted: true,
        ..options()
    };
    for codec in CODECS {
        let mut raw = dense(5);
        raw[1].key = None;
        raw[4].key = None;
        let batch = batch_with(&header(codec, 5), &raw);
        assert!(validate(&batch, &options()).is_ok());
        // Keys are checked even for a trusted producer.
        for check in [CheckDepth::Full, CheckDepth::HeaderOnly] {
            let refused = validate(&batch, &ValidateOptions { check, ..compacted }).unwrap_err();
            assert_eq!(refused.kind, RejectKind::InvalidRecord);
            let indexes: Vec<_> = refused.records.iter().map(|(index, _)| *index).collect();
            assert_eq!(indexes, [1, 4]);
        }
        // An empty key is a key.
        raw[1].key = Some(vec![]);
        raw[4].key = Some(vec![]);
        assert!(validate(&batch_with(&header(codec, 5), &raw), &compacted).is_ok());
    }
}

fn at(codec: Compression, times: &[i64]) -> Batch {
    let mut builder = BatchBuilder::new(codec, TimestampType::CreateTime, 0);
    for time in times {
        builder.append(*time, Some(b"k"), None, &[]).unwrap();
    }
    builder.build().unwrap()
}

// P-30, P-34
#[test]
fn timestamps_must_lie_within_the_bounds() {
    let bounds = ValidateOptions {
        before_max_ms: 100,
        after_max_ms: 50,
        ..options()
    };
    for codec in CODECS {
        let fine = at(codec, &[NOW - 100, NOW + 50, -1]);
        assert!(validate(&fine, &bounds).is_ok());
        let refused = validate(&at(codec, &[NOW, NOW - 101, NOW + 51, 0]), &bounds).unwrap_err();
        assert_eq!(refused.kind, RejectKind::InvalidTimestamp);
        let indexes: Vec<_> = refused.records.iter().map(|(index, _)| *index).collect();
        assert_eq!(indexes, [1, 2, 3]);
        // The broker's time replaces them all.
        let append = ValidateOptions {
            timestamp_type: TimestampType::LogAppendTime,
            ..bounds
        };
        assert!(validate(&at(codec, &[0, NOW + 51]), &append).is_ok());
    }
}

// P-30
#[test]
fn extreme_bounds_and_timestamps_do_not_overflow() {
    let wide = ValidateOptions {
        after_max_ms: i64::MAX,
        ..options()
    };
    let first = RawRecord {
        timestamp_delta: i64::MAX - 1000,
        ..RawRecord::default()
    };
    assert!(validate(&batch_with(&header(Compression::None, 1), &[first]), &wide).is_ok());
    let least = RawRecord {
        timestamp_delta: i64::MIN,
        ..RawRecord::default()
    };
    let batch = batch_with(&header(Compression::None, 1), &[least]);
    assert_eq!(kind(&batch, &wide), RejectKind::InvalidTimestamp);
}

// P-34
#[test]
fn a_bad_timestamp_names_the_error_and_all_bad_records_are_listed() {
    let mut raw = dense(3);
    raw[0].key = None;
    raw[2].timestamp_delta = NOW + 3_600_000;
    let batch = batch_with(&header(Compression::Snappy, 3), &raw);
    let refused = validate(
        &batch,
        &ValidateOptions {
            compacted: true,
            ..options()
        },
    )
    .unwrap_err();
    assert_eq!(refused.kind, RejectKind::InvalidTimestamp);
    assert_eq!(
        refused.records.iter().map(|(i, _)| *i).collect::<Vec<_>>(),
        [0, 2]
    );
    assert_eq!(refused.to_string(), "2 of 3 records are refused");
}

// P-34: a response must stay small
#[test]
fn at_most_a_thousand_records_are_named() {
    let records = vec![RawRecord::default(); 50_000];
    let batch = batch_with(&header(Compression::Zstd, 50_000), &records);
    let refused = validate(
        &batch,
        &ValidateOptions {
            compacted: true,
            ..options()
        },
    )
    .unwrap_err();
    assert_eq!(refused.records.len(), 1000);
    assert_eq!(refused.message, "50000 of 50000 records are refused");
}

// P-31
#[test]
fn a_producer_may_not_claim_log_append_time() {
    let batch = three(&off(|h| flag(h, 1 << 3)));
    assert_eq!(kind(&batch, &options()), RejectKind::InvalidTimestamp);
}

#[test]
fn a_producer_may_not_set_a_delete_horizon() {
    let batch = three(&off(|h| flag(h, 1 << 6)));
    assert_eq!(kind(&batch, &options()), RejectKind::InvalidRecord);
}

// P-32
#[test]
fn a_batch_that_inflates_too_far_is_refused() {
    let record = RawRecord {
        value: Some(vec![0; 5 << 20]),
        ..RawRecord::default()
    };
    for codec in &CODECS[1..] {
        let batch = batch_with(&header(*codec, 1), std::slice::from_ref(&record));
        let tight = ValidateOptions {
            max_decompressed_bytes: 1 << 20,
            ..options()
        };
        assert_eq!(kind(&batch, &tight), RejectKind::InvalidRecord, "{codec:?}");
        assert!(validate(&batch, &options()).is_ok(), "{codec:?}");
    }
}

// P-33
#[test]
fn undecodable_and_trailing_bytes_are_refused() {
    for codec in &CODECS[1..] {
        let garbage = Batch::build(&header(*codec, 3), Bytes::from_static(b"\xf0garbage"));
        assert_eq!(
            kind(&garbage, &options()),
            RejectKind::CorruptMessage,
            "{codec:?}"
        );
    }
    for codec in CODECS {
        let mut plain: Vec<u8> = dense(3).iter().flat_map(RawRecord::encode).collect();
        plain.push(0);
        let trailing = batch_of(&header(codec, 3), &plain);
        assert_eq!(
            kind(&trailing, &options()),
            RejectKind::InvalidRecord,
            "{codec:?}"
        );
    }
    for bits in 5..8 {
        let mut unknown = right(Compression::None, 3).header();
        unknown.attributes = Attributes(bits);
        let batch = Batch::build(&unknown, Bytes::from_static(b"?"));
        assert_eq!(kind(&batch, &options()), RejectKind::UnsupportedCompression);
    }
}

// P-35, 2.3, X-41
#[test]
fn a_wrong_greatest_timestamp_is_corrected() {
    for codec in CODECS {
        for claimed in [-1, 0, 5, i64::MAX] {
            let header = BatchHeader {
                max_timestamp: claimed,
                ..header(codec, 20)
            };
            let stored = validate(&batch_with(&header, &dense(20)), &options()).unwrap();
            assert_eq!(stored.header().max_timestamp, 1006);
            assert!(stored.verify_crc().is_ok());
            assert_eq!(read(&stored).len(), 20);
        }
        let none = batch_with(
            &BatchHeader {
                base_timestamp: -1,
                max_timestamp: 3,
                ..header(codec, 1)
            },
            &[RawRecord::default()],
        );
        assert_eq!(
            validate(&none, &options()).unwrap().header().max_timestamp,
            -1
        );
    }
}

// 2.3
#[test]
fn log_append_time_is_set_on_the_batch() {
    let append = ValidateOptions {
        timestamp_type: TimestampType::LogAppendTime,
        ..options()
    };
    for codec in CODECS {
        for options in [
            append,
            ValidateOptions {
                check: CheckDepth::HeaderOnly,
                ..append
            },
        ] {
            let stored = validate(&right(codec, 3), &options).unwrap();
            let header = stored.header();
            assert_eq!(header.max_timestamp, NOW);
            assert_eq!(header.base_timestamp, 1000);
            assert_eq!(
                header.attributes.timestamp_type(),
                TimestampType::LogAppendTime
            );
            assert!(stored.verify_crc().is_ok());
            assert!(read(&stored).iter().all(|record| record.timestamp == NOW));
        }
    }
}

// P-42, 2.3
#[test]
fn a_topic_with_a_codec_of_its_own_stores_with_it() {
    for from in CODECS {
        for to in CODECS {
            let sent = batch_with(
                &BatchHeader {
                    producer_id: 11,
                    producer_epoch: 3,
                    base_sequence: 70,
                    attributes: Attributes::new(from, TimestampType::CreateTime, true, false),
                    ..header(from, 40)
                },
                &dense(40),
            );
            let stored = validate(&sent, &to_codec(to)).unwrap();
            let header = stored.header();
            assert_eq!(header.attributes.compression(), Ok(to));
            assert!(header.attributes.is_transactional());
            assert_eq!((header.producer_id, header.producer_epoch), (11, 3));
            assert_eq!((header.base_sequence, header.last_sequence()), (70, 109));
            assert_eq!((header.record_count, header.max_timestamp), (40, 1006));
            assert!(stored.verify_crc().is_ok());
            assert_eq!(read(&stored), read(&sent));
        }
    }
}

// P-42 with 2.3
#[test]
fn recompression_and_log_append_time_go_together() {
    let options = ValidateOptions {
        timestamp_type: TimestampType::LogAppendTime,
        ..to_codec(Compression::Gzip)
    };
    let stored = validate(&right(Compression::Lz4, 9), &options).unwrap();
    assert!(stored.verify_crc().is_ok());
    assert_eq!(
        stored.header().attributes.timestamp_type(),
        TimestampType::LogAppendTime
    );
    assert_eq!(stored.header().max_timestamp, NOW);
    assert_eq!(read(&stored).len(), 9);
}

// P-29, P-30: judged on the way
#[test]
fn recompression_judges_the_records_too() {
    let mut raw = dense(3);
    raw[1].key = None;
    let batch = batch_with(&header(Compression::Gzip, 3), &raw);
    let options = ValidateOptions {
        compacted: true,
        ..to_codec(Compression::Zstd)
    };
    assert_eq!(validate(&batch, &options).unwrap_err().records.len(), 1);
}

// P-35: the optional short way
#[test]
fn header_only_does_not_decompress_but_keeps_the_rest() {
    let trusting = ValidateOptions {
        check: CheckDepth::HeaderOnly,
        ..options()
    };
    let opaque = |max_timestamp| {
        let header = BatchHeader {
            max_timestamp,
            ..header(Compression::Zstd, 3)
        };
        Batch::build(&header, Bytes::from_static(b"not zstd at all"))
    };
    assert_eq!(validate(&opaque(1000), &trusting), Ok(opaque(1000)));
    let late = NOW + 3_600_001;
    assert_eq!(kind(&opaque(late), &trusting), RejectKind::InvalidTimestamp);
    let old = ValidateOptions {
        before_max_ms: 10,
        ..trusting
    };
    assert_eq!(kind(&opaque(1000), &old), RejectKind::InvalidTimestamp);
    // Plain batches and codec changes are walked.
    let plain = three(&off(|h| {
        h.record_count = 4;
        h.last_offset_delta = 3;
    }));
    assert_eq!(kind(&plain, &trusting), RejectKind::InvalidRecord);
    let recompress = ValidateOptions {
        check: CheckDepth::HeaderOnly,
        ..to_codec(Compression::Gzip)
    };
    assert_eq!(kind(&opaque(1000), &recompress), RejectKind::CorruptMessage);
}

/// Options of every kind.
fn any_options() -> impl Strategy<Value = ValidateOptions> {
    let target = prop_oneof![
        Just(TargetCompression::Producer),
        any_codec().prop_map(|compression| TargetCompression::Codec {
            compression,
            level: None
        }),
    ];
    (target, any::<[bool; 4]>()).prop_map(|(compression, [compacted, append, trust, control])| {
        ValidateOptions {
            compacted,
            compression,
            timestamp_type: match append {
                true => TimestampType::LogAppendTime,
                false => TimestampType::CreateTime,
            },
            check: if trust {
                CheckDepth::HeaderOnly
            } else {
                CheckDepth::Full
            },
            max_decompressed_bytes: 1 << 20,
            allow_control: control,
            ..options()
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // Build, validate, iterate: what went in comes out, whatever the topic does with it.
    #[test]
    fn records_survive_validation(
        codec in any_codec(),
        raw in any_records(),
        options in any_options(),
    ) {
        let sent = batch_with(&header(codec, raw.len() as i32), &raw);
        let may_refuse = options.compacted && raw.iter().any(|record| record.key.is_none());
        match validate(&sent, &options) {
            Err(refused) => prop_assert!(may_refuse, "{refused:?}"),
            Ok(stored) => {
                prop_assert!(!may_refuse);
                prop_assert!(stored.verify_crc().is_ok());
                let (sent, stored_records) = (read(&sent), read(&stored));
                prop_assert_eq!(sent.len(), stored_records.len());
                let append = options.timestamp_type == TimestampType::LogAppendTime;
                for (sent, stored) in sent.into_iter().zip(stored_records) {
                    let timestamp = if append { NOW } else { sent.timestamp };
                    prop_assert_eq!(stored, Record { timestamp, ..sent });
                }
            }
        }
    }

    // Whatever is accepted is a batch that every reader can read, and nothing panics.
    #[test]
    fn mutated_batches_never_panic_and_what_is_accepted_is_sound(
        codec in any_codec(),
        raw in any_records(),
        options in any_options(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        fix_checksum: bool,
    ) {
        let mut bytes = batch_with(&header(codec, raw.len() as i32), &raw).to_bytes().to_vec();
        for (at, byte) in mutations {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut bytes = Bytes::from(bytes);
        if fix_checksum && let Ok(header) = BatchHeader::parse(&bytes) {
            bytes = Batch::build(&header, bytes.slice(BATCH_HEAD_BYTES..)).to_bytes();
        }
        if let Ok(stored) = validate_produce(bytes, &options, NOW) {
            prop_assert!(stored.verify_crc().is_ok());
            let trusted = options.check == CheckDepth::HeaderOnly;
            let all: Result<Vec<_>, _> = match records(&stored, 1 << 20) {
                Ok(all) => all.collect(),
                Err(error) => Err(error),
            };
            match all {
                Err(error) => prop_assert!(trusted, "{error}"),
                Ok(all) if !trusted => {
                    let dense = all.iter().zip(0..).all(|(record, i)| record.offset == i);
                    prop_assert!(dense);
                    prop_assert_eq!(all.len(), stored.header().record_count as usize);
                }
                Ok(_) => {}
            }
        }
    }
}
