//! The footer of a segment object and the fixed trailer behind it: lengths, checksums, version.

use bytes::{BufMut, Bytes, BytesMut};
use strandline_types::{Offset, TopicId};

use crate::wire::{DecodeError, Reader, seal, unseal};

/// Bytes of the trailer: length of the footer, version, reserved, magic.
pub(crate) const TRAILER_BYTES: usize = 16;
const MAGIC: &[u8; 8] = b"SLSEGOBJ";
const CONTIGUOUS: u16 = 1;

/// The kinds of section behind the batches; others are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum SectionKind {
    OffsetIndex = 1,
    TimeIndex = 2,
    AbortedTransactions = 3,
    LeaderEpochs = 4,
    ProducerSnapshot = 5,
    BlockChecksums = 6,
}

/// One section: they follow each other without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: u16,
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

/// What the footer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) topic_id: TopicId,
    pub(crate) partition: i32,
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) min_timestamp: i64,
    pub(crate) max_timestamp: i64,
    /// No offset between base and last is missing.
    pub(crate) contiguous: bool,
    pub(crate) block_bytes: u32,
    pub(crate) log_bytes: u64,
    pub(crate) log_crc: u32,
    pub(crate) sections: Vec<Section>,
}

impl Footer {
    /// The format's version.
    pub(crate) const VERSION: u16 = 1;

    /// Footer and trailer.
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u16(if self.contiguous { CONTIGUOUS } else { 0 });
        out.put_slice(self.topic_id.0.as_bytes());
        out.put_i32(self.partition);
        out.put_i64(self.base_offset);
        out.put_i64(self.last_offset);
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_u32(self.block_bytes);
        out.put_u64(self.log_bytes);
        out.put_u32(self.log_crc);
        out.put_u32(self.sections.len() as u32);
        for section in &self.sections {
            out.put_u16(section.kind);
            out.put_u64(section.length);
            out.put_u32(section.crc);
        }
        let mut out = BytesMut::from(seal(out));
        let len = out.len() as u32;
        out.put_u32(len);
        out.put_u16(Self::VERSION);
        out.put_u16(0);
        out.put_slice(MAGIC);
        out.freeze()
    }

    /// Reads the footer at the end of `tail`, which is the end of an object or all of it. Answers
    /// the footer and the bytes that it and the trailer take.
    pub(crate) fn decode(tail: &[u8]) -> Result<(Self, usize), DecodeError> {
        let (front, trailer) = tail
            .split_last_chunk::<TRAILER_BYTES>()
            .ok_or(DecodeError::Short("the trailer"))?;
        let mut reader = Reader::new(trailer);
        let len = reader.u32("the footer's length")? as usize;
        let version = reader.u16("the version")?;
        reader.u16("the trailer")?;
        if reader.take(8, "the magic")? != MAGIC {
            return Err(DecodeError::Invalid(
                "it does not end as a segment object does".into(),
            ));
        }
        if version != Self::VERSION {
            return Err(DecodeError::Version(version));
        }
        let start = front
            .len()
            .checked_sub(len)
            .ok_or(DecodeError::Short("the footer"))?;
        let footer = Self::decode_body(unseal(front.get(start..).unwrap_or_default())?)?;
        Ok((footer, len + TRAILER_BYTES))
    }

    fn decode_body(body: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(body);
        let flags = r.u16("the flags")?;
        let mut footer = Self {
            topic_id: TopicId(r.uuid("the topic id")?),
            partition: r.i32("the partition")?,
            base_offset: r.i64("the base offset")?,
            last_offset: r.i64("the last offset")?,
            min_timestamp: r.i64("the minimum timestamp")?,
            max_timestamp: r.i64("the maximum timestamp")?,
            contiguous: flags & CONTIGUOUS != 0,
            block_bytes: r.u32("the block size")?,
            log_bytes: r.u64("the batches' length")?,
            log_crc: r.u32("the batches' checksum")?,
            sections: Vec::new(),
        };
        for _ in 0..r.count(14, "the sections")? {
            footer.sections.push(Section {
                kind: r.u16("a section")?,
                length: r.u64("a section")?,
                crc: r.u32("a section")?,
            });
        }
        r.end()?;
        if footer.block_bytes == 0 {
            return Err(DecodeError::Invalid("its block size is 0".into()));
        }
        if footer.base_offset < 0 || footer.last_offset < footer.base_offset {
            return Err(DecodeError::Invalid("its offsets make no range".into()));
        }
        Ok(footer)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn footer() -> Footer {
        Footer {
            topic_id: TopicId(uuid::Uuid::from_u128(3)),
            partition: 4,
            base_offset: 100,
            last_offset: 199,
            min_timestamp: 5,
            max_timestamp: 9,
            contiguous: true,
            block_bytes: 256,
            log_bytes: 1000,
            log_crc: 77,
            sections: vec![Section {
                kind: 1,
                length: 16,
                crc: 5,
            }],
        }
    }

    #[test]
    fn a_footer_reads_back() {
        let bytes = footer().encode();
        assert_eq!(Footer::decode(&bytes), Ok((footer(), bytes.len())));
        let mut longer = b"sections before it".to_vec();
        longer.extend_from_slice(&bytes);
        assert_eq!(Footer::decode(&longer), Ok((footer(), bytes.len())));
    }

    proptest! {
        // Damage is an error, never a panic and never another footer.
        #[test]
        fn damage_is_seen(at in 0_usize..200, bit in 0_u8..8, cut in 0_usize..200) {
            let good = footer().encode();
            let mut bad = good.to_vec();
            let at = at % bad.len();
            bad[at] ^= 1 << bit;
            // Two reserved bytes of the trailer mean nothing.
            let reserved = bad.len() - 10..bad.len() - 8;
            if !reserved.contains(&at) {
                prop_assert!(Footer::decode(&bad).is_err());
            }
            let cut = cut % good.len();
            prop_assert!(Footer::decode(&good[..cut]).is_err());
        }

        #[test]
        fn anything_is_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Footer::decode(&bytes);
            // With a trailer that is right, and a length that fits.
            let mut framed = bytes.clone();
            framed.extend_from_slice(&crc32c::crc32c(&bytes).to_be_bytes());
            let len = framed.len() as u32;
            framed.extend_from_slice(&len.to_be_bytes());
            framed.extend_from_slice(&[0, 1, 0, 0]);
            framed.extend_from_slice(MAGIC);
            let _ = Footer::decode(&framed);
        }
    }
}
