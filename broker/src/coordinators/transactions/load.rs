//! Rebuilds a transaction coordinator from its partition of `__transaction_state` (T-32).

use std::collections::HashMap;

use bytes::Bytes;
use strandline_coordinator::RecordError;
use strandline_records::{Batch, records};
use strandline_transaction_coordinator::Loader;
use strandline_types::Offset;

use crate::coordinators::batches::{self, LoadError, MAX_DECOMPRESSED_BYTES};
use crate::partition::Partition;

/// Rebuilds the state of a coordinator; blocks on the disk.
pub(super) fn load(partition: &Partition) -> Result<Loader, LoadError> {
    let mut loading = Loading::default();
    batches::for_each(partition, |batch| loading.feed_batch(batch))?;
    loading.finish()
}

/// What is read so far, and the keys whose newest record cannot be read. Passed over, it would leave the
/// state before it in force: a commit that the client was told of would be aborted (T-32). One that
/// another record has replaced says nothing any more.
#[derive(Default)]
struct Loading {
    loader: Loader,
    damaged: HashMap<Bytes, (Offset, RecordError)>,
}

impl Loading {
    fn feed_batch(&mut self, batch: &Batch) -> Result<(), LoadError> {
        if batch.header().attributes.is_control() {
            return Ok(());
        }
        for record in records(batch, MAX_DECOMPRESSED_BYTES)? {
            let record = record?;
            if let Some(key) = record.key {
                self.feed(record.offset, key, record.value.as_deref());
            }
        }
        Ok(())
    }

    fn feed(&mut self, offset: Offset, key: Bytes, value: Option<&[u8]>) {
        match self.loader.feed(&key, value) {
            Ok(()) => self.damaged.remove(&key),
            Err(error) => self.damaged.insert(key, (offset, error)),
        };
    }

    fn finish(self) -> Result<Loader, LoadError> {
        let first = self.damaged.into_values().min_by_key(|(offset, _)| *offset);
        match first {
            None => Ok(self.loader),
            Some((offset, error)) => Err(LoadError::Record(offset, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // T-32
    #[test]
    fn a_damaged_record_counts_until_it_is_replaced() {
        let key = |id: &str| {
            let length = (id.len() as i16).to_be_bytes();
            Bytes::from([&[0, 0], &length[..], id.as_bytes()].concat())
        };
        let mut loading = Loading::default();
        loading.feed(1, key("a"), Some(&[0, 9]));
        loading.feed(2, key("b"), None);
        loading.feed(3, key("a"), None);
        loading.finish().unwrap();
        let mut loading = Loading::default();
        loading.feed(1, key("a"), None);
        loading.feed(2, key("b"), Some(&[0, 9]));
        loading.feed(3, key("a"), Some(&[0, 9]));
        let error = loading.finish().unwrap_err();
        assert!(matches!(error, LoadError::Record(2, _)), "{error}");
    }
}
