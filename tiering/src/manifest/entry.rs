//! What the manifest knows of a segment, and of a list of older segments.

use bytes::{BufMut, BytesMut};
use strandline_types::{LeaderEpoch, Offset};
use uuid::Uuid;

use crate::key::SegmentName;
use crate::segment_object::EpochStart;
use crate::wire::{DecodeError, Reader, put_string};

const HAS_ABORTED: u8 = 1;
const CONTIGUOUS: u8 = 2;

/// One committed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentEntry {
    /// First offset of the range (inclusive); a batch may begin later.
    pub base_offset: Offset,
    /// Last offset of the range (inclusive).
    pub last_offset: Offset,
    /// Epoch of the leader that uploaded it; a part of the object's name.
    pub leader_epoch: LeaderEpoch,
    /// Of the upload; a part of the object's name.
    pub uuid: Uuid,
    /// Bytes of batches.
    pub log_bytes: u64,
    /// Bytes of the whole object.
    pub object_bytes: u64,
    /// CRC-32C of the batches.
    pub log_crc: u32,
    /// CRC-32C of footer and trailer.
    pub footer_crc: u32,
    /// Size of the blocks that have a checksum each.
    pub block_bytes: u32,
    /// Smallest base timestamp of the batches in ms, -1 for none.
    pub min_timestamp: i64,
    /// Greatest timestamp in ms, -1 for none.
    pub max_timestamp: i64,
    /// When it was committed, ms since the Unix epoch.
    pub created_ms: i64,
    /// It ends aborted transactions; which ones is in the object.
    pub has_aborted: bool,
    /// No offset of the range is missing.
    pub contiguous: bool,
    /// Leader epochs that intersect the range.
    pub epochs: Vec<EpochStart>,
}

impl SegmentEntry {
    /// Encoded size without the epochs.
    pub(super) const MIN_BYTES: usize = 8 + 8 + 4 + 16 + 8 + 8 + 4 + 4 + 4 + 8 + 8 + 8 + 1 + 2;

    /// Offset after the range.
    pub fn next_offset(&self) -> Offset {
        self.last_offset + 1
    }

    /// What names the object.
    pub fn name(&self) -> SegmentName {
        SegmentName {
            base_offset: self.base_offset,
            leader_epoch: self.leader_epoch,
            uuid: self.uuid,
        }
    }

    /// Timestamp that retention by time goes by: the records', else when it came here.
    pub fn retention_timestamp(&self) -> i64 {
        if self.max_timestamp >= 0 {
            self.max_timestamp
        } else {
            self.created_ms
        }
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_i64(self.base_offset);
        out.put_i64(self.last_offset);
        out.put_i32(self.leader_epoch);
        out.put_slice(self.uuid.as_bytes());
        out.put_u64(self.log_bytes);
        out.put_u64(self.object_bytes);
        out.put_u32(self.log_crc);
        out.put_u32(self.footer_crc);
        out.put_u32(self.block_bytes);
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_i64(self.created_ms);
        let aborted = if self.has_aborted { HAS_ABORTED } else { 0 };
        out.put_u8(aborted | if self.contiguous { CONTIGUOUS } else { 0 });
        let epochs = self.epochs.len().min(usize::from(u16::MAX));
        out.put_u16(epochs as u16);
        for start in self.epochs.iter().take(epochs) {
            encode_epoch(start, out);
        }
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "a segment";
        let mut entry = Self {
            base_offset: r.i64(what)?,
            last_offset: r.i64(what)?,
            leader_epoch: r.i32(what)?,
            uuid: r.uuid(what)?,
            log_bytes: r.u64(what)?,
            object_bytes: r.u64(what)?,
            log_crc: r.u32(what)?,
            footer_crc: r.u32(what)?,
            block_bytes: r.u32(what)?,
            min_timestamp: r.i64(what)?,
            max_timestamp: r.i64(what)?,
            created_ms: r.i64(what)?,
            has_aborted: false,
            contiguous: false,
            epochs: Vec::new(),
        };
        let flags = r.u8(what)?;
        entry.has_aborted = flags & HAS_ABORTED != 0;
        entry.contiguous = flags & CONTIGUOUS != 0;
        for _ in 0..r.u16(what)? {
            entry.epochs.push(decode_epoch(r)?);
        }
        Ok(entry)
    }
}

pub(super) const EPOCH_BYTES: usize = 12;

pub(super) fn encode_epoch(start: &EpochStart, out: &mut BytesMut) {
    out.put_i32(start.epoch);
    out.put_i64(start.start_offset);
}

pub(super) fn decode_epoch(r: &mut Reader<'_>) -> Result<EpochStart, DecodeError> {
    Ok(EpochStart {
        epoch: r.i32("an epoch")?,
        start_offset: r.i64("an epoch")?,
    })
}

/// A list of older segments in an object of its own, which never changes. Segments that left it
/// from the front are counted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPointer {
    /// First offset of the first segment that is left (inclusive).
    pub base_offset: Offset,
    /// Last offset of its last segment (inclusive).
    pub last_offset: Offset,
    /// Smallest and greatest timestamp of all its segments in ms, those that left included.
    pub min_timestamp: i64,
    /// See `min_timestamp`.
    pub max_timestamp: i64,
    /// Segments in the object.
    pub count: u32,
    /// Segments at its front that are no longer part of the log.
    pub removed: u32,
    /// Bytes of batches of the segments that are left.
    pub log_bytes: u64,
    /// Some segment ends aborted transactions.
    pub has_aborted: bool,
    /// Size of the object in bytes.
    pub object_bytes: u64,
    /// CRC-32C of the object.
    pub crc: u32,
    /// A part of the object's name.
    pub uuid: Uuid,
    /// The object's name below the partition's prefix.
    pub relative: String,
}

impl SealedPointer {
    pub(super) const MIN_BYTES: usize = 8 * 4 + 4 * 2 + 8 + 1 + 8 + 4 + 16 + 2;

    /// Segments that are left.
    pub fn live(&self) -> u32 {
        self.count.saturating_sub(self.removed)
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        out.put_i64(self.base_offset);
        out.put_i64(self.last_offset);
        out.put_i64(self.min_timestamp);
        out.put_i64(self.max_timestamp);
        out.put_u32(self.count);
        out.put_u32(self.removed);
        out.put_u64(self.log_bytes);
        out.put_u8(if self.has_aborted { HAS_ABORTED } else { 0 });
        out.put_u64(self.object_bytes);
        out.put_u32(self.crc);
        out.put_slice(self.uuid.as_bytes());
        put_string(out, &self.relative);
    }

    pub(super) fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "a sealed list";
        Ok(Self {
            base_offset: r.i64(what)?,
            last_offset: r.i64(what)?,
            min_timestamp: r.i64(what)?,
            max_timestamp: r.i64(what)?,
            count: r.u32(what)?,
            removed: r.u32(what)?,
            log_bytes: r.u64(what)?,
            has_aborted: r.u8(what)? & HAS_ABORTED != 0,
            object_bytes: r.u64(what)?,
            crc: r.u32(what)?,
            uuid: r.uuid(what)?,
            relative: r.string(what)?,
        })
    }
}
