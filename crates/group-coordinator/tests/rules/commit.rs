//! OffsetCommit (G-50, G-51, G-53, G-54, X-71).

use strandline_coordinator::AppendError;
use strandline_group_coordinator::{
    CommittedOffset, GroupError, GroupState, OffsetCommitRequest, RecordKey, Request,
};

use crate::harness::{Bench, GROUP, commit, commit_topic, join, join_static, join_with};

#[derive(Clone, Copy, Debug)]
enum Group {
    None,
    Simple,
    Empty,
    Preparing,
    Completing,
    Stable,
    Dead,
}

/// A group in the state, its member's id and generation. Its member is static: instance "i".
fn arrange(group: Group) -> (Bench, String, i32) {
    let mut bench = Bench::new();
    match group {
        Group::None => return (bench, "m".to_owned(), 1),
        Group::Simple => {
            assert_eq!(bench.commit(commit(-1, "", 1)), None);
            return (bench, "m".to_owned(), 1);
        }
        _ => {}
    }
    let (ids, generation) = bench.stable_group_of(vec![join_static("", "i"), join("")]);
    let member = ids[0].clone();
    match group {
        Group::Preparing => {
            bench.park(join_with(&ids[1], &[("range", "changed")]));
        }
        Group::Completing => {
            bench.park(join(""));
            bench.send(Request::Join(join(&ids[1])));
            let reply = bench.join(join_static(&member, "i"));
            assert_eq!(bench.state(), GroupState::CompletingRebalance);
            return (bench, member, reply.generation_id);
        }
        Group::Empty | Group::Dead => {
            bench.leave(&[(&ids[0], None), (&ids[1], None)]);
            assert_eq!(bench.state(), GroupState::Empty);
        }
        _ => {}
    }
    if matches!(group, Group::Dead) {
        bench.commits_at_once = false;
        bench.send(Request::DeleteGroup(
            strandline_group_coordinator::DeleteGroupRequest {
                group_id: GROUP.to_owned(),
            },
        ));
        assert_eq!(bench.state(), GroupState::Dead);
    }
    (bench, member, generation)
}

#[derive(Clone, Copy, Debug)]
enum Who {
    /// Generation -1, no member id.
    Anonymous,
    /// Generation -1, the member's id.
    NamedWithoutGeneration,
    /// The right generation and id.
    Member,
    /// With its instance id.
    MemberOfInstance,
    /// With another's instance id: known, but not its own.
    WrongId,
    /// The right generation, an unknown id.
    Stranger,
    /// A member with an unknown instance id.
    UnknownInstance,
    /// The right id, another generation.
    OldGeneration,
    NextGeneration,
}

fn request(who: Who, member: &str, generation: i32) -> OffsetCommitRequest {
    let instance = |request, instance: &str| OffsetCommitRequest {
        group_instance_id: Some(instance.to_owned()),
        ..request
    };
    match who {
        Who::Anonymous => commit(-1, "", 5),
        Who::NamedWithoutGeneration => commit(-1, member, 5),
        Who::Member => commit(generation, member, 5),
        Who::MemberOfInstance => instance(commit(generation, member, 5), "i"),
        Who::WrongId => instance(commit(generation, "x", 5), "i"),
        Who::Stranger => commit(generation, "x", 5),
        Who::UnknownInstance => instance(commit(generation, member, 5), "x"),
        Who::OldGeneration => commit(generation - 1, member, 5),
        Who::NextGeneration => commit(generation + 1, member, 5),
    }
}

// G-51: the whole matrix.
#[test]
fn the_matrix_of_who_may_commit() {
    use GroupError::{
        CoordinatorNotAvailable as Na, FencedInstanceId as Fenced, IllegalGeneration as Gen,
        RebalanceInProgress as Reb, UnknownMemberId as Unk,
    };
    let all = [
        Who::Anonymous,
        Who::NamedWithoutGeneration,
        Who::Member,
        Who::MemberOfInstance,
        Who::WrongId,
        Who::Stranger,
        Who::UnknownInstance,
        Who::OldGeneration,
        Who::NextGeneration,
    ];
    let (ok, na, fenced, gen_, reb, unk) = (
        None,
        Some(Na),
        Some(Fenced),
        Some(Gen),
        Some(Reb),
        Some(Unk),
    );
    let matrix = [
        // Generations start with 1 here, so the old one of None is 0, which is not negative.
        (
            Group::None,
            [ok, ok, gen_, gen_, gen_, gen_, gen_, gen_, gen_],
        ),
        (Group::Simple, [ok, ok, unk, unk, unk, unk, unk, unk, unk]),
        (Group::Empty, [ok, ok, unk, unk, unk, unk, unk, unk, unk]),
        (
            Group::Preparing,
            [unk, gen_, ok, ok, fenced, unk, unk, gen_, gen_],
        ),
        (
            Group::Completing,
            [unk, gen_, reb, reb, fenced, unk, unk, gen_, gen_],
        ),
        (
            Group::Stable,
            [unk, gen_, ok, ok, fenced, unk, unk, gen_, gen_],
        ),
        (Group::Dead, [na; 9]),
    ];
    for (group, expected) in matrix {
        for (who, error) in all.into_iter().zip(expected) {
            let (mut bench, member, generation) = arrange(group);
            let request = request(who, &member, generation);
            assert_eq!(bench.commit(request), error, "{group:?} {who:?}");
            let offset = bench.fetch("t", 0).offset;
            let before = if matches!(group, Group::Simple) {
                1
            } else {
                -1
            };
            assert_eq!(
                offset,
                if error.is_none() { 5 } else { before },
                "{group:?} {who:?}"
            );
        }
    }
}

// G-51: from v9 on a missing group has its own error.
#[test]
fn newer_clients_learn_that_the_group_is_missing() {
    let mut bench = Bench::new();
    let request = OffsetCommitRequest {
        supports_group_id_not_found: true,
        ..commit(1, "m", 5)
    };
    assert_eq!(bench.commit(request), Some(GroupError::GroupIdNotFound));
    let request = OffsetCommitRequest {
        supports_group_id_not_found: true,
        ..commit(-1, "", 5)
    };
    assert_eq!(bench.commit(request), None);
}

// G-51: a commit without a group makes a simple one.
#[test]
fn a_simple_group_is_empty_and_has_no_type() {
    let mut bench = Bench::new();
    assert_eq!(bench.commit(commit(-1, "", 5)), None);
    let described = bench.describe();
    assert_eq!(
        (described.state, &*described.protocol_type),
        (GroupState::Empty, "")
    );
    assert_eq!(bench.log.len(), 1, "only the offset is stored");
}

// G-53, X-71: neither visible nor acknowledged before it has committed.
#[test]
fn a_commit_waits_for_its_append() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let id = bench.send(Request::OffsetCommit(commit(-1, "", 5)));
    assert!(!bench.is_answered(id));
    assert_eq!(bench.fetch("t", 0).offset, -1);
    bench.commit_all();
    assert_eq!(bench.commit_reply(id).topics[0].partitions, [(0, None)]);
    assert_eq!(bench.fetch("t", 0).offset, 5);
}

// G-53, G-70: a failed append changes nothing and leaves nothing behind.
#[test]
fn a_failed_commit_leaves_nothing() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let id = bench.send(Request::OffsetCommit(commit(-1, "", 5)));
    bench.fail_all(AppendError::RequestTimedOut);
    let error = bench.commit_reply(id).topics[0].partitions[0].1;
    assert_eq!(error, Some(GroupError::CoordinatorNotAvailable));
    assert_eq!(bench.fetch("t", 0).offset, -1);
    assert!(!bench.group_exists());
}

// G-53: results may come in any order, commits happen in the order of the log; a failure is told at once.
#[test]
fn the_order_of_the_log_decides() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let ids = [5, 6, 7].map(|offset| bench.send(Request::OffsetCommit(commit(-1, "", offset))));
    let tokens: Vec<_> = bench.appends.drain(..).map(|append| append.token).collect();
    bench.resolve(tokens[2], Ok(()));
    bench.resolve(tokens[1], Err(AppendError::NotEnoughReplicas));
    let is_answered = ids.map(|id| bench.is_answered(id));
    assert_eq!(is_answered, [false, true, false]);
    assert_eq!(bench.fetch("t", 0).offset, -1);
    bench.resolve(tokens[0], Ok(()));
    assert_eq!(bench.fetch("t", 0).offset, 7);
    let errors = ids.map(|id| bench.commit_reply(id).topics[0].partitions[0].1);
    assert_eq!(
        errors,
        [None, Some(GroupError::CoordinatorNotAvailable), None]
    );
    // Tokens that nobody waits for are ignored.
    bench.resolve(tokens[0], Ok(()));

    // The first result of a token counts.
    let _ = [8, 9].map(|offset| bench.send(Request::OffsetCommit(commit(-1, "", offset))));
    let tokens: Vec<_> = bench.appends.drain(..).map(|append| append.token).collect();
    bench.resolve(tokens[1], Err(AppendError::NotEnoughReplicas));
    bench.resolve(tokens[1], Ok(()));
    bench.resolve(tokens[0], Ok(()));
    assert_eq!(bench.fetch("t", 0).offset, 8);
}

// G-53, X-13: all fields come back, the leader epoch with them.
#[test]
fn everything_that_was_committed_is_returned() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    let fetched = bench.fetch("t", 0);
    assert_eq!((fetched.offset, fetched.leader_epoch), (5, 7));
    assert_eq!((&*fetched.metadata, fetched.error), ("meta", None));
    let CommittedOffset {
        commit_timestamp_ms,
        expire_timestamp_ms,
        ..
    } = CommittedOffset::decode(bench.log[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(
        (commit_timestamp_ms, expire_timestamp_ms),
        (bench.now_ms, None)
    );
}

// G-50: metadata that is too large fails its partition only.
#[test]
fn large_metadata_fails_its_partition_only() {
    let mut bench = Bench::new();
    let mut request = commit(-1, "", 5);
    request.topics = vec![
        commit_topic("a", &[(0, 1), (1, 2)]),
        commit_topic("b", &[(0, 3)]),
    ];
    request.topics[0].partitions[0].metadata = "m".repeat(4_096);
    request.topics[0].partitions[1].metadata = "m".repeat(4_097);
    let id = bench.send(Request::OffsetCommit(request));
    let reply = bench.commit_reply(id);
    let too_large = Some(GroupError::OffsetMetadataTooLarge);
    assert_eq!(reply.topics[0].partitions, [(0, None), (1, too_large)]);
    assert_eq!(reply.topics[1].partitions, [(0, None)]);
    assert_eq!(bench.fetch("a", 0).offset, 1);
    assert_eq!(bench.fetch("a", 1).offset, -1);
    assert_eq!(bench.fetch("b", 0).offset, 3);
    assert_eq!(bench.log.len(), 2);
}

// G-50: if nothing is left to write, nothing is written and no group made.
#[test]
fn a_commit_of_nothing_writes_nothing() {
    let mut bench = Bench::new();
    let id = bench.send(Request::OffsetCommit(OffsetCommitRequest {
        topics: Vec::new(),
        ..commit(-1, "", 5)
    }));
    assert!(bench.commit_reply(id).topics.is_empty());
    let mut request = commit(-1, "", 5);
    request.topics[0].partitions[0].metadata = "m".repeat(40_000);
    assert_eq!(
        bench.commit(request),
        Some(GroupError::OffsetMetadataTooLarge)
    );
    assert!(bench.log.is_empty() && !bench.group_exists());
}

// G-50: the sign of an offset is the client's business.
#[test]
fn negative_offsets_are_stored() {
    let mut bench = Bench::new();
    assert_eq!(bench.commit(commit(-1, "", -5)), None);
    assert_eq!(bench.fetch("t", 0).offset, -5);
}

// G-54: an explicit retention is stored as an expiry.
#[test]
fn an_explicit_retention_is_an_expiry() {
    let mut bench = Bench::new();
    let request = OffsetCommitRequest {
        retention_time_ms: Some(500),
        ..commit(-1, "", 5)
    };
    assert_eq!(bench.commit(request), None);
    let value = CommittedOffset::decode(bench.log[0].value.as_ref().unwrap()).unwrap();
    assert_eq!(value.expire_timestamp_ms, Some(bench.now_ms + 500));
}

// G-50: the group "" is a group for offsets, and the key says so.
#[test]
fn the_group_without_a_name_may_commit() {
    let mut bench = Bench::new();
    let request = OffsetCommitRequest {
        group_id: String::new(),
        ..commit(-1, "", 5)
    };
    assert_eq!(bench.commit(request), None);
    let key = RecordKey::Offset {
        group_id: String::new(),
        topic: "t".to_owned(),
        partition: 0,
    };
    assert_eq!(RecordKey::decode(&bench.log[0].key), Ok(key));
    let long = OffsetCommitRequest {
        group_id: "g".repeat(32_768),
        ..commit(-1, "", 5)
    };
    assert_eq!(bench.commit(long), Some(GroupError::InvalidGroupId));
}
