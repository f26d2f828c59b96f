//! Lookups that end at a record: by time, and the greatest time. Rules: O-5, O-9, S-16.

use bytes::Bytes;
use strandline_records::{Batch, BatchHeader};
use strandline_types::{LeaderEpoch, Offset, TimestampType};

use super::fill::{Fetcher, SegmentRef};
use super::reader::SegmentReader;
use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::manifest::ManifestView;

/// A record found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp in ms.
    pub timestamp: i64,
    /// Epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
}

/// Bytes that one batch may have decompressed.
const MAX_DECOMPRESSED_BYTES: usize = 1 << 30;

/// The first record at or above both `timestamp` and `from`; `None` when there is none here.
pub(crate) async fn offset_for_timestamp(
    fetcher: &Fetcher,
    keys: &PartitionKeys,
    view: &ManifestView,
    timestamp: i64,
    from: Offset,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let mut from = from;
    while let Some(entry) = view.segment_for_timestamp(timestamp, from).await? {
        let next = entry.next_offset();
        let segment = fetcher.segment(keys, entry);
        let position = fetcher.tail(&segment).await?.position_for_timestamp(timestamp);
        let mut reader = SegmentReader::new(fetcher, &segment, None, position);
        let fits =
            |header: &BatchHeader| header.max_timestamp >= timestamp && header.last_offset() >= from;
        while let Some((header, bytes)) = reader.next_batch(fits).await? {
            let found = first_record(&segment, &header, bytes, |offset, time| {
                time >= timestamp && offset >= from
            })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        // A batch's greatest timestamp was set wrong, or its records lie below the start.
        from = next;
    }
    Ok(None)
}

/// The first record with the greatest timestamp; `None` without any timestamp.
pub(crate) async fn max_timestamp(
    fetcher: &Fetcher,
    keys: &PartitionKeys,
    view: &ManifestView,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let Some(entry) = view.segment_with_max_timestamp().await? else { return Ok(None) };
    let greatest = entry.max_timestamp;
    let segment = fetcher.segment(keys, entry);
    let position = fetcher.tail(&segment).await?.position_for_timestamp(greatest);
    let mut reader = SegmentReader::new(fetcher, &segment, None, position);
    let fits = |header: &BatchHeader| header.max_timestamp >= greatest;
    match reader.next_batch(fits).await? {
        Some((header, bytes)) => {
            first_record(&segment, &header, bytes, |_, time| time >= header.max_timestamp)
        }
        None => Ok(None),
    }
}

fn first_record(
    segment: &SegmentRef,
    header: &BatchHeader,
    bytes: Bytes,
    fits: impl Fn(Offset, i64) -> bool,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let corrupt = |why: String| {
        TieringError::corrupt(&segment.key, format!("batch at {}: {why}", header.base_offset))
    };
    let batch = Batch::from_bytes(bytes).map_err(|error| corrupt(error.to_string()))?;
    let leader_epoch = header.partition_leader_epoch;
    // All records of a batch that the broker stamped have the batch's time (O-5).
    let stamped = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
    let records = strandline_records::records(&batch, MAX_DECOMPRESSED_BYTES)
        .map_err(|error| corrupt(error.to_string()))?;
    for record in records {
        let record = record.map_err(|error| corrupt(error.to_string()))?;
        let timestamp = if stamped { header.max_timestamp } else { record.timestamp };
        if fits(record.offset, timestamp) {
            return Ok(Some(TimestampedOffset { offset: record.offset, timestamp, leader_epoch }));
        }
    }
    Ok(None)
}
