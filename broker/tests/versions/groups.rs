//! Groups of one member, their offsets and their end, in every version.

use bytes::Bytes;
use strandline_wire::StrBytes;
use strandline_wire::messages as m;

use crate::client::{Broker, text, topic_name};
use crate::{create_topic, versions};

#[test]
fn groups() {
    let broker = Broker::start(&["group.initial.rebalance.delay.ms=0"]);
    create_topic(&broker, 5, "t", 2);
    broker.wait_for_coordinator("g");
    for version in versions("FindCoordinator") {
        let mut request = m::FindCoordinatorRequest::default();
        if version >= 4 {
            request.coordinator_keys = vec![text("g")];
        } else {
            request.key = text("g");
        }
        let response: m::FindCoordinatorResponse = broker.call(version, &request);
        let node = if version >= 4 {
            response.coordinators[0].node_id
        } else {
            response.node_id
        };
        assert_eq!(node, 1, "{version}");
    }
    for version in versions("JoinGroup") {
        let group = format!("group-{version}");
        broker.wait_for_coordinator(&group);
        one_member_group(&broker, version, &group);
    }
    broker.wait_for_coordinator("no");
    for version in versions("OffsetCommit") {
        let partition = m::offset_commit_request::OffsetCommitRequestPartition::default()
            .with_partition_index(1)
            .with_committed_offset(100 + i64::from(version))
            .with_committed_metadata(Some(text("note")));
        let missing = partition.clone().with_partition_index(9);
        let topic = m::offset_commit_request::OffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition, missing]);
        let mut request = m::OffsetCommitRequest::default()
            .with_group_id(text("g").into())
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        if version <= 4 {
            request.retention_time_ms = -1;
        }
        let response: m::OffsetCommitResponse = broker.call(version, &request);
        let codes: Vec<i16> = response.topics[0]
            .partitions
            .iter()
            .map(|p| p.error_code)
            .collect();
        assert_eq!(codes, [0, 3], "{version}"); // G-50
    }
    for version in versions("OffsetFetch") {
        let mut request = m::OffsetFetchRequest::default();
        if version >= 8 {
            let topic = m::offset_fetch_request::OffsetFetchRequestTopics::default()
                .with_name(topic_name("t"))
                .with_partition_indexes(vec![0, 1]);
            let group = m::offset_fetch_request::OffsetFetchRequestGroup::default()
                .with_group_id(text("g").into())
                .with_topics(Some(vec![topic]));
            request.groups = vec![group];
        } else {
            let topic = m::offset_fetch_request::OffsetFetchRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partition_indexes(vec![0, 1]);
            request.group_id = text("g").into();
            request.topics = Some(vec![topic]);
        }
        let response: m::OffsetFetchResponse = broker.call(version, &request);
        let offsets: Vec<i64> = if version >= 8 {
            response.groups[0].topics[0]
                .partitions
                .iter()
                .map(|p| p.committed_offset)
                .collect()
        } else {
            response.topics[0]
                .partitions
                .iter()
                .map(|p| p.committed_offset)
                .collect()
        };
        assert_eq!(offsets, [-1, 109], "{version}"); // G-55
    }
    for version in versions("ListGroups") {
        let response: m::ListGroupsResponse =
            broker.call(version, &m::ListGroupsRequest::default());
        assert!(response.groups.iter().any(|g| g.group_id.as_str() == "g"));
    }
    for version in versions("DescribeGroups") {
        let request = m::DescribeGroupsRequest::default()
            .with_groups(vec![text("g").into(), text("unknown").into()]);
        let response: m::DescribeGroupsResponse = broker.call(version, &request);
        assert_eq!(response.groups[0].group_state.as_str(), "Empty");
        let unknown = &response.groups[1];
        let code = if version >= 6 { 69 } else { 0 }; // G-80
        assert_eq!(
            (unknown.error_code, unknown.group_state.as_str()),
            (code, "Dead")
        );
    }
    for version in versions("OffsetDelete") {
        let partition = m::offset_delete_request::OffsetDeleteRequestPartition::default()
            .with_partition_index(1);
        let topic = m::offset_delete_request::OffsetDeleteRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = m::OffsetDeleteRequest::default()
            .with_group_id(text("g").into())
            .with_topics(vec![topic]);
        let response: m::OffsetDeleteResponse = broker.call(version, &request);
        assert_eq!(response.error_code, 0);
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
    }
    for version in versions("DeleteGroups") {
        let request = m::DeleteGroupsRequest::default().with_groups_names(vec![
            text(format!("group-{version}")).into(),
            text("no").into(),
        ]);
        let response: m::DeleteGroupsResponse = broker.call(version, &request);
        let codes: Vec<i16> = response.results.iter().map(|r| r.error_code).collect();
        assert_eq!(codes, [0, 69], "{version}"); // G-59
    }
}

/// A whole life of a group with one member, in the versions that go with a version of JoinGroup.
fn one_member_group(broker: &Broker, version: i16, group: &str) {
    let member = only_member(broker, version, group);
    let leave_version = version.min(5);
    let mut leave = m::LeaveGroupRequest::default().with_group_id(text(group).into());
    if leave_version >= 3 {
        let who = m::leave_group_request::MemberIdentity::default().with_member_id(member);
        leave.members = vec![who];
    } else {
        leave.member_id = member;
    }
    let left: m::LeaveGroupResponse = broker.call(leave_version, &leave);
    assert_eq!(left.error_code, 0);
    assert!(left.members.iter().all(|m| m.error_code == 0));
}

/// Makes a group stable; gives the id of its member.
pub(crate) fn only_member(broker: &Broker, version: i16, group: &str) -> StrBytes {
    let join = |member: &str| {
        let protocol = m::join_group_request::JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"meta"));
        let mut request = m::JoinGroupRequest::default()
            .with_group_id(text(group).into())
            .with_session_timeout_ms(10_000)
            .with_member_id(text(member))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        if version >= 1 {
            request.rebalance_timeout_ms = 10_000;
        }
        broker.call::<_, m::JoinGroupResponse>(version, &request)
    };
    let mut joined = join("");
    if version >= 4 {
        assert_eq!(joined.error_code, 79, "G-3");
        joined = join(joined.member_id.as_str());
    }
    assert_eq!(
        (joined.error_code, joined.generation_id),
        (0, 1),
        "{version}"
    );
    assert_eq!(joined.members.len(), 1);
    let member = joined.member_id;
    let sync_version = version.min(5);
    let assignment = m::sync_group_request::SyncGroupRequestAssignment::default()
        .with_member_id(member.clone())
        .with_assignment(Bytes::from_static(b"plan"));
    let mut sync = m::SyncGroupRequest::default()
        .with_group_id(text(group).into())
        .with_generation_id(1)
        .with_member_id(member.clone())
        .with_assignments(vec![assignment]);
    if sync_version >= 5 {
        sync.protocol_type = Some(text("consumer"));
        sync.protocol_name = Some(text("range"));
    }
    let synced: m::SyncGroupResponse = broker.call(sync_version, &sync);
    assert_eq!(
        (synced.error_code, &synced.assignment[..]),
        (0, &b"plan"[..])
    );
    let beat = |generation| {
        let request = m::HeartbeatRequest::default()
            .with_group_id(text(group).into())
            .with_generation_id(generation)
            .with_member_id(member.clone());
        broker
            .call::<_, m::HeartbeatResponse>(version.min(4), &request)
            .error_code
    };
    assert_eq!((beat(1), beat(7)), (0, 22));
    member
}
