//! Zstandard: any number of frames is read as a stream, one frame is written (SEMANTICS 0.4).

use std::io;

use super::{Buffer, CodecError, read_piece};

/// Kafka's default of `compression.zstd.level`.
const DEFAULT_LEVEL: i32 = 3;

pub(super) struct Decoder<'a>(zstd::stream::read::Decoder<'static, &'a [u8]>);

impl<'a> Decoder<'a> {
    pub(super) fn new(data: &'a [u8]) -> Result<Self, CodecError> {
        Ok(Self(zstd::stream::read::Decoder::with_buffer(data)?))
    }

    pub(super) fn read_more(&mut self, out: &mut Buffer, limit: usize) -> Result<bool, CodecError> {
        read_piece(&mut self.0, out, limit)
    }
}

pub(super) type Encoder = zstd::stream::write::Encoder<'static, Vec<u8>>;

/// With the size in its header a frame asks its reader for no more memory than it needs.
pub(super) fn encoder(level: Option<i32>, size: Option<usize>) -> io::Result<Encoder> {
    let range = zstd::compression_level_range();
    let level = level
        .unwrap_or(DEFAULT_LEVEL)
        .clamp(*range.start(), *range.end());
    let mut encoder = Encoder::new(Vec::new(), level)?;
    encoder.set_pledged_src_size(size.map(|size| size as u64))?;
    Ok(encoder)
}
