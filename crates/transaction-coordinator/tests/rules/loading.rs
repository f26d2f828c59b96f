//! Failover: what a successor knows, and what it goes on with.

use strandline_coordinator::{Now, RequestId};
use strandline_transaction_coordinator::{
    Loader, RecordKey, Reply, TransactionConfig, TransactionError, TransactionShard,
    TransactionState, encode_key,
};

use crate::harness::{Bench, ID, V0, V2, add, end, init, with_epoch};

/// When it makes no difference.
const BEGIN: Now = Now {
    wall_ms: 0,
    monotonic_ms: 0,
};

#[test]
fn a_shard_that_loads_or_is_gone_refuses() {
    let mut shard = TransactionShard::new(TransactionConfig::default());
    let ask = |shard: &mut TransactionShard| {
        let id = RequestId(1);
        let mut effects = shard.handle(id, init(None), Some(1), BEGIN);
        match effects.replies.pop() {
            Some((_, Reply::InitProducerId(result))) => result.map(drop),
            other => panic!("{other:?}"),
        }
    };
    let loading = Err(TransactionError::CoordinatorLoadInProgress);
    assert_eq!(ask(&mut shard), loading);
    assert_eq!(shard.describe(ID).map(drop), loading);
    shard.start(Loader::new(), 0, BEGIN);
    shard.unload();
    assert_eq!(ask(&mut shard), Err(TransactionError::NotCoordinator));
    assert!(!shard.is_active());
}

// T-32
#[test]
fn a_prepared_end_goes_on_under_the_new_coordinator() {
    for (committed, client_version) in [(true, V0), (false, V0), (true, V2), (false, V2)] {
        let mut bench = Bench::new();
        bench.marks_at_once = false;
        let producer = bench.init().unwrap();
        bench.add_as(producer, &[0, 1], client_version).unwrap();
        bench.end_as(producer, committed, client_version).unwrap();
        let before = bench.markers.pop_front().unwrap();
        bench.mark(&before, &before.partitions[0]);
        bench.fail_over();
        let after = bench.markers[0].clone();
        assert_eq!(after.partitions, before.partitions, "all of them again");
        assert_eq!(after.end.committed, committed);
        assert_eq!(after.end.raises_epoch, before.end.raises_epoch);
        assert_eq!(after.end.producer, before.end.producer);
        assert_eq!(
            after.end.coordinator_epoch,
            before.end.coordinator_epoch + 1
        );
        bench.mark_all();
        assert!(bench.state().is_complete());
    }
}

// T-32: a decision that was under way counts if it is in the log, and only then.
#[test]
fn a_decision_that_was_not_written_is_forgotten() {
    let mut bench = Bench::new();
    bench.marks_at_once = false;
    let producer = bench.init().unwrap();
    bench.add(producer, &[0]).unwrap();
    bench.commits_at_once = false;
    let id = bench.send(end(producer, true, V0));
    bench.commits_at_once = true;
    bench.fail_over();
    let refused = Reply::EndTxn(Err(TransactionError::NotCoordinator));
    assert_eq!(bench.reply(id), refused);
    assert_eq!(bench.state(), TransactionState::Ongoing);
    assert_eq!(bench.end(producer, false), Ok(None));
}

#[test]
fn everything_that_is_stored_comes_back() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.add_as(producer, &[3, 1], V2).unwrap();
    let before = bench.transaction();
    bench.fail_over();
    assert_eq!(bench.transaction(), before);
    // The clock of the timeout goes on.
    bench.pass(80_000);
    assert_eq!(bench.state(), TransactionState::CompleteAbort);
}

// T-50
#[test]
fn a_fenced_producer_stays_fenced() {
    let mut bench = Bench::new();
    let old = bench.init().unwrap();
    let new = bench.init().unwrap();
    bench.fail_over();
    assert_eq!(bench.add(old, &[0]), Err(TransactionError::ProducerFenced));
    assert_eq!(bench.add(new, &[0]), Ok(()));
}

// 5.1
#[test]
fn unknown_keys_are_passed_over_and_damage_is_an_error() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    let record = bench.log[0].clone();
    let value = record.value.clone().unwrap();
    let mut loader = Loader::new();
    loader.feed(&[0, 1, 9], Some(b"whatever")).unwrap();
    assert_eq!(loader.ignored_count(), 1);
    loader.feed(&record.key, Some(&value)).unwrap();
    for len in 0..value.len() {
        assert!(loader.feed(&record.key, Some(&value[..len])).is_err());
    }
    assert!(loader.feed(&[0], None).is_err());
    let mut shard = TransactionShard::new(TransactionConfig::default());
    shard.start(loader, 0, BEGIN);
    assert_eq!(shard.describe(ID).unwrap().producer, producer);
    assert_eq!(
        RecordKey::decode(&encode_key(ID).unwrap()),
        Ok(RecordKey::TransactionalId(ID.to_owned()))
    );
}

#[test]
fn unloading_answers_everybody_who_waits() {
    let mut bench = Bench::new();
    let producer = bench.init().unwrap();
    bench.commits_at_once = false;
    let id = bench.send(add(producer, &[0], V0));
    bench.fail_over();
    let refused = Reply::AddPartitions(Err(TransactionError::NotCoordinator));
    assert_eq!(bench.reply(id), refused);
    let _ = with_epoch(producer, 0);
}
