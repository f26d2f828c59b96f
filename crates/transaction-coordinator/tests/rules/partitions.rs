//! Adding partitions, and asking for them.

use strandline_coordinator::{AppendError, Producer};
use strandline_transaction_coordinator::{Reply, TransactionError, TransactionState};

use crate::harness::{Bench, ID, V0, add, topic_partition, with_epoch};

// T-11
#[test]
fn the_first_partition_begins_the_transaction() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    let begun_ms = bench.now_ms;
    assert_eq!(bench.state(), TransactionState::Ongoing);
    bench.pass(100);
    bench.add(producer, &[0, 1]).unwrap();
    let transaction = bench.transaction();
    assert_eq!(transaction.start_ms, begun_ms);
    assert_eq!(transaction.last_update_ms, begun_ms + 100);
    assert_eq!(transaction.partitions.len(), 2);
}

// T-11
#[test]
fn partitions_that_are_there_cost_no_append() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add(producer, &[0, 1]).unwrap();
    let written = bench.log.len();
    bench.add(producer, &[1]).unwrap();
    bench.add(producer, &[]).unwrap();
    assert_eq!(bench.log.len(), written);
}

// T-11
#[test]
fn strangers_and_zombies_are_refused() {
    let mut bench = Bench::new();
    let nobody = Producer { id: 5, epoch: 0 };
    let mapping = Err(TransactionError::InvalidProducerIdMapping);
    assert_eq!(bench.add(nobody, &[0]), mapping);
    let producer = bench.init().unwrap();
    assert_eq!(bench.add(nobody, &[0]), mapping);
    let fenced = Err(TransactionError::ProducerFenced);
    assert_eq!(bench.add(with_epoch(producer, 1), &[0]), fenced);
    let newer = bench.init().unwrap();
    assert_eq!(bench.add(producer, &[0]), fenced);
    assert_eq!(bench.add(newer, &[0]), Ok(()));
}

// T-11: section 5.1, one change at a time.
#[test]
fn while_a_change_is_written_the_next_one_must_wait() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.commits_at_once = false;
    let first = bench.send(add(producer, &[0], V0));
    assert_eq!(
        bench.add(producer, &[1]),
        Err(TransactionError::ConcurrentTransactions)
    );
    assert_eq!(
        bench.end(producer, true),
        Err(TransactionError::ConcurrentTransactions)
    );
    bench.commit_all();
    assert_eq!(bench.reply(first), Reply::AddPartitions(Ok(())));
}

// T-11, T-31
#[test]
fn a_prepared_end_takes_no_more_partitions() {
    let mut bench = Bench::new();
    bench.marks_at_once = false;
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    bench.end(producer, true).unwrap();
    assert_eq!(
        bench.add(producer, &[1]),
        Err(TransactionError::ConcurrentTransactions)
    );
    bench.mark_all();
    // The next transaction begins without the partitions of the last one.
    bench.add(producer, &[1]).unwrap();
    let partitions = bench.transaction().partitions;
    assert_eq!(
        partitions.into_iter().collect::<Vec<_>>(),
        [topic_partition(1)]
    );
}

#[test]
fn a_failed_append_adds_nothing() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.commits_at_once = false;
    let id = bench.send(add(producer, &[0], V0));
    bench.fail_all(AppendError::NotLeaderOrFollower);
    let refused = Reply::AddPartitions(Err(TransactionError::NotCoordinator));
    assert_eq!(bench.reply(id), refused);
    assert_eq!(bench.state(), TransactionState::Empty);
}

// P-70, T-12
#[test]
fn verification_tells_what_is_in_the_transaction() {
    let mut bench = Bench::new();
    bench.marks_at_once = false;
    let producer = bench.init().unwrap();
    let ask = |bench: &Bench, producer| {
        let partitions = [topic_partition(0), topic_partition(1)];
        bench.shard.verify_partitions(ID, producer, &partitions)
    };
    let no = Err(TransactionError::TransactionAbortable);
    assert_eq!(
        ask(&bench, producer),
        Ok(vec![no, no]),
        "no transaction yet"
    );
    bench.add(producer, &[1]).unwrap();
    assert_eq!(ask(&bench, producer), Ok(vec![no, Ok(())]));
    let old = with_epoch(producer, -1);
    assert_eq!(ask(&bench, old), Err(TransactionError::ProducerFenced));
    let stranger = Producer { id: 1, epoch: 0 };
    assert_eq!(
        ask(&bench, stranger),
        Err(TransactionError::InvalidProducerIdMapping)
    );
    bench.end(producer, false).unwrap();
    assert_eq!(
        ask(&bench, producer),
        Err(TransactionError::ConcurrentTransactions)
    );
    bench.mark_all();
    assert_eq!(ask(&bench, producer), Ok(vec![no, no]), "it has ended");
    let unknown = bench.shard.verify_partitions("?", producer, &[]);
    assert_eq!(unknown, Err(TransactionError::InvalidProducerIdMapping));
    let empty = bench.shard.verify_partitions("", producer, &[]);
    assert_eq!(empty, Err(TransactionError::InvalidRequest));
}
