//! Rebuilds a group coordinator from its partition of `__consumer_offsets` (G-71, G-62, T-43).

use strandline_group_coordinator::Loader;
use strandline_records::{Batch, EndTransactionMarker, records};

use crate::coordinators::batches::{self, LoadError, MAX_DECOMPRESSED_BYTES};
use crate::partition::Partition;

/// Rebuilds the state of a coordinator; blocks on the disk.
pub(super) fn load(partition: &Partition) -> Result<Loader, LoadError> {
    let mut loader = Loader::new();
    batches::for_each(partition, |batch| feed(&mut loader, batch, partition))?;
    Ok(loader)
}

fn feed(loader: &mut Loader, batch: &Batch, partition: &Partition) -> Result<(), LoadError> {
    let header = batch.header();
    if header.attributes.is_control() {
        if let Some(marker) = EndTransactionMarker::of_batch(batch)? {
            loader.feed_marker(header.producer_id, marker.committed);
        }
        return Ok(());
    }
    for record in records(batch, MAX_DECOMPRESSED_BYTES)? {
        let record = record?;
        let Some(key) = &record.key else { continue };
        let value = record.value.as_deref();
        let fed = if header.attributes.is_transactional() {
            loader.feed_transactional(header.producer_id, key, value)
        } else {
            loader.feed(key, value)
        };
        if let Err(e) = fed {
            // A tool wrote it; what it meant is unknown, and the others must not suffer.
            let (partition, offset) = (&partition.id, record.offset);
            tracing::warn!(%partition, offset, error = %e, "unreadable record is passed over");
        }
    }
    Ok(())
}
