//! The requests that only read.
//!
//! Rules: P-70, T-12, API 65 and 66.

use std::collections::BTreeMap;

use strandline_coordinator::Producer;
use strandline_types::TopicPartition;

use super::{MAX_TEXT_BYTES, TransactionShard};
use crate::decide;
use crate::error::TransactionError;
use crate::query::{ListedTransaction, TransactionFilter};
use crate::state::TransactionState;
use crate::transaction::Transaction;

impl TransactionShard {
    /// Which of the partitions are in the producer's ongoing transaction, in their order (P-70). A
    /// change that is under way does not count; the append itself is checked once more (P-74).
    ///
    /// # Errors
    /// As AddPartitions.
    pub fn verify_partitions(
        &self,
        transactional_id: &str,
        producer: Producer,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Result<(), TransactionError>>, TransactionError> {
        if transactional_id.is_empty() {
            return Err(TransactionError::InvalidRequest);
        }
        self.check_active()?;
        let entry = self.entry(transactional_id)?;
        decide::verify_partitions(&entry.transaction, producer, partitions)
    }

    /// One id of DescribeTransactions.
    ///
    /// # Errors
    /// TRANSACTIONAL_ID_NOT_FOUND; the shard loads or is not the coordinator.
    pub fn describe(&self, transactional_id: &str) -> Result<&Transaction, TransactionError> {
        if transactional_id.is_empty() || transactional_id.len() > MAX_TEXT_BYTES {
            return Err(TransactionError::InvalidRequest);
        }
        self.check_active()?;
        let entry = self.entry(transactional_id);
        entry
            .map(|entry| &entry.transaction)
            .map_err(|_| TransactionError::TransactionalIdNotFound)
    }

    /// The transactions that pass the filter, in order of their ids.
    ///
    /// # Errors
    /// The shard loads or is not the coordinator; the latter should just be left out of the list.
    pub fn list(
        &self,
        filter: &TransactionFilter,
        now_ms: i64,
    ) -> Result<Vec<ListedTransaction>, TransactionError> {
        self.check_active()?;
        let passes = |transaction: &Transaction| {
            let has_begun_before = |longer_than_ms: i64| {
                transaction.start_ms >= 0
                    && now_ms.saturating_sub(transaction.start_ms) > longer_than_ms
            };
            transaction.producer.epoch >= 0
                && !filter.matches_nothing
                && (filter.states.is_empty() || filter.states.contains(&transaction.state))
                && (filter.producer_ids.is_empty()
                    || filter.producer_ids.contains(&transaction.producer.id))
                && filter.longer_than_ms.is_none_or(has_begun_before)
        };
        let listed = self.entries.iter().filter(|(_, e)| passes(&e.transaction));
        let listed = listed.map(|(id, e)| ListedTransaction {
            transactional_id: id.to_string(),
            producer: e.transaction.producer,
            state: e.transaction.state,
        });
        Ok(listed.collect())
    }

    /// How many transactional ids are in each state.
    pub fn state_counts(&self) -> BTreeMap<TransactionState, usize> {
        let mut counts = BTreeMap::new();
        for entry in self.entries.values() {
            *counts.entry(entry.transaction.state).or_insert(0) += 1;
        }
        counts
    }

    /// When the oldest transaction that has not ended began, in ms since the Unix epoch.
    pub fn oldest_open_start_ms(&self) -> Option<i64> {
        let is_open =
            |t: &&Transaction| t.state == TransactionState::Ongoing || t.state.is_prepared();
        let transactions = self.entries.values().map(|e| &e.transaction);
        transactions.filter(is_open).map(|t| t.start_ms).min()
    }
}
