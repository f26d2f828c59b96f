//! InitProducerId.

use strandline_coordinator::{AppendError, Producer};
use strandline_transaction_coordinator::{
    InitProducerIdRequest, Reply, Request, TransactionError, TransactionState,
};

use crate::harness::{Bench, ID, init, with_epoch};

// T-2
#[test]
fn ids_and_timeouts_are_checked() {
    let mut bench = Bench::new();
    let mut ask = |transactional_id: &str, timeout_ms| {
        let id = bench.send(Request::InitProducerId(InitProducerIdRequest {
            transactional_id: transactional_id.to_owned(),
            timeout_ms,
            expected: None,
        }));
        let Reply::InitProducerId(result) = bench.reply(id) else {
            panic!("not an init")
        };
        result.map(drop)
    };
    assert_eq!(ask("", 1), Err(TransactionError::InvalidRequest));
    let long = "x".repeat(40_000);
    assert_eq!(ask(&long, 1), Err(TransactionError::InvalidRequest));
    let timeout = Err(TransactionError::InvalidTransactionTimeout);
    assert_eq!(ask(ID, 0), timeout);
    assert_eq!(ask(ID, -1), timeout);
    assert_eq!(ask(ID, 900_001), timeout);
    assert_eq!(ask(ID, 900_000), Ok(()));
}

// T-3, T-5
#[test]
fn a_new_id_gets_epoch_0_and_later_ones_the_next() {
    let mut bench = Bench::new();
    let first = bench.init().unwrap();
    assert_eq!(first.epoch, 0);
    assert_eq!(bench.init(), Ok(with_epoch(first, 1)));
    bench.add(with_epoch(first, 1), &[0]).unwrap();
    bench.end(with_epoch(first, 1), true).unwrap();
    assert_eq!(bench.init(), Ok(with_epoch(first, 2)));
    assert_eq!(bench.state(), TransactionState::Empty);
}

// T-6
#[test]
fn the_answer_waits_for_the_append_and_others_are_told_to_come_back() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let id = bench.send(init(None));
    assert!(!bench.is_answered(id));
    assert_eq!(bench.init(), Err(TransactionError::ConcurrentTransactions));
    // Nobody may work with an id that is not written yet.
    let guess = Producer { id: 1001, epoch: 0 };
    assert_eq!(
        bench.end(guess, true),
        Err(TransactionError::InvalidProducerIdMapping)
    );
    bench.commit_all();
    assert!(matches!(bench.reply(id), Reply::InitProducerId(Ok(_))));
}

// T-6
#[test]
fn a_failed_append_leaves_nothing_behind() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let id = bench.send(init(None));
    bench.fail_all(AppendError::NotEnoughReplicas);
    let refused = Reply::InitProducerId(Err(TransactionError::CoordinatorNotAvailable));
    assert_eq!(bench.reply(id), refused);
    assert!(bench.shard.describe(ID).is_err());
    bench.commits_at_once = true;
    assert_eq!(bench.init().unwrap().epoch, 0);
}

// T-3
#[test]
fn an_ongoing_transaction_is_fenced_and_aborted_first() {
    let mut bench = Bench::new();
    bench.marks_at_once = false;
    let old = bench.init().unwrap();
    bench.add(old, &[0, 1]).unwrap();
    let retry = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(bench.init(), retry);
    assert_eq!(bench.state(), TransactionState::PrepareAbort);
    let markers = bench.markers[0].clone();
    assert!(!markers.end.committed);
    assert_eq!(markers.end.producer, with_epoch(old, 1));
    assert_eq!(bench.init(), retry, "while markers are written");
    // The zombie is fenced at once.
    assert_eq!(bench.end(old, true), Err(TransactionError::ProducerFenced));
    assert_eq!(bench.add(old, &[2]), Err(TransactionError::ProducerFenced));
    bench.mark_all();
    assert_eq!(bench.init(), Ok(with_epoch(old, 2)));
}

// T-3: the last usable epoch is 32766.
#[test]
fn when_the_epochs_are_used_up_a_new_producer_id_follows() {
    let mut bench = Bench::new();
    let first = bench.init().unwrap();
    let mut last = first;
    while last.epoch < i16::MAX - 1 {
        last = bench.init().unwrap();
        assert_eq!(last.id, first.id);
    }
    let next = bench.init().unwrap();
    assert!(next.id != first.id && next.epoch == 0);
    assert_eq!(bench.transaction().previous_producer_id, first.id);
}

// T-3: an ongoing transaction at the last epoch can still be fenced.
#[test]
fn the_last_epoch_can_be_fenced() {
    let mut bench = Bench::new();
    let mut producer = bench.init().unwrap();
    while producer.epoch < i16::MAX - 1 {
        producer = bench.init().unwrap();
    }
    bench.add(producer, &[0]).unwrap();
    let retry = Err(TransactionError::ConcurrentTransactions);
    assert_eq!(bench.init(), retry);
    assert_eq!(bench.transaction().producer.epoch, i16::MAX);
    assert_ne!(bench.init().unwrap().id, producer.id);
}

// T-4
#[test]
fn a_client_that_goes_on_after_an_error_says_who_it_is() {
    let mut bench = Bench::new();
    let first = bench.init().unwrap();
    let second = bench.init_with(Some(first)).unwrap();
    assert_eq!(second, with_epoch(first, 1));
    // The answer was lost: the same again, as often as it is asked for.
    assert_eq!(bench.init_with(Some(first)), Ok(second));
    assert_eq!(bench.init_with(Some(first)), Ok(second));
    assert_eq!(bench.init_with(Some(second)), Ok(with_epoch(first, 2)));
    let fenced = Err(TransactionError::ProducerFenced);
    assert_eq!(bench.init_with(Some(first)), fenced);
    let stranger = Producer {
        id: first.id + 77,
        epoch: 2,
    };
    assert_eq!(bench.init_with(Some(stranger)), fenced);
}

// T-4: after somebody else has come, the epoch before is no longer "mine".
#[test]
fn a_fenced_client_cannot_come_back() {
    let mut bench = Bench::new();
    let first = bench.init().unwrap();
    let newer = bench.init().unwrap();
    let fenced = Err(TransactionError::ProducerFenced);
    assert_eq!(bench.init_with(Some(first)), fenced);
    // Nor end the transaction of the newer one.
    bench.add(newer, &[0]).unwrap();
    assert_eq!(bench.init_with(Some(first)), fenced);
    assert_eq!(bench.state(), TransactionState::Ongoing);
}

// T-4: the retry after the producer id has changed.
#[test]
fn a_lost_answer_with_a_new_producer_id_is_given_again() {
    let mut bench = Bench::new();
    let mut producer = bench.init().unwrap();
    while producer.epoch < i16::MAX - 1 {
        producer = bench.init_with(Some(producer)).unwrap();
    }
    let next = bench.init_with(Some(producer)).unwrap();
    assert!(next.id != producer.id && next.epoch == 0);
    assert_eq!(bench.init_with(Some(producer)), Ok(next));
}
