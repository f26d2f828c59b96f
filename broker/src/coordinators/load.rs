//! Reads a partition of `__consumer_offsets` from its beginning (G-71).

use bytes::Bytes;
use strandline_group_coordinator::Loader;
use strandline_log::{FetchPart, LogError};
use strandline_records::{Batch, BatchError, BatchHeader, records};

use crate::partition::Partition;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 4 << 20;
/// Our own records are not compressed; what a tool wrote may be.
const MAX_DECOMPRESSED_BYTES: usize = 64 << 20;

/// Why a coordinator cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error("read the partition")]
    Log(#[from] LogError),
    #[error("read a segment file")]
    Io(#[from] std::io::Error),
    #[error("decode a batch")]
    Batch(#[from] BatchError),
}

/// Rebuilds the state of a coordinator; blocks on the disk.
pub(super) fn load(partition: &Partition) -> Result<Loader, LoadError> {
    let end = partition.log.written_end_offset();
    let mut loader = Loader::new();
    let mut at = partition.log.log_start_offset();
    while at < end {
        let read = partition.log.read(at, CHUNK_BYTES, end, true)?;
        if read.end_offset <= at {
            break;
        }
        for part in &read.parts {
            feed_part(&mut loader, part, partition)?;
        }
        at = read.end_offset;
    }
    Ok(loader)
}

fn feed_part(
    loader: &mut Loader,
    part: &FetchPart,
    partition: &Partition,
) -> Result<(), LoadError> {
    let mut bytes: Bytes = match part {
        FetchPart::Batch(batch) => return feed(loader, batch, partition),
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
        feed(loader, &Batch::from_bytes(bytes.split_to(size))?, partition)?;
    }
    Ok(())
}

fn feed(loader: &mut Loader, batch: &Batch, partition: &Partition) -> Result<(), LoadError> {
    // Transactional offsets and their markers come with the transaction coordinator.
    if batch.header().attributes.is_control() {
        return Ok(());
    }
    for record in records(batch, MAX_DECOMPRESSED_BYTES)? {
        let record = record?;
        let Some(key) = &record.key else { continue };
        if let Err(e) = loader.feed(key, record.value.as_deref()) {
            // A tool wrote it; what it meant is unknown, and the others must not suffer.
            let (partition, offset) = (&partition.id, record.offset);
            tracing::warn!(%partition, offset, error = %e, "unreadable record is passed over");
        }
    }
    Ok(())
}
