//! Record batches: the header, and everything that is checked before an append.

use bytes::Bytes;
use strandline_records::{
    BatchBuilder, BatchHeader, Compression, ValidateOptions, validate_produce,
};
use strandline_types::TimestampType;

use crate::Outcome;
use crate::counted::calls;

pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

/// A batch as a client sends it; half of the bits of a value are fixed, so it compresses like text.
pub(crate) fn batch(compression: Compression, records: u32, size: usize) -> Outcome<Bytes> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut builder = BatchBuilder::new(compression, TimestampType::CreateTime, 0);
    for record in 0..records {
        let value = (0..size).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            b'a' + ((state >> 60) as u8)
        });
        let value: Vec<u8> = value.collect();
        let timestamp = NOW_MS + i64::from(record % 5);
        builder.append(timestamp, Some(b"key-0001"), Some(&value), &[])?;
    }
    Ok(builder.build()?.to_bytes())
}

pub(crate) fn header() -> Outcome<()> {
    let batch = batch(Compression::None, 16, 1024)?;
    calls(
        |_| Ok(batch.clone()),
        |bytes| BatchHeader::parse(&bytes),
        |parsed| parsed.as_ref().is_ok_and(|h| h.record_count == 16),
    )
}

fn validate(compression: Compression, records: u32, size: usize) -> Outcome<()> {
    let batch = batch(compression, records, size)?;
    let options = ValidateOptions::default();
    calls(
        |_| Ok(batch.clone()),
        |bytes| validate_produce(bytes, &options, NOW_MS),
        |checked| checked.is_ok(),
    )
}

pub(crate) fn validate_one() -> Outcome<()> {
    validate(Compression::None, 1, 1024)
}

pub(crate) fn validate_plain() -> Outcome<()> {
    validate(Compression::None, 64, 1024)
}

pub(crate) fn validate_small() -> Outcome<()> {
    validate(Compression::None, 640, 100)
}

pub(crate) fn validate_lz4() -> Outcome<()> {
    validate(Compression::Lz4, 64, 1024)
}
