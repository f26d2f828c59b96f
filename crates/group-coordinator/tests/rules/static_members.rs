//! Static membership (G-20…G-23, X-20).

use strandline_coordinator::AppendError;
use strandline_group_coordinator::{GroupError, GroupState, JoinRequest, Request, SyncRequest};

use crate::harness::{
    Bench, DELAY_MS, SESSION_MS, commit, fetch_from, join, join_static, join_with, sync,
};

/// A stable group of static members "a" (leader) and "b"; their ids and the generation.
fn two(bench: &mut Bench) -> ([String; 2], i32) {
    let (ids, generation) = bench.stable_group_of(vec![join_static("", "a"), join_static("", "b")]);
    assert!(ids[0].starts_with("a-") && ids[1].starts_with("b-"));
    ([ids[0].clone(), ids[1].clone()], generation)
}

fn v9(request: JoinRequest) -> JoinRequest {
    JoinRequest {
        supports_skip_assignment: true,
        ..request
    }
}

// G-20: a follower's restart does not rebalance, and is written down.
#[test]
fn a_follower_restarts_without_a_rebalance() {
    let mut bench = Bench::new();
    let (ids, generation) = two(&mut bench);
    bench.commits_at_once = false;
    let parked = bench.park(join_static("", "b"));
    bench.commit_all();
    let reply = bench.join_reply(parked);
    assert_eq!((reply.error, reply.generation_id), (None, generation));
    assert_ne!(reply.member_id, ids[1]);
    assert_eq!(reply.leader, ids[0]);
    assert!(reply.members.is_empty() && !reply.skip_assignment);
    assert_eq!(bench.state(), GroupState::Stable);
    // It gets the assignment of its instance.
    let id = bench.send_sync(generation, &reply.member_id, &[]);
    assert_eq!(bench.sync_reply(id).assignment, ids[1].as_bytes());
    // The new id survives a failover, the old one does not.
    bench.fail_over();
    assert_eq!(
        bench.heartbeat_as(generation, &reply.member_id, Some("b")),
        Ok(())
    );
    assert_eq!(
        bench.heartbeat_as(generation, &ids[1], Some("b")),
        Err(GroupError::FencedInstanceId)
    );
}

// G-20: from v9 on the leader keeps its role and is told not to assign.
#[test]
fn a_leader_restarts_and_skips_the_assignment() {
    let mut bench = Bench::new();
    let (ids, generation) = two(&mut bench);
    let reply = bench.join(v9(join_static("", "a")));
    assert_eq!((reply.error, reply.generation_id), (None, generation));
    assert!(reply.skip_assignment);
    assert_eq!(reply.leader, reply.member_id);
    assert_eq!(reply.members.len(), 2);
    assert!(
        reply
            .members
            .iter()
            .any(|member| member.member_id == reply.member_id
                && member.group_instance_id.as_deref() == Some("a"))
    );
    assert!(
        reply
            .members
            .iter()
            .all(|member| member.member_id != ids[0])
    );
    // A follower is not told to skip anything.
    let follower = bench.join(v9(join_static("", "b")));
    assert!(!follower.skip_assignment && follower.members.is_empty());
    assert_eq!(bench.state(), GroupState::Stable);
}

// G-20: before v9 the leader is told that its old id leads, so that it does not assign.
#[test]
fn an_old_client_is_told_that_another_leads() {
    let mut bench = Bench::new();
    let (ids, generation) = two(&mut bench);
    let reply = bench.join(join_static("", "a"));
    assert_eq!((reply.error, reply.generation_id), (None, generation));
    assert_eq!(reply.leader, ids[0]);
    assert_ne!(reply.member_id, ids[0]);
    assert!(reply.members.is_empty() && !reply.skip_assignment);
    // In truth it leads: its own join rebalances.
    bench.park(join_static(&reply.member_id, "a"));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-20: another choice of protocol rebalances.
#[test]
fn another_protocol_rebalances() {
    let mut bench = Bench::new();
    let both = [("x", ""), ("y", "")];
    let as_instance = |request: JoinRequest, instance: &str| JoinRequest {
        group_instance_id: Some(instance.to_owned()),
        ..request
    };
    let joins = vec![
        as_instance(join_with("", &both), "a"),
        as_instance(join_with("", &both), "b"),
    ];
    bench.stable_group_of(joins);
    bench.park(as_instance(join_with("", &[("y", "")]), "b"));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-20: what the old id has parked is fenced.
#[test]
fn parked_requests_of_the_old_id_are_fenced() {
    let mut bench = Bench::new();
    let (ids, _) = two(&mut bench);
    let old = bench.park(join_static(&ids[0], "a"));
    let new = bench.park(join_static("", "a"));
    let reply = bench.join_reply(old);
    assert_eq!(reply.error, Some(GroupError::FencedInstanceId));
    assert_eq!(reply.member_id, ids[0]);
    bench.send(Request::Join(join_static(&ids[1], "b")));
    assert_eq!(bench.join_reply(new).generation_id, 2);
}

// G-20: the write fails, so the old id is valid again, with its old attributes.
#[test]
fn a_failed_write_brings_the_old_id_back() {
    for (instance, index) in [("a", 0), ("b", 1)] {
        let mut bench = Bench::new();
        let (ids, generation) = two(&mut bench);
        let before = bench.describe();
        bench.commits_at_once = false;
        let request = JoinRequest {
            client_id: "other".to_owned(),
            ..join_static("", instance)
        };
        let parked = bench.park(v9(request));
        bench.fail_all(AppendError::NotEnoughReplicas);
        let reply = bench.join_reply(parked);
        assert_eq!(reply.error, Some(GroupError::CoordinatorNotAvailable));
        assert_eq!(reply.member_id, "");
        assert_eq!(
            (reply.generation_id, &*reply.leader),
            (generation, &*ids[0])
        );
        assert_eq!(reply.protocol_name.as_deref(), Some("range"));
        assert!(reply.members.is_empty() && !reply.skip_assignment);
        assert_eq!(bench.describe(), before);
        assert_eq!(
            bench.heartbeat_as(generation, &ids[index], Some(instance)),
            Ok(())
        );
    }
}

// G-20: two restarts in a row; the first is fenced, the second gets the answer.
#[test]
fn the_last_restart_wins() {
    let mut bench = Bench::new();
    let (_, generation) = two(&mut bench);
    bench.commits_at_once = false;
    let first = bench.park(join_static("", "b"));
    let second = bench.park(join_static("", "b"));
    let fenced = bench.join_reply(first);
    assert_eq!(fenced.error, Some(GroupError::FencedInstanceId));
    bench.commit_all();
    let reply = bench.join_reply(second);
    assert_eq!((reply.error, reply.generation_id), (None, generation));
    assert_ne!(reply.member_id, fenced.member_id);
    assert_eq!(
        bench.heartbeat_as(generation, &reply.member_id, Some("b")),
        Ok(())
    );
}

// G-20: a rebalance overtakes the write; its end answers the join.
#[test]
fn a_rebalance_overtakes_the_restart() {
    for fails in [false, true] {
        let mut bench = Bench::new();
        let (ids, generation) = two(&mut bench);
        bench.commits_at_once = false;
        let restart = bench.park(join_static("", "b"));
        let leader = bench.send(Request::Join(join_static(&ids[0], "a")));
        let replies = [restart, leader].map(|id| bench.join_reply(id));
        assert!(
            replies
                .iter()
                .all(|reply| reply.generation_id == generation + 1)
        );
        if fails {
            bench.fail_all(AppendError::StorageError);
        } else {
            bench.commit_all();
        }
        let new_id = &replies[0].member_id;
        let id = bench.send_sync(generation + 1, new_id, &[]);
        bench.send_sync(generation + 1, &ids[0], &[(new_id, "x")]);
        bench.commit_all();
        assert_eq!(&bench.sync_reply(id).assignment[..], b"x");
    }
}

// G-20: the result of the write comes while the rebalance still waits for others.
#[test]
fn a_restart_stays_parked_in_a_rebalance() {
    for fails in [false, true] {
        let mut bench = Bench::new();
        let joins = vec![join_static("", "a"), join_static("", "b"), join("")];
        let (ids, generation) = bench.stable_group_of(joins);
        bench.commits_at_once = false;
        let restart = bench.park(join_static("", "b"));
        bench.park(join_static(&ids[0], "a"));
        if fails {
            bench.fail_all(AppendError::StorageError);
        } else {
            bench.commit_all();
        }
        assert!(!bench.is_answered(restart));
        bench.send(Request::Join(join(&ids[2])));
        assert_eq!(bench.join_reply(restart).generation_id, generation + 1);
    }
}

// G-21: in Completing a restart rebalances.
#[test]
fn a_restart_in_completing_rebalances() {
    let mut bench = Bench::new();
    let parked = [
        bench.park(join_static("", "a")),
        bench.park(join_static("", "b")),
    ];
    bench.pass(2 * DELAY_MS);
    let [leader, follower] = parked.map(|id| bench.join_reply(id).member_id);
    let old_sync = bench.send_sync(1, &follower, &[]);
    bench.park(join_static("", "b"));
    assert_eq!(
        bench.sync_reply(old_sync).error,
        Some(GroupError::FencedInstanceId)
    );
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(
        bench.heartbeat(1, &leader),
        Err(GroupError::RebalanceInProgress)
    );
}

// G-21: all attributes are the new request's.
#[test]
fn a_restart_replaces_all_attributes() {
    let mut bench = Bench::new();
    let (_, _) = two(&mut bench);
    let request = JoinRequest {
        client_id: "new-client".to_owned(),
        client_host: "/10.0.0.9".to_owned(),
        session_timeout_ms: 300_000,
        ..join_with("", &[("range", "new")])
    };
    let id = bench.send(Request::Join(JoinRequest {
        group_instance_id: Some("b".to_owned()),
        ..request
    }));
    let reply = bench.join_reply(id);
    let members = bench.describe().members;
    let member = members
        .iter()
        .find(|member| member.member_id == reply.member_id)
        .unwrap();
    assert_eq!(
        (&*member.client_id, &*member.client_host),
        ("new-client", "/10.0.0.9")
    );
    assert_eq!(&member.metadata[..], b"new");
    // The longer session holds: only "a" runs out.
    bench.pass(SESSION_MS);
    assert_eq!(
        bench.heartbeat(1, &reply.member_id),
        Err(GroupError::RebalanceInProgress)
    );
}

// G-22: the table of fencing.
#[test]
fn a_wrong_id_for_an_instance_is_fenced() {
    let mut bench = Bench::new();
    let (ids, generation) = two(&mut bench);
    // "a" with the id of "b", and an instance that nobody has.
    let cases = [
        ("a", GroupError::FencedInstanceId),
        ("z", GroupError::UnknownMemberId),
    ];
    for (instance, error) in cases {
        let instance_id = Some(instance.to_owned());
        assert_eq!(
            bench.join(join_static(&ids[1], instance)).error,
            Some(error)
        );
        let request = SyncRequest {
            group_instance_id: instance_id.clone(),
            ..sync(generation, &ids[1], &[])
        };
        let id = bench.send(Request::Sync(request));
        assert_eq!(bench.sync_reply(id).error, Some(error));
        assert_eq!(
            bench.heartbeat_as(generation, &ids[1], Some(instance)),
            Err(error)
        );
        let mut request = commit(generation, &ids[1], 1);
        request.group_instance_id = instance_id;
        assert_eq!(bench.commit(request), Some(error));
        let left = bench.leave(&[(&ids[1], Some(instance))]);
        assert_eq!((left.error, left.members[0].error), (None, Some(error)));
    }
    assert_eq!(bench.state(), GroupState::Stable);
    assert_eq!(fetch_from(&bench.shard, "t", 0).offset, -1);
}

// G-23: an administrator removes a static member by its instance.
#[test]
fn an_administrator_removes_an_instance() {
    let mut bench = Bench::new();
    let (ids, generation) = two(&mut bench);
    let left = bench.leave(&[("", Some("b")), ("", Some("z"))]);
    assert_eq!(left.members[0].error, None);
    assert_eq!(left.members[1].error, Some(GroupError::UnknownMemberId));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(
        bench.heartbeat_as(generation, &ids[1], Some("b")),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(bench.join(join_static(&ids[0], "a")).members.len(), 1);
}

// G-23: a static member that closes without leaving is kept until its session ends.
#[test]
fn a_closed_static_member_is_kept_for_its_session() {
    let mut bench = Bench::new();
    let (ids, generation) = two(&mut bench);
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.heartbeat_as(generation, &ids[0], Some("a")), Ok(()));
    let back = bench.join(join_static("", "b"));
    assert_eq!((back.error, back.generation_id), (None, generation));
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.heartbeat_as(generation, &ids[0], Some("a")), Ok(()));
    bench.pass(1);
    assert_eq!(
        bench.heartbeat_as(generation, &back.member_id, Some("b")),
        Err(GroupError::UnknownMemberId)
    );
}

// G-21: without members nothing of the instance is left; it joins as new.
#[test]
fn an_instance_of_an_empty_group_is_new() {
    let mut bench = Bench::new();
    let (ids, _) = two(&mut bench);
    bench.leave(&[(&ids[0], Some("a")), (&ids[1], Some("b"))]);
    assert_eq!(bench.state(), GroupState::Empty);
    bench.park(join_static("", "a"));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    bench.park(join(""));
}
