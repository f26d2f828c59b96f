//! Snappy: raw blocks (librdkafka) and xerial's frames of blocks (Java) are read, xerial's frames
//! are written (SEMANTICS 0.4, X-65).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::io;

use super::{Buffer, CodecError, corrupt};

/// A raw block cannot begin with these bytes: its first element would be a copy from nowhere.
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Version 1, readable by version 1.
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Bytes of a block that we write, as Java does.
const BLOCK_BYTES: usize = 32 * 1024;
/// No element of a block is longer than 64 bytes of output for 2 bytes of input, so a block that
/// claims more than this per byte lies; its claim is not allocated.
const MAX_EXPANSION: usize = 32;

pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    state: State,
    raw: snap::raw::Decoder,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Raw,
    Framed,
    Ended,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        let state = if data.starts_with(&XERIAL_MAGIC) {
            State::Framed
        } else {
            State::Raw
        };
        Self {
            rest: data,
            state,
            raw: snap::raw::Decoder::new(),
        }
    }

    pub(super) fn read_more(&mut self, out: &mut Buffer, limit: usize) -> Result<bool, CodecError> {
        let block = match self.state {
            State::Ended => return Ok(false),
            State::Raw => {
                self.state = State::Ended;
                self.rest
            }
            State::Framed => match self.next_frame()? {
                Some(block) => block,
                None => {
                    self.state = State::Ended;
                    return Ok(false);
                }
            },
        };
        let size = snap::raw::decompress_len(block).map_err(|e| corrupt(&e.to_string()))?;
        if size > limit {
            return Err(CodecError::TooLarge);
        }
        if size > block.len().saturating_mul(MAX_EXPANSION) {
            return Err(corrupt("the block claims more bytes than it can hold"));
        }
        let written = self
            .raw
            .decompress(block, out.room(size))
            .map_err(|e| corrupt(&e.to_string()))?;
        out.grow(written);
        Ok(true)
    }

    /// The next block; headers of concatenated streams in between are skipped.
    fn next_frame(&mut self) -> Result<Option<&'a [u8]>, CodecError> {
        while self.rest.starts_with(&XERIAL_MAGIC) {
            let header = XERIAL_MAGIC.len() + XERIAL_VERSIONS.len();
            self.rest = self
                .rest
                .get(header..)
                .ok_or_else(|| corrupt("a header is cut off"))?;
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let cut = || corrupt("a block is cut off");
        let (size, rest) = self.rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let size = u32::from_be_bytes(*size) as usize;
        let (block, rest) = rest.split_at_checked(size).ok_or_else(cut)?;
        self.rest = rest;
        Ok(Some(block))
    }
}

pub(super) struct Encoder {
    pending: Vec<u8>,
    out: Vec<u8>,
    raw: snap::raw::Encoder,
}

impl Default for Encoder {
    fn default() -> Self {
        let mut out = Vec::new();
        out.extend_from_slice(&XERIAL_MAGIC);
        out.extend_from_slice(&XERIAL_VERSIONS);
        Self {
            pending: Vec::new(),
            out,
            raw: snap::raw::Encoder::new(),
        }
    }
}

impl Encoder {
    pub(super) fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let room = BLOCK_BYTES - self.pending.len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.pending.extend_from_slice(now);
            data = later;
            if self.pending.len() == BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    fn write_block(&mut self) -> io::Result<()> {
        let block = self.raw.compress_vec(&self.pending)?;
        self.out
            .extend_from_slice(&(block.len() as u32).to_be_bytes());
        self.out.extend_from_slice(&block);
        self.pending.clear();
        Ok(())
    }

    pub(super) fn output_len(&self) -> usize {
        self.out.len()
    }

    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        if !self.pending.is_empty() {
            self.write_block()?;
        }
        Ok(self.out)
    }
}
