//! Loading, failover and unloading (G-40, G-71, section 4.3).

use strandline_coordinator::{CoordinatorRecord, Now, RecordError, RequestId};
use strandline_group_coordinator::{
    DeleteGroupRequest, GroupConfig, GroupError, GroupMetadata, GroupShard, GroupState,
    HeartbeatRequest, LeaveRequest, ListGroupsFilter, Loader, OffsetFetchQuery, RecordKey, Reply,
    Request,
};

use crate::harness::{
    Bench, DELAY_MS, GROUP, SESSION_MS, commit, config, fetch_from, join, join_static,
    offset_delete, sync,
};

/// When it makes no difference.
const BEGIN: Now = Now {
    wall_ms: 0,
    monotonic_ms: 0,
};

fn every_request() -> Vec<Request> {
    vec![
        Request::Join(join("m")),
        Request::Sync(sync(1, "m", &[])),
        Request::Leave(LeaveRequest {
            group_id: GROUP.to_owned(),
            members: Vec::new(),
        }),
        Request::OffsetCommit(commit(-1, "", 5)),
        Request::OffsetDelete(offset_delete(&[("t", &[0])])),
        Request::DeleteGroup(DeleteGroupRequest {
            group_id: GROUP.to_owned(),
        }),
    ]
}

fn heartbeat() -> Request {
    Request::Heartbeat(HeartbeatRequest {
        group_id: GROUP.to_owned(),
        generation_id: 1,
        member_id: "m".to_owned(),
        group_instance_id: None,
    })
}

fn assert_refuses(shard: &mut GroupShard, error: GroupError) {
    for request in every_request() {
        let expected = request.refusal(error);
        let effects = shard.handle(RequestId(1), request, BEGIN);
        assert_eq!(effects.replies, [(RequestId(1), expected)]);
        assert!(effects.appends.is_empty());
    }
    let query = OffsetFetchQuery {
        group_id: GROUP.to_owned(),
        topics: None,
        require_stable: true,
    };
    assert_eq!(shard.fetch_offsets(&query), Err(error));
    assert_eq!(shard.describe_group(GROUP), Err(error));
    assert_eq!(shard.list_groups(&ListGroupsFilter::default()), Err(error));
}

// G-71, G-40, X-14: while loading everything is refused but heartbeats.
#[test]
fn a_loading_shard_refuses() {
    let mut shard = GroupShard::new(GroupConfig::default(), Box::new(uuid::Uuid::nil));
    assert_refuses(&mut shard, GroupError::CoordinatorLoadInProgress);
    let effects = shard.handle(RequestId(9), heartbeat(), BEGIN);
    assert_eq!(effects.replies, [(RequestId(9), Reply::Heartbeat(Ok(())))]);
    assert!(!shard.is_active());
    shard.start(Loader::new(), BEGIN);
    assert!(shard.is_active());
}

// G-71: after unloading this is not the coordinator, and then it may load again.
#[test]
fn an_unloaded_shard_is_not_the_coordinator() {
    let mut bench = Bench::new();
    bench.stable_group(1);
    bench.shard.unload();
    assert_refuses(&mut bench.shard, GroupError::NotCoordinator);
    let effects = bench.shard.handle(RequestId(9), heartbeat(), BEGIN);
    let refusal = Reply::Heartbeat(Err(GroupError::NotCoordinator));
    assert_eq!(effects.replies, [(RequestId(9), refusal)]);
    assert_eq!(bench.shard.next_deadline_ms(), None);
    bench.shard.begin_loading();
    assert_refuses(&mut bench.shard, GroupError::CoordinatorLoadInProgress);
}

// G-71: whatever is parked or waits for an append is answered when leadership moves.
#[test]
fn unloading_answers_everybody() {
    let mut bench = Bench::new();
    let (ids, _) = bench.stable_group_of(vec![join_static("", "a"), join("")]);
    bench.commits_at_once = false;
    let restart = bench.park(join_static("", "a"));
    let follower = bench.send(Request::Join(join(&ids[1])));
    let commit_id = bench.send(Request::OffsetCommit(commit(1, &ids[1], 5)));
    let mut other = join("");
    other.group_id = "other".to_owned();
    let parked = bench.park(other);
    let mut simple = commit(-1, "", 5);
    simple.group_id = "simple".to_owned();
    let simple_id = bench.send(Request::OffsetCommit(simple));
    let delete = bench.send(Request::DeleteGroup(DeleteGroupRequest {
        group_id: "simple".to_owned(),
    }));
    let token = bench.appends[0].token;
    bench.fail_over();
    for id in [restart, parked] {
        assert_eq!(bench.join_reply(id).error, Some(GroupError::NotCoordinator));
    }
    for id in [commit_id, simple_id] {
        let error = bench.commit_reply(id).topics[0].partitions[0].1;
        assert_eq!(error, Some(GroupError::NotCoordinator));
    }
    assert_eq!(
        bench.reply(delete),
        Reply::DeleteGroup(Err(GroupError::NotCoordinator))
    );
    assert!(bench.is_answered(follower));
    // Late results concern nobody.
    bench.resolve(token, Ok(()));
}

// G-71: groups and offsets come back, sessions begin anew, timers of rebalances are lost.
#[test]
fn a_stable_group_comes_back() {
    let mut bench = Bench::new();
    let (ids, generation) = bench.stable_group_of(vec![join_static("", "i"), join("")]);
    bench.commit(commit(generation, &ids[1], 5));
    let before = bench.describe();
    bench.pass(SESSION_MS - 1);
    bench.fail_over();
    assert_eq!(bench.describe(), before);
    assert_eq!(bench.fetch("t", 0).leader_epoch, 7);
    bench.pass(SESSION_MS - 1);
    assert_eq!(bench.heartbeat_as(generation, &ids[0], Some("i")), Ok(()));
    assert_eq!(bench.heartbeat(generation, &ids[1]), Ok(()));
    let id = bench.send_sync(generation, &ids[1], &[]);
    assert_eq!(bench.sync_reply(id).assignment, ids[1].as_bytes());
    // Its follower's unchanged join needs no rebalance, its leader's does.
    assert_eq!(bench.join(join(&ids[1])).generation_id, generation);
    bench.park(join_static(&ids[0], "i"));
    assert_eq!(bench.join(join(&ids[1])).generation_id, generation + 1);
}

// G-71: members that do not come back time out.
#[test]
fn loaded_members_time_out() {
    let mut bench = Bench::new();
    bench.stable_group(3);
    bench.fail_over();
    assert_eq!(bench.state(), GroupState::Stable);
    bench.pass(SESSION_MS);
    assert_eq!(bench.state(), GroupState::Empty);
}

// G-71: a rebalance that was under way is forgotten; its members start over.
#[test]
fn a_rebalance_under_way_is_forgotten() {
    let mut bench = Bench::new();
    let parked = bench.park(join(""));
    bench.fail_over();
    assert_eq!(
        bench.join_reply(parked).error,
        Some(GroupError::NotCoordinator)
    );
    assert!(!bench.group_exists());
    let (ids, _) = bench.stable_group(1);
    bench.park(join(""));
    bench.fail_over();
    assert_eq!(bench.state(), GroupState::Stable);
    assert_eq!(bench.heartbeat(1, &ids[0]), Ok(()));
}

// 4.3: unknown keys are ignored, the last of each known key counts.
#[test]
fn the_last_record_of_a_key_counts() {
    let offset = |offset: i64| {
        let mut bench = Bench::new();
        bench.commit(commit(-1, "", offset));
        bench.log.remove(0)
    };
    let mut loader = Loader::new();
    let [first, last] = [offset(1), offset(2)];
    let feed = |loader: &mut Loader, record: &CoordinatorRecord| {
        loader.feed(&record.key, record.value.as_deref()).unwrap();
    };
    feed(&mut loader, &last);
    loader.feed(&first.key, None).unwrap();
    feed(&mut loader, &first);
    feed(&mut loader, &last);
    for version in [3_u8, 5, 9, 17, 99] {
        loader
            .feed(&[0, version, 1, 2, 3], Some(b"whatever"))
            .unwrap();
    }
    assert_eq!(loader.ignored_count(), 5);
    // A tombstone for what was never there.
    loader
        .feed(&RecordKey::encode_group("ghost").unwrap(), None)
        .unwrap();
    loader
        .feed(&RecordKey::encode_offset("ghost", "t", 0).unwrap(), None)
        .unwrap();
    let mut shard = GroupShard::new(config(), Box::new(uuid::Uuid::nil));
    shard.start(loader, BEGIN);
    assert_eq!(fetch_from(&shard, "t", 0).offset, 2);
    assert_eq!(
        shard
            .list_groups(&ListGroupsFilter::default())
            .unwrap()
            .len(),
        1
    );
}

// 4.3: a damaged record is an error and can be passed over.
#[test]
fn a_damaged_record_can_be_passed_over() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    let record = &bench.log[0];
    let mut loader = Loader::new();
    loader.feed(&record.key, record.value.as_deref()).unwrap();
    let value = record.value.as_deref().unwrap();
    assert!(loader.feed(&record.key, Some(&value[..7])).is_err());
    assert_eq!(
        loader.feed(b"\x00", None),
        Err(RecordError::Truncated("key version"))
    );
    assert_eq!(
        loader.feed(&record.key, Some(b"\x00\x09")),
        Err(RecordError::ValueVersion(9))
    );
    let mut shard = GroupShard::new(config(), Box::new(uuid::Uuid::nil));
    shard.start(loader, BEGIN);
    assert_eq!(fetch_from(&shard, "t", 0).offset, 5);
}

// G-71: a record whose leader is gone still makes a group that works.
#[test]
fn a_loaded_group_always_has_a_leader() {
    let mut bench = Bench::new();
    bench.stable_group(2);
    let record = bench.log.last().unwrap().clone();
    let mut value = GroupMetadata::decode(record.value.as_ref().unwrap()).unwrap();
    value.leader = Some("nobody".to_owned());
    let mut loader = Loader::new();
    loader
        .feed(&record.key, Some(&value.encode().unwrap()))
        .unwrap();
    let mut shard = GroupShard::new(config(), Box::new(uuid::Uuid::nil));
    shard.start(loader, BEGIN);
    shard.check().unwrap();
}

// G-1: a group that no longer fits shrinks after loading.
#[test]
fn a_loaded_group_that_is_too_large_rebalances() {
    let mut bench = Bench::new();
    bench.stable_group(3);
    let mut loader = Loader::new();
    for record in &bench.log {
        loader.feed(&record.key, record.value.as_deref()).unwrap();
    }
    let mut shard = GroupShard::new(
        GroupConfig {
            max_size: 2,
            ..config()
        },
        Box::new(uuid::Uuid::nil),
    );
    shard.start(loader, BEGIN);
    shard.check().unwrap();
    assert_eq!(
        shard.describe_group(GROUP).unwrap().state,
        GroupState::PreparingRebalance
    );
}

// G-71: deadlines of the old life do not disturb the new one.
#[test]
fn a_restarted_shard_has_fresh_deadlines() {
    let mut bench = Bench::new();
    bench.park(join(""));
    bench.fail_over();
    assert_eq!(
        bench.shard.next_deadline_ms(),
        Some(bench.monotonic_ms + 600_000)
    );
    bench.pass(DELAY_MS);
}
