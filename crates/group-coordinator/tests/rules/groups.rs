//! DeleteGroups, DescribeGroups and ListGroups (G-59, G-80, G-81).

use strandline_coordinator::AppendError;
use strandline_group_coordinator::{
    DeleteGroupRequest, GroupError, GroupState, JoinRequest, ListGroupsFilter, OffsetCommitRequest,
    Reply, Request,
};

use crate::harness::{Bench, GROUP, commit, commit_topic, join, join_with, offset_delete};

// G-59: only an empty group can be deleted, and it takes its offsets with it.
#[test]
fn an_empty_group_is_deleted_with_its_offsets() {
    let mut bench = Bench::new();
    assert_eq!(bench.delete_group(), Err(GroupError::GroupIdNotFound));
    let (ids, generation) = bench.stable_group(1);
    bench.commit(commit(generation, &ids[0], 5));
    assert_eq!(bench.delete_group(), Err(GroupError::NonEmptyGroup));
    bench.leave(&[(&ids[0], None)]);
    assert_eq!(bench.delete_group(), Ok(()));
    assert!(!bench.group_exists());
    let loaded = bench.loaded();
    assert!(
        loaded
            .list_groups(&ListGroupsFilter::default())
            .unwrap()
            .is_empty()
    );
    assert!(bench.loader().topics_with_offsets().is_empty());
}

// G-59: the deletion is not told before it is in the log; if it fails the group is back.
#[test]
fn a_failed_deletion_brings_the_group_back() {
    let mut bench = Bench::new();
    bench.commit(commit(-1, "", 5));
    bench.commits_at_once = false;
    let request = Request::DeleteGroup(DeleteGroupRequest {
        group_id: GROUP.to_owned(),
    });
    let id = bench.send(request);
    assert!(!bench.is_answered(id));
    let told = Err(GroupError::CoordinatorNotAvailable);
    assert_eq!(bench.delete_group(), told, "it may live on");
    bench.fail_all(AppendError::RequestTimedOut);
    let outcome = Reply::DeleteGroup(told);
    assert_eq!(bench.reply(id), outcome);
    assert_eq!(
        (bench.state(), bench.fetch("t", 0).offset),
        (GroupState::Empty, 5)
    );
}

/// Partitions of a topic with a long name, which are committed a thousand at a time.
const MANY: i32 = 12_000;

fn long_name() -> String {
    "t".repeat(200)
}

fn with_many_offsets() -> Bench {
    let mut bench = Bench::new();
    for from in (0..MANY).step_by(1_000) {
        let offsets: Vec<_> = (from..from + 1_000).map(|p| (p, 5)).collect();
        let request = OffsetCommitRequest {
            topics: vec![commit_topic(&long_name(), &offsets)],
            ..commit(-1, "", 5)
        };
        assert_eq!(bench.commit(request), None);
    }
    bench
}

fn delete_many(bench: &mut Bench) -> strandline_coordinator::RequestId {
    let partitions: Vec<i32> = (0..MANY).collect();
    bench.send(Request::OffsetDelete(offset_delete(&[(
        &long_name(),
        &partitions,
    )])))
}

// G-59: tombstones that do not fit into one append go into many.
#[test]
fn a_group_with_many_offsets_is_deleted() {
    let mut bench = with_many_offsets();
    assert_eq!(bench.delete_group(), Ok(()));
    assert!(!bench.group_exists());
    assert!(bench.loader().topics_with_offsets().is_empty());
    assert!(bench.loaded().describe_group(GROUP).is_err());

    let mut bench = with_many_offsets();
    let id = delete_many(&mut bench);
    let Reply::OffsetDelete(reply) = bench.reply(id) else {
        panic!("not a deletion")
    };
    assert_eq!(reply.error, None);
    assert_eq!(reply.topics[0].partitions.len(), 12_000);
    assert!(bench.loader().topics_with_offsets().is_empty());
}

// G-59, G-60: so it is when they expire.
#[test]
fn many_offsets_expire_with_their_group() {
    let mut bench = with_many_offsets();
    bench.pass(7 * 24 * 3_600_000 + 600_000);
    assert!(!bench.group_exists());
    assert!(bench.loader().topics_with_offsets().is_empty());
}

// G-59: what comes last does not hide that something before it has failed.
#[test]
fn a_deletion_that_failed_in_part_has_failed() {
    let delete_group = |bench: &mut Bench| {
        bench.send(Request::DeleteGroup(DeleteGroupRequest {
            group_id: GROUP.to_owned(),
        }))
    };
    let retriable = Some(GroupError::CoordinatorNotAvailable);
    let deletions: [fn(&mut Bench) -> strandline_coordinator::RequestId; 2] =
        [delete_group, delete_many];
    for delete in deletions {
        let mut bench = with_many_offsets();
        bench.commits_at_once = false;
        let id = delete(&mut bench);
        let failing = bench.appends.remove(3).unwrap();
        bench.resolve(failing.token, Err(AppendError::RequestTimedOut));
        assert!(!bench.is_answered(id));
        bench.commit_all();
        let error = match bench.reply(id) {
            Reply::DeleteGroup(outcome) => outcome.err(),
            Reply::OffsetDelete(reply) => reply.error,
            other => panic!("{other:?}"),
        };
        assert_eq!(error, retriable);
        assert_eq!(bench.state(), GroupState::Empty);
        // A thousand are left, here and in the log.
        let left = |bench: &Bench| {
            let name = long_name();
            let is_there = |p: &i32| bench.fetch(&name, *p).offset == 5;
            (0..MANY).filter(is_there).count()
        };
        assert_eq!(left(&bench), 1_000);
        bench.fail_over();
        assert_eq!(left(&bench), 1_000);
        bench.commits_at_once = true;
        assert_eq!(bench.delete_group(), Ok(()));
        assert!(bench.loader().topics_with_offsets().is_empty());
    }
}

// G-59: a commit that is still under way does not survive the deletion.
#[test]
fn a_deletion_takes_commits_under_way() {
    let mut bench = Bench::new();
    bench.commits_at_once = false;
    let commit_id = bench.send(Request::OffsetCommit(commit(-1, "", 5)));
    let id = bench.send(Request::DeleteGroup(DeleteGroupRequest {
        group_id: GROUP.to_owned(),
    }));
    bench.commit_all();
    assert!(bench.is_answered(commit_id));
    assert_eq!(bench.reply(id), Reply::DeleteGroup(Ok(())));
    assert!(!bench.group_exists());
    assert!(bench.loader().topics_with_offsets().is_empty());
}

// G-59: a group that only handed out ids is deleted without a write.
#[test]
fn a_group_of_pending_ids_is_deleted() {
    let mut bench = Bench::new();
    bench.join(JoinRequest {
        require_known_member_id: true,
        ..join("")
    });
    assert_eq!(bench.delete_group(), Ok(()));
    assert!(!bench.group_exists() && bench.log.is_empty());
    bench.pass(3_600_000);
}

// G-80: the words, and what is shown when.
#[test]
fn descriptions_show_assignments_in_stable_only() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.shard.describe_group(GROUP),
        Err(GroupError::GroupIdNotFound)
    );
    let (ids, _) = bench.stable_group_of(vec![join_with("", &[("range", "sub")])]);
    let described = bench.describe();
    assert_eq!(described.state.as_str(), "Stable");
    assert_eq!(
        (&*described.protocol_type, &*described.protocol_data),
        ("consumer", "range")
    );
    let member = &described.members[0];
    assert_eq!(
        (&*member.member_id, &*member.client_id),
        (&*ids[0], "client")
    );
    assert_eq!(member.client_host, "/127.0.0.1");
    assert_eq!(&member.metadata[..], b"sub");
    assert_eq!(member.assignment, ids[0].as_bytes());

    bench.send(Request::Join(join_with(&ids[0], &[("range", "sub2")])));
    let described = bench.describe();
    assert_eq!(described.state.as_str(), "CompletingRebalance");
    assert_eq!(described.protocol_data, "");
    assert!(described.members[0].metadata.is_empty());
    assert!(described.members[0].assignment.is_empty());

    bench.park(join(""));
    assert_eq!(bench.describe().state.as_str(), "PreparingRebalance");
    assert_eq!(GroupState::Empty.as_str(), "Empty");
    assert_eq!(GroupState::Dead.as_str(), "Dead");
}

// G-81: filters of states and types.
#[test]
fn lists_are_filtered() {
    let mut bench = Bench::new();
    bench.stable_group(1);
    bench.commit(OffsetCommitRequest {
        group_id: "simple".to_owned(),
        ..commit(-1, "", 1)
    });
    let list = |states: &[&str], types: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let filter = ListGroupsFilter {
            states: owned(states),
            types: owned(types),
        };
        let groups = bench.shard.list_groups(&filter).unwrap();
        groups
            .into_iter()
            .map(|group| group.group_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&[], &[]), ["g", "simple"]);
    assert_eq!(list(&["stable"], &[]), ["g"]);
    assert_eq!(list(&[" STABLE ", "empty"], &["Classic"]), ["g", "simple"]);
    assert_eq!(list(&["Assigning"], &[]), [""; 0]);
    assert_eq!(list(&["nonsense"], &[]), [""; 0]);
    assert_eq!(list(&[], &["consumer", "share"]), [""; 0]);
    let all = bench
        .shard
        .list_groups(&ListGroupsFilter::default())
        .unwrap();
    assert_eq!(
        (&*all[0].protocol_type, all[0].state),
        ("consumer", GroupState::Stable)
    );
    assert_eq!((&*all[1].protocol_type, all[1].group_type), ("", "classic"));
    let counts = bench.shard.state_counts();
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [(GroupState::Empty, 1), (GroupState::Stable, 1)]
    );
}
