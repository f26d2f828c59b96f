//! SyncGroup and Heartbeat (G-30…G-33, G-40, G-43).

use strandline_coordinator::AppendError;
use strandline_group_coordinator::{GroupError, GroupState, Request, SyncRequest};

use crate::harness::{Bench, DELAY_MS, GROUP, SESSION_MS, commit, join, sync};

/// Two members in Completing, the leader first.
fn completing(bench: &mut Bench) -> [String; 2] {
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.pass(2 * DELAY_MS);
    parked.map(|id| bench.join_reply(id).member_id)
}

fn sync_error(bench: &mut Bench, request: SyncRequest) -> Option<GroupError> {
    let id = bench.send(Request::Sync(request));
    bench.sync_reply(id).error
}

// G-30: the checks, and the table of 4.1.
#[test]
fn wrong_syncs_are_refused() {
    let mut bench = Bench::new();
    let unknown = sync(1, "nobody", &[]);
    assert_eq!(
        sync_error(&mut bench, unknown.clone()),
        Some(GroupError::UnknownMemberId)
    );
    let [leader, _] = completing(&mut bench);
    assert_eq!(
        sync_error(&mut bench, unknown),
        Some(GroupError::UnknownMemberId)
    );
    for generation in [0, 2, -1] {
        let request = sync(generation, &leader, &[]);
        assert_eq!(
            sync_error(&mut bench, request),
            Some(GroupError::IllegalGeneration)
        );
    }
    let wrong_type = SyncRequest {
        protocol_type: Some("connect".to_owned()),
        ..sync(1, &leader, &[])
    };
    assert_eq!(
        sync_error(&mut bench, wrong_type),
        Some(GroupError::InconsistentGroupProtocol)
    );
    let wrong_name = SyncRequest {
        protocol_name: Some("sticky".to_owned()),
        ..sync(1, &leader, &[])
    };
    assert_eq!(
        sync_error(&mut bench, wrong_name),
        Some(GroupError::InconsistentGroupProtocol)
    );
    assert_eq!(bench.state(), GroupState::CompletingRebalance);
}

// G-30: in Preparing the member is told to rejoin.
#[test]
fn a_sync_while_preparing_is_told_to_rejoin() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    bench.park(join(&ids[0]));
    let request = sync(generation, &ids[1], &[]);
    assert_eq!(
        sync_error(&mut bench, request),
        Some(GroupError::RebalanceInProgress)
    );
}

// G-31: nobody is answered before the assignment has committed.
#[test]
fn syncs_wait_for_the_append() {
    let mut bench = Bench::new();
    let [leader, follower] = completing(&mut bench);
    bench.commits_at_once = false;
    let early = bench.send_sync(1, &follower, &[]);
    assert!(bench.appends.is_empty(), "a follower's sync writes nothing");
    let decisive = bench.send_sync(1, &leader, &[(&leader, "one"), (&follower, "two")]);
    assert_eq!(bench.appends.len(), 1);
    assert!(!bench.is_answered(early) && !bench.is_answered(decisive));
    assert_eq!(bench.state(), GroupState::CompletingRebalance);

    bench.commit_all();
    let reply = bench.sync_reply(early);
    assert_eq!((reply.error, &reply.assignment[..]), (None, &b"two"[..]));
    assert_eq!(reply.protocol_type.as_deref(), Some("consumer"));
    assert_eq!(reply.protocol_name.as_deref(), Some("range"));
    assert_eq!(&bench.sync_reply(decisive).assignment[..], b"one");
    assert_eq!(bench.state(), GroupState::Stable);
}

// G-31, X-21: who is not in the plan gets empty bytes.
#[test]
fn a_member_without_a_plan_gets_empty_bytes() {
    let mut bench = Bench::new();
    let [leader, follower] = completing(&mut bench);
    bench.send_sync(1, &leader, &[(&leader, "all"), ("stranger", "nothing")]);
    let id = bench.send_sync(1, &follower, &[]);
    let reply = bench.sync_reply(id);
    assert_eq!(reply.error, None);
    assert!(reply.assignment.is_empty());
}

// G-31: the retry of a leader's sync does not write twice, nor is the first left hanging.
#[test]
fn a_leaders_retry_waits_for_the_same_append() {
    let mut bench = Bench::new();
    let [leader, _] = completing(&mut bench);
    bench.commits_at_once = false;
    let first = bench.send_sync(1, &leader, &[(&leader, "one")]);
    let second = bench.send_sync(1, &leader, &[(&leader, "one")]);
    assert_eq!(bench.appends.len(), 1);
    assert_eq!(
        bench.sync_reply(first).error,
        Some(GroupError::RebalanceInProgress)
    );
    bench.commit_all();
    assert_eq!(&bench.sync_reply(second).assignment[..], b"one");
}

// G-31, G-70, X-16: a failed write is told to all, mapped, and the group rebalances.
#[test]
fn a_failed_append_starts_over() {
    let mappings = [
        (
            AppendError::UnknownTopicOrPartition,
            GroupError::CoordinatorNotAvailable,
        ),
        (
            AppendError::NotEnoughReplicas,
            GroupError::CoordinatorNotAvailable,
        ),
        (
            AppendError::NotEnoughReplicasAfterAppend,
            GroupError::CoordinatorNotAvailable,
        ),
        (
            AppendError::RequestTimedOut,
            GroupError::CoordinatorNotAvailable,
        ),
        (AppendError::NotLeaderOrFollower, GroupError::NotCoordinator),
        (AppendError::StorageError, GroupError::NotCoordinator),
        (AppendError::MessageTooLarge, GroupError::UnknownServerError),
        (
            AppendError::RecordListTooLarge,
            GroupError::UnknownServerError,
        ),
        (AppendError::Unknown, GroupError::UnknownServerError),
    ];
    for (cause, told) in mappings {
        let mut bench = Bench::new();
        let [leader, follower] = completing(&mut bench);
        bench.commits_at_once = false;
        let syncs = [
            bench.send_sync(1, &follower, &[]),
            bench.send_sync(1, &leader, &[(&follower, "x")]),
        ];
        bench.fail_all(cause);
        for id in syncs {
            let reply = bench.sync_reply(id);
            assert_eq!(reply.error, Some(told), "{cause}");
            assert!(reply.assignment.is_empty());
        }
        assert_eq!(bench.state(), GroupState::PreparingRebalance);
        bench.park(join(&follower));
        assert_eq!(bench.join(join(&leader)).generation_id, 2);
    }
}

// G-31: the result of an append that a rebalance has overtaken changes nothing.
#[test]
fn an_overtaken_append_is_ignored() {
    for fails in [false, true] {
        let mut bench = Bench::new();
        let [leader, follower] = completing(&mut bench);
        bench.commits_at_once = false;
        let id = bench.send_sync(1, &leader, &[(&leader, "old")]);
        bench.leave(&[(&follower, None)]);
        assert_eq!(
            bench.sync_reply(id).error,
            Some(GroupError::RebalanceInProgress)
        );
        assert_eq!(bench.join(join(&leader)).generation_id, 2);
        if fails {
            bench.fail_all(AppendError::StorageError);
        } else {
            bench.commit_all();
        }
        assert_eq!(bench.state(), GroupState::CompletingRebalance);
        let id = bench.send_sync(2, &leader, &[(&leader, "new")]);
        bench.commit_all();
        assert_eq!(&bench.sync_reply(id).assignment[..], b"new");
    }
}

// 4.1: in Stable each gets its assignment again.
#[test]
fn a_sync_in_stable_returns_the_assignment() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    let id = bench.send_sync(generation, &ids[1], &[]);
    assert_eq!(bench.sync_reply(id).assignment, ids[1].as_bytes());
    assert_eq!(bench.log.len(), 1);
}

// G-40: errors of heartbeats.
#[test]
fn wrong_heartbeats_are_refused() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.heartbeat(1, "nobody"),
        Err(GroupError::UnknownMemberId)
    );
    let (ids, generation) = bench.stable_group(1);
    assert_eq!(
        bench.heartbeat(generation, "nobody"),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(
        bench.heartbeat(generation + 1, &ids[0]),
        Err(GroupError::IllegalGeneration)
    );
    assert_eq!(
        bench.heartbeat_as(generation, &ids[0], Some("i")),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(bench.heartbeat(generation, &ids[0]), Ok(()));
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(
        bench.heartbeat(generation, &ids[0]),
        Err(GroupError::UnknownMemberId)
    );
}

// G-40: in Completing a heartbeat is fine. G-43: in Preparing it says 27 until the rejoin.
#[test]
fn heartbeats_tell_the_phase() {
    let mut bench = Bench::new();
    let [leader, follower] = completing(&mut bench);
    assert_eq!(bench.heartbeat(1, &leader), Ok(()));
    bench.park(crate::harness::join_with(
        &follower,
        &[("range", "changed")],
    ));
    for _ in 0..5 {
        bench.pass(SESSION_MS - 1);
        assert_eq!(
            bench.heartbeat(1, &leader),
            Err(GroupError::RebalanceInProgress)
        );
    }
}

// G-40: heartbeat, join, sync and commit each keep the session alive.
#[test]
fn every_request_of_a_member_keeps_it_alive() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    let (leader, follower) = (&ids[0], &ids[1]);
    for round in 0..12 {
        bench.pass(SESSION_MS - 1);
        assert_eq!(bench.heartbeat(generation, leader), Ok(()), "round {round}");
        match round % 4 {
            0 => assert_eq!(bench.heartbeat(generation, follower), Ok(())),
            1 => assert_eq!(bench.join(join(follower)).error, None),
            2 => {
                let id = bench.send_sync(generation, follower, &[]);
                assert_eq!(bench.sync_reply(id).error, None);
            }
            _ => assert_eq!(bench.commit(commit(generation, follower, 1)), None),
        }
    }
    assert_eq!(bench.state(), GroupState::Stable);
    // But a refused one does not.
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.heartbeat(generation, leader), Ok(()));
    assert_eq!(
        bench.heartbeat(generation + 1, follower),
        Err(GroupError::IllegalGeneration)
    );
    bench.pass(1);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-30: other groups are other groups.
#[test]
fn groups_do_not_touch_each_other() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(1);
    let mut other = sync(generation, &ids[0], &[]);
    other.group_id = format!("{GROUP}2");
    assert_eq!(
        sync_error(&mut bench, other),
        Some(GroupError::UnknownMemberId)
    );
}

// G-40: a session begins anew when the assignment is delivered, not when it was asked for.
#[test]
fn the_wait_for_an_assignment_does_not_count() {
    let mut bench = Bench::new();
    let [leader, follower] = completing(&mut bench);
    bench.commits_at_once = false;
    let waiting = bench.send_sync(1, &follower, &[]);
    bench.send_sync(1, &leader, &[]);
    bench.pass(SESSION_MS - 1);
    bench.commit_all();
    assert_eq!(bench.sync_reply(waiting).error, None);
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.state(), GroupState::Stable);
    assert_eq!(bench.heartbeat(1, &leader), Ok(()));
    bench.pass(1);
    assert_eq!(
        bench.heartbeat(1, &follower),
        Err(GroupError::UnknownMemberId)
    );
}
