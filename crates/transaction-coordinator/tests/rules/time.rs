//! Timeouts and expiry.

use strandline_coordinator::AppendError;
use strandline_transaction_coordinator::{TransactionConfig, TransactionError, TransactionState};

use crate::harness::{Bench, ID, TIMEOUT_MS, with_epoch};

// T-50
#[test]
fn a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    bench.pass(i64::from(TIMEOUT_MS));
    assert_eq!(
        bench.state(),
        TransactionState::Ongoing,
        "not longer than that"
    );
    bench.pass(10_000);
    assert_eq!(bench.state(), TransactionState::CompleteAbort);
    assert_eq!(bench.transaction().producer, with_epoch(producer, 1));
    let fenced = TransactionError::ProducerFenced;
    assert_eq!(bench.add(producer, &[0]), Err(fenced));
    assert_eq!(bench.end(producer, true), Err(fenced));
    assert_eq!(bench.init(), Ok(with_epoch(producer, 2)));
}

// T-50
#[test]
fn an_abort_that_could_not_be_written_is_tried_at_the_next_scan() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    bench.commits_at_once = false;
    bench.pass(70_001);
    assert_eq!(bench.appends.len(), 1);
    bench.fail_all(AppendError::NotEnoughReplicas);
    assert_eq!(bench.state(), TransactionState::Ongoing);
    bench.pass(10_000);
    bench.commit_all();
    // The epoch that nobody saw is not used up twice.
    assert_eq!(bench.transaction().producer, with_epoch(producer, 1));
    assert_eq!(bench.state(), TransactionState::CompleteAbort);
}

// T-50: an idle coordinator is not woken for it.
#[test]
fn without_an_ongoing_transaction_nothing_is_scanned() {
    let mut bench = Bench::new();
    let hourly = bench.shard.next_deadline_ms();
    let producer = bench.init().unwrap();
    assert_eq!(bench.shard.next_deadline_ms(), hourly);
    bench.add(producer, &[0]).unwrap();
    assert_eq!(
        bench.shard.next_deadline_ms(),
        Some(bench.monotonic_ms + 10_000)
    );
    bench.end(producer, true).unwrap();
    bench.pass(10_000);
    assert_eq!(bench.shard.next_deadline_ms(), hourly);
}

fn expiring() -> Bench {
    Bench::with(TransactionConfig {
        id_expiration_ms: 50_000,
        expiry_scan_interval_ms: 10_000,
        ..TransactionConfig::default()
    })
}

// T-51
#[test]
fn an_idle_id_is_forgotten() {
    let mut bench = expiring();
    let producer = bench.init().unwrap();
    bench.pass(49_999);
    assert!(bench.shard.describe(ID).is_ok());
    bench.pass(10_001);
    assert_eq!(
        bench.shard.describe(ID).map(drop),
        Err(TransactionError::TransactionalIdNotFound)
    );
    assert_eq!(bench.log.last().unwrap().value, None, "a tombstone");
    assert_eq!(
        bench.add(producer, &[0]),
        Err(TransactionError::InvalidProducerIdMapping)
    );
    bench.fail_over();
    assert!(bench.shard.describe(ID).is_err());
    assert_ne!(bench.init().unwrap().id, producer.id);
}

// T-51
#[test]
fn an_open_transaction_is_not_forgotten() {
    let mut bench = expiring();
    bench.marks_at_once = false;
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    bench.pass(60_000);
    assert_eq!(bench.state(), TransactionState::Ongoing);
    bench.pass(60_000);
    assert_eq!(bench.state(), TransactionState::PrepareAbort);
    bench.mark_all();
    bench.pass(60_001);
    assert!(bench.shard.describe(ID).is_err());
}

// T-51
#[test]
fn a_tombstone_that_could_not_be_written_leaves_the_id() {
    let mut bench = expiring();
    let producer = bench.init().unwrap();
    bench.commits_at_once = false;
    bench.pass(60_000);
    assert_eq!(bench.appends.len(), 1);
    assert_eq!(
        bench.add(producer, &[0]),
        Err(TransactionError::ConcurrentTransactions),
        "while it is being forgotten"
    );
    bench.fail_all(AppendError::StorageError);
    bench.commits_at_once = true;
    assert_eq!(bench.add(producer, &[0]), Ok(()));
}
