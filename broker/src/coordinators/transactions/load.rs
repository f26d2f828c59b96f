//! Rebuilds a transaction coordinator from its partition of `__transaction_state` (T-32).

use strandline_records::{Batch, records};
use strandline_transaction_coordinator::Loader;

use crate::coordinators::batches::{self, LoadError, MAX_DECOMPRESSED_BYTES};
use crate::partition::Partition;

/// Rebuilds the state of a coordinator; blocks on the disk.
pub(super) fn load(partition: &Partition) -> Result<Loader, LoadError> {
    let mut loader = Loader::new();
    batches::for_each(partition, |batch| feed(&mut loader, batch))?;
    Ok(loader)
}

fn feed(loader: &mut Loader, batch: &Batch) -> Result<(), LoadError> {
    if batch.header().attributes.is_control() {
        return Ok(());
    }
    for record in records(batch, MAX_DECOMPRESSED_BYTES)? {
        let record = record?;
        let Some(key) = &record.key else { continue };
        // Passed over, it would leave the state before it in force: a commit that the client was told of
        // would be aborted (T-32).
        let fed = loader.feed(key, record.value.as_deref());
        fed.map_err(|e| LoadError::Record(record.offset, e))?;
    }
    Ok(())
}
