//! LZ4 frames: read here block by block, with every checksum that the frame carries; written as
//! Kafka's readers like them, independent blocks without checksums (SEMANTICS 0.4).
//!
//! The library's own frame reader takes a missing end mark for an end, and allocates what the
//! frame claims; so only its block decoder is used.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use lz4_flex::block::{decompress_into, decompress_into_with_dict};
use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::xxh32::Xxh32;
use super::{Buffer, CodecError, corrupt};

const MAGIC: [u8; 4] = 0x184D_2204_u32.to_le_bytes();
/// How far a linked block may reach back, in bytes.
const WINDOW_BYTES: usize = 64 * 1024;
/// One byte of a block gives at most this many bytes of output.
const MAX_EXPANSION: usize = 255;

const FLAG_INDEPENDENT: u8 = 1 << 5;
const FLAG_BLOCK_CHECKSUM: u8 = 1 << 4;
const FLAG_CONTENT_SIZE: u8 = 1 << 3;
const FLAG_CONTENT_CHECKSUM: u8 = 1 << 2;
const FLAG_DICTIONARY: u8 = 1;

pub(super) struct Decoder<'a> {
    rest: &'a [u8],
    block_bytes: usize,
    block_checksums: bool,
    is_linked: bool,
    /// The last output, when blocks are linked.
    window: Vec<u8>,
    content_checksum: Option<Xxh32>,
    content_size: Option<u64>,
    produced: u64,
    ended: bool,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(data: &'a [u8]) -> Result<Self, CodecError> {
        let cut = || corrupt("the frame header is cut off");
        let (magic, after_magic) = data.split_first_chunk::<4>().ok_or_else(cut)?;
        if *magic != MAGIC {
            return Err(corrupt("the frame magic is wrong"));
        }
        let (&[flags, block_info], mut rest) =
            after_magic.split_first_chunk::<2>().ok_or_else(cut)?;
        if flags >> 6 != 1 || flags & 0b10 != 0 || block_info & 0b1000_1111 != 0 {
            return Err(corrupt("the frame version is unknown"));
        }
        if flags & FLAG_DICTIONARY != 0 {
            return Err(corrupt("the frame needs a dictionary"));
        }
        let block_bytes = match block_info >> 4 {
            size @ 4..=7 => 1_usize << (8 + 2 * size),
            _ => return Err(corrupt("the frame's block size is unknown")),
        };
        let mut content_size = None;
        if flags & FLAG_CONTENT_SIZE != 0 {
            let (size, after) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
            content_size = Some(u64::from_le_bytes(*size));
            rest = after;
        }
        let described = after_magic.len() - rest.len();
        let (&checksum, rest) = rest.split_first().ok_or_else(cut)?;
        let described = after_magic.get(..described).unwrap_or_default();
        if checksum != (Xxh32::of(described) >> 8) as u8 {
            return Err(corrupt("the frame header's checksum is wrong"));
        }
        Ok(Self {
            rest,
            block_bytes,
            block_checksums: flags & FLAG_BLOCK_CHECKSUM != 0,
            is_linked: flags & FLAG_INDEPENDENT == 0,
            window: Vec::new(),
            content_checksum: (flags & FLAG_CONTENT_CHECKSUM != 0).then(Xxh32::new),
            content_size,
            produced: 0,
            ended: false,
        })
    }

    pub(super) fn read_more(&mut self, out: &mut Buffer) -> Result<bool, CodecError> {
        if self.ended {
            return Ok(false);
        }
        let header = self.take_u32()?;
        if header == 0 {
            self.ended = true;
            return self.check_end().map(|()| false);
        }
        let size = (header & !(1 << 31)) as usize;
        if size > self.block_bytes {
            return Err(corrupt("a block is larger than the frame says"));
        }
        let (block, rest) = self
            .rest
            .split_at_checked(size)
            .ok_or_else(|| corrupt("a block is cut off"))?;
        self.rest = rest;
        if self.block_checksums && self.take_u32()? != Xxh32::of(block) {
            return Err(corrupt("a block's checksum is wrong"));
        }
        self.read_block(block, header >> 31 == 1, out)?;
        Ok(true)
    }

    fn take_u32(&mut self) -> Result<u32, CodecError> {
        let (word, rest) = self
            .rest
            .split_first_chunk()
            .ok_or_else(|| corrupt("the frame has no end mark"))?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn read_block(
        &mut self,
        block: &[u8],
        is_stored: bool,
        out: &mut Buffer,
    ) -> Result<(), CodecError> {
        let most = block.len().saturating_mul(MAX_EXPANSION);
        let room = out.room(self.block_bytes.min(most));
        let written = if is_stored {
            room.get_mut(..block.len())
                .unwrap_or_default()
                .copy_from_slice(block);
            block.len()
        } else if self.is_linked {
            decompress_into_with_dict(block, room, &self.window)
                .map_err(|error| corrupt(&error.to_string()))?
        } else {
            decompress_into(block, room).map_err(|error| corrupt(&error.to_string()))?
        };
        let output = room.get(..written).unwrap_or_default();
        self.note(output);
        if self.is_linked {
            self.window.extend_from_slice(output);
            let excess = self.window.len().saturating_sub(WINDOW_BYTES);
            self.window.drain(..excess);
        }
        out.grow(written);
        Ok(())
    }

    fn note(&mut self, output: &[u8]) {
        self.produced = self.produced.saturating_add(output.len() as u64);
        if let Some(checksum) = &mut self.content_checksum {
            checksum.update(output);
        }
    }

    fn check_end(&mut self) -> Result<(), CodecError> {
        if self.content_size.is_some_and(|size| size != self.produced) {
            return Err(corrupt("the frame's content size is wrong"));
        }
        if let Some(checksum) = self.content_checksum.take()
            && self.take_u32()? != checksum.digest()
        {
            return Err(corrupt("the frame's content checksum is wrong"));
        }
        // Kafka's readers stop at the first end mark and would miss a second frame.
        if !self.rest.is_empty() {
            return Err(corrupt("bytes follow the frame"));
        }
        Ok(())
    }
}

pub(super) type Encoder = FrameEncoder<Vec<u8>>;

/// FLG 0x60: readers in the field differ on checksums (CRATES 1.5).
pub(super) fn encoder() -> Encoder {
    let info = FrameInfo::new()
        .block_mode(BlockMode::Independent)
        .block_size(BlockSize::Max64KB);
    FrameEncoder::with_frame_info(info, Vec::new())
}
