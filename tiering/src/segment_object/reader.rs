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
