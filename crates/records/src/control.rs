//! Control batches: the markers that end a transaction (SEMANTICS 0.4, T-41).

use strandline_types::{NO_SEQUENCE, ProducerEpoch, ProducerId, TimestampType};

use crate::batch::{Batch, Compression};
use crate::builder::BatchBuilder;
use crate::error::BatchError;
use crate::record::records;

const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 0;
/// A control record is a few bytes and never compressed; a batch that is larger is none of ours.
const MAX_CONTROL_BYTES: usize = 4096;

/// What a control record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlRecordType {
    /// The transaction is aborted.
    Abort,
    /// The transaction is committed.
    Commit,
    /// A type that has no meaning in a partition of a topic (2 to 6 are KRaft's own).
    Other(i16),
}

impl ControlRecordType {
    /// The number on disk.
    pub fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::Other(id) => id,
        }
    }

    /// Reads the key of a control record. Errors: too short, or a negative version. Later versions
    /// begin alike and are read.
    pub fn from_key(key: &[u8]) -> Result<Self, BatchError> {
        let (version, rest) = split_i16(key, "its key is too short")?;
        if version < KEY_VERSION {
            return Err(BatchError::Control("its key has a negative version"));
        }
        Ok(match split_i16(rest, "its key is too short")?.0 {
            0 => Self::Abort,
            1 => Self::Commit,
            other => Self::Other(other),
        })
    }
}

/// The control record that ends a transaction on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// True for a commit, false for an abort.
    pub committed: bool,
    /// Epoch of the coordinator that wrote the marker.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// The control batch of this marker, to be appended as it is; `timestamp` in ms.
    pub fn to_batch(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        timestamp: i64,
    ) -> Result<Batch, BatchError> {
        let kind = if self.committed {
            ControlRecordType::Commit
        } else {
            ControlRecordType::Abort
        };
        let mut key = KEY_VERSION.to_be_bytes().to_vec();
        key.extend_from_slice(&kind.id().to_be_bytes());
        let mut value = VALUE_VERSION.to_be_bytes().to_vec();
        value.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0)
            .with_producer(producer_id, producer_epoch, NO_SEQUENCE)
            .control();
        builder.append(timestamp, Some(&key), Some(&value), &[])?;
        builder.build()
    }

    /// Reads the marker of a control batch; `None` for a batch with data, with another control
    /// record, or emptied by compaction. Errors: the control record is malformed.
    pub fn of_batch(batch: &Batch) -> Result<Option<Self>, BatchError> {
        if !batch.header().attributes.is_control() {
            return Ok(None);
        }
        let Some(record) = records(batch, MAX_CONTROL_BYTES)?.next() else {
            return Ok(None);
        };
        let record = record?;
        let key = record.key.ok_or(BatchError::Control("it has no key"))?;
        let committed = match ControlRecordType::from_key(&key)? {
            ControlRecordType::Abort => false,
            ControlRecordType::Commit => true,
            ControlRecordType::Other(_) => return Ok(None),
        };
        let value = record.value.ok_or(BatchError::Control("it has no value"))?;
        let (version, rest) = split_i16(&value, "its value is too short")?;
        if version < VALUE_VERSION {
            return Err(BatchError::Control("its value has a negative version"));
        }
        let (epoch, _) = rest
            .split_first_chunk()
            .ok_or(BatchError::Control("its value is too short"))?;
        Ok(Some(Self {
            committed,
            coordinator_epoch: i32::from_be_bytes(*epoch),
        }))
    }
}

fn split_i16<'a>(bytes: &'a [u8], short: &'static str) -> Result<(i16, &'a [u8]), BatchError> {
    let (value, rest) = bytes
        .split_first_chunk()
        .ok_or(BatchError::Control(short))?;
    Ok((i16::from_be_bytes(*value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    // 0.4, T-41
    #[test]
    fn a_marker_is_a_control_batch_with_kafkas_bytes() {
        for committed in [false, true] {
            let marker = EndTransactionMarker {
                committed,
                coordinator_epoch: 0x0102_0304,
            };
            let batch = marker.to_batch(77, 5, 1000).unwrap();
            let header = batch.header();
            assert!(header.attributes.is_control() && header.attributes.is_transactional());
            assert_eq!((header.producer_id, header.producer_epoch), (77, 5));
            assert_eq!((header.base_sequence, header.record_count), (-1, 1));
            assert_eq!(header.attributes.compression(), Ok(Compression::None));
            let record = records(&batch, 100).unwrap().next().unwrap().unwrap();
            assert_eq!(
                record.key.as_deref(),
                Some(&[0, 0, 0, u8::from(committed)][..])
            );
            assert_eq!(record.value.as_deref(), Some(&[0, 0, 1, 2, 3, 4][..]));
            assert_eq!(EndTransactionMarker::of_batch(&batch), Ok(Some(marker)));
        }
    }

    fn control(key: Option<&[u8]>, value: Option<&[u8]>) -> Batch {
        let mut builder =
            BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0).control();
        builder.append(0, key, value, &[]).unwrap();
        builder.build().unwrap()
    }

    // 0.4
    #[test]
    fn other_control_records_are_no_markers_and_broken_ones_are_errors() {
        let value = [0, 0, 0, 0, 0, 9];
        let of = |key: Option<&[u8]>, value| EndTransactionMarker::of_batch(&control(key, value));
        assert_eq!(of(Some(&[0, 0, 0, 2]), Some(&value)), Ok(None));
        assert!(of(Some(&[0, 0, 0]), Some(&value)).is_err());
        assert!(of(Some(&[0xff, 0xff, 0, 1]), Some(&value)).is_err());
        assert!(of(None, Some(&value)).is_err());
        assert!(of(Some(&[0, 0, 0, 1]), None).is_err());
        assert!(of(Some(&[0, 0, 0, 1]), Some(&value[..5])).is_err());
        // A later version may have grown.
        let grown = [0, 1, 0, 0, 0, 9, 8, 8];
        let read = of(Some(&[0, 1, 0, 1, 7]), Some(&grown));
        assert_eq!(
            read,
            Ok(Some(EndTransactionMarker {
                committed: true,
                coordinator_epoch: 9
            }))
        );
    }
}
