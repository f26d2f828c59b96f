use std::io::Write;

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
use proptest::prelude::*;

use super::*;
use crate::test_batches::{CODECS, any_codec};

const MIB: usize = 1 << 20;

fn text(size: usize) -> Vec<u8> {
    (0..size)
        .map(|i| b"strandline and tide "[(i + i / 97) % 20])
        .collect()
}

fn lz4_frame(info: FrameInfo, data: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn every_codec_gives_back_what_it_took() {
    for codec in CODECS {
        for size in [0, 1, 100, 32 * 1024, 32 * 1024 + 1, 300_000] {
            let data = text(size);
            let packed = compress(codec, None, &data).unwrap();
            assert_eq!(
                decompress(codec, &packed, size),
                Ok(data),
                "{codec:?} {size}"
            );
        }
    }
}

#[test]
fn levels_are_used_and_clamped() {
    let data = text(200_000);
    let size = |codec, level| compress(codec, level, &data).unwrap().len();
    assert!(size(Compression::Gzip, Some(9)) < size(Compression::Gzip, Some(1)));
    assert_eq!(
        size(Compression::Gzip, Some(-1)),
        size(Compression::Gzip, None)
    );
    assert_eq!(
        size(Compression::Gzip, Some(100)),
        size(Compression::Gzip, Some(9))
    );
    assert_eq!(
        size(Compression::Zstd, None),
        size(Compression::Zstd, Some(3))
    );
    assert!(size(Compression::Zstd, Some(9)) < size(Compression::Zstd, Some(-50)));
    assert!(compress(Compression::Zstd, Some(i32::MAX), &data[..100]).is_ok());
}

// P-32
#[test]
fn one_byte_above_the_cap_is_refused() {
    for codec in CODECS {
        let packed = compress(codec, None, &text(100_000)).unwrap();
        assert!(decompress(codec, &packed, 100_000).is_ok());
        let refused = decompress(codec, &packed, 99_999);
        assert_eq!(
            refused,
            Err(BatchError::DecompressedTooLarge { max: 99_999 }),
            "{codec:?}"
        );
    }
}

/// What a decoder takes until it refuses: (largest buffer, result).
fn appetite(codec: Compression, data: &[u8], max: usize) -> (usize, BatchError) {
    let mut out = Buffer::fresh();
    let mut decoder = Decoder::new(codec, data, max).unwrap();
    loop {
        match decoder.read_more(&mut out) {
            Ok(true) => {}
            Ok(false) => panic!("{codec:?} was not refused"),
            Err(error) => return (out.capacity(), error),
        }
    }
}

// P-32: bombs
#[test]
fn a_bomb_is_refused_at_the_cap_without_being_inflated() {
    let zeros = vec![0; MIB];
    let mut gzip = gzip::encoder(None);
    let mut zstd = super::zstd::encoder(Some(1), None).unwrap();
    for _ in 0..512 {
        zstd.write_all(&zeros).unwrap();
    }
    for _ in 0..64 {
        gzip.write_all(&zeros).unwrap();
    }
    let (gzip, zstd) = (gzip.finish().unwrap(), zstd.finish().unwrap());
    // 512 MiB in some 16 KiB, and 64 MiB in 64 KiB.
    assert!(zstd.len() < 24 * 1024, "{}", zstd.len());
    for (codec, bomb) in [(Compression::Gzip, gzip), (Compression::Zstd, zstd)] {
        let (taken, error) = appetite(codec, &bomb, MIB);
        assert_eq!(error, BatchError::DecompressedTooLarge { max: MIB });
        assert!(taken <= 3 * MIB, "{codec:?} took {taken}");
    }
}

// P-32: claims
#[test]
fn a_claimed_size_is_not_allocated() {
    // Raw snappy that claims 2 GiB.
    let liar = [0xff, 0xff, 0xff, 0xff, 0x07, 0, b'x'];
    let (taken, error) = appetite(Compression::Snappy, &liar, usize::MAX);
    assert!(matches!(error, BatchError::Decompress { .. }), "{error:?}");
    assert_eq!(taken, 0);
    assert_eq!(
        appetite(Compression::Snappy, &liar, MIB).1,
        BatchError::DecompressedTooLarge { max: MIB }
    );
    // An LZ4 frame with 4 MiB blocks and a hundred bytes in it.
    let info = FrameInfo::new().block_size(BlockSize::Max4MB);
    let mut out = Buffer::fresh();
    let frame = lz4_frame(info, &[b'x'; 100]);
    assert!(frame.len() < 50, "the block is compressed");
    let mut decoder = Decoder::new(Compression::Lz4, &frame, usize::MAX).unwrap();
    while decoder.read_more(&mut out).unwrap() {}
    assert!(out.capacity() < 16 * 1024, "{}", out.capacity());
}

// 0.4, X-65
#[test]
fn snappy_is_read_raw_and_framed_and_written_framed() {
    let data = text(100_000);
    let raw = snap::raw::Encoder::new().compress_vec(&data).unwrap();
    assert_eq!(decompress(Compression::Snappy, &raw, MIB), Ok(data.clone()));
    let framed = compress(Compression::Snappy, None, &data).unwrap();
    assert_eq!(framed[..16], *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01");
    // Concatenated streams repeat the header.
    let twice = [&framed[..], &framed[..]].concat();
    assert_eq!(
        decompress(Compression::Snappy, &twice, MIB),
        Ok(data.repeat(2))
    );
}

// CRATES 1.5
#[test]
fn lz4_is_written_without_checksums_in_independent_blocks() {
    let frame = compress(Compression::Lz4, None, &text(200_000)).unwrap();
    assert_eq!(frame[..6], [0x04, 0x22, 0x4D, 0x18, 0x60, 0x40]);
}

#[test]
fn lz4_is_read_with_linked_blocks_checksums_and_sizes() {
    let data = text(1_000_000);
    for block_size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for sums in [false, true] {
                let info = FrameInfo::new()
                    .block_mode(mode)
                    .block_size(block_size)
                    .block_checksums(sums)
                    .content_checksum(sums)
                    .content_size(sums.then_some(data.len() as u64));
                let frame = lz4_frame(info, &data);
                assert_eq!(
                    decompress(Compression::Lz4, &frame, MIB).as_ref(),
                    Ok(&data)
                );
            }
        }
    }
}

#[test]
fn lz4_damage_is_seen_by_the_checksums() {
    let info = FrameInfo::new().content_checksum(true);
    let frame = lz4_frame(info, &text(1000));
    let damaged = |at: usize| {
        let mut frame = frame.clone();
        frame[at] ^= 1;
        decompress(Compression::Lz4, &frame, MIB)
    };
    for at in [6, 20, frame.len() - 1] {
        assert!(damaged(at).is_err(), "{at}");
    }
}

// P-33
#[test]
fn cut_off_data_is_refused() {
    for codec in &CODECS[1..] {
        let packed = compress(*codec, None, &text(70_000)).unwrap();
        for keep in [
            0,
            1,
            5,
            packed.len() / 2,
            packed.len() - 4,
            packed.len() - 1,
        ] {
            // Nothing at all is no frame, which is an error where a walk wants a record.
            let result = decompress(*codec, &packed[..keep], MIB);
            assert!(result.is_err() || result == Ok(vec![]), "{codec:?} {keep}");
            assert!(keep == 0 || result.is_err(), "{codec:?} {keep}");
        }
    }
}

// P-33
#[test]
fn bytes_behind_the_end_are_refused() {
    for codec in &CODECS[1..] {
        let mut packed = compress(*codec, None, &text(70_000)).unwrap();
        packed.extend_from_slice(b"tail!");
        let result = decompress(*codec, &packed, MIB);
        assert!(
            matches!(result, Err(BatchError::Decompress { .. })),
            "{codec:?} {result:?}"
        );
    }
}

#[test]
fn gzip_members_and_zstd_frames_are_read_on() {
    for codec in [Compression::Gzip, Compression::Zstd] {
        let one = compress(codec, None, b"one").unwrap();
        let two = compress(codec, None, b"two").unwrap();
        assert_eq!(
            decompress(codec, &[one, two].concat(), 6),
            Ok(b"onetwo".to_vec())
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_go_through(codec in any_codec(), data in prop::collection::vec(any::<u8>(), 0..5000)) {
        let packed = compress(codec, None, &data).unwrap();
        prop_assert_eq!(decompress(codec, &packed, data.len()), Ok(data));
    }

    #[test]
    fn mutated_data_never_panics_and_never_exceeds_the_cap(
        codec in any_codec(),
        data in prop::collection::vec(any::<u8>(), 1..500),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut packed = compress(codec, None, &data.repeat(20)).unwrap();
        for (at, byte) in mutations {
            let at = at.index(packed.len());
            packed[at] = byte;
        }
        packed.truncate(cut.index(packed.len() * 2));
        if let Ok(out) = decompress(codec, &packed, 8000) {
            prop_assert!(out.len() <= 8000);
        }
    }
}
