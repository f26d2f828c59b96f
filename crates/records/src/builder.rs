//! Builds the batches that the broker writes itself, and those of tests (SEMANTICS 0.4).

use bytes::Bytes;
use strandline_types::{
    LeaderEpoch, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId, TimestampType,
};

use crate::batch::{Attributes, BATCH_HEAD_BYTES, Batch, BatchHeader, Compression};
use crate::compression::compress;
use crate::error::{BatchError, RecordFault};
use crate::varint::{put_varint, put_varlong, varint_len, varlong_len};

/// Most bytes of a batch; its length field has 31 bits.
const MAX_BATCH_BYTES: usize = i32::MAX as usize;

/// Collects records and makes them one batch, with dense offsets from the base offset.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    header: BatchHeader,
    compression: Compression,
    level: Option<i32>,
    records: Vec<u8>,
}

impl BatchBuilder {
    /// An empty batch whose first record will have `base_offset`.
    pub fn new(
        compression: Compression,
        timestamp_type: TimestampType,
        base_offset: Offset,
    ) -> Self {
        let header = BatchHeader {
            base_offset,
            batch_length: 0,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            magic: 2,
            crc: 0,
            attributes: Attributes::new(compression, timestamp_type, false, false),
            last_offset_delta: -1,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        Self {
            header,
            compression,
            level: None,
            records: Vec::new(),
        }
    }

    /// Sets the codec's level, see [`crate::compression::compress`].
    #[must_use]
    pub fn with_level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// Sets the epoch of the leader that appends.
    #[must_use]
    pub fn with_leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.header.partition_leader_epoch = epoch;
        self
    }

    /// Sets the producer and the sequence of the first record.
    #[must_use]
    pub fn with_producer(
        mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        base_sequence: i32,
    ) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Makes the batch part of its producer's transaction.
    #[must_use]
    pub fn transactional(self) -> Self {
        self.with_flags(true, false)
    }

    /// Makes the batch a control batch of a transaction.
    pub(crate) fn control(self) -> Self {
        self.with_flags(true, true)
    }

    fn with_flags(mut self, is_transactional: bool, is_control: bool) -> Self {
        let kind = self.header.attributes.timestamp_type();
        self.header.attributes =
            Attributes::new(self.compression, kind, is_transactional, is_control);
        self
    }

    /// Adds a record; `timestamp` in ms. Errors: the batch would be larger than its length field
    /// can say, or the timestamp is too far from the first one. Then nothing was added.
    pub fn append(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), BatchError> {
        let index = self.header.record_count;
        let base = if index == 0 {
            timestamp
        } else {
            self.header.base_timestamp
        };
        let delta = timestamp
            .checked_sub(base)
            .ok_or_else(|| RecordFault::Timestamp(timestamp).at(index))?;
        let header_bytes = headers
            .iter()
            .map(|(key, value)| field_len(Some(*key)) + field_len(*value));
        let length = 1
            + varlong_len(delta)
            + varint_len(index)
            + field_len(key)
            + field_len(value)
            + varint_len(headers.len() as i32)
            + header_bytes.sum::<usize>();
        if self.size_in_bytes().saturating_add(length + 5) > MAX_BATCH_BYTES {
            return Err(BatchError::TooLarge {
                max: MAX_BATCH_BYTES,
            });
        }
        let out = &mut self.records;
        put_varint(out, length as i32);
        out.push(0);
        put_varlong(out, delta);
        put_varint(out, index);
        put_field(out, key);
        put_field(out, value);
        put_varint(out, headers.len() as i32);
        for (key, value) in headers {
            put_field(out, Some(*key));
            put_field(out, *value);
        }
        self.header.base_timestamp = base;
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        self.header.last_offset_delta = index;
        self.header.record_count = index + 1;
        Ok(())
    }

    /// Number of records so far.
    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// True before the first record.
    pub fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// Size of the batch in bytes if it were not compressed.
    pub fn size_in_bytes(&self) -> usize {
        BATCH_HEAD_BYTES + self.records.len()
    }

    /// Makes the batch. Errors: no records, or the codec failed.
    pub fn build(self) -> Result<Batch, BatchError> {
        if self.is_empty() {
            return Err(BatchError::Empty);
        }
        let body = match self.compression {
            Compression::None => self.records,
            codec => compress(codec, self.level, &self.records)?,
        };
        Ok(Batch::build(&self.header, Bytes::from(body)))
    }
}

fn field_len(field: Option<&[u8]>) -> usize {
    match field {
        None => 1,
        Some(bytes) => bytes.len().saturating_add(varint_len(bytes.len() as i32)),
    }
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => put_varint(out, -1),
        Some(bytes) => {
            put_varint(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::records;

    #[test]
    fn a_built_batch_has_dense_offsets_and_the_greatest_timestamp() {
        let mut builder = BatchBuilder::new(Compression::Zstd, TimestampType::CreateTime, 40)
            .with_level(1)
            .with_leader_epoch(6)
            .with_producer(7, 2, 90)
            .transactional();
        builder.append(100, Some(b"k"), Some(b"v"), &[]).unwrap();
        builder
            .append(90, None, None, &[(b"h", None), (b"h", Some(b"2"))])
            .unwrap();
        let batch = builder.build().unwrap();
        assert!(batch.verify_crc().is_ok());
        let header = batch.header();
        assert_eq!((header.base_timestamp, header.max_timestamp), (100, 100));
        assert_eq!((header.record_count, header.last_offset()), (2, 41));
        assert_eq!(
            (
                header.producer_id,
                header.producer_epoch,
                header.base_sequence
            ),
            (7, 2, 90)
        );
        assert_eq!(header.partition_leader_epoch, 6);
        assert!(header.attributes.is_transactional() && !header.attributes.is_control());
        let all: Result<Vec<_>, _> = records(&batch, 1000).unwrap().collect();
        let all = all.unwrap();
        assert_eq!((all[0].offset, all[1].offset), (40, 41));
        assert_eq!((all[0].timestamp, all[1].timestamp), (100, 90));
        assert_eq!(all[1].headers.len(), 2);
    }

    #[test]
    fn what_cannot_be_written_is_refused_and_leaves_no_trace() {
        let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
        assert_eq!(builder.clone().build(), Err(BatchError::Empty));
        builder.append(i64::MIN, None, None, &[]).unwrap();
        let before = builder.size_in_bytes();
        assert!(builder.append(1, None, None, &[]).is_err());
        assert_eq!(
            (builder.size_in_bytes(), builder.record_count()),
            (before, 1)
        );
    }
}
