//! What a log remembers of idempotent and transactional producers (P-50…P-62, F-30, T-41, T-42).

use std::collections::{BTreeMap, HashMap};

use strandline_records::{Batch, BatchHeader, EndTransactionMarker};
use strandline_types::{
    NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, Offset, ProducerEpoch, ProducerId,
};

use crate::error::AppendError;
use crate::transaction_index::AbortedTransaction;
use crate::verification::{AppendChecks, VerificationGuard, VerificationRequest, Verifications};

/// Batches remembered per producer.
pub(crate) const WINDOW: usize = 5;

/// One remembered batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchMemory {
    /// Sequence of the last record.
    pub last_sequence: i32,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// The batch's greatest timestamp in ms.
    pub timestamp: i64,
}

impl BatchMemory {
    /// Sequence of the first record; sequences wrap from 2^31-1 to 0 (P-53).
    pub fn first_sequence(&self) -> i32 {
        (i64::from(self.last_sequence) - i64::from(self.offset_delta)).rem_euclid(1 << 31) as i32
    }
}

/// State of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerEntry {
    /// Newest epoch seen.
    pub epoch: ProducerEpoch,
    /// Epoch of the coordinator that wrote the last marker, -1 for none.
    pub coordinator_epoch: i32,
    /// Timestamp of the last batch or marker in ms (P-59).
    pub last_timestamp: i64,
    /// First offset of the open transaction, -1 for none.
    pub current_txn_first_offset: Offset,
    batches: [BatchMemory; WINDOW],
    count: u8,
    /// Last offset of the newest batch without a sequence (T-22), -1 for none in this epoch.
    last_unnumbered_offset: Offset,
}

impl ProducerEntry {
    fn new(epoch: ProducerEpoch) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: NO_TIMESTAMP,
            current_txn_first_offset: -1,
            batches: [BatchMemory::default(); WINDOW],
            count: 0,
            last_unnumbered_offset: -1,
        }
    }

    /// The remembered batches, oldest first.
    pub fn batches(&self) -> &[BatchMemory] {
        self.batches.get(..usize::from(self.count)).unwrap_or(&[])
    }

    /// Sequence of the last record, -1 when no batch is remembered.
    pub fn last_sequence(&self) -> i32 {
        self.batches()
            .last()
            .map_or(NO_SEQUENCE, |b| b.last_sequence)
    }

    /// Last offset of the data batch that tells where the producer is, -1 when only markers are known.
    /// Batches without a sequence count only as long as there are no others (L-42).
    pub(crate) fn last_data_offset(&self) -> Offset {
        let last = self.batches().last();
        last.map_or(self.last_unnumbered_offset, |b| b.last_offset)
    }

    /// The remembered batch that this one repeats (P-50).
    fn original_of(&self, h: &BatchHeader) -> Option<BatchMemory> {
        let (first, last) = (h.base_sequence, h.last_sequence());
        let same = |b: &&BatchMemory| b.first_sequence() == first && b.last_sequence == last;
        let is_numbered = h.base_sequence >= 0;
        let batches = self.batches().iter();
        let mut batches = batches.filter(|_| is_numbered && h.producer_epoch == self.epoch);
        batches.find(same).copied()
    }

    fn push(&mut self, batch: BatchMemory) {
        if usize::from(self.count) == WINDOW {
            self.batches.rotate_left(1);
            self.count -= 1;
        }
        if let Some(slot) = self.batches.get_mut(usize::from(self.count)) {
            *slot = batch;
            self.count += 1;
        }
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.count = 0;
            self.last_unnumbered_offset = -1;
        }
    }

    /// An entry as a snapshot stores it: at most one batch. As in Kafka, one without a sequence has only
    /// its offset there.
    pub(crate) fn restored(
        epoch: ProducerEpoch,
        coordinator_epoch: i32,
        current_txn_first_offset: Offset,
        last: BatchMemory,
    ) -> Self {
        let mut entry = Self {
            coordinator_epoch,
            current_txn_first_offset,
            ..Self::new(epoch)
        };
        entry.last_timestamp = last.timestamp;
        if last.last_sequence < 0 {
            entry.last_unnumbered_offset = last.last_offset;
        } else if last.last_offset >= 0 {
            entry.push(last);
        }
        entry
    }
}

/// Transactions that are open on a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTransactions {
    /// How many.
    pub count: u64,
    /// Timestamp of the last batch of the one that has been silent for longest, in ms.
    pub oldest_append_ms: i64,
}

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Append(Option<EndTransactionMarker>),
    /// The batch is already there (P-50).
    Duplicate(BatchMemory),
}

/// All producers of a log.
#[derive(Debug, Default)]
pub(crate) struct ProducerState {
    entries: HashMap<ProducerId, ProducerEntry>,
    /// First offset → producer of each open transaction.
    open: BTreeMap<Offset, ProducerId>,
    /// First offset → offset of the marker, for completed transactions whose marker is not known
    /// to be replicated (T-44).
    unreplicated: BTreeMap<Offset, Offset>,
    verifications: Verifications,
}

impl ProducerState {
    pub(crate) fn entries(&self) -> &HashMap<ProducerId, ProducerEntry> {
        &self.entries
    }

    pub(crate) fn insert(&mut self, id: ProducerId, entry: ProducerEntry) {
        if entry.current_txn_first_offset >= 0 {
            self.open.insert(entry.current_txn_first_offset, id);
        }
        self.entries.insert(id, entry);
    }

    /// `None` if the transaction is open here (P-70).
    pub(crate) fn begin_verification(
        &mut self,
        request: &VerificationRequest,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        if self.is_open(request.producer_id, request.producer_epoch) {
            return None;
        }
        Some(self.verifications.begin(request, now_ms))
    }

    /// The guard is the one of the transaction that is about to begin.
    pub(crate) fn holds_guard(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        guard: VerificationGuard,
    ) -> bool {
        self.verifications.holds(producer_id, epoch, Some(guard))
    }

    /// The guard of an epoch is not needed any more; that of a newer one stays.
    pub(crate) fn end_verification(&mut self, producer_id: ProducerId, epoch: ProducerEpoch) {
        self.verifications.refuse(producer_id, epoch);
    }

    fn is_open(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|e| e.current_txn_first_offset >= 0 && e.epoch == epoch)
    }

    /// Decides about a batch from a client or coordinator, without changing anything.
    pub(crate) fn check(
        &self,
        batch: &Batch,
        h: &BatchHeader,
        checks: AppendChecks,
    ) -> Result<Verdict, AppendError> {
        if h.attributes.is_control() {
            return self
                .check_marker(batch, h, checks)
                .map(|marker| Verdict::Append(Some(marker)));
        }
        let verdict = self.check_data(h)?;
        let (id, epoch) = (h.producer_id, h.producer_epoch);
        let is_new = matches!(verdict, Verdict::Append(_));
        if is_new
            && checks.must_be_verified
            && h.attributes.is_transactional()
            && !self.is_open(id, epoch)
            && !self.verifications.holds(id, epoch, checks.guard)
        {
            return Err(AppendError::NotVerified { producer_id: id });
        }
        Ok(verdict)
    }

    fn check_data(&self, h: &BatchHeader) -> Result<Verdict, AppendError> {
        let out_of_order = |expected| AppendError::OutOfOrderSequence {
            producer_id: h.producer_id,
            producer_epoch: h.producer_epoch,
            sequence: h.base_sequence,
            expected,
        };
        let is_numbered = h.base_sequence >= 0; // a coordinator's own batches are not (T-22)
        let (id, epoch) = (h.producer_id, h.producer_epoch);
        let known = self.entries.get(&id).filter(|_| h.has_producer_id());
        if let Some(original) = known.and_then(|entry| entry.original_of(h)) {
            return Ok(Verdict::Duplicate(original)); // P-50
        }
        let lowest = self.verifications.lowest_sequence(id, epoch);
        if let Some(lowest) = lowest.filter(|lowest| is_numbered && h.base_sequence > *lowest) {
            return Err(out_of_order(lowest)); // P-56
        }
        let Some(entry) = known else {
            if h.base_sequence > 0 && self.verifications.begins_at_zero(id, epoch) {
                return Err(out_of_order(0)); // P-55, second generation
            }
            return Ok(Verdict::Append(None)); // P-55
        };
        if h.producer_epoch < entry.epoch {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id: h.producer_id,
                producer_epoch: h.producer_epoch,
                current: entry.epoch,
            }); // P-51
        }
        let expected = if h.producer_epoch > entry.epoch {
            0 // P-52
        } else {
            entry.last_sequence().checked_add(1).unwrap_or(0) // P-53
        };
        if is_numbered && h.base_sequence != expected && entry.epoch != NO_PRODUCER_EPOCH {
            return Err(out_of_order(expected));
        }
        if entry.current_txn_first_offset >= 0 && !h.attributes.is_transactional() {
            return Err(AppendError::InvalidTransactionState {
                producer_id: h.producer_id,
            }); // P-57
        }
        Ok(Verdict::Append(None))
    }

    fn check_marker(
        &self,
        batch: &Batch,
        h: &BatchHeader,
        checks: AppendChecks,
    ) -> Result<EndTransactionMarker, AppendError> {
        let marker = EndTransactionMarker::of_batch(batch)?
            .ok_or_else(|| AppendError::InvalidBatch("not a transaction marker".into()))?;
        if let Some(entry) = self.entries.get(&h.producer_id) {
            // T-42: of the second generation the epoch rises with the end; a marker that comes once
            // more finds nothing open.
            let must_rise = checks.marker_epoch_must_rise && entry.current_txn_first_offset >= 0;
            if h.producer_epoch < entry.epoch || (must_rise && h.producer_epoch == entry.epoch) {
                return Err(AppendError::InvalidProducerEpoch {
                    producer_id: h.producer_id,
                    producer_epoch: h.producer_epoch,
                    current: entry.epoch,
                });
            }
            if marker.coordinator_epoch < entry.coordinator_epoch {
                return Err(AppendError::CoordinatorFenced {
                    producer_id: h.producer_id,
                    coordinator_epoch: marker.coordinator_epoch,
                    current: entry.coordinator_epoch,
                });
            }
        }
        Ok(marker)
    }

    /// Takes note of a stored batch (appended, or replayed from the log).
    pub(crate) fn apply_data(&mut self, h: &BatchHeader) {
        if !h.has_producer_id() {
            return;
        }
        let entry = self
            .entries
            .entry(h.producer_id)
            .or_insert_with(|| ProducerEntry::new(h.producer_epoch));
        entry.set_epoch(h.producer_epoch);
        entry.last_timestamp = h.max_timestamp;
        if h.base_sequence >= 0 {
            entry.push(BatchMemory {
                last_sequence: h.last_sequence(),
                offset_delta: h.last_offset_delta,
                last_offset: h.last_offset(),
                timestamp: h.max_timestamp,
            });
        } else {
            entry.last_unnumbered_offset = h.last_offset();
        }
        if h.attributes.is_transactional() {
            self.verifications.end(h.producer_id);
        }
        if h.attributes.is_transactional() && entry.current_txn_first_offset < 0 {
            entry.current_txn_first_offset = h.base_offset;
            self.open.insert(h.base_offset, h.producer_id);
        }
    }

    /// Takes note of a stored marker; the aborted transaction that it ends, if any (T-42).
    pub(crate) fn apply_marker(
        &mut self,
        h: &BatchHeader,
        marker: EndTransactionMarker,
    ) -> Option<AbortedTransaction> {
        self.verifications.end(h.producer_id); // P-74
        let entry = self
            .entries
            .entry(h.producer_id)
            .or_insert_with(|| ProducerEntry::new(h.producer_epoch));
        entry.set_epoch(h.producer_epoch);
        entry.coordinator_epoch = marker.coordinator_epoch;
        entry.last_timestamp = h.max_timestamp;
        let first_offset = std::mem::replace(&mut entry.current_txn_first_offset, -1);
        if first_offset < 0 {
            return None;
        }
        let last_offset = h.last_offset();
        self.open.remove(&first_offset);
        self.unreplicated.insert(first_offset, last_offset);
        let next_open = self.open.keys().next().copied();
        (!marker.committed).then(|| AbortedTransaction {
            producer_id: h.producer_id,
            first_offset,
            last_offset,
            last_stable_offset: next_open.unwrap_or(last_offset.wrapping_add(1)),
        })
    }

    /// Replays a stored batch; `whole` is asked for only for markers.
    pub(crate) fn replay(
        &mut self,
        h: &BatchHeader,
        whole: impl FnOnce() -> Option<Batch>,
    ) -> Option<AbortedTransaction> {
        if !h.attributes.is_control() {
            self.apply_data(h);
            return None;
        }
        let marker = EndTransactionMarker::of_batch(&whole()?).ok().flatten()?;
        self.apply_marker(h, marker)
    }

    /// The last stable offset for a high watermark (F-30, T-44).
    pub(crate) fn last_stable_offset(&mut self, high_watermark: Offset) -> Offset {
        if !self.unreplicated.is_empty() {
            self.unreplicated
                .retain(|_, marker| *marker >= high_watermark);
        }
        let first = |o: Option<&Offset>| o.copied().unwrap_or(Offset::MAX);
        let unstable = first(self.open.keys().next()).min(first(self.unreplicated.keys().next()));
        unstable.min(high_watermark)
    }

    pub(crate) fn open_transactions(&self) -> OpenTransactions {
        let entries = self.open.values().filter_map(|id| self.entries.get(id));
        let oldest = entries.map(|e| e.last_timestamp).min();
        OpenTransactions {
            count: self.open.len() as u64,
            oldest_append_ms: oldest.unwrap_or(i64::MAX),
        }
    }

    /// Forgets producers that were silent for too long (P-59); how many.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        self.verifications.expire(now_ms, expiration_ms);
        let before = self.entries.len();
        self.entries.retain(|_, e| {
            e.current_txn_first_offset >= 0
                || now_ms.saturating_sub(e.last_timestamp) < expiration_ms
        });
        if self.entries.len() < before / 2 {
            self.entries.shrink_to_fit();
        }
        before - self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BatchSpec, marker_batch};

    fn spec(pid: i64, epoch: i16, sequence: i32, count: i32) -> BatchSpec {
        BatchSpec {
            producer: Some((pid, epoch, sequence)),
            count,
            ..BatchSpec::default()
        }
    }

    struct Log {
        state: ProducerState,
        end: Offset,
    }

    impl Log {
        fn new() -> Self {
            Self {
                state: ProducerState::default(),
                end: 0,
            }
        }

        fn append(&mut self, mut batch: Batch) -> Result<(Offset, Verdict), AppendError> {
            let checks = AppendChecks::default();
            let verdict = self.state.check(&batch, &batch.header(), checks)?;
            if let Verdict::Append(marker) = verdict {
                batch.set_offset_and_epoch(self.end, 0);
                let h = batch.header();
                match marker {
                    Some(marker) => drop(self.state.apply_marker(&h, marker)),
                    None => self.state.apply_data(&h),
                }
                self.end = h.next_offset();
            }
            Ok((self.end, verdict))
        }
    }

    fn out_of_order<T: std::fmt::Debug>(r: Result<T, AppendError>) -> i32 {
        match r {
            Err(AppendError::OutOfOrderSequence { expected, .. }) => expected,
            other => panic!("{other:?}"),
        }
    }

    // P-50, P-54
    #[test]
    fn the_last_five_batches_are_recognised_and_the_sixth_is_out_of_order() {
        let mut log = Log::new();
        for i in 0..6 {
            log.append(spec(1, 0, i * 10, 10).build()).unwrap();
        }
        for i in 1..6 {
            match log.append(spec(1, 0, i * 10, 10).build()).unwrap() {
                (60, Verdict::Duplicate(b)) => {
                    assert_eq!(b.last_offset - i64::from(b.offset_delta), i64::from(i) * 10);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(out_of_order(log.append(spec(1, 0, 0, 10).build())), 60);
        // the same first sequence with another length is no duplicate
        assert_eq!(out_of_order(log.append(spec(1, 0, 50, 9).build())), 60);
    }

    // P-51, P-52
    #[test]
    fn an_older_epoch_is_fenced_and_a_newer_one_starts_at_zero() {
        let mut log = Log::new();
        log.append(spec(1, 5, 7, 1).build()).unwrap(); // P-55: any first sequence
        let old = log.append(spec(1, 4, 8, 1).build());
        assert!(matches!(
            old,
            Err(AppendError::InvalidProducerEpoch { current: 5, .. })
        ));
        assert_eq!(out_of_order(log.append(spec(1, 6, 8, 1).build())), 0);
        log.append(spec(1, 6, 0, 1).build()).unwrap();
        assert_eq!(out_of_order(log.append(spec(1, 6, 2, 1).build())), 1);
    }

    // P-53
    #[test]
    fn sequences_wrap() {
        let mut log = Log::new();
        log.append(spec(1, 0, i32::MAX - 1, 4).build()).unwrap(); // MAX-1, MAX, 0, 1
        let again = log.append(spec(1, 0, i32::MAX - 1, 4).build()).unwrap();
        assert!(matches!(again, (4, Verdict::Duplicate(_))));
        assert_eq!(out_of_order(log.append(spec(1, 0, 3, 1).build())), 2);
        log.append(spec(1, 0, 2, 1).build()).unwrap();
        let mut log = Log::new();
        log.append(spec(1, 0, i32::MAX, 1).build()).unwrap();
        log.append(spec(1, 0, 0, 1).build()).unwrap();
    }

    // P-53: known only from a marker that bumped the epoch
    #[test]
    fn after_a_marker_with_a_new_epoch_the_sequence_is_zero() {
        let mut log = Log::new();
        log.append(spec(1, 0, 0, 3).build()).unwrap();
        log.append(marker_batch(1, 1, true, 2)).unwrap();
        assert_eq!(out_of_order(log.append(spec(1, 1, 3, 1).build())), 0);
        log.append(spec(1, 1, 0, 1).build()).unwrap();
    }

    // P-57, F-30, T-42, T-44
    #[test]
    fn transactions_hold_the_last_stable_offset() {
        let mut log = Log::new();
        let txn = |pid, seq| {
            BatchSpec {
                transactional: true,
                ..spec(pid, 0, seq, 5)
            }
            .build()
        };
        log.append(spec(9, 0, 0, 5).build()).unwrap(); // 0..5
        log.append(txn(1, 0)).unwrap(); // 5..10
        log.append(txn(2, 0)).unwrap(); // 10..15
        let plain = log.append(spec(1, 0, 5, 1).build());
        assert!(matches!(
            plain,
            Err(AppendError::InvalidTransactionState { .. })
        ));
        assert_eq!(log.state.last_stable_offset(15), 5);
        let mut abort = marker_batch(1, 0, true, 3);
        abort.set_offset_and_epoch(15, 0);
        let checks = AppendChecks::default();
        let checked = log.state.check(&abort, &abort.header(), checks);
        let Verdict::Append(Some(marker)) = checked.unwrap() else {
            panic!()
        };
        let aborted = log.state.apply_marker(&abort.header(), marker).unwrap();
        assert_eq!((aborted.first_offset, aborted.last_offset), (5, 15));
        assert_eq!(aborted.last_stable_offset, 10);
        log.end = 16;
        assert_eq!(log.state.last_stable_offset(15), 5); // the marker is not replicated
        assert_eq!(log.state.last_stable_offset(16), 10);
        log.append(marker_batch(2, 0, false, 3)).unwrap();
        assert_eq!(log.state.last_stable_offset(17), 17);
        let fenced = log.append(marker_batch(2, 0, false, 2));
        assert!(matches!(
            fenced,
            Err(AppendError::CoordinatorFenced { current: 3, .. })
        ));
    }

    // P-59
    #[test]
    fn silent_producers_are_forgotten_but_not_those_in_a_transaction() {
        let mut log = Log::new();
        log.append(
            BatchSpec {
                timestamp: 1000,
                ..spec(1, 0, 0, 1)
            }
            .build(),
        )
        .unwrap();
        log.append(
            BatchSpec {
                timestamp: 2000,
                ..spec(2, 0, 0, 1)
            }
            .build(),
        )
        .unwrap();
        let open = BatchSpec {
            timestamp: 0,
            transactional: true,
            ..spec(3, 0, 0, 1)
        };
        log.append(open.build()).unwrap();
        assert_eq!(log.state.expire(1499, 500), 0);
        assert_eq!(log.state.expire(1500, 500), 1);
        assert!(log.state.entries().contains_key(&2) && log.state.entries().contains_key(&3));
    }
}
