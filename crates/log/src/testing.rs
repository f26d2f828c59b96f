//! Batches for the tests of this crate.

use strandline_records::{Attributes, Batch, BatchHeader, Compression, EndTransactionMarker};
use strandline_types::TimestampType;

/// What a test batch looks like; its records are filler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchSpec {
    pub(crate) count: i32,
    pub(crate) size: usize,
    pub(crate) timestamp: i64,
    pub(crate) producer: Option<(i64, i16, i32)>,
    pub(crate) transactional: bool,
}

impl Default for BatchSpec {
    fn default() -> Self {
        Self {
            count: 1,
            size: 20,
            timestamp: 1000,
            producer: None,
            transactional: false,
        }
    }
}

impl BatchSpec {
    pub(crate) fn build(self) -> Batch {
        let (id, epoch, sequence) = self.producer.unwrap_or((-1, -1, -1));
        let header = header(
            self.count,
            self.timestamp,
            (id, epoch, sequence),
            self.transactional,
        );
        Batch::build(&header, vec![7; self.size].into())
    }
}

fn header(
    count: i32,
    timestamp: i64,
    (producer_id, producer_epoch, base_sequence): (i64, i16, i32),
    is_transactional: bool,
) -> BatchHeader {
    BatchHeader {
        base_offset: 0,
        batch_length: 0,
        partition_leader_epoch: -1,
        magic: 2,
        crc: 0,
        attributes: Attributes::new(
            Compression::None,
            TimestampType::CreateTime,
            is_transactional,
            false,
        ),
        last_offset_delta: count - 1,
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count: count,
    }
}

/// A marker that ends a transaction.
pub(crate) fn marker_batch(pid: i64, epoch: i16, is_abort: bool, coordinator_epoch: i32) -> Batch {
    let marker = EndTransactionMarker {
        committed: !is_abort,
        coordinator_epoch,
    };
    marker.to_batch(pid, epoch, 1000).unwrap()
}
