//! InitProducerId for a transactional id.
//!
//! Rules: T-3, T-4.

use std::collections::BTreeSet;

use strandline_coordinator::Producer;
use strandline_types::{NO_PRODUCER_EPOCH, ProducerId};

use super::fence;
use crate::error::TransactionError;
use crate::request::InitProducerIdRequest;
use crate::state::TransactionState;
use crate::transaction::{LAST_EPOCH, NO_START_MS, Transaction, TransactionVersion};

/// What InitProducerId does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InitDecision {
    /// The transaction gets a new producer, or the same with a new epoch.
    Become(Transaction),
    /// A transaction is ongoing: it is aborted with an epoch that nobody gets, and the client must
    /// come back (T-3).
    Fence(Transaction),
}

/// True if the answer will need a producer id that was never used.
pub(crate) fn needs_producer_id(
    current: Option<&Transaction>,
    request: &InitProducerIdRequest,
) -> bool {
    let Some(current) = current else { return true };
    rotates(current, request)
}

/// T-3: the epochs are used up, and it is not a client that wants an older answer again.
fn rotates(current: &Transaction, request: &InitProducerIdRequest) -> bool {
    let is_settled = current.state == TransactionState::Empty || current.state.is_complete();
    let is_current = |expected: Producer| expected.epoch == current.producer.epoch;
    is_settled && current.is_exhausted() && request.expected.is_none_or(is_current)
}

/// Decides; `fresh` is a producer id that was never used.
pub(crate) fn init_producer_id(
    current: &Transaction,
    request: &InitProducerIdRequest,
    fresh: Option<ProducerId>,
    now_ms: i64,
) -> Result<InitDecision, TransactionError> {
    if !request.expected.is_none_or(|p| may_be(current, p)) {
        return Err(TransactionError::ProducerFenced);
    }
    match current.state {
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
            Err(TransactionError::ConcurrentTransactions)
        }
        TransactionState::Ongoing => {
            // Only who holds the current epoch may end this transaction; a zombie may not.
            if request.expected.is_some_and(|p| p != current.producer) {
                return Err(TransactionError::ProducerFenced);
            }
            Ok(InitDecision::Fence(fence(current, now_ms)))
        }
        TransactionState::Empty
        | TransactionState::CompleteCommit
        | TransactionState::CompleteAbort => {
            if rotates(current, request) {
                let fresh = fresh.ok_or(TransactionError::CoordinatorNotAvailable)?;
                return Ok(InitDecision::Become(rotate(
                    current, request, fresh, now_ms,
                )));
            }
            bump(current, request, now_ms).map(InitDecision::Become)
        }
        TransactionState::Dead | TransactionState::PrepareEpochFence => {
            Err(TransactionError::UnknownServerError)
        }
    }
}

/// T-4: the client speaks of this producer, or of the one before it whose epochs were used up.
fn may_be(current: &Transaction, expected: Producer) -> bool {
    current.producer.epoch == NO_PRODUCER_EPOCH
        || expected.id == current.producer.id
        || (expected.id == current.previous_producer_id && expected.epoch >= LAST_EPOCH)
}

fn initialised(current: &Transaction, request: &InitProducerIdRequest, now_ms: i64) -> Transaction {
    Transaction {
        timeout_ms: request.timeout_ms,
        state: TransactionState::Empty,
        partitions: BTreeSet::new(),
        start_ms: NO_START_MS,
        last_update_ms: now_ms,
        client_version: TransactionVersion::V0,
        ..current.clone()
    }
}

fn bump(
    current: &Transaction,
    request: &InitProducerIdRequest,
    now_ms: i64,
) -> Result<Transaction, TransactionError> {
    let epoch = current.producer.epoch;
    let mut next = initialised(current, request, now_ms);
    match request.expected {
        // The answer to an earlier attempt was lost: the same again (T-4).
        Some(expected)
            if epoch != NO_PRODUCER_EPOCH
                && expected.epoch != epoch
                && expected.epoch == current.last_producer_epoch =>
        {
            return Ok(next);
        }
        Some(expected) if epoch == NO_PRODUCER_EPOCH || expected.epoch == epoch => {
            next.last_producer_epoch = epoch;
        }
        Some(_) => return Err(TransactionError::ProducerFenced),
        // Somebody else: whoever was there before is fenced.
        None => next.last_producer_epoch = NO_PRODUCER_EPOCH,
    }
    next.producer.epoch = epoch
        .checked_add(1)
        .filter(|bumped| *bumped <= LAST_EPOCH)
        .ok_or(TransactionError::ProducerFenced)?;
    Ok(next)
}

fn rotate(
    current: &Transaction,
    request: &InitProducerIdRequest,
    fresh: ProducerId,
    now_ms: i64,
) -> Transaction {
    let old = current.producer;
    Transaction {
        producer: Producer {
            id: fresh,
            epoch: 0,
        },
        last_producer_epoch: match request.expected {
            Some(_) => old.epoch,
            None => NO_PRODUCER_EPOCH,
        },
        previous_producer_id: old.id,
        ..initialised(current, request, now_ms)
    }
}
