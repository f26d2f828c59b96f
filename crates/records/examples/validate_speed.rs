//! Measures `validate_produce` on batches of 1 MiB and of 16 KiB with records of 1 KiB, per codec and path.
//! Run with `cargo run --release -p strandline-records --example validate_speed`.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use bytes::Bytes;
use strandline_records::{
    BatchBuilder, CheckDepth, Compression, TargetCompression, ValidateOptions, records,
    validate_produce,
};
use strandline_types::TimestampType;

const NOW_MS: i64 = 1_700_000_000_000;

fn main() -> io::Result<()> {
    for records in [1023, 16] {
        writeln!(io::stdout(), "{records} records of 1 KiB")?;
        measure_all(records)?;
    }
    Ok(())
}

fn measure_all(count: i64) -> io::Result<()> {
    let codecs = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let keep = ValidateOptions {
        max_message_bytes: 2 << 20,
        ..ValidateOptions::default()
    };
    let trust = ValidateOptions {
        check: CheckDepth::HeaderOnly,
        ..keep
    };
    let append = ValidateOptions {
        timestamp_type: TimestampType::LogAppendTime,
        ..keep
    };
    for codec in codecs {
        let batch = batch(codec, count)?;
        let other = match codec {
            Compression::Lz4 => Compression::Zstd,
            _ => Compression::Lz4,
        };
        let target = TargetCompression::Codec {
            compression: other,
            level: None,
        };
        report(&format!("{codec:?} kept"), &batch, &keep)?;
        report(&format!("{codec:?} log append time"), &batch, &append)?;
        report(&format!("{codec:?} trusted"), &batch, &trust)?;
        let recompress = ValidateOptions {
            compression: target,
            ..keep
        };
        report(&format!("{codec:?} to {other:?}"), &batch, &recompress)?;
        measure(&format!("{codec:?} read"), || {
            let batch = strandline_records::Batch::from_bytes(batch.clone()).ok()?;
            Some(records(&batch, 2 << 20).ok()?.filter(Result::is_ok).count())
        })?;
    }
    Ok(())
}

fn batch(codec: Compression, count: i64) -> io::Result<Bytes> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut builder = BatchBuilder::new(codec, TimestampType::CreateTime, 0);
    for i in 0..count {
        let value: Vec<u8> = (0..1010)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                // Half of the bits: compresses like text.
                b'a' + ((state >> 60) as u8)
            })
            .collect();
        builder
            .append(NOW_MS + i % 5, Some(b"key-0001"), Some(&value), &[])
            .map_err(io::Error::other)?;
    }
    Ok(builder.build().map_err(io::Error::other)?.to_bytes())
}

fn report(name: &str, batch: &Bytes, options: &ValidateOptions) -> io::Result<()> {
    measure(name, || {
        validate_produce(batch.clone(), options, NOW_MS).ok()
    })
}

/// The fastest of many runs in µs, and their median.
fn measure<T>(name: &str, mut run: impl FnMut() -> Option<T>) -> io::Result<()> {
    let mut times: Vec<u128> = Vec::new();
    let start = Instant::now();
    while times.len() < 20 || (times.len() < 2000 && start.elapsed().as_millis() < 500) {
        let begin = Instant::now();
        let done = black_box(run());
        times.push(begin.elapsed().as_nanos() / 100);
        if done.is_none() {
            return Err(io::Error::other(format!("{name} was refused")));
        }
    }
    times.sort_unstable();
    let micros = |time: Option<&u128>| time.map_or(0.0, |t| *t as f64 / 10.0);
    writeln!(
        io::stdout(),
        "{name:<28} best {:>9.1} us   median {:>9.1} us",
        micros(times.first()),
        micros(times.get(times.len() / 2)),
    )
}
