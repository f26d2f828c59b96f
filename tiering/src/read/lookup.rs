//! Lookups that end at a record: by time, and the greatest time. Rules: O-5, O-9, S-16.

use std::ops::ControlFlow;

use bytes::Bytes;
use strandline_records::{
    Batch, BatchError, BatchHeader, RecordPosition, max_timestamp_record, walk,
};
use strandline_types::{LeaderEpoch, Offset};

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
        let position = fetcher
            .tail(&segment)
            .await?
            .position_for_timestamp(timestamp);
        let mut reader = SegmentReader::new(fetcher, &segment, None, position);
        let fits = |header: &BatchHeader| {
            header.max_timestamp >= timestamp && header.last_offset() >= from
        };
        while let Some((header, bytes)) = reader.next_batch(fits).await? {
            let found = in_batch(&segment, &header, bytes, |batch| {
                first_record(batch, timestamp, from)
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
    let Some(entry) = view.segment_with_max_timestamp().await? else {
        return Ok(None);
    };
    let greatest = entry.max_timestamp;
    let segment = fetcher.segment(keys, entry);
    let position = fetcher
        .tail(&segment)
        .await?
        .position_for_timestamp(greatest);
    let mut reader = SegmentReader::new(fetcher, &segment, None, position);
    let fits = |header: &BatchHeader| header.max_timestamp >= greatest;
    match reader.next_batch(fits).await? {
        Some((header, bytes)) => in_batch(&segment, &header, bytes, |batch| {
            max_timestamp_record(batch, MAX_DECOMPRESSED_BYTES)
        }),
        None => Ok(None),
    }
}

/// Finds a record of one batch; `find` looks into it.
fn in_batch(
    segment: &SegmentRef,
    header: &BatchHeader,
    bytes: Bytes,
    find: impl FnOnce(&Batch) -> Result<Option<RecordPosition>, BatchError>,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let found = Batch::from_bytes(bytes)
        .and_then(|batch| find(&batch))
        .map_err(|error| {
            let why = format!("batch at {}: {error}", header.base_offset);
            TieringError::corrupt(&segment.key, why)
        })?;
    Ok(found.map(|record| TimestampedOffset {
        offset: record.offset,
        timestamp: record.timestamp,
        leader_epoch: header.partition_leader_epoch,
    }))
}

fn first_record(
    batch: &Batch,
    timestamp: i64,
    from: Offset,
) -> Result<Option<RecordPosition>, BatchError> {
    let mut found = None;
    walk(batch, MAX_DECOMPRESSED_BYTES, |head| {
        if head.timestamp < timestamp || head.offset < from {
            return ControlFlow::Continue(());
        }
        found = Some(RecordPosition {
            offset: head.offset,
            timestamp: head.timestamp,
        });
        ControlFlow::Break(())
    })?;
    Ok(found)
}
