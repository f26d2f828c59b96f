//! Who waits until nothing is under way any more for a transactional id.
//!
//! An end is answered before its markers are written (T-31), so the next request of the same client
//! often comes a moment too early. Told to come back, it would come much later than it could.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strandline_transaction_coordinator::{TransactionError, TransactionShard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::coordinators::runtime::Runtime;

/// How long the end of the last transaction may be waited for (P-71).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// `add.partitions.to.txn.retry.backoff.ms`: the longest wait between two attempts.
    pub(crate) backoff: Duration,
    /// `add.partitions.to.txn.retry.backoff.max.ms`.
    pub(crate) max: Duration,
}

/// The requests that wait, by transactional id.
#[derive(Debug, Default)]
pub(super) struct Patient {
    waiting: Mutex<HashMap<Box<str>, Arc<Notify>>>,
}

impl Patient {
    /// The id is free again.
    pub(super) fn tell(&self, transactional_id: &str) {
        let waiting = self.waiting.lock().remove(transactional_id);
        if let Some(waiting) = waiting {
            waiting.notify_waiters();
        }
    }

    fn watch(&self, transactional_id: &str) -> Arc<Notify> {
        let mut waiting = self.waiting.lock();
        Arc::clone(waiting.entry(transactional_id.into()).or_default())
    }

    /// For the attempts of one request.
    pub(super) fn attempts<'a>(
        &'a self,
        shard: &'a Runtime<TransactionShard>,
        transactional_id: &'a str,
        patience: Patience,
    ) -> Attempts<'a> {
        Attempts {
            patient: self,
            shard,
            transactional_id,
            backoff: patience.backoff,
            deadline: Instant::now() + patience.max,
        }
    }
}

/// The attempts of one request.
pub(super) struct Attempts<'a> {
    patient: &'a Patient,
    shard: &'a Runtime<TransactionShard>,
    transactional_id: &'a str,
    backoff: Duration,
    deadline: Instant,
}

impl Attempts<'_> {
    /// True when there shall be another one after this answer, and it is time for it.
    pub(super) async fn go_on<T>(&self, answer: &Result<T, TransactionError>) -> bool {
        let is_early = matches!(answer, Err(TransactionError::ConcurrentTransactions));
        if !is_early || Instant::now() >= self.deadline {
            return false;
        }
        let watched = self.patient.watch(self.transactional_id);
        let told = watched.notified();
        let is_free = |machine: &TransactionShard| machine.is_free(self.transactional_id);
        if !self.shard.read(is_free) && tokio::time::timeout(self.backoff, told).await.is_err() {
            // Whoever else waits on it asks again a little later.
            self.patient.waiting.lock().remove(self.transactional_id);
        }
        true
    }
}
