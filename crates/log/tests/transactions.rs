//! Transactions on a partition: who may begin one, markers, and what committed readers are told.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use strandline_log::{
    AppendChecks, AppendError, LogConfig, VerificationGuard, VerificationRequest,
};
use strandline_records::{Batch, EndTransactionMarker};
use strandline_types::Offset;

use crate::support::{Fixture, Spec, small};

fn data(pid: i64, epoch: i16, sequence: i32) -> Batch {
    let spec = Spec {
        producer: Some((pid, epoch, sequence)),
        transactional: true,
        ..Spec::count(2)
    };
    spec.build()
}

fn marker(pid: i64, epoch: i16, committed: bool, coordinator_epoch: i32) -> Batch {
    let marker = EndTransactionMarker {
        committed,
        coordinator_epoch,
    };
    marker.to_batch(pid, epoch, 1000).unwrap()
}

fn verify(fixture: &Fixture, pid: i64, epoch: i16, sequence: i32) -> Option<VerificationGuard> {
    let request = VerificationRequest {
        producer_id: pid,
        producer_epoch: epoch,
        base_sequence: sequence,
        epoch_rises: false,
    };
    fixture.log().begin_verification(&request, 0)
}

/// Appends a transactional batch as a client's, with what it has to show.
fn append(
    fixture: &Fixture,
    batch: Batch,
    guard: Option<VerificationGuard>,
) -> Result<(), AppendError> {
    let checks = AppendChecks {
        must_be_verified: true,
        guard,
        ..AppendChecks::default()
    };
    fixture.log().append_checked(batch, 0, checks, 0).map(drop)
}

fn is_unverified(result: Result<(), AppendError>) -> bool {
    matches!(result, Err(AppendError::NotVerified { .. }))
}

// P-70
#[test]
fn a_transaction_begins_only_with_a_guard() {
    let fixture = Fixture::new(small(), 0);
    assert!(is_unverified(append(&fixture, data(1, 0, 0), None)));
    let guard = verify(&fixture, 1, 0, 0);
    assert!(guard.is_some());
    append(&fixture, data(1, 0, 0), guard).unwrap();
    // Once it is open nothing has to be shown.
    assert_eq!(verify(&fixture, 1, 0, 2), None);
    append(&fixture, data(1, 0, 2), None).unwrap();
    // But not by another epoch, nor by somebody else.
    assert!(verify(&fixture, 1, 1, 0).is_some() && verify(&fixture, 2, 0, 0).is_some());
    assert!(is_unverified(append(&fixture, data(1, 1, 0), None)));
    assert!(is_unverified(append(&fixture, data(2, 0, 0), guard)));
    // P-50: a batch that is there already is acknowledged, whatever is shown.
    append(&fixture, data(1, 0, 2), None).unwrap();
}

// P-74
#[test]
fn a_guard_from_before_a_marker_opens_nothing() {
    let fixture = Fixture::new(small(), 0);
    let early = verify(&fixture, 1, 0, 0);
    let is_held = |guard: Option<_>| fixture.log().holds_guard(1, 0, guard.unwrap());
    assert!(is_held(early));
    fixture.put(marker(1, 0, false, 0));
    assert!(!is_held(early));
    assert!(is_unverified(append(&fixture, data(1, 0, 0), early)));
    assert_eq!(fixture.log().open_transactions().count, 0);
    let late = verify(&fixture, 1, 0, 0);
    assert!(early != late && is_held(late) && !is_held(early));
    append(&fixture, data(1, 0, 0), late).unwrap();
    assert_eq!(fixture.log().open_transactions().count, 1);
    // It was good for one transaction.
    fixture.put(marker(1, 0, true, 0));
    assert!(is_unverified(append(&fixture, data(1, 0, 2), late)));
}

// P-56
#[test]
fn what_overtakes_a_batch_that_is_being_verified_must_wait() {
    let fixture = Fixture::new(small(), 0);
    let guard = verify(&fixture, 1, 0, 4);
    assert_eq!(verify(&fixture, 1, 0, 0), guard);
    let overtaking = append(&fixture, data(1, 0, 4), guard);
    assert!(matches!(
        overtaking,
        Err(AppendError::OutOfOrderSequence { expected: 0, .. })
    ));
    append(&fixture, data(1, 0, 0), guard).unwrap();
}

// P-55: with an epoch of its own each transaction begins at 0.
#[test]
fn the_second_generation_begins_at_sequence_0() {
    let fixture = Fixture::new(small(), 0);
    for (epoch_rises, is_taken) in [(true, false), (false, true)] {
        let pid = i64::from(epoch_rises);
        let request = VerificationRequest {
            producer_id: pid,
            producer_epoch: 0,
            base_sequence: 7,
            epoch_rises,
        };
        let guard = fixture.log().begin_verification(&request, 0);
        let appended = append(&fixture, data(pid, 0, 7), guard);
        assert_eq!(appended.is_ok(), is_taken, "{appended:?}");
    }
}

// T-22: a coordinator's own batches have no sequence, and are fenced by epoch all the same (T-23).
#[test]
fn batches_without_a_sequence_are_fenced_by_their_epoch() {
    let fixture = Fixture::new(small(), 0);
    for _ in 0..3 {
        let guard = verify(&fixture, 1, 4, -1);
        append(&fixture, data(1, 4, -1), guard).unwrap();
    }
    let guard = verify(&fixture, 1, 3, -1);
    let fenced = append(&fixture, data(1, 3, -1), guard);
    assert!(matches!(
        fenced,
        Err(AppendError::InvalidProducerEpoch { current: 4, .. })
    ));
}

// T-42
#[test]
fn a_marker_of_the_second_generation_needs_a_higher_epoch() {
    let fixture = Fixture::new(small(), 0);
    let mark = |epoch, must_rise| {
        let checks = AppendChecks {
            marker_epoch_must_rise: must_rise,
            ..AppendChecks::default()
        };
        let batch = marker(1, epoch, true, 0);
        fixture.log().append_checked(batch, 0, checks, 0).is_ok()
    };
    fixture.put(data(1, 5, 0));
    assert!(!mark(5, true) && !mark(4, false));
    assert!(mark(6, true));
    assert!(mark(6, true), "once more: nothing is open");
    assert!(!mark(5, true), "from the past");
    fixture.put(data(1, 6, 0));
    assert!(mark(6, false), "the first generation keeps its epoch");
}

// T-40
#[test]
fn a_deposed_coordinator_is_told_so() {
    let mut fixture = Fixture::new(small(), 0);
    fixture.put(data(1, 0, 0));
    fixture.put(marker(1, 0, true, 7));
    for _ in 0..2 {
        let old = fixture.append(marker(1, 0, true, 6));
        assert!(matches!(
            old,
            Err(AppendError::CoordinatorFenced { current: 7, .. })
        ));
        fixture.reopen_after_crash();
    }
}

// 6.1: log start <= last stable offset
#[test]
fn deleting_the_beginning_of_an_open_transaction_leaves_the_order_of_offsets() {
    let mut fixture = Fixture::new(small(), 0);
    fixture.put(data(1, 0, 0));
    fixture.put(Spec::count(3).build());
    assert_eq!(fixture.log().last_stable_offset(), 0);
    fixture.log().delete_records_to(4).unwrap();
    assert_eq!(fixture.log().last_stable_offset(), 4);
    fixture.reopen_cleanly();
    fixture.written();
    assert_eq!(fixture.log().last_stable_offset(), 4);
    fixture.put(marker(1, 0, false, 0));
    assert_eq!(fixture.log().last_stable_offset(), 6);
}

// F-31: without I/O where nothing can be found.
#[test]
fn it_is_known_where_nothing_was_aborted() {
    let mut fixture = Fixture::new(small(), 0);
    fixture.put(data(1, 0, 0));
    fixture.put(marker(1, 0, true, 0));
    assert!(!fixture.log().may_have_aborted_from(0));
    fixture.put(data(1, 0, 2));
    fixture.put(marker(1, 0, false, 0));
    assert!(fixture.log().may_have_aborted_from(0));
    fixture.reopen_cleanly();
    assert!(fixture.log().may_have_aborted_from(0));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let end = fixture.log().log_end_offset();
    assert!(!fixture.log().may_have_aborted_from(end));
}

// 5.8: the entry is written before its marker, so the power may leave it alone; the next marker has its offset
#[test]
fn an_entry_whose_marker_is_lost_does_not_stay() {
    let mut fixture = Fixture::new(small(), 0);
    fixture.put(data(1, 0, 0));
    fixture.put(marker(1, 0, false, 0));
    let (base, end) = (fixture.segment_files()[0], fixture.log().log_end_offset());
    let before = fixture.log().aborted_transactions(0, end).unwrap();
    assert_eq!(before.len(), 1);
    fixture.put(data(1, 0, 2));
    fixture.close();
    // The same entry with the offsets of the marker that is to come (version, producer, first, last, stable).
    let path = fixture.file(base, "txnindex");
    let mut entries = std::fs::read(&path).unwrap();
    let mut lost = entries.clone();
    lost[10..18].copy_from_slice(&end.to_be_bytes());
    lost[18..26].copy_from_slice(&(end + 2).to_be_bytes());
    lost[26..34].copy_from_slice(&end.to_be_bytes());
    entries.extend(lost);
    std::fs::write(&path, entries).unwrap();
    fixture.load();
    fixture.put(marker(1, 0, false, 0));
    assert_eq!(fixture.log().log_end_offset(), end + 3);
    let aborted = fixture.log().aborted_transactions(0, end + 3).unwrap();
    assert_eq!(aborted.len(), 2);
    assert_eq!(aborted[1].last_offset, end + 2);
}

// L-21, F-31: of the active segment and of sealed ones, after a clean end and after a crash
#[test]
fn a_corrupt_transaction_index_is_made_anew() {
    let mut fixture = Fixture::new(small(), 0);
    for round in 0..2 {
        for sequence in [0, 2] {
            fixture.put(data(1, round, sequence));
            fixture.put(data(2, round, sequence));
            fixture.put(marker(1, round, false, 0));
            fixture.put(marker(2, round, false, 0));
        }
        fixture.log().roll(0).unwrap();
        fixture.put(Spec::count(3).build());
        fixture.put(data(3, round, 0));
        fixture.put(marker(3, round, false, 0));
        fixture.sealed();
    }
    let end = fixture.log().log_end_offset();
    let aborted = fixture.log().aborted_transactions(0, end).unwrap();
    assert!(aborted.len() == 10 && fixture.log().segment_count() > 2);
    fixture.close();
    let bases = fixture.files_with(".txnindex");
    assert!(bases.len() > 2, "{bases:?}");
    for base in bases {
        let path = fixture.file(base, "txnindex");
        let good = std::fs::read(&path).unwrap();
        let mut versions = good.clone();
        versions[1] = 1;
        let mut beyond = good.clone();
        beyond[18..26].copy_from_slice(&(end + 1).to_be_bytes());
        let torn = good[..good.len() - 1].to_vec();
        let twice = [&good[..34], &good[..34]].concat();
        for content in [versions, beyond, torn, twice, vec![0xff; 68]] {
            for is_clean in [true, false] {
                std::fs::write(&path, &content).unwrap();
                fixture.load();
                let found = fixture.log().aborted_transactions(0, end).unwrap();
                assert_eq!(found, aborted, "{base}, clean: {is_clean}");
                assert_eq!(std::fs::read(&path).unwrap(), good);
                if is_clean {
                    fixture.close();
                } else {
                    fixture.crash();
                }
            }
        }
        fixture.load();
        fixture.close();
    }
}

#[derive(Debug, Clone)]
enum Step {
    Write(i64),
    Plain,
    End(i64, bool),
    Roll,
    Close,
    Crash,
    /// The indexes of all segments are lost.
    LoseIndexes,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1_i64..5).prop_map(Step::Write),
        2 => Just(Step::Plain),
        6 => (1_i64..5, any::<bool>()).prop_map(|(pid, committed)| Step::End(pid, committed)),
        2 => Just(Step::Roll),
        1 => Just(Step::Close),
        1 => Just(Step::Crash),
        1 => Just(Step::LoseIndexes),
    ]
}

/// What a partition's readers must be told, kept as simply as can be.
#[derive(Debug, Default)]
struct Model {
    end: Offset,
    sequences: BTreeMap<i64, i32>,
    open: BTreeMap<i64, Offset>,
    /// Producer, first offset, offset of the marker.
    aborted: Vec<(i64, Offset, Offset)>,
    borders: BTreeSet<Offset>,
}

impl Model {
    fn stable(&self) -> Offset {
        self.open.values().copied().min().unwrap_or(self.end)
    }

    fn aborted(&self, from: Offset, to: Offset) -> Vec<(i64, Offset)> {
        let overlaps = |first: Offset, last: Offset| last >= from && first < to;
        let found = self.aborted.iter().filter(|(_, f, l)| overlaps(*f, *l));
        let mut found: Vec<_> = found.map(|(pid, first, _)| (*pid, *first)).collect();
        found.sort_unstable_by_key(|(_, first)| *first);
        found
    }
}

struct World {
    fixture: Fixture,
    model: Model,
}

impl World {
    fn take(&mut self, step: &Step) {
        let (fixture, model) = (&mut self.fixture, &mut self.model);
        match *step {
            Step::Write(pid) => {
                let sequence = model.sequences.entry(pid).or_default();
                let appended = fixture.put(data(pid, 0, *sequence));
                *sequence += 2;
                model.open.entry(pid).or_insert(appended.base_offset);
            }
            Step::Plain => drop(fixture.put(Spec::count(3).build())),
            Step::End(pid, committed) => {
                let appended = fixture.put(marker(pid, 0, committed, 0));
                if let Some(first) = model.open.remove(&pid).filter(|_| !committed) {
                    model.aborted.push((pid, first, appended.last_offset));
                }
            }
            Step::Roll => drop(fixture.log().roll(0).unwrap()),
            Step::Close => fixture.reopen_cleanly(),
            Step::Crash => fixture.reopen_after_crash(),
            Step::LoseIndexes => {
                fixture.close();
                for suffix in ["index", "timeindex", "txnindex"] {
                    for base in fixture.files_with(&format!(".{suffix}")) {
                        std::fs::remove_file(fixture.file(base, suffix)).unwrap();
                    }
                }
                fixture.load();
            }
        }
        fixture.written();
        model.end = fixture.log().log_end_offset();
        model.borders.insert(model.end);
    }

    fn check(&self) {
        let (log, model) = (self.fixture.log(), &self.model);
        assert_eq!(log.last_stable_offset(), model.stable(), "F-30");
        assert_eq!(log.open_transactions().count, model.open.len() as u64);
        let stable = model.stable();
        for from in 0..=stable {
            for to in model.borders.range(from..=stable) {
                let found = log.aborted_transactions(from, *to).unwrap();
                let found: Vec<_> = found
                    .iter()
                    .map(|a| (a.producer_id, a.first_offset))
                    .collect();
                let expected = model.aborted(from, *to);
                assert_eq!(found, expected, "F-31: from {from} to {to}");
                assert!(expected.is_empty() || log.may_have_aborted_from(from));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    // F-30, F-31, F-34, T-42, T-44, 5.8
    #[test]
    fn readers_are_told_exactly_what_was_aborted(steps in prop::collection::vec(step(), 1..50)) {
        let config = LogConfig { segment_bytes: 500, ..small() };
        let mut world = World { fixture: Fixture::new(config, 0), model: Model::default() };
        let mut stable = 0;
        for step in &steps {
            world.take(step);
            let now = world.fixture.log().last_stable_offset();
            prop_assert!(now >= stable, "the last stable offset moved back");
            stable = now;
        }
        world.check();
    }
}
