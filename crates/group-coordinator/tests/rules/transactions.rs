//! Offsets that are committed in transactions (G-56, G-62, T-20…T-23, T-43).

use strandline_coordinator::{AppendBatch, AppendError, Producer, TransactionEnd};
use strandline_group_coordinator::{
    GroupError, GroupState, OffsetFetchQuery, Reply, Request, TxnOffsetCommitRequest,
};

use crate::harness::{Bench, GROUP, commit, commit_topic, join, offset_delete};

const PRODUCER: Producer = Producer { id: 7, epoch: 0 };
const OTHER: Producer = Producer { id: 8, epoch: 0 };
const WEEK_MS: i64 = 7 * 24 * 3_600_000;

fn txn(producer: Producer, offset: i64) -> TxnOffsetCommitRequest {
    TxnOffsetCommitRequest {
        group_id: GROUP.to_owned(),
        producer,
        generation_id: -1,
        member_id: String::new(),
        group_instance_id: None,
        topics: vec![commit_topic("t", &[(0, offset)])],
    }
}

fn send(bench: &mut Bench, request: TxnOffsetCommitRequest) -> Option<GroupError> {
    let id = bench.send(Request::TxnOffsetCommit(request));
    let Reply::TxnOffsetCommit(reply) = bench.reply(id) else {
        panic!("not a transactional commit")
    };
    reply.topics[0].partitions[0].1
}

fn end(bench: &mut Bench, producer: Producer, committed: bool) -> Result<(), AppendError> {
    let id = bench.end_transaction(TransactionEnd {
        producer,
        committed,
        coordinator_epoch: 0,
        raises_epoch: false,
    });
    let Reply::TransactionEnd(result) = bench.reply(id) else {
        panic!("not a marker")
    };
    result
}

/// The offset for who insists on a stable one: `None` while it is undecided.
fn stable(bench: &Bench) -> Option<i64> {
    let query = OffsetFetchQuery {
        group_id: GROUP.to_owned(),
        topics: Some(vec![("t".to_owned(), vec![0])]),
        require_stable: true,
    };
    let fetched = bench.shard.fetch_offsets(&query).unwrap();
    let fetched = &fetched[0].partitions[0];
    match fetched.error {
        None => Some(fetched.offset),
        Some(GroupError::UnstableOffsetCommit) => None,
        other => panic!("{other:?}"),
    }
}

// G-56, G-62, T-22
#[test]
fn an_offset_counts_when_the_marker_is_written() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 3));
    assert_eq!(send(&mut bench, txn(PRODUCER, 10)), None);
    let written = bench.batches.last().unwrap();
    assert!(matches!(written, AppendBatch::Transactional(p, _) if *p == PRODUCER));
    assert_eq!(bench.fetch("t", 0).offset, 3, "invisible");
    assert_eq!(stable(&bench), None);
    assert_eq!(end(&mut bench, PRODUCER, true), Ok(()));
    assert_eq!(stable(&bench), Some(10));
    assert_eq!(bench.shard.open_transaction_count(), 0);
}

// G-62
#[test]
fn an_abort_drops_it() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 3));
    send(&mut bench, txn(PRODUCER, 10));
    end(&mut bench, PRODUCER, false).unwrap();
    assert_eq!(stable(&bench), Some(3));
    // A group that has nothing else is not kept for it.
    let mut bench = Bench::new();
    send(&mut bench, txn(PRODUCER, 10));
    assert!(bench.group_exists());
    end(&mut bench, PRODUCER, false).unwrap();
    assert!(!bench.group_exists());
}

// G-62
#[test]
fn of_several_commits_the_last_in_the_log_counts() {
    let mut bench = Bench::new();
    send(&mut bench, txn(PRODUCER, 10));
    send(&mut bench, txn(PRODUCER, 11));
    end(&mut bench, PRODUCER, true).unwrap();
    assert_eq!(stable(&bench), Some(11));
    // A plain commit that came later wins over the transaction that ends after it.
    send(&mut bench, txn(PRODUCER, 20));
    bench.commit(commit(-1, "", 15));
    end(&mut bench, PRODUCER, true).unwrap();
    assert_eq!(stable(&bench), Some(15));
    // And of two transactions the one that wrote later, whichever ends first.
    send(&mut bench, txn(OTHER, 30));
    send(&mut bench, txn(PRODUCER, 31));
    end(&mut bench, PRODUCER, true).unwrap();
    assert_eq!(stable(&bench), None, "the other one is open still");
    end(&mut bench, OTHER, true).unwrap();
    assert_eq!(stable(&bench), Some(31));
}

// T-43: the same answers after a failover, at each stage.
#[test]
fn a_successor_sees_the_same() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 3));
    send(&mut bench, txn(PRODUCER, 10));
    bench.fail_over();
    assert_eq!((stable(&bench), bench.fetch("t", 0).offset), (None, 3));
    end(&mut bench, PRODUCER, true).unwrap();
    bench.fail_over();
    assert_eq!(stable(&bench), Some(10));
    send(&mut bench, txn(PRODUCER, 20));
    bench.commit(commit(-1, "", 15));
    end(&mut bench, PRODUCER, true).unwrap();
    bench.fail_over();
    assert_eq!(stable(&bench), Some(15), "places in the log are kept");
    send(&mut bench, txn(PRODUCER, 30));
    end(&mut bench, PRODUCER, false).unwrap();
    bench.fail_over();
    assert_eq!(stable(&bench), Some(15));
}

// T-43: the marker was written before the answer of the commit came.
#[test]
fn results_in_any_order_are_applied_in_the_order_of_the_log() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let commit_id = bench.send(Request::TxnOffsetCommit(txn(PRODUCER, 10)));
    let end_id = bench.end_transaction(TransactionEnd {
        producer: PRODUCER,
        committed: true,
        coordinator_epoch: 0,
        raises_epoch: false,
    });
    // The producer's next transaction is on its way, too.
    let next_id = bench.send(Request::TxnOffsetCommit(txn(PRODUCER, 20)));
    let appends: Vec<_> = bench.appends.drain(..).collect();
    bench.resolve(appends[1].token, Ok(()));
    assert!(!bench.is_answered(end_id));
    bench.resolve(appends[0].token, Ok(()));
    assert!(bench.is_answered(commit_id) && bench.is_answered(end_id));
    assert_eq!(bench.fetch("t", 0).offset, 10);
    assert_eq!(stable(&bench), None, "the next transaction is open");
    bench.resolve(appends[2].token, Ok(()));
    assert!(bench.is_answered(next_id));
    bench.commits_at_once = true;
    end(&mut bench, PRODUCER, false).unwrap();
    assert_eq!(stable(&bench), Some(10));
}

// T-23, P-70
#[test]
fn a_commit_that_the_log_refuses_leaves_nothing() {
    for (refused, told) in [
        (
            AppendError::InvalidProducerEpoch,
            GroupError::InvalidProducerEpoch,
        ),
        (
            AppendError::InvalidTransactionState,
            GroupError::InvalidTxnState,
        ),
        (AppendError::NotLeaderOrFollower, GroupError::NotCoordinator),
        (
            AppendError::RequestTimedOut,
            GroupError::CoordinatorNotAvailable,
        ),
    ] {
        let mut bench = Bench::new();
        bench.commits_at_once = false;
        let id = bench.send(Request::TxnOffsetCommit(txn(PRODUCER, 10)));
        bench.fail_all(refused);
        let Reply::TxnOffsetCommit(reply) = bench.reply(id) else {
            panic!("not a transactional commit")
        };
        assert_eq!(reply.topics[0].partitions[0].1, Some(told));
        assert_eq!(stable(&bench), Some(-1));
        assert!(!bench.group_exists() && bench.shard.open_transaction_count() == 0);
    }
}

// T-40: nothing has ended if the marker is not there.
#[test]
fn a_marker_that_is_not_written_ends_nothing() {
    let mut bench = Bench::new();
    send(&mut bench, txn(PRODUCER, 10));
    bench.commits_at_once = false;
    let id = bench.end_transaction(TransactionEnd {
        producer: PRODUCER,
        committed: true,
        coordinator_epoch: 0,
        raises_epoch: false,
    });
    bench.fail_all(AppendError::NotEnoughReplicas);
    let refused = Reply::TransactionEnd(Err(AppendError::NotEnoughReplicas));
    assert_eq!(bench.reply(id), refused);
    assert_eq!(stable(&bench), None);
    bench.commits_at_once = true;
    end(&mut bench, PRODUCER, true).unwrap();
    assert_eq!(stable(&bench), Some(10));
}

// T-21
#[test]
fn members_are_checked_as_for_a_plain_commit() {
    let mut bench = Bench::new();
    let unknown = TxnOffsetCommitRequest {
        generation_id: 1,
        member_id: "m".to_owned(),
        ..txn(PRODUCER, 1)
    };
    assert_eq!(
        send(&mut bench, unknown.clone()),
        Some(GroupError::IllegalGeneration),
        "no such group"
    );
    let (members, generation_id) = bench.stable_group(1);
    assert_eq!(send(&mut bench, unknown), Some(GroupError::UnknownMemberId));
    let member = |generation_id| TxnOffsetCommitRequest {
        generation_id,
        member_id: members[0].clone(),
        ..txn(PRODUCER, 1)
    };
    assert_eq!(
        send(&mut bench, member(generation_id - 1)),
        Some(GroupError::IllegalGeneration)
    );
    assert_eq!(send(&mut bench, member(generation_id)), None);
    // Clients of old name neither.
    assert_eq!(send(&mut bench, txn(PRODUCER, 2)), None);
    // And a rebalance is no obstacle.
    bench.send(Request::Join(join(&members[0])));
    bench.pass(1);
    let state = bench.state();
    assert!(matches!(
        state,
        GroupState::PreparingRebalance | GroupState::CompletingRebalance
    ));
    let generation_id = generation_id + i32::from(state == GroupState::CompletingRebalance);
    assert_eq!(send(&mut bench, member(generation_id)), None);
}

// T-21, G-51: a consumer without a subscription, whose instance id says nothing
#[test]
fn an_empty_group_takes_what_names_no_generation() {
    let mut bench = Bench::new();
    let request = |offset| TxnOffsetCommitRequest {
        group_instance_id: Some("i".to_owned()),
        ..txn(PRODUCER, offset)
    };
    assert_eq!(send(&mut bench, request(1)), None, "there is no group yet");
    assert_eq!(send(&mut bench, request(2)), None, "it is empty");
    end(&mut bench, PRODUCER, true).unwrap();
    assert_eq!(stable(&bench), Some(2));
}

// G-60, X-18
#[test]
fn what_is_undecided_does_not_expire() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 3));
    send(&mut bench, txn(PRODUCER, 10));
    bench.pass(2 * WEEK_MS);
    assert_eq!(bench.fetch("t", 0).offset, 3);
    end(&mut bench, PRODUCER, false).unwrap();
    bench.pass(WEEK_MS);
    assert!(!bench.group_exists());
}

// G-61: what a tombstone covers does not come back with a marker, live or after loading.
#[test]
fn a_deleted_topic_takes_undecided_offsets_along() {
    let mut bench = Bench::new();
    send(&mut bench, txn(PRODUCER, 10));
    bench.topics_deleted(&["t"]);
    end(&mut bench, PRODUCER, true).unwrap();
    assert_eq!(stable(&bench), Some(-1));
    bench.fail_over();
    assert_eq!(stable(&bench), Some(-1));
}

// G-71
#[test]
fn a_shard_that_is_gone_takes_no_markers() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let commit_id = bench.send(Request::TxnOffsetCommit(txn(PRODUCER, 10)));
    bench.commits_at_once = true;
    bench.fail_over();
    assert!(bench.is_answered(commit_id));
    bench.shard.unload();
    assert_eq!(
        end(&mut bench, PRODUCER, true),
        Err(AppendError::NotLeaderOrFollower)
    );
}

// G-1: only a plain commit may be for the group "".
#[test]
fn the_group_without_a_name_has_no_transactions() {
    let mut bench = Bench::new();
    let request = TxnOffsetCommitRequest {
        group_id: String::new(),
        ..txn(PRODUCER, 5)
    };
    assert_eq!(send(&mut bench, request), Some(GroupError::InvalidGroupId));
    let mut request = offset_delete(&[("t", &[0])]);
    request.group_id.clear();
    let id = bench.send(Request::OffsetDelete(request));
    let Reply::OffsetDelete(reply) = bench.reply(id) else {
        panic!("not a deletion")
    };
    assert_eq!(reply.error, Some(GroupError::InvalidGroupId));
}
