//! How a transaction ends: at the client's word, by a fence, and when all markers are written.
//!
//! Rules: T-30…T-33, T-50, the table of 5.5.

use std::collections::BTreeSet;

use strandline_coordinator::Producer;
use strandline_types::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId};

use crate::error::TransactionError;
use crate::request::EndTxnRequest;
use crate::state::TransactionState;
use crate::transaction::{LAST_EPOCH, NO_START_MS, Transaction};

/// What EndTxn does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndDecision {
    /// The end is prepared.
    Prepare(Transaction),
    /// It had ended so already; who the client is from now on.
    Done(Producer),
}

/// Decides; `fresh` is a producer id that was never used, for when the epochs are used up.
pub(crate) fn end(
    current: &Transaction,
    request: &EndTxnRequest,
    fresh: Option<ProducerId>,
    now_ms: i64,
) -> Result<EndDecision, TransactionError> {
    if current.state.is_prepared() && request.producer == current.next_producer() {
        // The client has the answer to the last end already and is faster than its markers.
        return prepared(current, request);
    }
    let repeats = repeats_last_end(current, request);
    if current.producer.id != request.producer.id && !repeats {
        return Err(TransactionError::InvalidProducerIdMapping);
    }
    if current.producer.epoch != request.producer.epoch && !repeats {
        return Err(TransactionError::ProducerFenced);
    }
    let invalid = Err(TransactionError::InvalidTxnState);
    let bumps = request.client_version.bumps_epoch();
    match current.state {
        TransactionState::Ongoing => prepare(current, request, fresh, now_ms),
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
            prepared(current, request)
        }
        TransactionState::CompleteCommit | TransactionState::CompleteAbort if repeats || !bumps => {
            let was_committed = current.state == TransactionState::CompleteCommit;
            if was_committed == request.committed {
                Ok(EndDecision::Done(current.producer))
            } else {
                invalid
            }
        }
        // The next end of a client of the second generation that has written nothing since: it may
        // abort, which gives it a new epoch.
        TransactionState::Empty
        | TransactionState::CompleteCommit
        | TransactionState::CompleteAbort => {
            if bumps && !request.committed {
                prepare(current, request, fresh, now_ms)
            } else {
                invalid
            }
        }
        TransactionState::Dead | TransactionState::PrepareEpochFence => {
            Err(TransactionError::UnknownServerError)
        }
    }
}

/// T-33: the answer to the end that raised the epoch was lost, and the client asks again.
fn repeats_last_end(current: &Transaction, request: &EndTxnRequest) -> bool {
    let asked = request.producer;
    let bumped = asked.epoch.checked_add(1);
    // The epoch that is kept for fencing is given to nobody (T-3).
    let is_given =
        current.producer.epoch <= LAST_EPOCH || current.next_producer_id != NO_PRODUCER_ID;
    let is_same_id =
        is_given && current.producer.id == asked.id && bumped == Some(current.producer.epoch);
    let is_after_overflow = current.state.is_complete()
        && current.previous_producer_id == asked.id
        && asked.epoch == LAST_EPOCH
        && current.producer.epoch == 0;
    let has_ended = current.state.is_prepared() || current.state.is_complete();
    let both_bump = current.client_version.bumps_epoch() && request.client_version.bumps_epoch();
    has_ended && both_bump && (is_same_id || is_after_overflow)
}

/// The end is decided, and not done yet.
fn prepared(
    current: &Transaction,
    request: &EndTxnRequest,
) -> Result<EndDecision, TransactionError> {
    let commits = current.state == TransactionState::PrepareCommit;
    let is_next = request.client_version.bumps_epoch()
        && current.client_version.bumps_epoch()
        && request.producer == current.next_producer();
    if commits == request.committed || is_next {
        Err(TransactionError::ConcurrentTransactions)
    } else {
        Err(TransactionError::InvalidTxnState)
    }
}

fn prepare(
    current: &Transaction,
    request: &EndTxnRequest,
    fresh: Option<ProducerId>,
    now_ms: i64,
) -> Result<EndDecision, TransactionError> {
    let mut next = current.clone();
    next.state = if request.committed {
        TransactionState::PrepareCommit
    } else {
        TransactionState::PrepareAbort
    };
    next.client_version = request.client_version;
    next.last_update_ms = now_ms;
    if current.state != TransactionState::Ongoing {
        next.partitions.clear();
        next.start_ms = now_ms;
    }
    if request.client_version.bumps_epoch() {
        if current.is_exhausted() {
            next.next_producer_id = fresh.ok_or(TransactionError::CoordinatorNotAvailable)?;
        }
        next.last_producer_epoch = current.producer.epoch;
        next.producer.epoch = current.producer.epoch.saturating_add(1);
    }
    Ok(EndDecision::Prepare(next))
}

/// Aborts an ongoing transaction under the next epoch: who had it is fenced (T-50). A client of the
/// second generation that wants it aborted, too, is given that epoch as by any other end (T-33); one
/// that wants it committed learns that it is not (5.5).
pub(crate) fn fence(current: &Transaction, now_ms: i64) -> Transaction {
    let mut next = current.clone();
    next.producer.epoch = current.producer.epoch.saturating_add(1);
    next.last_producer_epoch = NO_PRODUCER_EPOCH;
    next.state = TransactionState::PrepareAbort;
    next.last_update_ms = now_ms;
    next
}

/// All markers of a prepared end are written.
pub(crate) fn complete(current: &Transaction, now_ms: i64) -> Transaction {
    let mut next = current.clone();
    next.state = if current.state == TransactionState::PrepareCommit {
        TransactionState::CompleteCommit
    } else {
        TransactionState::CompleteAbort
    };
    if current.next_producer_id != NO_PRODUCER_ID {
        next.previous_producer_id = current.producer.id;
        next.producer = current.next_producer();
        next.next_producer_id = NO_PRODUCER_ID;
    }
    next.partitions = BTreeSet::new();
    if next.start_ms == NO_START_MS {
        next.start_ms = now_ms;
    }
    next.last_update_ms = now_ms;
    next
}
