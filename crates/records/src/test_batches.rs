//! Batches for tests: right ones, and ones that only a broken or hostile producer writes.

use bytes::Bytes;
use proptest::prelude::*;
use strandline_types::TimestampType;

use crate::batch::{Attributes, Batch, BatchHeader, Compression};
use crate::compression::compress;
use crate::varint::{put_varint, put_varlong};

pub(crate) const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// A record as it is written, with deltas of any kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RawRecord {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl RawRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = vec![0];
        put_varlong(&mut body, self.timestamp_delta);
        put_varint(&mut body, self.offset_delta);
        put_bytes(&mut body, self.key.as_deref());
        put_bytes(&mut body, self.value.as_deref());
        put_varint(&mut body, self.headers.len() as i32);
        for (key, value) in &self.headers {
            put_bytes(&mut body, Some(key));
            put_bytes(&mut body, value.as_deref());
        }
        with_length(&body)
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_varint(out, bytes.map_or(-1, |b| b.len() as i32));
    out.extend_from_slice(bytes.unwrap_or_default());
}

pub(crate) fn with_length(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, body.len() as i32);
    out.extend_from_slice(body);
    out
}

pub(crate) fn header(codec: Compression, count: i32) -> BatchHeader {
    BatchHeader {
        base_offset: 0,
        batch_length: 0,
        partition_leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: Attributes::new(codec, TimestampType::CreateTime, false, false),
        last_offset_delta: count - 1,
        base_timestamp: 1000,
        max_timestamp: 1000,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count,
    }
}

/// A batch of these records, whose header says what `header` says.
pub(crate) fn batch_with(header: &BatchHeader, records: &[RawRecord]) -> Batch {
    let plain: Vec<u8> = records.iter().flat_map(RawRecord::encode).collect();
    batch_of(header, &plain)
}

/// A batch of these bytes, compressed as the header says.
pub(crate) fn batch_of(header: &BatchHeader, plain: &[u8]) -> Batch {
    let codec = header.attributes.compression().unwrap();
    Batch::build(header, Bytes::from(compress(codec, None, plain).unwrap()))
}

/// Records with dense offsets.
pub(crate) fn dense(count: i32) -> Vec<RawRecord> {
    (0..count)
        .map(|i| RawRecord {
            timestamp_delta: i64::from(i % 7),
            offset_delta: i,
            key: Some(format!("key-{i}").into_bytes()),
            value: Some(vec![i as u8; 100]),
            headers: vec![(b"h".to_vec(), None), (b"h".to_vec(), Some(vec![0xff]))],
        })
        .collect()
}

pub(crate) fn any_codec() -> impl Strategy<Value = Compression> {
    prop::sample::select(CODECS.to_vec())
}

pub(crate) fn any_records() -> impl Strategy<Value = Vec<RawRecord>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let field = move || prop::option::of(bytes());
    let headers = prop::collection::vec((bytes(), field()), 0..4);
    let record = (-500_i64..500, field(), field(), headers);
    prop::collection::vec(record, 1..60).prop_map(|records| {
        let numbered = records.into_iter().zip(0..);
        let make = |((timestamp_delta, key, value, headers), offset_delta)| RawRecord {
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers,
        };
        numbered.map(make).collect()
    })
}
