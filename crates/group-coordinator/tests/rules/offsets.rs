//! OffsetFetch, OffsetDelete, expiry and topic deletion (G-55, G-59…G-61, X-18).

use strandline_coordinator::AppendError;
use strandline_group_coordinator::{
    GroupError, GroupState, JoinRequest, OffsetCommitRequest, OffsetFetchQuery, Request,
};

use crate::harness::{
    Bench, GROUP, commit, commit_topic, config, join, offset_delete, subscription,
};

const WEEK_MS: i64 = 7 * 24 * 3_600_000;

fn commit_all_of(topics: &[(&str, &[(i32, i64)])]) -> OffsetCommitRequest {
    let topics = topics
        .iter()
        .map(|(name, offsets)| commit_topic(name, offsets));
    OffsetCommitRequest {
        topics: topics.collect(),
        ..commit(-1, "", 0)
    }
}

// G-55: no group, no topic, no partition: no error either.
#[test]
fn what_was_never_committed_is_minus_one() {
    let mut bench = Bench::new();
    let absent = bench.fetch("t", 3);
    assert_eq!(
        (absent.partition, absent.offset, absent.leader_epoch),
        (3, -1, -1)
    );
    assert_eq!((&*absent.metadata, absent.error), ("", None));
    bench.commit(commit(-1, "", 5));
    assert_eq!(bench.fetch("t", 3), absent);
    assert_eq!(bench.fetch("u", 3), absent);
}

// T-32: what a partition that is named twice gets is the same before and after a start
#[test]
fn of_two_offsets_in_one_commit_the_last_one_counts() {
    let mut bench = Bench::new();
    bench.commit(commit_all_of(&[("t", &[(0, 5), (0, 7)])]));
    assert_eq!(bench.fetch("t", 0).offset, 7);
    bench.fail_over();
    assert_eq!(bench.fetch("t", 0).offset, 7);
}

// G-55: no topics means all that are committed.
#[test]
fn all_committed_offsets_can_be_asked_for() {
    let mut bench = Bench::new();
    let query = OffsetFetchQuery {
        group_id: GROUP.to_owned(),
        topics: None,
        require_stable: false,
    };
    assert!(bench.shard.fetch_offsets(&query).unwrap().is_empty());
    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("b", &[(1, 11), (0, 10)]),
        ("a", &[(0, 1)]),
    ])));
    bench.commits_at_once = false;
    bench.send(Request::OffsetCommit(commit_all_of(&[("c", &[(0, 9)])])));
    let topics = bench.shard.fetch_offsets(&query).unwrap();
    let flat: Vec<_> = topics
        .iter()
        .flat_map(|t| {
            t.partitions
                .iter()
                .map(|p| (&*t.name, p.partition, p.offset))
        })
        .collect();
    assert_eq!(flat, [("a", 0, 1), ("b", 0, 10), ("b", 1, 11)]);
    assert_eq!(topics.len(), 2);
}

// G-59: who may delete offsets, and which.
#[test]
fn offsets_of_subscribed_topics_stay() {
    let mut bench = Bench::new();
    let missing = bench.delete_offsets(&[("t", &[0])]);
    assert_eq!(missing.error, Some(GroupError::GroupIdNotFound));
    assert!(missing.topics.is_empty());

    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("t", &[(0, 1)]),
        ("u", &[(0, 2), (1, 3)]),
    ])));
    bench.stable_group(1);
    let reply = bench.delete_offsets(&[("t", &[0]), ("u", &[0, 9])]);
    assert_eq!(reply.error, None);
    assert_eq!(
        reply.topics[0].partitions,
        [(0, Some(GroupError::GroupSubscribedToTopic))]
    );
    assert_eq!(reply.topics[1].partitions, [(0, None), (9, None)]);
    assert_eq!(bench.fetch("t", 0).offset, 1);
    assert_eq!(bench.fetch("u", 0).offset, -1);
    assert_eq!(bench.fetch("u", 1).offset, 3);
    bench.fail_over();
    assert_eq!(bench.fetch("u", 0).offset, -1);
}

// G-59: a partition that is named more than once is deleted and answered once.
#[test]
fn a_partition_named_twice_is_deleted_once() {
    let mut bench = Bench::new();
    bench.commit(commit_all_of(&[("u", &[(0, 2), (1, 3)])]));
    let before = bench.log.len();
    let reply = bench.delete_offsets(&[("u", &[1, 0, 1, 9, 9, 0])]);
    assert_eq!(
        reply.topics[0].partitions,
        [(1, None), (0, None), (9, None)]
    );
    assert_eq!(bench.log.len(), before + 2);
    assert!(!bench.group_exists());
}

// G-59: members whose metadata nobody understands protect everything.
#[test]
fn a_group_that_is_not_understood_keeps_its_offsets() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    let connect = JoinRequest {
        protocol_type: "connect".to_owned(),
        ..join("")
    };
    let (ids, _) = bench.stable_group_of(vec![connect]);
    assert_eq!(
        bench.delete_offsets(&[("t", &[0])]).error,
        Some(GroupError::NonEmptyGroup)
    );
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(bench.delete_offsets(&[("t", &[0])]).error, None);
    assert_eq!(bench.fetch("t", 0).offset, -1);

    // A consumer with odd metadata may subscribe to anything.
    bench.commit(commit(-1, "", 5));
    bench.stable_group_of(vec![crate::harness::join_with("", &[("range", "odd")])]);
    let reply = bench.delete_offsets(&[("t", &[0])]);
    assert_eq!(
        reply.topics[0].partitions[0].1,
        Some(GroupError::GroupSubscribedToTopic)
    );
}

// G-59: while the first members still join, nobody knows what they subscribe to.
#[test]
fn offsets_stay_while_the_first_members_join() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.park(join(""));
    let reply = bench.delete_offsets(&[("t", &[0])]);
    assert_eq!(
        reply.topics[0].partitions[0].1,
        Some(GroupError::GroupSubscribedToTopic)
    );
}

// G-59, G-70: the deletion waits for its tombstones.
#[test]
fn a_deletion_waits_for_its_append() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    let id = bench.send(Request::OffsetDelete(offset_delete(&[("t", &[0])])));
    assert!(!bench.is_answered(id));
    assert_eq!(bench.fetch("t", 0).offset, 5);
    bench.fail_all(AppendError::NotLeaderOrFollower);
    let strandline_group_coordinator::Reply::OffsetDelete(reply) = bench.reply(id) else {
        panic!("not a deletion")
    };
    assert_eq!(reply.error, Some(GroupError::NotCoordinator));
    assert_eq!(bench.fetch("t", 0).offset, 5);
}

// G-59: a commit that comes after the tombstones stays.
#[test]
fn a_commit_after_a_deletion_stays() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    bench.send(Request::OffsetCommit(commit(-1, "", 6)));
    bench.send(Request::OffsetDelete(offset_delete(&[("t", &[0])])));
    bench.send(Request::OffsetCommit(commit(-1, "", 7)));
    bench.commit_all();
    assert_eq!(bench.fetch("t", 0).offset, 7);
    assert_eq!(
        crate::harness::fetch_from(&bench.loaded(), "t", 0).offset,
        7
    );
}

// G-60: a simple group's offsets expire by their own age.
#[test]
fn simple_offsets_expire_by_their_age() {
    let mut bench = Bench::new();
    bench.commit(commit_all_of(&[("t", &[(0, 1)])]));
    bench.pass(WEEK_MS / 2);
    bench.send(Request::OffsetCommit(commit_all_of(&[("t", &[(1, 2)])])));
    bench.pass(WEEK_MS / 2 - 1);
    assert_eq!(bench.fetch("t", 0).offset, 1);
    bench.pass(600_000);
    assert_eq!(bench.fetch("t", 0).offset, -1);
    assert_eq!(bench.fetch("t", 1).offset, 2);
    bench.pass(WEEK_MS / 2);
    assert!(
        !bench.group_exists(),
        "the last offset takes the group with it"
    );
    assert!(bench.loaded().describe_group(GROUP).is_err());
}

// G-60: an empty consumer group's offsets expire since it is empty, however old they are.
#[test]
fn offsets_of_an_empty_group_expire_since_it_is_empty() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group(1);
    bench.commit(commit(generation, &ids[0], 5));
    for _ in 0..WEEK_MS / 5_000 + 1 {
        bench.pass(5_000);
        assert_eq!(bench.heartbeat(generation, &ids[0]), Ok(()));
    }
    bench.leave(&[(&ids[0], None)]);
    bench.pass(WEEK_MS - 1);
    assert_eq!(bench.fetch("t", 0).offset, 5);
    bench.pass(600_000);
    assert!(!bench.group_exists());
    assert!(bench.loaded().describe_group(GROUP).is_err());
}

// G-60: in a stable group only topics that nobody reads expire.
#[test]
fn subscribed_topics_do_not_expire() {
    let mut bench = Bench::with(strandline_group_coordinator::GroupConfig {
        offsets_retention_ms: 1_000_000,
        ..config()
    });
    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("t", &[(0, 1)]),
        ("u", &[(0, 2)]),
    ])));
    let (ids, generation) = bench.stable_group(1);
    for round in 0..400 {
        bench.pass(5_000);
        assert_eq!(bench.heartbeat(generation, &ids[0]), Ok(()));
        if round == 300 {
            let mut late = commit_all_of(&[("v", &[(0, 3)])]);
            (late.generation_id, late.member_id) = (generation, ids[0].clone());
            assert_eq!(bench.commit(late), None);
        }
    }
    assert_eq!(bench.fetch("t", 0).offset, 1);
    assert_eq!(bench.fetch("u", 0).offset, -1);
    assert_eq!(bench.fetch("v", 0).offset, 3);
}

// G-60, X-18: nothing expires while a group rebalances, nor if its members are not understood.
#[test]
fn nothing_expires_in_a_rebalance() {
    let mut bench = Bench::with(strandline_group_coordinator::GroupConfig {
        offsets_retention_ms: 1_000_000,
        ..config()
    });
    let slow = JoinRequest {
        session_timeout_ms: 1_800_000,
        rebalance_timeout_ms: 1_800_000,
        ..join("")
    };
    bench.send(Request::OffsetCommit(commit_all_of(&[("u", &[(0, 2)])])));
    let (ids, generation) = bench.stable_group_of(vec![slow.clone(), slow.clone()]);
    bench.park(JoinRequest {
        member_id: ids[0].clone(),
        ..slow
    });
    bench.pass(1_790_000);
    assert_eq!(bench.state(), GroupState::PreparingRebalance);
    assert_eq!(bench.fetch("u", 0).offset, 2);
    assert_eq!(
        bench.heartbeat(generation, &ids[1]),
        Err(GroupError::RebalanceInProgress)
    );

    let mut bench = Bench::with(strandline_group_coordinator::GroupConfig {
        offsets_retention_ms: 1_000_000,
        ..config()
    });
    bench.send(Request::OffsetCommit(commit_all_of(&[("u", &[(0, 2)])])));
    let connect = JoinRequest {
        protocol_type: "connect".to_owned(),
        session_timeout_ms: 1_800_000,
        ..join("")
    };
    bench.stable_group_of(vec![connect]);
    bench.pass(1_790_000);
    assert_eq!(bench.fetch("u", 0).offset, 2);
}

// G-54, G-60: an explicit expiry holds whatever the retention is.
#[test]
fn an_explicit_expiry_comes_first() {
    let mut bench = Bench::new();
    let long = OffsetCommitRequest {
        retention_time_ms: Some(2 * WEEK_MS),
        ..commit(-1, "", 5)
    };
    bench.commit(long);
    let short = commit_all_of(&[("u", &[(0, 2)])]);
    bench.commit(OffsetCommitRequest {
        retention_time_ms: Some(1),
        ..short
    });
    bench.pass(600_000);
    assert_eq!(bench.fetch("u", 0).offset, -1);
    bench.pass(WEEK_MS + 600_000);
    assert_eq!(bench.fetch("t", 0).offset, 5);
    bench.pass(WEEK_MS);
    assert!(!bench.group_exists());
}

// G-60: an offset that is being committed again does not expire.
#[test]
fn a_commit_under_way_keeps_its_partition() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.pass(WEEK_MS - 10);
    bench.commits_at_once = false;
    let id = bench.send(Request::OffsetCommit(commit(-1, "", 6)));
    bench.pass(600_000);
    assert!(!bench.is_answered(id));
    bench.commit_all();
    assert_eq!(bench.fetch("t", 0).offset, 6);
    assert_eq!(
        crate::harness::fetch_from(&bench.loaded(), "t", 0).offset,
        6
    );
}

// G-60: an expiry that could not be written is tried again.
#[test]
fn a_failed_expiry_is_tried_again() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    bench.pass(WEEK_MS + 600_000);
    assert_eq!(bench.state(), GroupState::Dead);
    bench.fail_all(AppendError::NotEnoughReplicas);
    assert_eq!(
        (bench.state(), bench.fetch("t", 0).offset),
        (GroupState::Empty, 5)
    );
    bench.commits_at_once = true;
    bench.pass(600_000);
    assert!(!bench.group_exists());
}

// G-60: an Empty group without offsets goes at the next scan.
#[test]
fn an_empty_group_without_offsets_goes() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    bench.leave(&[(&ids[0], None)]);
    bench.pass(600_000);
    assert!(!bench.group_exists());
    assert!(bench.loaded().describe_group(GROUP).is_err());
}

// G-61: a deleted topic takes its offsets with it, in every state and under way.
#[test]
fn a_deleted_topic_takes_its_offsets() {
    let mut bench = Bench::new();
    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("t", &[(0, 1)]),
        ("u", &[(0, 2)]),
    ])));
    let (ids, generation) = bench.stable_group(1);
    bench.commits_at_once = false;
    let id = bench.send(Request::OffsetCommit(commit(generation, &ids[0], 9)));
    bench.topics_deleted(&["t", "other"]);
    bench.commit_all();
    assert!(bench.is_answered(id));
    assert_eq!(bench.fetch("t", 0).offset, -1);
    assert_eq!(bench.fetch("u", 0).offset, 2);
    assert_eq!(
        crate::harness::fetch_from(&bench.loaded(), "t", 0).offset,
        -1
    );
}

// G-61: a recreated topic must not inherit, even if the tombstones could not be written.
#[test]
fn a_deleted_topic_is_forgotten_in_any_case() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    bench.topics_deleted(&["t"]);
    bench.fail_all(AppendError::NotEnoughReplicas);
    assert_eq!(bench.fetch("t", 0).offset, -1);
}

// G-61: created again before its offsets were read, a topic must not inherit them either.
#[test]
fn a_topic_deleted_while_a_shard_loads_takes_its_offsets() {
    let mut bench = Bench::new();
    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("t", &[(0, 1)]),
        ("u", &[(0, 2)]),
    ])));
    let loader = bench.loader();
    let effects = bench.shard.begin_loading();
    bench.carry_out(effects);
    bench.topics_deleted(&["t"]);
    let effects = bench.shard.start(loader, bench.now());
    bench.carry_out(effects);
    for shard in [&bench.shard, &bench.loaded()] {
        assert_eq!(crate::harness::fetch_from(shard, "t", 0).offset, -1);
        assert_eq!(crate::harness::fetch_from(shard, "u", 0).offset, 2);
    }
    // It was about what was loaded then.
    bench.commit(commit(-1, "", 7));
    bench.fail_over();
    assert_eq!(bench.fetch("t", 0).offset, 7);
}

// G-61: what a shard that was away must catch up with.
#[test]
fn topics_with_offsets_are_known() {
    let mut bench = Bench::new();
    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("t", &[(0, 1)]),
        ("u", &[(0, 2)]),
    ])));
    let topics: Vec<_> = bench.loader().topics_with_offsets().into_iter().collect();
    assert_eq!(topics, ["t", "u"]);
}

// G-33: subscriptions of the members are united.
#[test]
fn every_members_topics_are_kept() {
    let mut bench = Bench::new();
    bench.send(Request::OffsetCommit(commit_all_of(&[
        ("a", &[(0, 1)]),
        ("b", &[(0, 2)]),
    ])));
    let of = |topic: &str| JoinRequest {
        protocols: vec![("range".to_owned(), subscription(&[topic]))],
        ..join("")
    };
    bench.stable_group_of(vec![of("a"), of("b")]);
    let reply = bench.delete_offsets(&[("a", &[0]), ("b", &[0])]);
    for topic in reply.topics {
        assert_eq!(
            topic.partitions[0].1,
            Some(GroupError::GroupSubscribedToTopic)
        );
    }
}

// G-3, G-60: a group that someone is about to join is not buried.
#[test]
fn a_pending_id_keeps_an_empty_group() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group(1);
    bench.leave(&[(&ids[0], None)]);
    let asked = JoinRequest {
        require_known_member_id: true,
        session_timeout_ms: 1_800_000,
        ..join("")
    };
    let id = bench.join(asked.clone()).member_id;
    bench.pass(600_000);
    assert_eq!(bench.state(), GroupState::Empty);
    bench.park(JoinRequest {
        member_id: id,
        ..asked
    });
}
