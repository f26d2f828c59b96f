//! JoinGroup: checks, ids, protocols, answers (G-1…G-3, G-7…G-12).

use strandline_group_coordinator::{GroupConfig, GroupError, GroupState, JoinRequest, Request};

use crate::harness::{Bench, DELAY_MS, GROUP, SESSION_MS, config, join, join_static, join_with};

fn error_of(request: JoinRequest) -> Option<GroupError> {
    Bench::new().join(request).error
}

// G-1: the checks that need no group.
#[test]
fn malformed_joins_are_refused() {
    let empty_id = JoinRequest {
        group_id: String::new(),
        ..join("")
    };
    assert_eq!(error_of(empty_id), Some(GroupError::InvalidGroupId));
    let long_id = JoinRequest {
        group_id: "g".repeat(32_768),
        ..join("")
    };
    assert_eq!(error_of(long_id), Some(GroupError::InvalidGroupId));
    for session_timeout_ms in [-1, 0, 5_999, 1_800_001, i32::MAX] {
        let request = JoinRequest {
            session_timeout_ms,
            ..join("")
        };
        assert_eq!(error_of(request), Some(GroupError::InvalidSessionTimeout));
    }
    assert_eq!(error_of(join("someone")), Some(GroupError::UnknownMemberId));
    assert_eq!(
        error_of(join_static("someone", "i")),
        Some(GroupError::UnknownMemberId)
    );
    let no_type = JoinRequest {
        protocol_type: String::new(),
        ..join("")
    };
    assert_eq!(
        error_of(no_type),
        Some(GroupError::InconsistentGroupProtocol)
    );
    assert_eq!(
        error_of(join_with("", &[])),
        Some(GroupError::InconsistentGroupProtocol)
    );
    let long_client = JoinRequest {
        client_id: "c".repeat(40_000),
        ..join("")
    };
    assert_eq!(error_of(long_client), Some(GroupError::InvalidRequest));
    // Finding what members have in common takes time by their number squared.
    let names: Vec<String> = (0..=100).map(|n| n.to_string()).collect();
    let protocols: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "")).collect();
    assert_eq!(
        error_of(join_with("", &protocols)),
        Some(GroupError::InvalidRequest)
    );
}

// G-1: a refused join leaves no group behind. G-9: shape of a refusal.
#[test]
fn a_refused_join_leaves_nothing() {
    let mut bench = Bench::new();
    let reply = bench.join(join("someone"));
    assert_eq!(reply.generation_id, -1);
    assert_eq!((&*reply.leader, &*reply.member_id), ("", "someone"));
    assert_eq!((reply.protocol_name, reply.protocol_type), (None, None));
    assert!(reply.members.is_empty());
    assert!(!bench.group_exists());
}

// G-1: the bounds of the session timeout are inclusive.
#[test]
fn session_timeouts_at_the_bounds_are_allowed() {
    for session_timeout_ms in [6_000, 1_800_000] {
        Bench::new().park(JoinRequest {
            session_timeout_ms,
            ..join("")
        });
    }
}

// G-1: the others' type, and a protocol that all of them have.
#[test]
fn protocols_must_be_common() {
    let mut bench = Bench::new();
    bench.park(join_with("", &[("range", "a"), ("sticky", "a")]));
    bench.park(join_with("", &[("sticky", "b"), ("other", "b")]));
    let refused = bench.join(join_with("", &[("range", "c"), ("other", "c")]));
    assert_eq!(refused.error, Some(GroupError::InconsistentGroupProtocol));
    let connect = JoinRequest {
        protocol_type: "connect".to_owned(),
        ..join("")
    };
    assert_eq!(
        bench.join(connect).error,
        Some(GroupError::InconsistentGroupProtocol)
    );
    bench.park(join_with("", &[("none", "d"), ("sticky", "d")]));
}

// G-1: a group without members takes any protocol type.
#[test]
fn an_empty_group_may_change_its_type() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(bench.state(), GroupState::Empty);
    bench.park(JoinRequest {
        protocol_type: "connect".to_owned(),
        ..join("")
    });
    assert_eq!(bench.describe().protocol_type, "connect");
}

// G-1: group.max.size.
#[test]
fn a_full_group_refuses_newcomers_only() {
    let mut bench = Bench::with(GroupConfig {
        max_size: 2,
        ..config()
    });
    let (ids, _) = bench.stable_group_of(vec![join(""), join_static("", "i")]);
    let refused = bench.join(join(""));
    assert_eq!(refused.error, Some(GroupError::GroupMaxSizeReached));
    assert_eq!(refused.member_id, "");
    // A static member that restarts takes its own place.
    assert_eq!(bench.join(join_static("", "i")).error, None);
    // Preparing: those who rejoined count, so both may come back and no third.
    let leader = bench.park(join(&ids[0]));
    bench.pass(0);
    let id = bench.describe().members[1].member_id.clone();
    bench.send(Request::Join(join_static(&id, "i")));
    assert_eq!(
        bench.join(join("")).error,
        Some(GroupError::GroupMaxSizeReached)
    );
    assert!(bench.is_answered(leader));
}

// G-1: while a rebalance is prepared the silent ones lose their places to newcomers.
#[test]
fn places_are_taken_by_those_who_come() {
    let mut bench = Bench::with(GroupConfig {
        max_size: 2,
        ..config()
    });
    let (ids, _) = bench.stable_group(2);
    let first = bench.park(join(&ids[0]));
    let second = bench.park(join(""));
    let late = bench.join(join(&ids[1]));
    assert_eq!(late.error, Some(GroupError::GroupMaxSizeReached));
    assert_eq!(bench.join_reply(first).members.len(), 2);
    assert_eq!(bench.join_reply(second).error, None);
}

// G-1, G-5: an id that finds no room is not waited for.
#[test]
fn a_refused_id_stalls_no_rebalance() {
    let mut bench = Bench::with(GroupConfig {
        max_size: 1,
        ..config()
    });
    let asked = |member_id: &str| JoinRequest {
        require_known_member_id: true,
        ..join(member_id)
    };
    let [first, second] = [0, 1].map(|_| bench.join(asked("")).member_id);
    let parked = bench.park(asked(&first));
    let refused = bench.join(asked(&second));
    assert_eq!(refused.error, Some(GroupError::GroupMaxSizeReached));
    bench.pass(2 * DELAY_MS);
    let joined = bench.join_reply(parked);
    bench.sync_all(vec![joined]);
    // The leader wants a rebalance (G-12), and is all there is.
    assert_eq!(bench.join(asked(&first)).generation_id, 2);
    let again = bench.join(asked(&second));
    assert_eq!(again.error, Some(GroupError::GroupMaxSizeReached));
}

// G-3: from v4 on a dynamic member is told its id first.
#[test]
fn a_dynamic_member_must_know_its_id() {
    let mut bench = Bench::new();
    let asked = JoinRequest {
        require_known_member_id: true,
        ..join("")
    };
    let reply = bench.join(asked.clone());
    assert_eq!(reply.error, Some(GroupError::MemberIdRequired));
    assert!(
        reply.member_id.starts_with("client-"),
        "{}",
        reply.member_id
    );
    assert_eq!(reply.member_id.len(), "client-".len() + 36);
    assert_eq!(bench.state(), GroupState::Empty);

    bench.park(JoinRequest {
        member_id: reply.member_id,
        ..asked
    });
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-3: the id is kept for a session timeout only, and the group with it.
#[test]
fn an_unused_id_is_forgotten() {
    let mut bench = Bench::new();
    let asked = JoinRequest {
        require_known_member_id: true,
        ..join("")
    };
    let reply = bench.join(asked.clone());
    bench.pass(SESSION_MS - 1);
    assert!(bench.group_exists());
    bench.pass(1);
    assert!(!bench.group_exists());
    let late = bench.join(JoinRequest {
        member_id: reply.member_id,
        ..asked
    });
    assert_eq!(late.error, Some(GroupError::UnknownMemberId));
    assert!(bench.log.is_empty());
}

// G-3: a static member has its id at once.
#[test]
fn a_static_member_is_never_sent_back() {
    let mut bench = Bench::new();
    let request = JoinRequest {
        require_known_member_id: true,
        ..join_static("", "inst")
    };
    let parked = bench.park(request);
    bench.pass(DELAY_MS);
    let reply = bench.join_reply(parked);
    assert!(reply.member_id.starts_with("inst-"), "{}", reply.member_id);
}

// G-7: each votes for its first among the common ones.
#[test]
fn the_most_wanted_common_protocol_wins() {
    let mut bench = Bench::new();
    let first = bench.park(join_with("", &[("own", "a"), ("x", "a"), ("y", "a")]));
    bench.park(join_with("", &[("y", "b"), ("x", "b")]));
    bench.park(join_with("", &[("y", "c"), ("x", "c")]));
    bench.pass(2 * DELAY_MS);
    let reply = bench.join_reply(first);
    assert_eq!(reply.protocol_name.as_deref(), Some("y"));
    let metadata: Vec<_> = reply
        .members
        .iter()
        .map(|member| &member.metadata[..])
        .collect();
    assert_eq!(metadata, [b"a", b"b", b"c"]);
}

// G-7: votes that are equal go to the older member's choice, on every replica alike.
#[test]
fn equal_votes_have_a_certain_winner() {
    let mut bench = Bench::new();
    let first = bench.park(join_with("", &[("z", ""), ("a", "")]));
    bench.park(join_with("", &[("a", ""), ("z", "")]));
    bench.pass(2 * DELAY_MS);
    assert_eq!(bench.join_reply(first).protocol_name.as_deref(), Some("z"));
}

// G-8: one leader, who alone sees the members.
#[test]
fn only_the_leader_sees_the_members() {
    let mut bench = Bench::new();
    let ids: Vec<_> = (0..3).map(|_| bench.park(join(""))).collect();
    bench.pass(2 * DELAY_MS);
    let replies: Vec<_> = ids.into_iter().map(|id| bench.join_reply(id)).collect();
    assert_eq!(
        replies[0].leader, replies[0].member_id,
        "the first to join leads"
    );
    assert_eq!(replies[0].members.len(), 3);
    for reply in &replies[1..] {
        assert!(reply.members.is_empty());
        assert_eq!(reply.leader, replies[0].leader);
    }
    for reply in &replies {
        assert_eq!(reply.error, None);
        assert_eq!(reply.generation_id, 1);
        assert_eq!(reply.protocol_type.as_deref(), Some("consumer"));
        assert_eq!(reply.protocol_name.as_deref(), Some("range"));
        assert!(!reply.skip_assignment);
    }
}

// G-8: the leader stays if it comes back, else the oldest that did leads.
#[test]
fn leadership_goes_to_the_oldest_that_is_back() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(3);
    let third = bench.park(join_with(&ids[2], &[("range", "new")]));
    let second = bench.park(join(&ids[1]));
    let leader = bench.send(Request::Join(join(&ids[0])));
    assert_eq!(bench.join_reply(leader).leader, ids[0]);
    bench.join_reply(second);
    bench.join_reply(third);

    let third = bench.park(join_with(&ids[2], &[("range", "newer")]));
    let second = bench.park(join(&ids[1]));
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(bench.join_reply(second).leader, ids[1]);
    assert!(bench.join_reply(third).members.is_empty());
}

// G-10: the newer join of the same member gets the result; the older is not left hanging.
#[test]
fn a_repeated_join_replaces_the_parked_one() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    let old = bench.park(join(&ids[0]));
    let new = bench.park(join(&ids[0]));
    assert_eq!(
        bench.join_reply(old).error,
        Some(GroupError::RebalanceInProgress)
    );
    bench.send(Request::Join(join(&ids[1])));
    assert_eq!(bench.join_reply(new).generation_id, generation + 1);
}

// G-11: the lost answer is given again.
#[test]
fn an_unchanged_join_in_completing_is_answered_at_once() {
    let mut bench = Bench::new();
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.pass(2 * DELAY_MS);
    let replies = parked.map(|id| bench.join_reply(id));
    assert_eq!(bench.state(), GroupState::CompletingRebalance);
    for reply in replies {
        assert_eq!(bench.join(join(&reply.member_id)), reply);
    }
    assert_eq!(bench.state(), GroupState::CompletingRebalance);
}

// G-11: changed metadata rebalances.
#[test]
fn a_changed_join_in_completing_rebalances() {
    let mut bench = Bench::new();
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.pass(2 * DELAY_MS);
    let [leader, follower] = parked.map(|id| bench.join_reply(id).member_id);
    let parked_sync = bench.send_sync(1, &follower, &[]);
    bench.park(join_with(&leader, &[("range", "changed")]));
    let reply = bench.sync_reply(parked_sync);
    assert_eq!(reply.error, Some(GroupError::RebalanceInProgress));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-12: a follower that changed nothing is answered, a leader always rebalances.
#[test]
fn in_stable_a_leaders_join_rebalances() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    let reply = bench.join(join(&ids[1]));
    assert_eq!((reply.error, reply.generation_id), (None, generation));
    assert!(reply.members.is_empty());
    assert_eq!(bench.state(), GroupState::Stable);
    bench.park(join(&ids[0]));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-12: any member's changed metadata rebalances.
#[test]
fn in_stable_changed_metadata_rebalances() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(2);
    bench.park(join_with(&ids[1], &[("range", "changed")]));
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
}

// G-1: in a Dead group nobody joins.
#[test]
fn a_group_that_is_being_deleted_takes_nobody() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    bench.leave(&[(&ids[0], None)]);
    bench.commits_at_once = false;
    bench.send(Request::DeleteGroup(
        strandline_group_coordinator::DeleteGroupRequest {
            group_id: GROUP.to_owned(),
        },
    ));
    assert_eq!(
        bench.join(join("")).error,
        Some(GroupError::CoordinatorNotAvailable)
    );
    assert_eq!(
        bench.heartbeat(1, &ids[0]),
        Err(GroupError::CoordinatorNotAvailable)
    );
    let sync = bench.send_sync(1, &ids[0], &[]);
    assert_eq!(
        bench.sync_reply(sync).error,
        Some(GroupError::CoordinatorNotAvailable)
    );
    let left = bench.leave(&[(&ids[0], None)]);
    assert_eq!(left.error, Some(GroupError::CoordinatorNotAvailable));
    bench.commit_all();
    assert!(!bench.group_exists());
}
