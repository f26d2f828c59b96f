//! DescribeTransactions and ListTransactions.

use strandline_transaction_coordinator::{TransactionError, TransactionFilter, TransactionState};

use crate::harness::{Bench, ID, topic_partition};

// 5.1
#[test]
fn a_transaction_is_described() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.shard.describe(ID).map(drop),
        Err(TransactionError::TransactionalIdNotFound)
    );
    assert_eq!(
        bench.shard.describe("").map(drop),
        Err(TransactionError::InvalidRequest)
    );
    let producer = bench.init().unwrap();
    bench.add(producer, &[4]).unwrap();
    let transaction = bench.transaction();
    assert_eq!(transaction.producer, producer);
    assert_eq!(transaction.state, TransactionState::Ongoing);
    assert_eq!(transaction.timeout_ms, 60_000);
    assert_eq!(transaction.start_ms, bench.now_ms);
    assert!(transaction.partitions.contains(&topic_partition(4)));
}

#[test]
fn lists_are_filtered() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    bench.pass(5_000);
    let count = |bench: &Bench, filter: TransactionFilter| {
        bench.shard.list(&filter, bench.now_ms).unwrap().len()
    };
    let all = TransactionFilter::default;
    assert_eq!(count(&bench, all()), 1);
    let states = |states: &[TransactionState]| TransactionFilter {
        states: states.to_vec(),
        ..all()
    };
    assert_eq!(count(&bench, states(&[TransactionState::Ongoing])), 1);
    assert_eq!(count(&bench, states(&[TransactionState::Empty])), 0);
    let nothing = TransactionFilter {
        matches_nothing: true,
        ..all()
    };
    assert_eq!(count(&bench, nothing), 0);
    let producers = |id| TransactionFilter {
        producer_ids: [id].into(),
        ..all()
    };
    assert_eq!(count(&bench, producers(producer.id)), 1);
    assert_eq!(count(&bench, producers(producer.id + 1)), 0);
    let longer = |ms| TransactionFilter {
        longer_than_ms: Some(ms),
        ..all()
    };
    assert_eq!(count(&bench, longer(4_999)), 1);
    assert_eq!(count(&bench, longer(5_000)), 0);
    assert_eq!(bench.shard.state_counts()[&TransactionState::Ongoing], 1);
    assert_eq!(
        bench.shard.oldest_open_start_ms(),
        Some(bench.now_ms - 5_000)
    );
}
