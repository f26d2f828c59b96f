//! One uploaded range as one object: batches as stored, then indexes, then a footer.
//!
//! The bytes are described in `docs/formats/segment-object.md`.

mod footer;
mod reader;
mod walker;
mod writer;

use strandline_types::{LeaderEpoch, Offset, ProducerId};

pub(crate) use footer::Footer;
pub(crate) use reader::SegmentTail;
pub(crate) use writer::{Extras, SegmentObjectWriter, SegmentSummary, WriterOptions};

/// Default size of the blocks that have a checksum each, in bytes.
pub const BLOCK_BYTES: u32 = 256 * 1024;

/// Where a leader epoch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpochStart {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Its first offset (inclusive).
    pub start_offset: Offset,
}

/// An aborted transaction, as in Kafka's `.txnindex`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// Offset of the transaction's first record.
    pub first_offset: Offset,
    /// Offset of the abort marker.
    pub last_offset: Offset,
    /// The last stable offset when the marker was written.
    pub last_stable_offset: Offset,
}
