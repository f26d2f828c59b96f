//! Builds what follows the batches of a segment object while the batches stream by.

use bytes::{BufMut, Bytes, BytesMut};
use strandline_types::{NO_TIMESTAMP, Offset, TopicId};

use super::footer::{Footer, Section, SectionKind};
use super::walker::{BatchWalker, Walked};
use super::{AbortedTransaction, EpochStart};

/// How a segment object is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriterOptions {
    /// Bytes under one checksum.
    pub(crate) block_bytes: u32,
    /// Bytes between two index entries.
    pub(crate) index_interval_bytes: u64,
}

/// What is known of the segment beside its batches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extras {
    pub(crate) aborted: Vec<AbortedTransaction>,
    /// Epochs that intersect the segment; from the batches themselves when empty.
    pub(crate) epochs: Vec<EpochStart>,
    pub(crate) producer_snapshot: Bytes,
}

/// What the whole object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentSummary {
    pub(crate) footer: Footer,
    pub(crate) epochs: Vec<EpochStart>,
    pub(crate) has_aborted: bool,
    pub(crate) object_bytes: u64,
    /// Checksum of footer and trailer together.
    pub(crate) footer_crc: u32,
    /// Bytes of footer and trailer.
    pub(crate) footer_bytes: u64,
}

/// Takes the batches in pieces of any size, then gives the tail.
#[derive(Debug)]
pub(crate) struct SegmentObjectWriter {
    options: WriterOptions,
    topic_id: TopicId,
    partition: i32,
    base_offset: Offset,
    walker: BatchWalker,
    index: IndexBuilder,
    blocks: BlockChecksums,
    log_bytes: u64,
    log_crc: u32,
}

impl SegmentObjectWriter {
    pub(crate) fn new(
        options: WriterOptions,
        topic_id: TopicId,
        partition: i32,
        base_offset: Offset,
    ) -> Self {
        Self {
            options,
            topic_id,
            partition,
            base_offset,
            walker: BatchWalker::new(base_offset),
            index: IndexBuilder::new(options.index_interval_bytes, base_offset),
            blocks: BlockChecksums::new(options.block_bytes),
            log_bytes: 0,
            log_crc: 0,
        }
    }

    /// Takes the next bytes of the segment. Errors: damage, in words.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.log_bytes += bytes.len() as u64;
        self.log_crc = crc32c::crc32c_append(self.log_crc, bytes);
        self.blocks.push(bytes);
        let index = &mut self.index;
        self.walker.push(bytes, |walked| index.add(&walked))
    }

    /// The bytes behind the batches, and what the object is now. Errors: no batch at all, the last
    /// one not whole, or the batches reach above `next_offset`.
    pub(crate) fn finish(
        self,
        next_offset: Offset,
        extras: Extras,
    ) -> Result<(Bytes, SegmentSummary), String> {
        let end = self.walker.end()?;
        if self.log_bytes == 0 {
            return Err("it holds no batch".into());
        }
        if end > next_offset {
            return Err(format!(
                "its batches end at {end}, above its end {next_offset}"
            ));
        }
        let epochs = if extras.epochs.is_empty() {
            self.index.epochs
        } else {
            extras.epochs
        };
        let mut tail = BytesMut::new();
        let mut sections = Vec::new();
        let mut add = |kind: SectionKind, bytes: &[u8]| {
            let crc = crc32c::crc32c(bytes);
            sections.push(Section {
                kind: kind as u16,
                length: bytes.len() as u64,
                crc,
            });
            tail.put_slice(bytes);
        };
        add(SectionKind::OffsetIndex, &self.index.offsets);
        add(SectionKind::TimeIndex, &self.index.times);
        add(
            SectionKind::AbortedTransactions,
            &encode_aborted(&extras.aborted),
        );
        add(SectionKind::LeaderEpochs, &encode_epochs(&epochs));
        add(SectionKind::ProducerSnapshot, &extras.producer_snapshot);
        add(SectionKind::BlockChecksums, &self.blocks.finish());
        let footer = Footer {
            topic_id: self.topic_id,
            partition: self.partition,
            base_offset: self.base_offset,
            last_offset: next_offset - 1,
            min_timestamp: self.index.min_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: self.index.max_timestamp,
            contiguous: self.index.contiguous && end == next_offset,
            block_bytes: self.options.block_bytes,
            log_bytes: self.log_bytes,
            log_crc: self.log_crc,
            sections,
        };
        let end = footer.encode();
        let footer_crc = crc32c::crc32c(&end);
        tail.put_slice(&end);
        let object_bytes = self.log_bytes + tail.len() as u64;
        let has_aborted = !extras.aborted.is_empty();
        let footer_bytes = end.len() as u64;
        let summary = SegmentSummary {
            footer,
            epochs,
            has_aborted,
            object_bytes,
            footer_crc,
            footer_bytes,
        };
        Ok((tail.freeze(), summary))
    }
}

/// The sparse indexes, and what else one learns from the headers.
#[derive(Debug)]
struct IndexBuilder {
    interval: u64,
    base_offset: Offset,
    next_offset: Offset,
    next_entry_at: u64,
    offsets: BytesMut,
    times: BytesMut,
    min_timestamp: Option<i64>,
    max_timestamp: i64,
    contiguous: bool,
    epochs: Vec<EpochStart>,
}

impl IndexBuilder {
    fn new(interval: u64, base_offset: Offset) -> Self {
        Self {
            interval: interval.max(1),
            base_offset,
            next_offset: base_offset,
            next_entry_at: 0,
            offsets: BytesMut::new(),
            times: BytesMut::new(),
            min_timestamp: None,
            max_timestamp: NO_TIMESTAMP,
            contiguous: true,
            epochs: Vec::new(),
        }
    }

    fn add(&mut self, walked: &Walked) {
        let header = &walked.header;
        if walked.position >= self.next_entry_at {
            // Greatest timestamp of all batches before this one: a search by time may begin here
            // when it is below what is searched.
            self.times.put_i64(self.max_timestamp);
            self.times.put_u64(walked.position);
            self.offsets
                .put_u64((header.base_offset - self.base_offset) as u64);
            self.offsets.put_u64(walked.position);
            self.next_entry_at = walked.position + self.interval;
        }
        self.contiguous &= header.base_offset == self.next_offset;
        self.next_offset = header.next_offset();
        self.max_timestamp = self.max_timestamp.max(header.max_timestamp);
        if !header.attributes.has_delete_horizon() {
            // With LogAppendTime the base is still the client's, whose clock may be ahead.
            let base = header.base_timestamp.min(header.max_timestamp);
            self.min_timestamp = Some(self.min_timestamp.map_or(base, |min| min.min(base)));
        }
        let epoch = header.partition_leader_epoch;
        if self.epochs.last().is_none_or(|last| last.epoch < epoch) {
            self.epochs.push(EpochStart {
                epoch,
                start_offset: header.base_offset,
            });
        }
    }
}

/// One checksum per block of the batches' bytes.
#[derive(Debug)]
struct BlockChecksums {
    block_bytes: usize,
    filled: usize,
    crc: u32,
    out: BytesMut,
}

impl BlockChecksums {
    fn new(block_bytes: u32) -> Self {
        Self {
            block_bytes: block_bytes.max(1) as usize,
            filled: 0,
            crc: 0,
            out: BytesMut::new(),
        }
    }

    fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at((self.block_bytes - self.filled).min(bytes.len()));
            self.crc = crc32c::crc32c_append(self.crc, now);
            self.filled += now.len();
            bytes = rest;
            if self.filled == self.block_bytes {
                self.out.put_u32(self.crc);
                (self.filled, self.crc) = (0, 0);
            }
        }
    }

    fn finish(mut self) -> BytesMut {
        if self.filled > 0 {
            self.out.put_u32(self.crc);
        }
        self.out
    }
}

pub(super) const ABORTED_BYTES: usize = 32;
pub(super) const EPOCH_BYTES: usize = 12;
pub(super) const INDEX_ENTRY_BYTES: usize = 16;

fn encode_aborted(aborted: &[AbortedTransaction]) -> BytesMut {
    let mut out = BytesMut::with_capacity(aborted.len() * ABORTED_BYTES);
    for transaction in aborted {
        out.put_i64(transaction.producer_id);
        out.put_i64(transaction.first_offset);
        out.put_i64(transaction.last_offset);
        out.put_i64(transaction.last_stable_offset);
    }
    out
}

fn encode_epochs(epochs: &[EpochStart]) -> BytesMut {
    let mut out = BytesMut::with_capacity(epochs.len() * EPOCH_BYTES);
    for start in epochs {
        out.put_i32(start.epoch);
        out.put_i64(start.start_offset);
    }
    out
}
