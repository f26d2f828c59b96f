//! The phases of a rebalance and everything that time does (G-2, G-4…G-6, G-32, G-41, X-19).

use strandline_group_coordinator::{
    CommittedOffset, GroupConfig, GroupError, GroupState, JoinRequest, Request,
};

use crate::harness::{
    Bench, DELAY_MS, REBALANCE_MS, SESSION_MS, commit, config, join, join_static, join_with,
};

// G-5: the initial delay.
#[test]
fn the_first_rebalance_waits_for_the_delay() {
    let mut bench = Bench::new();
    let parked = bench.park(join(""));
    bench.pass(DELAY_MS - 1);
    assert!(!bench.is_answered(parked));
    bench.pass(1);
    assert_eq!(bench.join_reply(parked).generation_id, 1);
}

// G-4, G-5, G-41, X-19: whatever is done to the clock of the machine, a deadline is as far away as it was.
#[test]
fn a_clock_that_jumps_moves_no_deadline() {
    let mut bench = Bench::new();
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.now_ms -= 3_600_000;
    bench.pass(2 * DELAY_MS - 1);
    assert!(!bench.is_answered(parked[0]));
    bench.pass(1);
    let replies = parked.map(|id| bench.join_reply(id)).to_vec();
    let (ids, generation) = bench.sync_all(replies);
    bench.now_ms += 24 * 3_600_000;
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.heartbeat(generation, &ids[0]), Ok(()));
    assert_eq!(bench.describe().members.len(), 2);
    bench.pass(1);
    assert_eq!(bench.describe().members.len(), 1, "the other one is silent");
    // What is stored has the new time.
    assert_eq!(bench.commit(commit(generation, &ids[0], 5)), None);
    let stored = bench.log.last().unwrap().value.as_ref().unwrap();
    let stored = CommittedOffset::decode(stored).unwrap();
    assert_eq!(stored.commit_timestamp_ms, bench.now_ms);
}

// G-5: who arrives within the delay extends it by another, once per delay.
#[test]
fn newcomers_extend_the_delay() {
    let mut bench = Bench::new();
    let first = bench.park(join(""));
    bench.pass(DELAY_MS - 1);
    let second = bench.park(join(""));
    bench.pass(DELAY_MS);
    assert!(!bench.is_answered(first));
    bench.pass(1);
    assert_eq!(bench.join_reply(first).members.len(), 2);
    assert!(bench.is_answered(second));
}

// G-5: but never beyond the longest rebalance timeout.
#[test]
fn the_delay_ends_with_the_rebalance_timeout() {
    let mut bench = Bench::new();
    let hurried = JoinRequest {
        rebalance_timeout_ms: 10_000,
        ..join("")
    };
    let first = bench.park(hurried.clone());
    for _ in 0..3 {
        bench.pass(DELAY_MS - 100);
        assert!(!bench.is_answered(first));
        bench.send(Request::Join(hurried.clone()));
    }
    bench.pass(10_000 - 3 * (DELAY_MS - 100) - 1);
    assert!(!bench.is_answered(first));
    bench.pass(1);
    assert_eq!(bench.join_reply(first).members.len(), 4);
}

// G-5: all members of the initial phase left; the group does not stay in Preparing.
#[test]
fn an_initial_phase_without_members_ends_empty() {
    let mut bench = Bench::new();
    let asked = JoinRequest {
        require_known_member_id: true,
        ..join("")
    };
    let id = bench.join(asked.clone()).member_id;
    let parked = bench.park(JoinRequest {
        member_id: id.clone(),
        ..asked
    });
    bench.leave(&[(&id, None)]);
    assert_eq!(
        bench.join_reply(parked).error,
        Some(GroupError::UnknownMemberId)
    );
    bench.pass(DELAY_MS);
    assert_eq!(bench.state(), GroupState::Empty);
}

// G-5: without a delay the first member is served at once.
#[test]
fn a_delay_of_zero_is_none() {
    let mut bench = Bench::with(GroupConfig {
        initial_rebalance_delay_ms: 0,
        ..config()
    });
    let reply = bench.join(join(""));
    assert_eq!((reply.error, reply.generation_id), (None, 1));
}

// G-5: later join phases end when everybody is back.
#[test]
fn a_join_phase_ends_when_all_are_back() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(3);
    let parked = [bench.park(join(&ids[0])), bench.park(join(&ids[1]))];
    let last = bench.send(Request::Join(join(&ids[2])));
    for id in parked.into_iter().chain([last]) {
        assert_eq!(bench.join_reply(id).generation_id, 2);
    }
}

// G-5: an id that was handed out is waited for; when it lapses the phase ends.
#[test]
fn a_join_phase_waits_for_pending_ids() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    let asked = JoinRequest {
        require_known_member_id: true,
        ..join("")
    };
    let pending = bench.join(asked.clone()).member_id;
    let parked = bench.park(join(&ids[0]));
    bench.pass(SESSION_MS - 1);
    assert!(!bench.is_answered(parked));
    bench.pass(1);
    assert_eq!(bench.join_reply(parked).generation_id, 2);
    let late = bench.join(JoinRequest {
        member_id: pending,
        ..asked
    });
    assert_eq!(late.error, Some(GroupError::UnknownMemberId));
}

// G-5, G-42: the same when the pending id leaves.
#[test]
fn a_pending_id_may_leave() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    let asked = JoinRequest {
        require_known_member_id: true,
        ..join("")
    };
    let pending = bench.join(asked).member_id;
    let parked = bench.park(join(&ids[0]));
    assert_eq!(bench.leave(&[(&pending, None)]).members[0].error, None);
    assert_eq!(bench.join_reply(parked).generation_id, 2);
}

// G-6: dynamic members that did not rejoin are out after the longest rebalance timeout.
#[test]
fn the_silent_are_dropped() {
    let mut bench = Bench::new();
    let patient = JoinRequest {
        session_timeout_ms: 600_000,
        ..join("")
    };
    let (ids, _) = bench.stable_group_of(vec![patient.clone(), patient.clone()]);
    let parked = bench.park(JoinRequest {
        member_id: ids[0].clone(),
        ..patient
    });
    bench.pass(REBALANCE_MS - 1);
    assert!(!bench.is_answered(parked));
    bench.pass(1);
    let reply = bench.join_reply(parked);
    assert_eq!(reply.members.len(), 1);
    assert_eq!(reply.generation_id, 2);
    assert_eq!(
        bench.heartbeat(2, &ids[1]),
        Err(GroupError::UnknownMemberId)
    );
}

// G-6: static members stay until their session ends, also if they do not rejoin.
#[test]
fn silent_static_members_stay() {
    let mut bench = Bench::new();
    let patient = |request: JoinRequest| JoinRequest {
        session_timeout_ms: 600_000,
        ..request
    };
    let (ids, _) = bench.stable_group_of(vec![patient(join("")), patient(join_static("", "i"))]);
    let parked = bench.park(patient(join(&ids[0])));
    bench.pass(REBALANCE_MS);
    assert_eq!(bench.join_reply(parked).members.len(), 2);
}

// G-6: if nobody but silent static members is left, their sessions decide.
#[test]
fn silent_static_members_do_not_make_a_generation() {
    let mut bench = Bench::new();
    let patient = |request: JoinRequest| JoinRequest {
        session_timeout_ms: 600_000,
        ..request
    };
    let (ids, generation) =
        bench.stable_group_of(vec![patient(join("")), patient(join_static("", "i"))]);
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    bench.pass(2 * REBALANCE_MS);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(
        bench.heartbeat(generation, &ids[1]),
        Err(GroupError::RebalanceInProgress)
    );
    bench.pass(600_000);
    assert_eq!(bench.state(), GroupState::Empty);
}

// G-6: a generation without members counts and is stored.
#[test]
fn an_empty_generation_is_stored() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    bench.leave(&[(&ids[0], None), (&ids[1], None)]);
    assert_eq!(bench.state(), GroupState::Empty);
    bench.fail_over();
    assert_eq!(bench.state(), GroupState::Empty);
    let (_, next) = bench.stable_group(1);
    assert_eq!(next, generation + 2);
}

// G-2: version 0 sends no rebalance timeout.
#[test]
fn without_a_rebalance_timeout_the_session_timeout_holds() {
    let mut bench = Bench::new();
    let old = JoinRequest {
        rebalance_timeout_ms: -1,
        ..join("")
    };
    let (ids, generation) = bench.stable_group_of(vec![old.clone(), old]);
    let parked = bench.park(JoinRequest {
        rebalance_timeout_ms: -1,
        ..join(&ids[0])
    });
    bench.pass(SESSION_MS - 1);
    // Heartbeats keep the other one, so that only the rebalance timeout can end the phase.
    let told = bench.heartbeat(generation, &ids[1]);
    assert_eq!(told, Err(GroupError::RebalanceInProgress));
    bench.pass(1);
    assert!(bench.is_answered(parked));
}

// G-4: in its first join a member is not held to its session timeout but to five minutes.
#[test]
fn a_first_join_may_wait_for_five_minutes() {
    let mut bench = Bench::new();
    let slow = JoinRequest {
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        ..join("")
    };
    let (ids, _) = bench.stable_group_of(vec![slow.clone()]);
    let newcomer = bench.park(join(""));
    bench.pass(299_999);
    assert!(!bench.is_answered(newcomer));
    bench.pass(1);
    assert_eq!(
        bench.join_reply(newcomer).error,
        Some(GroupError::UnknownMemberId)
    );
    let old = bench.join(JoinRequest {
        member_id: ids[0].clone(),
        ..slow
    });
    assert_eq!(old.members.len(), 1);
}

// G-41: a silent member is removed after its session timeout, and the others rebalance.
#[test]
fn a_session_ends() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(2);
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.heartbeat(generation, &ids[0]), Ok(()));
    bench.pass(1);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(
        bench.heartbeat(generation, &ids[0]),
        Err(GroupError::RebalanceInProgress)
    );
    assert_eq!(
        bench.heartbeat(generation, &ids[1]),
        Err(GroupError::UnknownMemberId)
    );
    // G-41: and the leader's join alone completes the group.
    assert_eq!(bench.join(join(&ids[0])).generation_id, generation + 1);
}

// G-32: who does not sync within the rebalance timeout is out, and the rest rebalance.
#[test]
fn a_leader_that_does_not_sync_is_dropped() {
    let mut bench = Bench::new();
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.pass(2 * DELAY_MS);
    let [leader, follower] = parked.map(|id| bench.join_reply(id).member_id);
    let waiting = bench.send_sync(1, &follower, &[]);
    // It lives, but never assigns.
    for _ in 0..REBALANCE_MS / 5_000 - 1 {
        bench.pass(5_000);
        assert_eq!(bench.heartbeat(1, &leader), Ok(()));
    }
    assert!(!bench.is_answered(waiting));
    bench.pass(5_000);
    assert_eq!(
        bench.sync_reply(waiting).error,
        Some(GroupError::RebalanceInProgress)
    );
    assert_eq!(
        bench.heartbeat(1, &leader),
        Err(GroupError::UnknownMemberId)
    );
    assert_eq!(bench.join(join(&follower)).leader, follower);
}

// G-32: also a follower that does not fetch its assignment in Stable.
#[test]
fn a_follower_that_does_not_sync_is_dropped() {
    let mut bench = Bench::new();
    let parked = [bench.park(join("")), bench.park(join(""))];
    bench.pass(2 * DELAY_MS);
    let [leader, follower] = parked.map(|id| bench.join_reply(id).member_id);
    let id = bench.send_sync(1, &leader, &[]);
    assert_eq!(bench.sync_reply(id).error, None);
    assert_eq!(bench.state(), GroupState::Stable);
    for _ in 0..REBALANCE_MS / 5_000 {
        bench.pass(5_000);
        bench.heartbeat(1, &leader).ok();
        bench.heartbeat(1, &follower).ok();
    }
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(
        bench.heartbeat(1, &follower),
        Err(GroupError::UnknownMemberId)
    );
}

// whatever is parked when all clients vanish is answered, and the group becomes Empty.
#[test]
fn an_abandoned_group_becomes_empty() {
    for synced in 0..3 {
        let mut bench = Bench::new();
        let parked: Vec<_> = [join(""), join(""), join_static("", "i")]
            .map(|request| bench.park(request))
            .into();
        if synced > 0 {
            bench.pass(2 * DELAY_MS);
            let ids: Vec<_> = parked
                .into_iter()
                .map(|id| bench.join_reply(id).member_id)
                .collect();
            for id in &ids[..synced] {
                bench.send_sync(1, id, &[]);
            }
            bench.send(Request::Join(join_with(&ids[2], &[("range", "changed")])));
        }
        bench.pass(3_600_000);
        assert_eq!(bench.unanswered_count(), 0);
        assert_ne!(
            bench.shard.state_counts().get(&GroupState::Stable),
            Some(&1)
        );
        assert!(!bench.group_exists() || bench.state() == GroupState::Empty);
    }
}

// G-4: timeouts of zero and the like do not make the shard spin.
#[test]
fn absurd_timeouts_do_no_harm() {
    let mut bench = Bench::new();
    let absurd = |request: JoinRequest| JoinRequest {
        rebalance_timeout_ms: 0,
        ..request
    };
    let parked = [
        bench.park(absurd(join_static("", "i"))),
        bench.park(absurd(join(""))),
    ];
    bench.pass(3_600_000);
    for id in parked {
        bench.join_reply(id);
    }
    assert!(!bench.group_exists() || bench.state() == GroupState::Empty);
    let long = JoinRequest {
        rebalance_timeout_ms: i32::MAX,
        ..join("")
    };
    bench.park(long);
    bench.pass(3_600_000);
    assert_eq!(bench.unanswered_count(), 0);
}

// G-6: a silent static member with a rebalance timeout of zero is not asked a thousand times a
// second (the harness counts the wakes).
#[test]
fn waiting_for_silent_static_members_does_not_spin() {
    let mut bench = Bench::new();
    let patient = |instance: &str| JoinRequest {
        session_timeout_ms: 60_000,
        ..join_static("", instance)
    };
    let (ids, _) = bench.stable_group_of(vec![patient("a"), patient("b")]);
    for (id, instance) in ids.iter().zip(["a", "b"]) {
        let hurried = JoinRequest {
            rebalance_timeout_ms: 0,
            ..patient(instance)
        };
        bench.send(Request::Join(JoinRequest {
            member_id: id.clone(),
            ..hurried
        }));
    }
    for id in ids.iter().rev() {
        bench.send_sync(2, id, &[]);
    }
    assert_eq!(bench.state(), GroupState::Stable);
    bench.leave(&[("", Some("a"))]);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    bench.pass(50_000);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    bench.pass(10_000);
    assert_eq!(bench.state(), GroupState::Empty);
}
