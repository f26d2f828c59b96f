//! The two lookups by time inside a batch: the first record at or after a time, and the record
//! with the greatest (O-5, O-9).

use std::ops::ControlFlow;

use strandline_types::{NO_TIMESTAMP, Offset};

use super::{RecordHead, walk};
use crate::batch::{Batch, BatchHeader};
use crate::error::BatchError;

/// A lookup does not look into a batch that decompresses to more bytes than this, in whichever tier it is.
pub const MAX_LOOKUP_BYTES: usize = 256 * 1024 * 1024;

impl RecordHead {
    fn position(&self) -> RecordPosition {
        RecordPosition {
            offset: self.offset,
            timestamp: self.timestamp,
        }
    }
}

/// Where a lookup by time ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPosition {
    /// Offset of the record.
    pub offset: Offset,
    /// Timestamp of the record in ms.
    pub timestamp: i64,
}

impl RecordPosition {
    /// What stands for the first record at or after `from` where those of the batch cannot be read: they
    /// were stored unchecked, or are too large. Else a lookup would never get past the batch.
    pub fn first_unread(header: &BatchHeader, from: Offset) -> Self {
        Self {
            offset: header.base_offset.max(from),
            timestamp: header.max_timestamp,
        }
    }

    /// What stands there for the record with the greatest timestamp.
    pub fn greatest_unread(header: &BatchHeader) -> Self {
        Self {
            offset: header.last_offset(),
            timestamp: header.max_timestamp,
        }
    }
}

/// The first record of `batch` at or after both a timestamp and an offset (O-5), `None` when there
/// is none. Errors as [`walk`].
pub fn first_record_at_or_after(
    batch: &Batch,
    timestamp: i64,
    from: Offset,
    max_decompressed_bytes: usize,
) -> Result<Option<RecordPosition>, BatchError> {
    let mut found = None;
    walk(batch, max_decompressed_bytes, |head| {
        if head.timestamp < timestamp || head.offset < from {
            return ControlFlow::Continue(());
        }
        found = Some(head.position());
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Of the records of `batch` at or after an offset the first with the greatest timestamp (O-9),
/// `None` when none has one. A record with the timestamp that the header names ends the search.
/// Errors as [`walk`].
pub fn max_timestamp_record(
    batch: &Batch,
    from: Offset,
    max_decompressed_bytes: usize,
) -> Result<Option<RecordPosition>, BatchError> {
    let named = batch.header().max_timestamp;
    let mut found: Option<RecordPosition> = None;
    walk(batch, max_decompressed_bytes, |head| {
        if head.offset < from {
            return ControlFlow::Continue(());
        }
        let so_far = found.map_or(NO_TIMESTAMP, |record| record.timestamp);
        if head.timestamp > so_far {
            found = Some(head.position());
        }
        if head.timestamp == named {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}
