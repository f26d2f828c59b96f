//! Rebuilds the state of a shard from the records of its partition.
//!
//! Rules: T-32, section 5.1.

use std::collections::BTreeMap;

use strandline_coordinator::RecordError;

use crate::records::{RecordKey, decode_value};
use crate::transaction::Transaction;

/// Takes the records of a partition in the order of the log; the last of each key counts.
#[derive(Debug, Default)]
pub struct Loader {
    transactions: BTreeMap<String, Transaction>,
    ignored_count: u64,
}

impl Loader {
    /// Nothing loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one record; without a value it is a tombstone. After an error the record is as if it
    /// had not been there, and the caller may go on.
    ///
    /// # Errors
    /// The record has a known key version and does not have Kafka's format.
    pub fn feed(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RecordError> {
        match (RecordKey::decode(key)?, value) {
            (RecordKey::TransactionalId(id), Some(value)) => {
                self.transactions.insert(id, decode_value(value)?);
            }
            (RecordKey::TransactionalId(id), None) => {
                self.transactions.remove(&id);
            }
            (RecordKey::Other { version }, _) => {
                tracing::debug!(
                    version,
                    "ignored a transaction record of an unknown version"
                );
                self.ignored_count += 1;
            }
        }
        Ok(())
    }

    /// Records with key versions that are not understood.
    pub fn ignored_count(&self) -> u64 {
        self.ignored_count
    }

    pub(crate) fn finish(self) -> BTreeMap<String, Transaction> {
        self.transactions
    }
}
