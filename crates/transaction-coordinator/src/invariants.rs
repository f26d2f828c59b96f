//! What holds between any two calls into a shard; for tests and simulators.
//!
//! Invariants: TC-1…TC-6.

use strandline_types::NO_PRODUCER_ID;

use crate::shard::{Entry, TimerKey, TransactionShard};
use crate::state::TransactionState;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id}: {claim} (transactional id {transactional_id})")]
pub struct BrokenInvariant {
    /// Its id.
    pub id: &'static str,
    /// What it claims.
    pub claim: &'static str,
    /// Where it does not hold.
    pub transactional_id: String,
}

type Rule = (
    &'static str,
    &'static str,
    fn(&TransactionShard, &str, &Entry) -> bool,
);

const RULES: [Rule; 5] = [
    (
        "TC-1",
        "a pending change is an append under way",
        |shard, _, entry| entry.pending.is_none_or(|token| shard.is_staged(token)),
    ),
    (
        "TC-2",
        "only an ongoing or prepared transaction has partitions, and an ongoing one has a start",
        |_, _, entry| {
            let t = &entry.transaction;
            let is_open = t.state == TransactionState::Ongoing || t.state.is_prepared();
            (is_open || t.partitions.is_empty()) && (!is_open || t.start_ms >= 0)
        },
    ),
    (
        "TC-3",
        "markers are missing only on partitions of a prepared end",
        |_, _, entry| {
            let t = &entry.transaction;
            entry.unmarked.is_empty()
                || (t.state.is_prepared() && entry.unmarked.is_subset(&t.partitions))
        },
    ),
    (
        "TC-4",
        "a prepared end waits for markers, for its last append, or for another attempt",
        |shard, id, entry| {
            let retry = TimerKey::Complete(id.into());
            !entry.transaction.state.is_prepared()
                || !entry.unmarked.is_empty()
                || entry.pending.is_some()
                || shard.parts().1.is_set(&retry)
        },
    ),
    (
        "TC-5",
        "a next producer id is known only while an end is prepared",
        |_, _, entry| {
            let t = &entry.transaction;
            t.next_producer_id == NO_PRODUCER_ID || t.state.is_prepared()
        },
    ),
];

impl TransactionShard {
    /// Checks every invariant of every transactional id.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), BrokenInvariant> {
        let (entries, timers) = self.parts();
        for (transactional_id, entry) in entries {
            for (id, claim, holds) in RULES {
                if !holds(self, transactional_id, entry) {
                    return Err(BrokenInvariant {
                        id,
                        claim,
                        transactional_id: transactional_id.to_string(),
                    });
                }
            }
        }
        let is_ongoing = |e: &Entry| e.transaction.state == TransactionState::Ongoing;
        if let Some((id, _)) = entries.iter().find(|(_, e)| is_ongoing(e))
            && !timers.is_set(&TimerKey::AbortScan)
        {
            return Err(BrokenInvariant {
                id: "TC-6",
                claim: "while a transaction is ongoing, the scan for late ones has a deadline",
                transactional_id: id.to_string(),
            });
        }
        Ok(())
    }
}
