//! The indexes of a segment object, parsed and checked, and lookups in them.

use bytes::Bytes;
use strandline_types::Offset;

use super::footer::{Footer, SectionKind};
use super::writer::{ABORTED_BYTES, EPOCH_BYTES, INDEX_ENTRY_BYTES};
use super::{AbortedTransaction, EpochStart};
use crate::wire::{DecodeError, Reader};

/// All but the batches of one segment object.
#[derive(Debug, Clone)]
pub(crate) struct SegmentTail {
    pub(crate) footer: Footer,
    offset_index: Bytes,
    time_index: Bytes,
    block_checksums: Bytes,
    pub(crate) aborted: Vec<AbortedTransaction>,
    pub(crate) epochs: Vec<EpochStart>,
    pub(crate) producer_snapshot: Bytes,
}

impl SegmentTail {
    /// Parses the end of an object, all that follows the batches (and possibly the batches, too).
    /// Errors: damage anywhere in it, or a part of it missing.
    pub(crate) fn parse(end: &Bytes) -> Result<Self, DecodeError> {
        let (footer, footer_bytes) = Footer::decode(end)?;
        let mut at = end.len() - footer_bytes;
        let mut parsed = Self {
            footer: footer.clone(),
            offset_index: Bytes::new(),
            time_index: Bytes::new(),
            block_checksums: Bytes::new(),
            aborted: Vec::new(),
            epochs: Vec::new(),
            producer_snapshot: Bytes::new(),
        };
        // From the last to the first, as their ends are known.
        for section in footer.sections.iter().rev() {
            let length = usize::try_from(section.length).unwrap_or(usize::MAX);
            let start = at
                .checked_sub(length)
                .ok_or(DecodeError::Short("its sections"))?;
            let bytes = end.slice(start..at);
            at = start;
            if crc32c::crc32c(&bytes) != section.crc {
                let text = format!("section {} has a wrong checksum", section.kind);
                return Err(DecodeError::Invalid(text));
            }
            parsed.set(section.kind, bytes)?;
        }
        let blocks = footer.log_bytes.div_ceil(u64::from(footer.block_bytes));
        if parsed.block_checksums.len() as u64 != blocks * 4 {
            return Err(DecodeError::Invalid("it lacks checksums of blocks".into()));
        }
        Ok(parsed)
    }

    fn set(&mut self, kind: u16, bytes: Bytes) -> Result<(), DecodeError> {
        let whole = |item: usize| match bytes.len().checked_rem(item) {
            Some(0) => Ok(()),
            _ => Err(DecodeError::Invalid(format!(
                "section {kind} ends inside an entry"
            ))),
        };
        if kind == SectionKind::OffsetIndex as u16 {
            whole(INDEX_ENTRY_BYTES)?;
            self.offset_index = bytes;
        } else if kind == SectionKind::TimeIndex as u16 {
            whole(INDEX_ENTRY_BYTES)?;
            self.time_index = bytes;
        } else if kind == SectionKind::AbortedTransactions as u16 {
            whole(ABORTED_BYTES)?;
            self.aborted = decode_aborted(&bytes)?;
        } else if kind == SectionKind::LeaderEpochs as u16 {
            whole(EPOCH_BYTES)?;
            self.epochs = decode_epochs(&bytes)?;
        } else if kind == SectionKind::ProducerSnapshot as u16 {
            self.producer_snapshot = bytes;
        } else if kind == SectionKind::BlockChecksums as u16 {
            whole(4)?;
            self.block_checksums = bytes;
        }
        Ok(())
    }

    /// Position of a batch at or before the one that holds `offset`.
    pub(crate) fn position_for_offset(&self, offset: Offset) -> u64 {
        let relative = offset.saturating_sub(self.footer.base_offset);
        let Ok(relative) = u64::try_from(relative) else {
            return 0;
        };
        last_position(&self.offset_index, |key| key <= relative)
    }

    /// Position of a batch before which no record has a timestamp at or above `timestamp`.
    pub(crate) fn position_for_timestamp(&self, timestamp: i64) -> u64 {
        last_position(&self.time_index, |key| (key as i64) < timestamp)
    }

    /// The index and checksums only, for the memory that stays.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.offset_index.len()
            + self.time_index.len()
            + self.block_checksums.len()
            + self.producer_snapshot.len()
            + self.aborted.len() * ABORTED_BYTES
            + 256
    }

    /// Compares `bytes`, which lie at `position` of the batches, with the blocks' checksums. Both
    /// ends must be borders of blocks, or the end of the batches.
    pub(crate) fn verify(&self, position: u64, bytes: &[u8]) -> Result<(), DecodeError> {
        let block_bytes = self.footer.block_bytes;
        let first = (position / u64::from(block_bytes)) as usize;
        for (i, block) in bytes.chunks(block_bytes as usize).enumerate() {
            let mut reader = Reader::new(
                self.block_checksums
                    .get((first + i) * 4..)
                    .unwrap_or_default(),
            );
            if reader.u32("the checksums of blocks")? != crc32c::crc32c(block) {
                let at = position + (i as u64) * u64::from(block_bytes);
                return Err(DecodeError::Invalid(format!(
                    "the block at byte {at} has a wrong checksum"
                )));
            }
        }
        Ok(())
    }
}

/// The position of the last entry whose key passes; keys grow, so those that pass come first.
fn last_position(index: &[u8], passes: impl Fn(u64) -> bool) -> u64 {
    let (entries, _) = index.as_chunks::<INDEX_ENTRY_BYTES>();
    let word = |entry: &[u8; INDEX_ENTRY_BYTES], at: usize| {
        entry
            .get(at..at + 8)
            .and_then(|b| b.try_into().ok())
            .map_or(0, u64::from_be_bytes)
    };
    let count = entries.partition_point(|entry| passes(word(entry, 0)));
    count
        .checked_sub(1)
        .and_then(|last| entries.get(last))
        .map_or(0, |entry| word(entry, 8))
}

fn decode_aborted(bytes: &[u8]) -> Result<Vec<AbortedTransaction>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut out = Vec::with_capacity(bytes.len() / ABORTED_BYTES);
    while r.remaining() > 0 {
        out.push(AbortedTransaction {
            producer_id: r.i64("an aborted transaction")?,
            first_offset: r.i64("an aborted transaction")?,
            last_offset: r.i64("an aborted transaction")?,
            last_stable_offset: r.i64("an aborted transaction")?,
        });
    }
    Ok(out)
}

fn decode_epochs(bytes: &[u8]) -> Result<Vec<EpochStart>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut out = Vec::with_capacity(bytes.len() / EPOCH_BYTES);
    while r.remaining() > 0 {
        out.push(EpochStart {
            epoch: r.i32("an epoch")?,
            start_offset: r.i64("an epoch")?,
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;
    use strandline_records::{BatchBuilder, BatchHeader, Compression};
    use strandline_types::{TimestampType, TopicId};

    use super::*;
    use crate::segment_object::{Extras, SegmentObjectWriter, WriterOptions};

    /// Batches of ten records from offset 100 on, at times that rise and fall, and their tail.
    fn object(batches: usize, pieces: usize) -> (Bytes, SegmentTail) {
        let options = WriterOptions {
            block_bytes: 128,
            index_interval_bytes: 300,
        };
        let mut writer = SegmentObjectWriter::new(options, TopicId::ZERO, 0, 100);
        let mut log = BytesMut::new();
        for i in 0..batches as i64 {
            let base = 100 + i * 10;
            let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, base);
            for record in 0..10 {
                builder
                    .append((i * 7) % 50 + record, None, Some(b"value"), &[])
                    .unwrap();
            }
            log.extend_from_slice(&builder.build().unwrap().to_bytes());
        }
        for piece in log.chunks(pieces.max(1)) {
            writer.push(piece).unwrap();
        }
        let extras = Extras {
            producer_snapshot: Bytes::from_static(b"p"),
            ..Extras::default()
        };
        let (tail, summary) = writer.finish(100 + batches as i64 * 10, extras).unwrap();
        assert!(summary.footer.contiguous);
        log.extend_from_slice(&tail);
        (log.freeze(), SegmentTail::parse(&tail).unwrap())
    }

    // The pieces in which the bytes come make no difference.
    #[test]
    fn the_tail_is_the_same_for_all_pieces() {
        let (whole, _) = object(40, usize::MAX);
        for pieces in [1, 7, 61, 128, 4096] {
            assert_eq!(object(40, pieces).0, whole);
        }
    }

    #[test]
    fn positions_are_at_or_before_what_is_sought() {
        let (bytes, tail) = object(40, 4096);
        for offset in 90..600 {
            let position = tail.position_for_offset(offset) as usize;
            let header = BatchHeader::parse(&bytes[position..]).unwrap();
            assert!(header.base_offset <= offset.max(100));
            // And not far before: an entry is due every 300 bytes.
            assert!(offset.clamp(100, 499) - header.base_offset < 50);
        }
        for timestamp in 0..70 {
            let position = tail.position_for_timestamp(timestamp) as usize;
            let mut at = 0;
            while at < position {
                let header = BatchHeader::parse(&bytes[at..]).unwrap();
                assert!(header.max_timestamp < timestamp);
                at += header.size_in_bytes();
            }
            assert_eq!(at, position);
        }
        assert!(tail.position_for_timestamp(i64::MAX) > 0);
    }

    proptest! {
        // Any damage to the tail is an error and no panic.
        #[test]
        fn damage_is_seen(at in any::<prop::sample::Index>(), bit in 0_u8..8, cut in any::<prop::sample::Index>()) {
            let (whole, tail) = object(20, 4096);
            let end = whole.slice(tail.footer.log_bytes as usize..);
            let mut bad = end.to_vec();
            let at = at.index(bad.len());
            bad[at] ^= 1 << bit;
            let reserved = bad.len() - 10..bad.len() - 8;
            prop_assert!(reserved.contains(&at) || SegmentTail::parse(&bad.into()).is_err());
            prop_assert!(SegmentTail::parse(&end.slice(1 + cut.index(end.len())..)).is_err());
            prop_assert!(SegmentTail::parse(&end.slice(..cut.index(end.len()))).is_err());
        }

        #[test]
        fn damage_to_the_batches_is_seen(at in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let (whole, tail) = object(20, 4096);
            let mut log = whole[..tail.footer.log_bytes as usize].to_vec();
            prop_assert!(tail.verify(0, &log).is_ok());
            prop_assert!(tail.verify(128, &log[128..]).is_ok());
            prop_assert!(tail.verify(128, &log[..128]).is_err());
            let at = at.index(log.len());
            log[at] ^= 1 << bit;
            prop_assert!(tail.verify(0, &log).is_err());
        }
    }
}
