//! Which parts of a segment object a read needs (pure).

use std::ops::Range;

use foyer::{Code, Result as FoyerResult};
use uuid::Uuid;

use crate::manifest::SegmentEntry;

/// A part of a segment object that is fetched and cached as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// Chunk of the batches, by its number.
    Chunk(u32),
    /// All that follows the batches.
    Tail,
    /// The whole of a small object.
    Whole,
}

/// Key of a part in the cache: never reused, as the upload's UUID is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ChunkKey {
    pub(crate) uuid: Uuid,
    pub(crate) part: Part,
    /// Chunks of another size are other chunks.
    pub(crate) chunk_bytes: u32,
}

const TAIL: u32 = u32::MAX;
const WHOLE: u32 = u32::MAX - 1;

impl Code for ChunkKey {
    fn encode(&self, writer: &mut impl std::io::Write) -> FoyerResult<()> {
        let part = match self.part {
            Part::Chunk(number) => number,
            Part::Tail => TAIL,
            Part::Whole => WHOLE,
        };
        self.uuid.as_u128().encode(writer)?;
        part.encode(writer)?;
        self.chunk_bytes.encode(writer)
    }

    fn decode(reader: &mut impl std::io::Read) -> FoyerResult<Self> {
        let uuid = Uuid::from_u128(u128::decode(reader)?);
        let part = match u32::decode(reader)? {
            TAIL => Part::Tail,
            WHOLE => Part::Whole,
            number => Part::Chunk(number),
        };
        Ok(Self {
            uuid,
            part,
            chunk_bytes: u32::decode(reader)?,
        })
    }

    fn estimated_size(&self) -> usize {
        24
    }
}

/// How one segment's object is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) uuid: Uuid,
    pub(crate) log_bytes: u64,
    pub(crate) object_bytes: u64,
    /// Size of the chunks: a multiple of the blocks that have checksums.
    pub(crate) chunk_bytes: u64,
}

impl Cut {
    pub(crate) fn of(entry: &SegmentEntry, chunk_bytes: u64) -> Self {
        let block = u64::from(entry.block_bytes.max(1));
        let limit = u64::from(u32::MAX) / block * block;
        let chunk_bytes = (chunk_bytes / block * block).clamp(block, limit.max(block));
        Self {
            uuid: entry.uuid,
            log_bytes: entry.log_bytes,
            object_bytes: entry.object_bytes,
            chunk_bytes,
        }
    }

    /// A small object is fetched in one request, indexes and all.
    pub(crate) fn is_whole(&self) -> bool {
        self.object_bytes <= self.chunk_bytes
    }

    pub(crate) fn key(&self, part: Part) -> ChunkKey {
        ChunkKey {
            uuid: self.uuid,
            part,
            chunk_bytes: self.chunk_bytes as u32,
        }
    }

    /// The part that holds the batches' byte at `position`, and where it begins.
    pub(crate) fn part_at(&self, position: u64) -> (Part, u64) {
        if self.is_whole() {
            return (Part::Whole, 0);
        }
        let number = position / self.chunk_bytes;
        (Part::Chunk(number as u32), number * self.chunk_bytes)
    }

    /// The bytes of the object that a part is.
    pub(crate) fn range(&self, part: Part) -> Range<u64> {
        match part {
            Part::Whole => 0..self.object_bytes,
            Part::Tail => self.log_bytes..self.object_bytes,
            Part::Chunk(number) => {
                let start = u64::from(number) * self.chunk_bytes;
                start..(start + self.chunk_bytes).min(self.log_bytes)
            }
        }
    }

    /// The parts with the bytes from `position` on, `bytes` of them at most.
    pub(crate) fn parts(&self, position: u64, bytes: u64) -> Vec<Part> {
        let end = position.saturating_add(bytes.max(1)).min(self.log_bytes);
        if position >= end {
            return Vec::new();
        }
        if self.is_whole() {
            return vec![Part::Whole];
        }
        let last = (end - 1) / self.chunk_bytes;
        (position / self.chunk_bytes..=last)
            .map(|number| Part::Chunk(number as u32))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests_support::entry;

    fn cut(log_bytes: u64, chunk_bytes: u64) -> Cut {
        let mut entry = entry(0, 9);
        (entry.log_bytes, entry.object_bytes, entry.block_bytes) = (log_bytes, log_bytes + 50, 64);
        Cut::of(&entry, chunk_bytes)
    }

    #[test]
    fn chunks_are_whole_blocks_and_cover_the_batches_once() {
        assert_eq!(cut(1000, 100).chunk_bytes, 64);
        assert_eq!(cut(1000, 1).chunk_bytes, 64);
        for (log_bytes, chunk) in [(1, 64), (64, 64), (65, 64), (1000, 128), (1024, 128)] {
            let cut = cut(log_bytes, chunk);
            let mut at = 0;
            for part in cut.parts(0, u64::MAX) {
                if part != Part::Whole {
                    assert_eq!(cut.range(part).start, at);
                    assert_eq!(cut.part_at(at), (part, at));
                    at = cut.range(part).end;
                }
            }
            assert!(cut.is_whole() || at == log_bytes);
            assert!(cut.parts(log_bytes, 5).is_empty());
        }
        assert_eq!(cut(1000, 128).parts(130, 10), vec![Part::Chunk(1)]);
        assert_eq!(
            cut(1000, 128).parts(250, 10),
            vec![Part::Chunk(1), Part::Chunk(2)]
        );
        assert_eq!(cut(1000, 2048).parts(250, 10), vec![Part::Whole]);
    }

    #[test]
    fn keys_are_coded_as_they_are() {
        for part in [Part::Chunk(7), Part::Tail, Part::Whole] {
            let key = cut(1000, 128).key(part);
            let mut bytes = Vec::new();
            key.encode(&mut bytes).unwrap();
            assert_eq!(bytes.len(), key.estimated_size());
            assert_eq!(ChunkKey::decode(&mut bytes.as_slice()).unwrap(), key);
        }
    }
}
