//! Appends whose result comes after `offsets.commit.timeout.ms`: the request is answered then, and memory
//! follows the log all the same.

use strandline_coordinator::{AppendError, Producer, RequestId, TransactionEnd};
use strandline_group_coordinator::{
    DeleteGroupRequest, GroupError, GroupState, OffsetFetchQuery, Reply, Request,
    TxnOffsetCommitRequest,
};

use crate::harness::{
    Bench, GROUP, commit, commit_topic, fetch_from, join, join_static, offset_delete,
};

const NOT_NOW: Option<GroupError> = Some(GroupError::CoordinatorNotAvailable);

fn send_commit(bench: &mut Bench, offset: i64) -> RequestId {
    bench.send(Request::OffsetCommit(commit(-1, "", offset)))
}

fn commit_error(bench: &mut Bench, id: RequestId) -> Option<GroupError> {
    bench.commit_reply(id).topics[0].partitions[0].1
}

/// For who insists on a stable offset: `None` while there is none.
fn stable(bench: &Bench) -> Option<i64> {
    let query = OffsetFetchQuery {
        group_id: GROUP.to_owned(),
        topics: Some(vec![("t".to_owned(), vec![0])]),
        require_stable: true,
    };
    let mut fetched = bench.shard.fetch_offsets(&query).unwrap();
    let fetched = fetched.remove(0).partitions.remove(0);
    let is_unstable = fetched.error == Some(GroupError::UnstableOffsetCommit);
    assert!(is_unstable || fetched.error.is_none());
    (!is_unstable).then_some(fetched.offset)
}

/// What another coordinator would know.
fn stored(bench: &Bench) -> i64 {
    fetch_from(&bench.loaded(), "t", 0).offset
}

// G-56: what is appended may be there for good, so who insists on a stable offset waits for it.
#[test]
fn a_commit_under_way_is_not_stable() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    assert_eq!(stable(&bench), Some(5));
    bench.commits_at_once = false;
    send_commit(&mut bench, 6);
    assert_eq!(stable(&bench), None);
    assert_eq!(bench.fetch("t", 0).offset, 5, "others do not wait");
    bench.late_all();
    assert_eq!(stable(&bench), None);
    bench.fail_all(AppendError::NotEnoughReplicas);
    assert_eq!(stable(&bench), Some(5));
}

// G-53: the client is told in time, and the offset counts as soon as it has committed.
#[test]
fn a_late_commit_counts() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let id = send_commit(&mut bench, 5);
    bench.late_all();
    assert_eq!(commit_error(&mut bench, id), NOT_NOW);
    assert_eq!(bench.fetch("t", 0).offset, -1, "X-71");
    bench.commit_all();
    assert_eq!((bench.fetch("t", 0).offset, stored(&bench)), (5, 5));
}

// G-53: neither does a late failure leave anything behind.
#[test]
fn a_late_failure_leaves_nothing() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    send_commit(&mut bench, 5);
    bench.late_all();
    assert!(bench.group_exists());
    bench.fail_all(AppendError::StorageError);
    assert_eq!(stable(&bench), Some(-1));
    assert!(!bench.group_exists());
}

// G-53: who fails behind a late append is told; the order of the log stays.
#[test]
fn nobody_waits_behind_a_late_append() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    send_commit(&mut bench, 5);
    bench.late_all();
    let refused = send_commit(&mut bench, 6);
    let append = bench.appends.pop_back().unwrap();
    bench.resolve(append.token, Err(AppendError::MessageTooLarge));
    let error = commit_error(&mut bench, refused);
    assert_eq!(error, Some(GroupError::UnknownServerError));
    bench.commit_all();
    assert_eq!(bench.fetch("t", 0).offset, 5);
    assert_eq!(stable(&bench), Some(5));
}

// G-59: a late tombstone deletes.
#[test]
fn a_late_deletion_of_an_offset_happens() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    let id = bench.send(Request::OffsetDelete(offset_delete(&[("t", &[0])])));
    bench.late_all();
    let Reply::OffsetDelete(reply) = bench.reply(id) else {
        panic!("not a deletion")
    };
    assert_eq!(reply.error, NOT_NOW);
    assert_eq!(bench.fetch("t", 0).offset, 5);
    bench.commit_all();
    assert_eq!((bench.fetch("t", 0).offset, stored(&bench)), (-1, -1));
}

// G-59: the group that is being deleted takes nobody until it is known what became of it.
#[test]
fn a_late_deletion_of_a_group_happens_or_not() {
    for happens in [true, false] {
        let mut bench = Bench::new();
        bench.commit(commit(-1, "", 5));
        bench.commits_at_once = false;
        let group_id = GROUP.to_owned();
        let id = bench.send(Request::DeleteGroup(DeleteGroupRequest { group_id }));
        bench.late_all();
        let told = Reply::DeleteGroup(Err(GroupError::CoordinatorNotAvailable));
        assert_eq!(bench.reply(id), told);
        assert_eq!(bench.state(), GroupState::Dead);
        assert_eq!(bench.commit(commit(-1, "", 6)), NOT_NOW);
        let group_id = GROUP.to_owned();
        let again = bench.send(Request::DeleteGroup(DeleteGroupRequest { group_id }));
        assert_eq!(bench.reply(again), told, "it may live on");
        if happens {
            bench.commit_all();
            assert!(!bench.group_exists());
        } else {
            bench.fail_all(AppendError::NotEnoughReplicas);
            assert_eq!(bench.fetch("t", 0).offset, 5);
        }
        assert_eq!(bench.fetch("t", 0).offset, stored(&bench));
    }
}

// G-61: the offsets of a topic that is gone must not greet the next one of its name, however slow the
// tombstones are, and however slow the commits before them.
#[test]
fn a_deleted_topic_is_forgotten_before_its_late_tombstones() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    send_commit(&mut bench, 6);
    bench.topics_deleted(&["t"]);
    bench.late_all();
    assert_eq!(bench.fetch("t", 0).offset, -1);
    let newer = send_commit(&mut bench, 1);
    bench.commit_all();
    assert_eq!((bench.fetch("t", 0).offset, stored(&bench)), (1, 1));
    assert_eq!(commit_error(&mut bench, newer), None);
}

// G-62, T-43: a transaction ends when its late marker is there, with its late offsets.
#[test]
fn a_late_transaction_ends() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let producer = Producer { id: 7, epoch: 0 };
    let id = bench.send(Request::TxnOffsetCommit(TxnOffsetCommitRequest {
        group_id: GROUP.to_owned(),
        producer,
        generation_id: -1,
        member_id: String::new(),
        group_instance_id: None,
        topics: vec![commit_topic("t", &[(0, 5)])],
    }));
    let end = bench.end_transaction(TransactionEnd {
        producer,
        committed: true,
        coordinator_epoch: 0,
        raises_epoch: false,
    });
    bench.late_all();
    let Reply::TxnOffsetCommit(reply) = bench.reply(id) else {
        panic!("not a commit")
    };
    assert_eq!(reply.topics[0].partitions[0].1, NOT_NOW);
    let told = Reply::TransactionEnd(Err(AppendError::RequestTimedOut));
    assert_eq!(bench.reply(end), told);
    assert_eq!(stable(&bench), None);
    bench.commit_all();
    assert_eq!((stable(&bench), stored(&bench)), (Some(5), 5));
    assert_eq!(bench.shard.open_transaction_count(), 0);
}

// G-31: a late assignment starts the group over; what is written next is what counts.
#[test]
fn a_late_assignment_starts_over() {
    let mut bench = Bench::new();
    let id = bench.park(join(""));
    bench.pass(6_000);
    let member = bench.join_reply(id).member_id;
    bench.commits_at_once = false;
    let id = bench.send_sync(1, &member, &[(&member, "old")]);
    bench.late_all();
    assert_eq!(bench.sync_reply(id).error, NOT_NOW);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    bench.commit_all();
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.join(join(&member)).generation_id, 2);
    let id = bench.send_sync(2, &member, &[(&member, "new")]);
    bench.commit_all();
    assert_eq!(&bench.sync_reply(id).assignment[..], b"new");
    let loaded = bench.loaded();
    assert_eq!(loaded.describe_group(GROUP).unwrap(), bench.describe());
}

// G-20: a static member keeps its late new id if the log has it, and only then.
#[test]
fn a_late_restart_happens_or_not() {
    for happens in [true, false] {
        let mut bench = Bench::new();
        let (ids, _) = bench.stable_group_of(vec![join_static("", "a"), join_static("", "b")]);
        let before = bench.describe();
        bench.commits_at_once = false;
        let parked = bench.park(join_static("", "b"));
        bench.late_all();
        let reply = bench.join_reply(parked);
        assert_eq!((reply.error, &*reply.member_id), (NOT_NOW, ""));
        assert_ne!(bench.describe(), before);
        if happens {
            bench.commit_all();
            assert_ne!(bench.describe().members[1].member_id, ids[1]);
        } else {
            bench.fail_all(AppendError::NotEnoughReplicas);
            assert_eq!(bench.describe(), before);
        }
        let loaded = bench.loaded();
        assert_eq!(loaded.describe_group(GROUP).unwrap(), bench.describe());
    }
}

// G-71: what is late when the partition goes elsewhere is nobody's here any more.
#[test]
fn a_lost_partition_forgets_what_is_late() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    send_commit(&mut bench, 5);
    bench.late_all();
    let tokens: Vec<_> = bench.appends.iter().map(|append| append.token).collect();
    let effects = bench.shard.unload();
    bench.carry_out(effects);
    bench.late_all();
    for token in tokens {
        bench.resolve(token, Ok(()));
    }
    assert_eq!(bench.unanswered_count(), 0);
    assert!(!bench.shard.is_active());
}
