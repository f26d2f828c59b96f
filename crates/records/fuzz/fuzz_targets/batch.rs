//! Bytes that claim to be a batch, through validation, walk and records.
//!
//! The first byte chooses settings, the second how the rest becomes a batch: as it is; with length,
//! magic and checksum mended, so that the fuzzer gets behind them; or as records that are
//! compressed here, so that it gets behind the codecs.
#![no_main]

use std::ops::ControlFlow;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use strandline_records::{
    Attributes, BATCH_HEAD_BYTES, Batch, BatchHeader, CheckDepth, Compression,
    EndTransactionMarker, TargetCompression, ValidateOptions, compression,
    first_record_at_or_after, max_timestamp_record, records, validate_produce, walk,
};
use strandline_types::TimestampType;

const NOW_MS: i64 = 1_700_000_000_000;
const MAX_DECOMPRESSED_BYTES: usize = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let [settings, mode, rest @ ..] = data else {
        return;
    };
    let options = options(*settings);
    let bytes = match mode % 4 {
        0 => Bytes::copy_from_slice(rest),
        1 => mended(rest),
        _ => compressed(*mode, rest),
    };
    if let Ok(batch) = Batch::from_bytes(bytes.clone()) {
        look(&batch);
    }
    if let Ok(stored) = validate_produce(bytes, &options, NOW_MS) {
        assert!(stored.size_in_bytes() <= options.max_message_bytes);
        stored
            .verify_crc()
            .expect("a stored batch has a right checksum");
        let all = look(&stored);
        if options.check == CheckDepth::Full {
            let all = all.expect("a checked batch can be read");
            assert_eq!(all, stored.header().record_count);
        }
    }
});

fn codec(number: u8) -> Compression {
    match number % 5 {
        0 => Compression::None,
        1 => Compression::Gzip,
        2 => Compression::Snappy,
        3 => Compression::Lz4,
        _ => Compression::Zstd,
    }
}

fn options(settings: u8) -> ValidateOptions {
    ValidateOptions {
        max_message_bytes: 1 << 18,
        compacted: settings & 1 != 0,
        timestamp_type: match settings & 2 {
            0 => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        },
        check: if settings & 4 == 0 {
            CheckDepth::Full
        } else {
            CheckDepth::HeaderOnly
        },
        allow_control: settings & 8 != 0,
        // Bounds would refuse nearly all of the fuzzer's timestamps.
        after_max_ms: if settings & 16 == 0 { i64::MAX } else { 0 },
        compression: match settings >> 5 {
            number @ 0..=4 => TargetCompression::Codec {
                compression: codec(number),
                level: Some(1),
            },
            _ => TargetCompression::Producer,
        },
        max_decompressed_bytes: MAX_DECOMPRESSED_BYTES,
        ..ValidateOptions::default()
    }
}

/// The bytes with a length, magic and checksum that are right, and the flags that only a broker
/// sets cleared.
fn mended(bytes: &[u8]) -> Bytes {
    let mut head = [0; BATCH_HEAD_BYTES];
    let given = bytes.len().min(BATCH_HEAD_BYTES);
    head[..given].copy_from_slice(&bytes[..given]);
    head[..8].fill(0);
    head[8..12].copy_from_slice(&49_i32.to_be_bytes());
    head[16] = 2;
    let Ok(header) = BatchHeader::parse(&head) else {
        return Bytes::new();
    };
    let header = BatchHeader {
        attributes: Attributes(header.attributes.0 & 0b11_0111),
        ..header
    };
    Batch::build(&header, Bytes::copy_from_slice(&bytes[given..])).to_bytes()
}

/// A batch whose records are the bytes, compressed; the first one says how many records it claims.
fn compressed(mode: u8, bytes: &[u8]) -> Bytes {
    let [count, records @ ..] = bytes else {
        return Bytes::new();
    };
    let codec = codec(mode >> 2);
    let Ok(body) = compression::compress(codec, Some(1), records) else {
        return Bytes::new();
    };
    let count = i32::from(*count);
    let header = BatchHeader {
        base_offset: 0,
        batch_length: 0,
        partition_leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: Attributes::new(codec, TimestampType::CreateTime, false, false),
        last_offset_delta: count - 1,
        base_timestamp: NOW_MS,
        max_timestamp: NOW_MS,
        producer_id: -1,
        producer_epoch: -1,
        base_sequence: -1,
        record_count: count,
    };
    Batch::build(&header, Bytes::from(body)).to_bytes()
}

/// Everything that reads batches; the number of records if all can be read. The two readers must
/// agree.
fn look(batch: &Batch) -> Option<i32> {
    let mut heads = 0;
    let walked = walk(batch, MAX_DECOMPRESSED_BYTES, |_| {
        heads += 1;
        ControlFlow::Continue(())
    });
    let read: Result<Vec<_>, _> =
        records(batch, MAX_DECOMPRESSED_BYTES).and_then(|records| records.collect());
    assert_eq!(
        walked.is_ok(),
        read.is_ok(),
        "{walked:?} {:?}",
        read.as_ref().err()
    );
    // Lookups from each end of the offsets that the batch claims, and from beyond them.
    for from in [
        0,
        batch.header().base_offset,
        batch.header().last_offset(),
        i64::MAX,
    ] {
        for found in [
            first_record_at_or_after(batch, NOW_MS, from, MAX_DECOMPRESSED_BYTES),
            max_timestamp_record(batch, from, MAX_DECOMPRESSED_BYTES),
        ] {
            assert!(found.ok().flatten().is_none_or(|at| at.offset >= from));
        }
    }
    let _ = EndTransactionMarker::of_batch(batch);
    read.ok().map(|_| heads)
}
