//! Which producers are about to begin a transaction here while their coordinator is asked whether
//! they may (P-55, P-56, P-70…P-74).
//!
//! A guard is given out before the coordinator is asked and must be shown at the append. A marker
//! that arrives in between drops it, so that an answer from before the end cannot open the ended
//! transaction again.

use std::collections::HashMap;

use strandline_types::{ProducerEpoch, ProducerId};

/// Given out by [`crate::Log::begin_verification`]; good for one transaction of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationGuard(u64);

/// What an append must satisfy beside what every append must; the default asks for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AppendChecks {
    /// A transactional batch must belong to a transaction that is open here, or come with the guard
    /// (P-70, P-74).
    pub must_be_verified: bool,
    /// What [`crate::Log::begin_verification`] gave, after the coordinator's consent.
    pub guard: Option<VerificationGuard>,
    /// A marker must have a higher epoch than the records of the transaction that it ends (T-42).
    pub marker_epoch_must_rise: bool,
}

/// A transactional batch that is about to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationRequest {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
    /// First sequence, -1 for a coordinator's own batch.
    pub base_sequence: i32,
    /// The client's epoch rises with each transaction, so its sequence begins at 0 (P-55).
    pub epoch_rises: bool,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    guard: u64,
    epoch: ProducerEpoch,
    lowest_sequence: i32,
    epoch_rises: bool,
    begun_ms: i64,
}

/// The guards of one log.
#[derive(Debug, Default)]
pub(crate) struct Verifications {
    entries: HashMap<ProducerId, Entry>,
    last_guard: u64,
}

impl Verifications {
    /// The producer's guard: the one that is there, unless it is of an older epoch.
    pub(crate) fn begin(
        &mut self,
        request: &VerificationRequest,
        now_ms: i64,
    ) -> VerificationGuard {
        let known = self.entries.get_mut(&request.producer_id);
        if let Some(entry) = known.filter(|entry| entry.epoch >= request.producer_epoch) {
            if entry.epoch == request.producer_epoch {
                entry.lowest_sequence = entry.lowest_sequence.min(request.base_sequence);
            }
            return VerificationGuard(entry.guard);
        }
        self.last_guard += 1;
        let entry = Entry {
            guard: self.last_guard,
            epoch: request.producer_epoch,
            lowest_sequence: request.base_sequence,
            epoch_rises: request.epoch_rises,
            begun_ms: now_ms,
        };
        self.entries.insert(request.producer_id, entry);
        VerificationGuard(self.last_guard)
    }

    /// True for the guard that the producer was given since its last transaction here ended.
    pub(crate) fn holds(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        guard: Option<VerificationGuard>,
    ) -> bool {
        let entry = self.entry(producer_id, epoch);
        entry.is_some_and(|e| guard == Some(VerificationGuard(e.guard)))
    }

    /// The lowest sequence that the producer tried while it was verified, if it is being verified:
    /// what follows it must wait for it (P-56).
    pub(crate) fn lowest_sequence(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
    ) -> Option<i32> {
        self.entry(producer_id, epoch).map(|e| e.lowest_sequence)
    }

    /// The producer is being verified and begins each transaction at sequence 0 (P-55).
    pub(crate) fn begins_at_zero(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.entry(producer_id, epoch)
            .is_some_and(|e| e.epoch_rises)
    }

    fn entry(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> Option<&Entry> {
        let entry = self.entries.get(&producer_id);
        entry.filter(|e| e.epoch == epoch)
    }

    /// The transaction has begun, or the one before has ended.
    pub(crate) fn end(&mut self, producer_id: ProducerId) {
        self.entries.remove(&producer_id);
    }

    /// The transaction of this epoch will not begin.
    pub(crate) fn refuse(&mut self, producer_id: ProducerId, epoch: ProducerEpoch) {
        if self.entry(producer_id, epoch).is_some() {
            self.entries.remove(&producer_id);
        }
    }

    /// Forgets those that were never used.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.entries
            .retain(|_, e| now_ms.saturating_sub(e.begun_ms) < expiration_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(epoch: i16, sequence: i32) -> VerificationRequest {
        VerificationRequest {
            producer_id: 7,
            producer_epoch: epoch,
            base_sequence: sequence,
            epoch_rises: false,
        }
    }

    // P-74
    #[test]
    fn a_guard_is_good_until_the_next_marker() {
        let mut all = Verifications::default();
        let guard = all.begin(&request(0, 5), 0);
        assert_eq!(all.begin(&request(0, 3), 0), guard);
        assert!(all.holds(7, 0, Some(guard)) && !all.holds(7, 0, None) && !all.holds(8, 0, None));
        assert_eq!(all.lowest_sequence(7, 0), Some(3)); // P-56
        assert_eq!(all.lowest_sequence(7, 1), None);
        all.end(7);
        assert!(!all.holds(7, 0, Some(guard)));
        let next = all.begin(&request(0, 0), 0);
        assert!(next != guard && all.holds(7, 0, Some(next)));
    }

    #[test]
    fn a_newer_epoch_gets_a_guard_of_its_own() {
        let mut all = Verifications::default();
        let old = all.begin(&request(0, 0), 0);
        let new = all.begin(&request(1, 0), 0);
        assert!(old != new && !all.holds(7, 0, Some(old)) && all.holds(7, 1, Some(new)));
        // A refusal of the old one does not concern the new one.
        all.refuse(7, 0);
        assert!(all.holds(7, 1, Some(new)));
        all.refuse(7, 1);
        assert!(all.entries.is_empty());
        let again = all.begin(&request(1, 0), 0);
        all.expire(100, 100);
        assert!(!all.holds(7, 1, Some(again)));
    }
}
