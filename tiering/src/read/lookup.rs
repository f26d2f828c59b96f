//! Lookups that end at a record: by time, and the greatest time. Rules: O-5, O-9, S-16.

use bytes::Bytes;
use strandline_records::{
    Batch, BatchError, BatchHeader, Compression, MAX_LOOKUP_BYTES, RecordPosition,
    first_record_at_or_after, max_timestamp_record,
};
use strandline_types::{LeaderEpoch, NO_TIMESTAMP, Offset};

use super::fill::{Fetcher, SegmentRef};
use super::reader::SegmentReader;
use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::manifest::{ManifestView, SegmentEntry};

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
            let found = in_batch(&segment, &header, bytes, move |batch| {
                let found = first_record_at_or_after(batch, timestamp, from, MAX_LOOKUP_BYTES);
                or_unread(batch, found, |header| {
                    RecordPosition::first_unread(header, from)
                })
            });
            let found = found.await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        // A batch's greatest timestamp was set wrong, or its records lie below the start.
        from = next;
    }
    Ok(None)
}

/// The first record at or above `from` with the greatest timestamp; `None` without any timestamp.
pub(crate) async fn max_timestamp(
    fetcher: &Fetcher,
    keys: &PartitionKeys,
    view: &ManifestView,
    from: Offset,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let (mut best, mut whole_from) = (None, from);
    let first = view.segment_for_offset(from).await?;
    if let Some(entry) = first.filter(|entry| entry.base_offset < from) {
        // Some of its records are deleted.
        whole_from = entry.next_offset();
        best = greatest_in(fetcher, keys, entry, from).await?;
    }
    let so_far = best.map_or(NO_TIMESTAMP, |found| found.timestamp);
    let greatest = view.segment_with_max_timestamp(whole_from).await?;
    match greatest.filter(|entry| entry.max_timestamp > so_far) {
        Some(entry) => greatest_in(fetcher, keys, entry, from).await,
        None => Ok(best),
    }
}

/// The first record of a segment at or above `from` with the greatest timestamp.
async fn greatest_in(
    fetcher: &Fetcher,
    keys: &PartitionKeys,
    entry: SegmentEntry,
    from: Offset,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let (greatest, is_whole) = (entry.max_timestamp, entry.base_offset >= from);
    let segment = fetcher.segment(keys, entry);
    let position = if is_whole {
        let tail = fetcher.tail(&segment).await?;
        tail.position_for_timestamp(greatest)
    } else {
        0
    };
    let mut reader = SegmentReader::new(fetcher, &segment, None, position);
    let mut best: Option<TimestampedOffset> = None;
    loop {
        let so_far = best.map_or(NO_TIMESTAMP, |found| found.timestamp);
        // Of a whole segment the first batch that names it has it.
        let least = if is_whole { greatest } else { so_far + 1 };
        let fits =
            |header: &BatchHeader| header.max_timestamp >= least && header.last_offset() >= from;
        let Some((header, bytes)) = reader.next_batch(fits).await? else {
            return Ok(best);
        };
        let found = in_batch(&segment, &header, bytes, move |batch| {
            let found = max_timestamp_record(batch, from, MAX_LOOKUP_BYTES);
            or_unread(batch, found, RecordPosition::greatest_unread)
        });
        let found = found.await?;
        best = found.filter(|f| f.timestamp > so_far).or(best);
        if is_whole || best.is_some_and(|found| found.timestamp >= greatest) {
            return Ok(best);
        }
    }
}

/// What was found, or what stands for the records of a batch that cannot be read: the answer is the one that
/// the batch got while it was local.
fn or_unread(
    batch: &Batch,
    found: Result<Option<RecordPosition>, BatchError>,
    unread: impl FnOnce(&BatchHeader) -> RecordPosition,
) -> Option<RecordPosition> {
    let header = batch.header();
    found.unwrap_or_else(|error| {
        tracing::warn!(base_offset = header.base_offset, %error, "records cannot be read");
        Some(unread(&header))
    })
}

/// A batch of more bytes, or a compressed one, is not looked into on a thread that serves connections.
const INLINE_BYTES: usize = 16 << 10;

/// Finds a record of one batch; `find` looks into it.
async fn in_batch(
    segment: &SegmentRef,
    header: &BatchHeader,
    bytes: Bytes,
    find: impl FnOnce(&Batch) -> Option<RecordPosition> + Send + 'static,
) -> Result<Option<TimestampedOffset>, TieringError> {
    let is_small = bytes.len() <= INLINE_BYTES;
    let is_plain = header.attributes.compression() == Ok(Compression::None);
    let look = move || Batch::from_bytes(bytes).map(|batch| find(&batch));
    let found = if is_small && is_plain {
        look()
    } else {
        tokio::task::spawn_blocking(look)
            .await
            .map_err(|_| TieringError::Cancelled)?
    };
    let found = found.map_err(|error| {
        let why = format!("batch at {}: {error}", header.base_offset);
        TieringError::corrupt(&segment.key, why)
    })?;
    Ok(found.map(|record| TimestampedOffset {
        offset: record.offset,
        timestamp: record.timestamp,
        leader_epoch: header.partition_leader_epoch,
    }))
}
