//! Batches that other implementations wrote: kafka-python with each codec, and with the variants
//! that librdkafka and streaming encoders produce (SEMANTICS 0.4, X-65).

use bytes::Bytes;
use strandline_records::{
    Batch, BatchError, Compression, Record, TargetCompression, ValidateOptions, compression,
    records, validate_produce,
};

const NOW_MS: i64 = 1_700_000_000_500;
const MAX: usize = 1 << 20;

const BATCHES: [(&str, &[u8]); 9] = [
    ("none", include_bytes!("foreign/none.batch")),
    ("gzip", include_bytes!("foreign/gzip.batch")),
    ("gzip-members", include_bytes!("foreign/gzip-members.batch")),
    ("snappy", include_bytes!("foreign/snappy.batch")),
    ("snappy-raw", include_bytes!("foreign/snappy-raw.batch")),
    ("lz4", include_bytes!("foreign/lz4.batch")),
    ("lz4-linked", include_bytes!("foreign/lz4-linked.batch")),
    ("zstd", include_bytes!("foreign/zstd.batch")),
    (
        "zstd-streamed",
        include_bytes!("foreign/zstd-streamed.batch"),
    ),
];

fn read(batch: &Batch) -> Result<Vec<Record>, BatchError> {
    records(batch, MAX)?.collect()
}

fn check(name: &str, records: &[Record]) {
    assert_eq!(records.len(), 12, "{name}");
    for (record, i) in records.iter().zip(0_i64..) {
        let bytes = |text: String| Some(Bytes::from(text));
        assert_eq!(record.offset, i);
        assert_eq!(record.timestamp, 1_700_000_000_000 + i * 37 % 100);
        assert_eq!(
            record.key,
            if i == 3 {
                None
            } else {
                bytes(format!("key-{i}"))
            }
        );
        let value = bytes(format!("value-{i} ").repeat(6));
        assert_eq!(record.value, if i == 5 { None } else { value });
        let headers = record
            .headers
            .iter()
            .map(|(key, value)| (&key[..], value.as_deref()));
        let expected: &[(&[u8], Option<&[u8]>)] = match i {
            7 => &[(b"h", Some(b"1")), (b"h", Some(b"2")), (b"n", None)],
            _ => &[],
        };
        assert!(headers.eq(expected.iter().copied()), "{name} {i}");
    }
}

// 0.4, P-35, X-65
#[test]
fn foreign_batches_are_taken_as_they_are() {
    for (name, bytes) in BATCHES {
        let bytes = Bytes::from_static(bytes);
        let stored = validate_produce(bytes.clone(), &ValidateOptions::default(), NOW_MS);
        let stored = stored.unwrap_or_else(|refused| panic!("{name}: {refused}"));
        assert_eq!(stored.to_bytes(), bytes, "{name}");
        let header = stored.header();
        assert_eq!((header.producer_id, header.producer_epoch), (123_456, 7));
        assert_eq!((header.base_sequence, header.last_sequence()), (42, 53));
        assert_eq!(header.max_timestamp, 1_700_000_000_096);
        assert!(header.attributes.is_transactional());
        check(name, &read(&stored).unwrap());
    }
}

// P-42
#[test]
fn foreign_batches_can_be_stored_with_another_codec() {
    for (name, bytes) in BATCHES {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let target = TargetCompression::Codec {
                compression,
                level: None,
            };
            let options = ValidateOptions {
                compression: target,
                ..ValidateOptions::default()
            };
            let stored = validate_produce(Bytes::from_static(bytes), &options, NOW_MS).unwrap();
            check(name, &read(&stored).unwrap());
        }
    }
}

// The plain records of all are the same bytes.
#[test]
fn foreign_codecs_decompress_to_the_same_records() {
    let plain = &BATCHES[0].1[61..];
    for (name, bytes) in BATCHES {
        let batch = Batch::from_bytes(Bytes::from_static(bytes)).unwrap();
        let codec = batch.header().attributes.compression().unwrap();
        let records = compression::decompress(codec, batch.body(), MAX).unwrap();
        assert_eq!(records, plain, "{name}");
    }
}
