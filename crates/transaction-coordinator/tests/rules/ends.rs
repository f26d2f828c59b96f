//! EndTxn of clients of the first generation, and the markers.

use strandline_coordinator::{AppendError, Producer};
use strandline_transaction_coordinator::{Reply, TransactionError, TransactionState};

use crate::harness::{Bench, V0, end, with_epoch};

const INVALID: Result<Option<Producer>, TransactionError> = Err(TransactionError::InvalidTxnState);
const RETRY: Result<Option<Producer>, TransactionError> =
    Err(TransactionError::ConcurrentTransactions);

/// A bench that stands in this state, and its producer.
fn bench_in(state: TransactionState) -> (Bench, Producer) {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    let is_commit = matches!(
        state,
        TransactionState::PrepareCommit | TransactionState::CompleteCommit
    );
    bench.marks_at_once = state.is_complete();
    if state != TransactionState::Empty {
        bench.add(producer, &[0, 1]).unwrap();
    }
    if state.is_prepared() || state.is_complete() {
        bench.end(producer, is_commit).unwrap();
    }
    assert_eq!(bench.state(), state);
    (bench, producer)
}

// 5.5: the table, first generation.
#[test]
fn each_state_answers_as_the_table_says() {
    use TransactionState::{
        CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit,
    };
    let table = [
        (Ongoing, Ok(None), Ok(None)),
        (Empty, INVALID, INVALID),
        (CompleteCommit, Ok(None), INVALID),
        (CompleteAbort, INVALID, Ok(None)),
        (PrepareCommit, RETRY, INVALID),
        (PrepareAbort, INVALID, RETRY),
    ];
    for (state, on_commit, on_abort) in table {
        let (mut bench, producer) = bench_in(state);
        assert_eq!(bench.end(producer, true), on_commit, "{state:?} commit");
        let (mut bench, producer) = bench_in(state);
        assert_eq!(bench.end(producer, false), on_abort, "{state:?} abort");
    }
}

// T-30
#[test]
fn only_the_producer_itself_may_end() {
    for state in [TransactionState::Ongoing, TransactionState::CompleteCommit] {
        let (mut bench, producer) = bench_in(state);
        let fenced = Err(TransactionError::ProducerFenced);
        let older = with_epoch(producer, producer.epoch - 1);
        let newer = with_epoch(producer, producer.epoch + 1);
        assert_eq!(bench.end(older, true), fenced);
        assert_eq!(bench.end(newer, true), fenced);
        let stranger = Producer { id: 1, ..producer };
        assert_eq!(
            bench.end(stranger, true),
            Err(TransactionError::InvalidProducerIdMapping)
        );
    }
}

// T-31
#[test]
fn the_answer_comes_after_the_decision_is_written_and_before_the_markers() {
    let (mut bench, producer) = bench_in(TransactionState::Ongoing);
    bench.commits_at_once = false;
    let id = bench.send(end(producer, true, V0));
    assert!(!bench.is_answered(id) && bench.markers.is_empty());
    bench.commit_one();
    assert_eq!(bench.reply(id), Reply::EndTxn(Ok(None)));
    let markers = bench.markers.pop_front().unwrap();
    assert_eq!(markers.partitions.len(), 2);
    assert!(markers.end.committed && !markers.end.raises_epoch);
    assert_eq!(markers.end.producer, producer);
    assert_eq!(markers.end.coordinator_epoch, 3);
    bench.mark(&markers, &markers.partitions[0]);
    bench.mark(&markers, &markers.partitions[0]); // twice is once
    assert!(bench.appends.is_empty(), "one partition has no marker yet");
    bench.mark(&markers, &markers.partitions[1]);
    assert_eq!(bench.appends.len(), 1);
    assert_eq!(bench.state(), TransactionState::PrepareCommit);
    bench.commit_all();
    assert_eq!(bench.state(), TransactionState::CompleteCommit);
}

#[test]
fn a_decision_that_is_not_written_is_none() {
    let (mut bench, producer) = bench_in(TransactionState::Ongoing);
    bench.commits_at_once = false;
    let id = bench.send(end(producer, true, V0));
    bench.fail_all(AppendError::RequestTimedOut);
    let refused = Reply::EndTxn(Err(TransactionError::CoordinatorNotAvailable));
    assert_eq!(bench.reply(id), refused);
    assert_eq!(bench.state(), TransactionState::Ongoing);
    assert!(bench.markers.is_empty());
    bench.commits_at_once = true;
    assert_eq!(bench.end(producer, false), Ok(None));
}

// T-32
#[test]
fn completing_is_tried_until_it_is_written() {
    let (mut bench, producer) = bench_in(TransactionState::Ongoing);
    bench.end(producer, true).unwrap();
    bench.commits_at_once = false;
    bench.mark_all();
    for _ in 0..3 {
        assert_eq!(bench.appends.len(), 1);
        bench.fail_all(AppendError::NotEnoughReplicas);
        assert_eq!(bench.state(), TransactionState::PrepareCommit);
        bench.pass(5_000);
    }
    bench.commit_all();
    assert_eq!(bench.state(), TransactionState::CompleteCommit);
}

// T-42: a marker of the last end says nothing about the next one.
#[test]
fn results_of_older_markers_do_not_count() {
    let (mut bench, producer) = bench_in(TransactionState::Ongoing);
    bench.end(producer, false).unwrap();
    let old = bench.markers[0].clone();
    bench.mark_all();
    let newer = bench.init().unwrap();
    bench.add(newer, &[0]).unwrap();
    bench.end(newer, true).unwrap();
    bench.mark(&old, &old.partitions[0]);
    assert_eq!(bench.state(), TransactionState::PrepareCommit);
}
