//! Clients whose epoch rises with each end (KIP-890).

use strandline_coordinator::Producer;
use strandline_transaction_coordinator::{TransactionError, TransactionState};

use crate::harness::{Bench, V0, V2, with_epoch};

const INVALID: Result<Option<Producer>, TransactionError> = Err(TransactionError::InvalidTxnState);
const RETRY: Result<Option<Producer>, TransactionError> =
    Err(TransactionError::ConcurrentTransactions);
const FENCED: Result<Option<Producer>, TransactionError> = Err(TransactionError::ProducerFenced);

fn ongoing() -> (Bench, Producer) {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add_as(producer, &[0], V2).unwrap();
    (bench, producer)
}

// T-33, T-42
#[test]
fn each_end_raises_the_epoch_and_the_markers_carry_the_new_one() {
    let (mut bench, first) = ongoing();
    bench.marks_at_once = false;
    let second = bench.end_as(first, true, V2).unwrap().unwrap();
    assert_eq!(second, with_epoch(first, 1));
    let markers = bench.markers[0].clone();
    assert_eq!(markers.end.producer, second);
    assert!(markers.end.raises_epoch);
    bench.mark_all();
    assert_eq!(
        bench.add_as(first, &[0], V2),
        Err(TransactionError::ProducerFenced)
    );
    bench.add_as(second, &[1], V2).unwrap();
    let third = bench.end_as(second, false, V2).unwrap().unwrap();
    assert_eq!(third, with_epoch(first, 2));
}

// T-33: a retry with the old epoch, in each state.
#[test]
fn a_lost_answer_is_given_again() {
    let (mut bench, first) = ongoing();
    bench.marks_at_once = false;
    let second = bench.end_as(first, true, V2).unwrap();
    assert_eq!(bench.end_as(first, true, V2), RETRY);
    assert_eq!(bench.end_as(first, false, V2), INVALID);
    bench.mark_all();
    assert_eq!(bench.end_as(first, true, V2), Ok(second));
    assert_eq!(bench.end_as(first, false, V2), INVALID);
    let other = Producer { id: 1, ..first };
    assert_eq!(
        bench.end_as(other, true, V2),
        Err(TransactionError::InvalidProducerIdMapping)
    );
    assert_eq!(bench.end_as(with_epoch(first, 7), true, V2), FENCED);
}

// T-33: nothing was written since the last end.
#[test]
fn an_empty_transaction_can_be_aborted_and_not_committed() {
    let mut bench = Bench::new();
    let first = bench.init().unwrap();
    assert_eq!(bench.end_as(first, true, V2), INVALID);
    let second = bench.end_as(first, false, V2).unwrap().unwrap();
    assert_eq!(second, with_epoch(first, 1));
    assert_eq!(bench.state(), TransactionState::CompleteAbort);
    assert_eq!(bench.end_as(first, false, V2), Ok(Some(second)), "a retry");
    assert_eq!(bench.end_as(second, true, V2), INVALID);
    let third = bench.end_as(second, false, V2).unwrap().unwrap();
    assert_eq!(third, with_epoch(first, 2));
    bench.add_as(third, &[0], V2).unwrap();
    let fourth = bench.end_as(third, true, V2).unwrap().unwrap();
    assert_eq!(bench.end_as(fourth, true, V2), INVALID);
    assert!(bench.end_as(fourth, false, V2).is_ok());
}

// T-33: the client has its answer and goes on while markers are being written.
#[test]
fn the_next_transaction_waits_for_the_markers_of_the_last_one() {
    let (mut bench, first) = ongoing();
    bench.marks_at_once = false;
    let second = bench.end_as(first, true, V2).unwrap().unwrap();
    let retry = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(bench.add_as(second, &[0], V2), retry);
    assert_eq!(bench.end_as(second, false, V2), RETRY);
    bench.mark_all();
    assert_eq!(bench.add_as(second, &[0], V2), Ok(()));
}

fn at_last_epoch() -> (Bench, Producer) {
    let mut bench = Bench::new();
    let mut producer = bench.init().unwrap();
    while producer.epoch < i16::MAX - 1 {
        producer = bench.init().unwrap();
    }
    (bench, producer)
}

// T-33: overflow.
#[test]
fn after_the_last_epoch_the_end_gives_a_new_producer_id() {
    let (mut bench, last) = at_last_epoch();
    bench.marks_at_once = false;
    bench.add_as(last, &[0], V2).unwrap();
    let next = bench.end_as(last, true, V2).unwrap().unwrap();
    assert!(next.id != last.id && next.epoch == 0);
    let markers = bench.markers[0].clone();
    assert_eq!(markers.end.producer, with_epoch(last, i16::MAX));
    // Meanwhile both names are his.
    assert_eq!(bench.end_as(last, true, V2), RETRY);
    let retry = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(bench.add_as(next, &[0], V2), retry);
    bench.mark_all();
    assert_eq!(bench.transaction().producer, next);
    assert_eq!(bench.transaction().previous_producer_id, last.id);
    assert_eq!(bench.end_as(last, true, V2), Ok(Some(next)), "a retry");
    assert_eq!(bench.end_as(last, false, V2), INVALID);
    bench.add_as(next, &[0], V2).unwrap();
    let mapping = Err(TransactionError::InvalidProducerIdMapping);
    assert_eq!(bench.end_as(last, true, V2), mapping);
}

// T-33: a coordinator that takes over in the middle knows the new id.
#[test]
fn an_overflow_survives_a_failover() {
    let (mut bench, last) = at_last_epoch();
    bench.marks_at_once = false;
    bench.add_as(last, &[0], V2).unwrap();
    let next = bench.end_as(last, false, V2).unwrap().unwrap();
    bench.fail_over();
    assert_eq!(bench.markers.len(), 1);
    bench.mark_all();
    assert_eq!(bench.transaction().producer, next);
    assert_eq!(bench.end_as(last, false, V2), Ok(Some(next)));
}

// T-50, T-33, 5.5: the abort raised the epoch as any end does, as Kafka has it: whoever was too slow
// cannot write or commit, but may abort and go on.
#[test]
fn a_timed_out_client_may_abort_and_go_on() {
    let (mut bench, producer) = ongoing();
    bench.marks_at_once = false;
    bench.pass(80_000);
    let invalid = Err(TransactionError::InvalidTxnState);
    let later = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(bench.state(), TransactionState::PrepareAbort);
    assert_eq!(
        bench.add_as(producer, &[0], V2),
        Err(TransactionError::ProducerFenced)
    );
    assert_eq!(bench.end_as(producer, false, V2), later);
    assert_eq!(bench.end_as(producer, true, V2), invalid);
    bench.mark_all();
    assert_eq!(bench.state(), TransactionState::CompleteAbort);
    assert_eq!(
        bench.add_as(producer, &[0], V2),
        Err(TransactionError::ProducerFenced)
    );
    assert_eq!(bench.end_as(producer, true, V2), invalid);
    let next = with_epoch(producer, producer.epoch + 1);
    assert_eq!(bench.end_as(producer, false, V2), Ok(Some(next)));
    bench.fail_over();
    assert_eq!(bench.end_as(producer, false, V2), Ok(Some(next)));
    bench.add_as(next, &[0], V2).unwrap();
    // The first generation has no such repetition.
    assert_eq!(bench.end(producer, false), FENCED);
}

// T-3: the epoch above the last is for fencing alone.
#[test]
fn a_timed_out_client_at_the_last_epoch_is_fenced() {
    let (mut bench, last) = at_last_epoch();
    bench.add_as(last, &[0], V2).unwrap();
    bench.pass(80_000);
    assert_eq!(bench.state(), TransactionState::CompleteAbort);
    assert_eq!(bench.end_as(last, false, V2), FENCED);
}

// 5.9: a client may change its generation between transactions.
#[test]
fn generations_may_alternate() {
    let mut bench = Bench::new();
    let first = bench.init().unwrap();
    bench.add(first, &[0]).unwrap();
    bench.end(first, true).unwrap();
    bench.add_as(first, &[0], V2).unwrap();
    let second = bench.end_as(first, true, V2).unwrap().unwrap();
    assert_eq!(second.epoch, 1);
    bench.add_as(second, &[0], V0).unwrap();
    assert_eq!(bench.end(second, true), Ok(None));
    assert_eq!(bench.end(second, true), Ok(None), "a retry keeps the epoch");
    assert_eq!(bench.end(first, true), FENCED);
}
