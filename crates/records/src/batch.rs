//! The 61-byte header of a record batch: view and patch (SEMANTICS 0.4, 2.3).

use std::fmt;

use bytes::{Bytes, BytesMut};
use strandline_types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TimestampType};

use crate::error::BatchError;

/// Length of a batch header, in bytes.
pub const BATCH_HEAD_BYTES: usize = 61;
/// Bytes in front of what the length field counts: base offset and the field itself.
pub const LOG_OVERHEAD_BYTES: usize = 12;

const LENGTH: usize = 8;
const LEADER_EPOCH: usize = 12;
const MAGIC: usize = 16;
const CRC: usize = 17;
const ATTRIBUTES: usize = 21;
const LAST_OFFSET_DELTA: usize = 23;
const BASE_TIMESTAMP: usize = 27;
const MAX_TIMESTAMP: usize = 35;
const PRODUCER_ID: usize = 43;
const PRODUCER_EPOCH: usize = 51;
const BASE_SEQUENCE: usize = 53;
const RECORD_COUNT: usize = 57;

/// Codec of the records of a batch (attribute bits 0 to 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Plain records.
    None,
    /// gzip.
    Gzip,
    /// snappy, raw or in xerial frames.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The attribute bits.
    pub fn bits(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }
}

/// Attribute bits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// Codec of the records.
    pub fn compression(self) -> Result<Compression, BatchError> {
        Ok(match self.0 & 7 {
            0 => Compression::None,
            1 => Compression::Gzip,
            2 => Compression::Snappy,
            3 => Compression::Lz4,
            4 => Compression::Zstd,
            other => return Err(BatchError::Codec(other as u8)),
        })
    }

    /// Who set the timestamps.
    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Part of a transaction.
    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Holds a control record.
    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// The base timestamp is a delete horizon (L-43).
    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same bits, and the base timestamp is a delete horizon (L-43).
    #[must_use]
    pub fn with_delete_horizon(self) -> Self {
        Self(self.0 | Self::DELETE_HORIZON)
    }

    /// Builds the bits.
    pub fn new(
        compression: Compression,
        timestamp_type: TimestampType,
        is_transactional: bool,
        is_control: bool,
    ) -> Self {
        let mut bits = i16::from(compression.bits());
        if timestamp_type == TimestampType::LogAppendTime {
            bits |= Self::LOG_APPEND_TIME;
        }
        if is_transactional {
            bits |= Self::TRANSACTIONAL;
        }
        if is_control {
            bits |= Self::CONTROL;
        }
        Self(bits)
    }
}

/// The decoded header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record (inclusive).
    pub base_offset: Offset,
    /// Bytes after the length field.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch.
    pub partition_leader_epoch: LeaderEpoch,
    /// Format version, 2.
    pub magic: i8,
    /// CRC-32C from the attributes to the end.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: Attributes,
    /// Offset of the last record, relative to the base offset.
    pub last_offset_delta: i32,
    /// Timestamp that the records' deltas are relative to, in ms.
    pub base_timestamp: i64,
    /// Greatest timestamp of the records, in ms; -1 when there is none.
    pub max_timestamp: i64,
    /// Producer id, -1 for none.
    pub producer_id: ProducerId,
    /// Producer epoch, -1 for none.
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, -1 for none.
    pub base_sequence: i32,
    /// Number of records; 0 only after compaction.
    pub record_count: i32,
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`, which may go on behind the batch or stop before
    /// its end. Errors: too few bytes for a header, a length below the minimum, another magic.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        if bytes.len() < BATCH_HEAD_BYTES {
            return Err(BatchError::Truncated {
                have: bytes.len(),
                need: BATCH_HEAD_BYTES,
            });
        }
        let header = Self {
            base_offset: i64::from_be_bytes(array(bytes, 0)),
            batch_length: i32::from_be_bytes(array(bytes, LENGTH)),
            partition_leader_epoch: i32::from_be_bytes(array(bytes, LEADER_EPOCH)),
            magic: i8::from_be_bytes(array(bytes, MAGIC)),
            crc: u32::from_be_bytes(array(bytes, CRC)),
            attributes: Attributes(i16::from_be_bytes(array(bytes, ATTRIBUTES))),
            last_offset_delta: i32::from_be_bytes(array(bytes, LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(array(bytes, BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(array(bytes, MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(array(bytes, PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(array(bytes, PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(array(bytes, BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(array(bytes, RECORD_COUNT)),
        };
        if header.magic != 2 {
            return Err(BatchError::Magic(header.magic));
        }
        if header.batch_length < (BATCH_HEAD_BYTES - LOG_OVERHEAD_BYTES) as i32 {
            return Err(BatchError::Length(header.batch_length));
        }
        Ok(header)
    }

    /// Size of the whole batch, header included, in bytes.
    pub fn size_in_bytes(&self) -> usize {
        LOG_OVERHEAD_BYTES + self.batch_length as usize
    }

    /// Offset of the last record (inclusive).
    pub fn last_offset(&self) -> Offset {
        self.base_offset
            .wrapping_add(i64::from(self.last_offset_delta))
    }

    /// Offset after the batch.
    pub fn next_offset(&self) -> Offset {
        self.last_offset().wrapping_add(1)
    }

    /// Sequence of the last record; sequences wrap from 2^31-1 to 0 (P-53).
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        (i64::from(self.base_sequence) + i64::from(self.last_offset_delta)).rem_euclid(1 << 31)
            as i32
    }

    /// From when on (ms) its tombstones, or its marker, may go; `None` before the first cleaning
    /// (L-43).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        let is_set = self.attributes.has_delete_horizon();
        is_set.then_some(self.base_timestamp)
    }

    /// True when the batch carries a producer id.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id >= 0
    }
}

/// One whole batch that will be stored or served: an own copy of its header, which the broker
/// patches, and the records as the bytes that arrived.
#[derive(Clone, PartialEq, Eq)]
pub struct Batch {
    head: [u8; BATCH_HEAD_BYTES],
    body: Bytes,
}

impl Batch {
    /// Takes exactly one batch. Errors: as [`BatchHeader::parse`], and bytes missing or left over.
    /// The checksum is not looked at, see [`Batch::verify_crc`].
    pub fn from_bytes(bytes: Bytes) -> Result<Self, BatchError> {
        let header = BatchHeader::parse(&bytes)?;
        if header.size_in_bytes() != bytes.len() {
            let need = header.size_in_bytes();
            return Err(BatchError::Truncated {
                have: bytes.len(),
                need,
            });
        }
        let head = array(&bytes, 0);
        Ok(Self {
            head,
            body: bytes.slice(BATCH_HEAD_BYTES..),
        })
    }

    /// The decoded header.
    pub fn header(&self) -> BatchHeader {
        let h = &self.head;
        BatchHeader {
            base_offset: i64::from_be_bytes(array(h, 0)),
            batch_length: i32::from_be_bytes(array(h, LENGTH)),
            partition_leader_epoch: i32::from_be_bytes(array(h, LEADER_EPOCH)),
            magic: i8::from_be_bytes(array(h, MAGIC)),
            crc: u32::from_be_bytes(array(h, CRC)),
            attributes: Attributes(i16::from_be_bytes(array(h, ATTRIBUTES))),
            last_offset_delta: i32::from_be_bytes(array(h, LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(array(h, BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(array(h, MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(array(h, PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(array(h, PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(array(h, BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(array(h, RECORD_COUNT)),
        }
    }

    /// The header's bytes.
    pub fn head(&self) -> &[u8; BATCH_HEAD_BYTES] {
        &self.head
    }

    /// The records' bytes, compressed if the codec says so.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Replaces the records' bytes by an equal copy, so that a large receive buffer can go.
    pub fn detach_body(&mut self) {
        self.body = Bytes::copy_from_slice(&self.body);
    }

    /// Size of the whole batch in bytes.
    pub fn size_in_bytes(&self) -> usize {
        BATCH_HEAD_BYTES + self.body.len()
    }

    /// Compares the checksum with the bytes (P-22).
    pub fn verify_crc(&self) -> Result<(), BatchError> {
        let stored = u32::from_be_bytes(array(&self.head, CRC));
        let computed = self.compute_crc();
        if stored == computed {
            Ok(())
        } else {
            Err(BatchError::Crc { stored, computed })
        }
    }

    fn compute_crc(&self) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&self.head[ATTRIBUTES..]), &self.body)
    }

    /// Sets the two fields outside the checksum (2.3).
    pub fn set_offset_and_epoch(&mut self, base_offset: Offset, epoch: LeaderEpoch) {
        self.head[..8].copy_from_slice(&base_offset.to_be_bytes());
        self.head[LEADER_EPOCH..LEADER_EPOCH + 4].copy_from_slice(&epoch.to_be_bytes());
    }

    /// Sets the greatest timestamp and who sets timestamps, and renews the checksum if either
    /// differed (2.3).
    pub fn set_timestamps(&mut self, kind: TimestampType, max_timestamp: i64) {
        let old = self.header();
        if old.max_timestamp == max_timestamp && old.attributes.timestamp_type() == kind {
            return;
        }
        let bits = match kind {
            TimestampType::CreateTime => old.attributes.0 & !Attributes::LOG_APPEND_TIME,
            TimestampType::LogAppendTime => old.attributes.0 | Attributes::LOG_APPEND_TIME,
        };
        self.head[ATTRIBUTES..ATTRIBUTES + 2].copy_from_slice(&bits.to_be_bytes());
        self.head[MAX_TIMESTAMP..MAX_TIMESTAMP + 8].copy_from_slice(&max_timestamp.to_be_bytes());
        let crc = self.compute_crc();
        self.head[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
    }

    /// Builds a batch from a header and its records' bytes; length and checksum are computed, the
    /// header's own are ignored.
    pub fn build(header: &BatchHeader, body: Bytes) -> Self {
        let mut head = [0; BATCH_HEAD_BYTES];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        let length = BATCH_HEAD_BYTES - LOG_OVERHEAD_BYTES + body.len();
        put(0, &header.base_offset.to_be_bytes());
        put(LENGTH, &(length as i32).to_be_bytes());
        put(LEADER_EPOCH, &header.partition_leader_epoch.to_be_bytes());
        put(MAGIC, &2_i8.to_be_bytes());
        put(ATTRIBUTES, &header.attributes.0.to_be_bytes());
        put(LAST_OFFSET_DELTA, &header.last_offset_delta.to_be_bytes());
        put(BASE_TIMESTAMP, &header.base_timestamp.to_be_bytes());
        put(MAX_TIMESTAMP, &header.max_timestamp.to_be_bytes());
        put(PRODUCER_ID, &header.producer_id.to_be_bytes());
        put(PRODUCER_EPOCH, &header.producer_epoch.to_be_bytes());
        put(BASE_SEQUENCE, &header.base_sequence.to_be_bytes());
        put(RECORD_COUNT, &header.record_count.to_be_bytes());
        let mut batch = Self { head, body };
        let crc = batch.compute_crc();
        batch.head[CRC..CRC + 4].copy_from_slice(&crc.to_be_bytes());
        batch
    }

    /// One contiguous copy of the whole batch.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.size_in_bytes());
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&self.body);
        out.freeze()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("header", &self.header())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BatchHeader {
        BatchHeader {
            base_offset: 7,
            batch_length: 0,
            partition_leader_epoch: 3,
            magic: 2,
            crc: 0,
            attributes: Attributes::new(Compression::Zstd, TimestampType::CreateTime, true, false),
            last_offset_delta: 4,
            base_timestamp: 100,
            max_timestamp: 105,
            producer_id: 9,
            producer_epoch: 1,
            base_sequence: i32::MAX - 1,
            record_count: 5,
        }
    }

    #[test]
    fn a_built_batch_reads_back() {
        let batch = Batch::build(&header(), Bytes::from_static(b"records"));
        let again = Batch::from_bytes(batch.to_bytes()).unwrap();
        assert_eq!(again, batch);
        assert!(again.verify_crc().is_ok());
        let h = again.header();
        assert_eq!(
            (h.base_offset, h.last_offset(), h.next_offset()),
            (7, 11, 12)
        );
        assert_eq!(h.last_sequence(), 2); // P-53: wraps
        assert_eq!(h.size_in_bytes(), 61 + 7);
    }

    // 2.3
    #[test]
    fn offset_and_epoch_lie_outside_the_checksum_and_timestamps_inside() {
        let mut batch = Batch::build(&header(), Bytes::from_static(b"records"));
        batch.set_offset_and_epoch(1 << 40, 12);
        assert!(batch.verify_crc().is_ok());
        let before = batch.header().crc;
        batch.set_timestamps(TimestampType::LogAppendTime, 999);
        assert!(batch.verify_crc().is_ok());
        assert_ne!(before, batch.header().crc);
        assert_eq!(
            batch.header().attributes.timestamp_type(),
            TimestampType::LogAppendTime
        );
    }

    // P-22
    #[test]
    fn damage_is_seen() {
        let bytes = Batch::build(&header(), Bytes::from_static(b"records")).to_bytes();
        let mut bad = bytes.to_vec();
        bad[62] ^= 1;
        let batch = Batch::from_bytes(bad.into()).unwrap();
        assert!(matches!(batch.verify_crc(), Err(BatchError::Crc { .. })));
        assert!(Batch::from_bytes(bytes.slice(..66)).is_err());
        assert!(BatchHeader::parse(&bytes[..60]).is_err());
    }
}
