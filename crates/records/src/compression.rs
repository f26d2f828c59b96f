//! The codecs of record batches behind one door, with a cap on every decompression (P-32, P-33,
//! P-42, SEMANTICS 0.4).
//!
//! A decoder hands out pieces, so that a walk needs a window and not the whole; the memory it
//! takes grows with the output that really came, never with what a header claims.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod buffer;
mod gzip;
mod lz4;
mod snappy;
mod xxh32;
mod zstd;

use crate::batch::Compression;
use crate::error::BatchError;
pub(crate) use buffer::Buffer;

/// Piece in which streaming codecs are read, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Decompresses `data`. Errors: the output would exceed `max` bytes, or the bytes are not what the
/// codec wrote, including bytes behind its end.
pub fn decompress(codec: Compression, data: &[u8], max: usize) -> Result<Vec<u8>, BatchError> {
    let mut decoder = Decoder::new(codec, data, max)?;
    let mut buffer = Buffer::new();
    let mut out = Vec::new();
    while decoder.read_more(&mut buffer)? {
        let piece = buffer.ahead();
        let passed = piece.len();
        out.extend_from_slice(piece);
        buffer.advance(passed);
    }
    Ok(out)
}

/// Compresses `data`. `level` is the codec's own scale, clamped to it; `None` is its default, and
/// snappy and LZ4 have one level only.
pub fn compress(
    codec: Compression,
    level: Option<i32>,
    data: &[u8],
) -> Result<Vec<u8>, BatchError> {
    let mut encoder = Encoder::new(codec, level, Some(data.len()))?;
    encoder.write(data)?;
    encoder.finish()
}

/// Decompresses piece by piece, and never more than its cap.
pub(crate) struct Decoder<'a> {
    codec: Compression,
    inner: Inner<'a>,
    left: usize,
    max: usize,
}

enum Inner<'a> {
    Plain(&'a [u8]),
    Gzip(gzip::Decoder<'a>),
    Snappy(snappy::Decoder<'a>),
    Lz4(lz4::Decoder<'a>),
    Zstd(zstd::Decoder<'a>),
}

/// Why a codec stopped.
pub(crate) enum CodecError {
    /// More output than allowed.
    TooLarge,
    /// Not the codec's bytes.
    Corrupt(String),
}

impl From<std::io::Error> for CodecError {
    fn from(error: std::io::Error) -> Self {
        Self::Corrupt(error.to_string())
    }
}

fn corrupt(reason: &str) -> CodecError {
    CodecError::Corrupt(reason.to_owned())
}

impl<'a> Decoder<'a> {
    /// Begins to decompress `data` to at most `max` bytes.
    pub(crate) fn new(codec: Compression, data: &'a [u8], max: usize) -> Result<Self, BatchError> {
        let inner = match codec {
            Compression::None => Ok(Inner::Plain(data)),
            Compression::Gzip => Ok(Inner::Gzip(gzip::Decoder::new(data))),
            Compression::Snappy => Ok(Inner::Snappy(snappy::Decoder::new(data))),
            Compression::Lz4 => lz4::Decoder::new(data).map(Inner::Lz4),
            Compression::Zstd => zstd::Decoder::new(data).map(Inner::Zstd),
        };
        match inner {
            Ok(inner) => Ok(Self {
                codec,
                inner,
                left: max,
                max,
            }),
            Err(error) => Err(batch_error(codec, max, error)),
        }
    }

    /// Appends the next piece to `out`; false at the end of the data, with nothing appended.
    pub(crate) fn read_more(&mut self, out: &mut Buffer) -> Result<bool, BatchError> {
        let before = out.ahead().len();
        let more = match &mut self.inner {
            Inner::Plain(data) => {
                let more = !data.is_empty();
                if data.len() > self.left {
                    Err(CodecError::TooLarge)
                } else {
                    out.extend(data);
                    *data = &[];
                    Ok(more)
                }
            }
            Inner::Gzip(decoder) => decoder.read_more(out, self.left),
            Inner::Snappy(decoder) => decoder.read_more(out, self.left),
            Inner::Lz4(decoder) => decoder.read_more(out),
            Inner::Zstd(decoder) => decoder.read_more(out, self.left),
        };
        let more = more.map_err(|error| batch_error(self.codec, self.max, error))?;
        match self.left.checked_sub(out.ahead().len() - before) {
            Some(left) => self.left = left,
            None => return Err(BatchError::DecompressedTooLarge { max: self.max }),
        }
        Ok(more)
    }
}

fn batch_error(codec: Compression, max: usize, error: CodecError) -> BatchError {
    match error {
        CodecError::TooLarge => BatchError::DecompressedTooLarge { max },
        CodecError::Corrupt(reason) => BatchError::Decompress { codec, reason },
    }
}

/// Appends one read of a streaming codec to `out`; false at its end. It reads at most one byte
/// more than `limit`, enough to see that the limit is exceeded.
fn read_piece(
    reader: &mut impl std::io::Read,
    out: &mut Buffer,
    limit: usize,
) -> Result<bool, CodecError> {
    let read = reader.read(out.room(PIECE_BYTES.min(limit.saturating_add(1))))?;
    out.grow(read);
    Ok(read > 0)
}

/// Compresses piece by piece.
pub(crate) struct Encoder {
    codec: Compression,
    inner: EncoderInner,
}

enum EncoderInner {
    Plain(Vec<u8>),
    Gzip(gzip::Encoder),
    Snappy(Box<snappy::Encoder>),
    Lz4(lz4::Encoder),
    Zstd(zstd::Encoder),
}

impl Encoder {
    /// Begins to compress; `size` is the exact number of bytes to come, if it is known.
    pub(crate) fn new(
        codec: Compression,
        level: Option<i32>,
        size: Option<usize>,
    ) -> Result<Self, BatchError> {
        let inner = match codec {
            Compression::None => EncoderInner::Plain(Vec::with_capacity(size.unwrap_or(0))),
            Compression::Gzip => EncoderInner::Gzip(gzip::encoder(level)),
            Compression::Snappy => EncoderInner::Snappy(Box::default()),
            Compression::Lz4 => EncoderInner::Lz4(lz4::encoder()),
            Compression::Zstd => {
                EncoderInner::Zstd(zstd::encoder(level, size).map_err(|e| failed(codec, &e))?)
            }
        };
        Ok(Self { codec, inner })
    }

    /// Compresses more bytes.
    pub(crate) fn write(&mut self, data: &[u8]) -> Result<(), BatchError> {
        use std::io::Write;
        match &mut self.inner {
            EncoderInner::Plain(out) => {
                out.extend_from_slice(data);
                Ok(())
            }
            EncoderInner::Gzip(encoder) => encoder.write_all(data),
            EncoderInner::Snappy(encoder) => encoder.write(data),
            EncoderInner::Lz4(encoder) => encoder.write_all(data),
            EncoderInner::Zstd(encoder) => encoder.write_all(data),
        }
        .map_err(|error| failed(self.codec, &error))
    }

    /// Bytes that have come out so far; the codec may hold back more.
    pub(crate) fn output_len(&self) -> usize {
        match &self.inner {
            EncoderInner::Plain(out) => out.len(),
            EncoderInner::Gzip(encoder) => encoder.get_ref().len(),
            EncoderInner::Snappy(encoder) => encoder.output_len(),
            EncoderInner::Lz4(encoder) => encoder.get_ref().len(),
            EncoderInner::Zstd(encoder) => encoder.get_ref().len(),
        }
    }

    /// Ends the data and returns all output.
    pub(crate) fn finish(self) -> Result<Vec<u8>, BatchError> {
        match self.inner {
            EncoderInner::Plain(out) => Ok(out),
            EncoderInner::Gzip(encoder) => encoder.finish(),
            EncoderInner::Snappy(encoder) => encoder.finish(),
            EncoderInner::Lz4(encoder) => encoder.finish().map_err(std::io::Error::other),
            EncoderInner::Zstd(encoder) => encoder.finish(),
        }
        .map_err(|error| failed(self.codec, &error))
    }
}

fn failed(codec: Compression, error: &std::io::Error) -> BatchError {
    BatchError::Compress {
        codec,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
