//! Reads a partition of an internal topic from its beginning (G-71).

use bytes::Bytes;
use strandline_coordinator::RecordError;
use strandline_log::{FetchPart, LogError};
use strandline_records::{Batch, BatchError, BatchHeader};
use strandline_types::Offset;

use crate::partition::Partition;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 4 << 20;
/// Our own records are not compressed; what a tool wrote may be.
pub(super) const MAX_DECOMPRESSED_BYTES: usize = 64 << 20;

/// Why a coordinator cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("read the partition")]
    Log(#[from] LogError),
    #[error("nothing can be read at offset {0}")]
    NoProgress(Offset),
    #[error("read a segment file")]
    Io(#[from] std::io::Error),
    #[error("decode a batch")]
    Batch(#[from] BatchError),
    #[error("decode the record at offset {0}: {1}")]
    Record(Offset, RecordError),
}

/// Shows every batch in the order of the log; blocks on the disk.
pub(super) fn for_each(
    partition: &Partition,
    mut feed: impl FnMut(&Batch) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let mut end = partition.log.written_end_offset();
    let mut at = partition.log.log_start_offset();
    while at < end {
        let read = partition.log.read(at, CHUNK_BYTES, end, true)?;
        if read.end_offset <= at {
            // What was left below the end was replaced by what has come behind it (L-47).
            let now = partition.log.written_end_offset();
            if now <= end {
                return Err(LoadError::NoProgress(at));
            }
            end = now;
            continue;
        }
        for part in &read.parts {
            feed_part(part, &mut feed)?;
        }
        at = read.end_offset;
    }
    Ok(())
}

fn feed_part(
    part: &FetchPart,
    feed: &mut impl FnMut(&Batch) -> Result<(), LoadError>,
) -> Result<(), LoadError> {
    let mut bytes: Bytes = match part {
        FetchPart::Batch(batch) => return feed(batch),
        other => other.to_bytes()?,
    };
    while !bytes.is_empty() {
        let size = BatchHeader::parse(&bytes)?.size_in_bytes();
        if size > bytes.len() {
            return Err(BatchError::Truncated {
                have: bytes.len(),
                need: size,
            }
            .into());
        }
        feed(&Batch::from_bytes(bytes.split_to(size))?)?;
    }
    Ok(())
}
