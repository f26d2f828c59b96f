//! Which partitions belong to a transaction: adding and asking.
//!
//! Rules: T-10…T-12, P-70, P-71.

use strandline_coordinator::Producer;
use strandline_types::TopicPartition;

use crate::error::TransactionError;
use crate::request::AddPartitionsRequest;
use crate::state::TransactionState;
use crate::transaction::Transaction;

/// T-11: may this producer work on the transaction now?
fn check(current: &Transaction, producer: Producer) -> Result<(), TransactionError> {
    if current.state.is_prepared() && producer == current.next_producer() {
        return Err(TransactionError::ConcurrentTransactions);
    }
    if current.producer.id != producer.id {
        return Err(TransactionError::InvalidProducerIdMapping);
    }
    if current.producer.epoch != producer.epoch {
        return Err(TransactionError::ProducerFenced);
    }
    if current.state.is_prepared() {
        return Err(TransactionError::ConcurrentTransactions);
    }
    Ok(())
}

/// The transaction with more partitions; `None` if it has them all.
pub(crate) fn add_partitions(
    current: &Transaction,
    request: &AddPartitionsRequest,
    now_ms: i64,
) -> Result<Option<Transaction>, TransactionError> {
    check(current, request.producer)?;
    let is_ongoing = current.state == TransactionState::Ongoing;
    let has_all = || {
        let mut asked = request.partitions.iter();
        asked.all(|partition| current.partitions.contains(partition))
    };
    if is_ongoing && has_all() {
        return Ok(None);
    }
    let mut next = current.clone();
    if !is_ongoing {
        next.partitions.clear();
        next.start_ms = now_ms;
    }
    next.state = TransactionState::Ongoing;
    next.partitions.extend(request.partitions.iter().cloned());
    next.last_update_ms = now_ms;
    next.client_version = request.client_version;
    Ok(Some(next))
}

/// The verdict for each partition, in their order (P-70).
pub(crate) fn verify_partitions(
    current: &Transaction,
    producer: Producer,
    partitions: &[TopicPartition],
) -> Result<Vec<Result<(), TransactionError>>, TransactionError> {
    check(current, producer)?;
    let is_ongoing = current.state == TransactionState::Ongoing;
    let verdict = |partition| {
        if is_ongoing && current.partitions.contains(partition) {
            Ok(())
        } else {
            Err(TransactionError::TransactionAbortable)
        }
    };
    Ok(partitions.iter().map(verdict).collect())
}
