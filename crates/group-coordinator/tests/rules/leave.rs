//! LeaveGroup (G-42).

use strandline_group_coordinator::{GroupError, GroupState, Request};

use crate::harness::{Bench, DELAY_MS, join, join_with};

// G-42: per member, with no error on top.
#[test]
fn each_member_has_its_own_outcome() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(3);
    let left = bench.leave(&[
        (&ids[1], None),
        ("nobody", None),
        (&ids[2], None),
        ("", None),
    ]);
    assert_eq!(left.error, None);
    let errors: Vec<_> = left.members.iter().map(|member| member.error).collect();
    let unknown = Some(GroupError::UnknownMemberId);
    assert_eq!(errors, [None, unknown, None, unknown]);
    assert_eq!(left.members[1].member_id, "nobody");
    // One rebalance for both.
    assert_eq!(bench.join(join(&ids[0])).generation_id, 2);
}

// G-42: without a group everybody is unknown.
#[test]
fn nobody_leaves_a_group_that_is_not_there() {
    let mut bench = Bench::new();
    let left = bench.leave(&[("a", None), ("b", Some("i"))]);
    assert_eq!(left.error, None);
    assert!(
        left.members
            .iter()
            .all(|m| m.error == Some(GroupError::UnknownMemberId))
    );
    assert!(!bench.group_exists());
}

// G-42: the last one out leaves an Empty group.
#[test]
fn the_last_member_leaves_an_empty_group() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(bench.state(), GroupState::Empty);
}

// G-42: a member may leave while its join is parked.
#[test]
fn a_parked_join_of_a_leaver_is_answered() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(2);
    let leader = bench.park(join(&ids[0]));
    bench.leave(&[(&ids[0], None)]);
    let reply = bench.join_reply(leader);
    assert_eq!(reply.error, Some(GroupError::UnknownMemberId));
    assert_eq!(bench.join(join(&ids[1])).leader, ids[1]);
}

// G-42: and while its sync is parked.
#[test]
fn a_parked_sync_of_a_leaver_is_answered() {
    let mut bench = Bench::new();
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.pass(2 * DELAY_MS);
    let [leader, follower] = parked.map(|id| bench.join_reply(id).member_id);
    let id = bench.send_sync(1, &follower, &[]);
    bench.leave(&[(&follower, None)]);
    assert_eq!(
        bench.sync_reply(id).error,
        Some(GroupError::UnknownMemberId)
    );
    assert_eq!(
        bench.heartbeat(1, &leader),
        Err(GroupError::RebalanceInProgress)
    );
}

// G-42: who leaves while others rejoin is not waited for.
#[test]
fn a_leaver_is_not_waited_for() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(3);
    let parked = [
        bench.park(join_with(&ids[1], &[("range", "changed")])),
        bench.park(join(&ids[0])),
    ];
    bench.leave(&[(&ids[2], None)]);
    for id in parked {
        assert_eq!(bench.join_reply(id).generation_id, 2);
    }
    assert_eq!(bench.state(), GroupState::CompletingRebalance);
}

// G-42: an empty group id is no group.
#[test]
fn the_group_id_must_not_be_empty() {
    let mut bench = Bench::new();
    let id = bench.send(Request::Leave(strandline_group_coordinator::LeaveRequest {
        group_id: String::new(),
        members: Vec::new(),
    }));
    let strandline_group_coordinator::Reply::Leave(reply) = bench.reply(id) else {
        panic!("not a leave")
    };
    assert_eq!(reply.error, Some(GroupError::InvalidGroupId));
}
