//! What the APIs of groups answer to requests that nobody can carry out, in the words of each version.

use strandline_wire::messages as m;

use crate::client::{Broker, text, topic_name};
use crate::groups::only_member;
use crate::{create_topic, versions};

fn fetch_offsets(broker: &Broker, version: i16) -> i16 {
    let mut request = m::OffsetFetchRequest::default();
    if version >= 8 {
        let topic = m::offset_fetch_request::OffsetFetchRequestTopics::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0]);
        let group = m::offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(text("g").into())
            .with_topics(Some(vec![topic]));
        request.groups = vec![group];
    } else {
        let topic = m::offset_fetch_request::OffsetFetchRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0]);
        request.group_id = text("g").into();
        request.topics = Some(vec![topic]);
    }
    let response: m::OffsetFetchResponse = broker.call(version, &request);
    match version {
        ..=1 => response.topics[0].partitions[0].error_code,
        2..=7 => response.error_code,
        _ => response.groups[0].error_code,
    }
}

// G-58: while nobody has created the coordinators' topic, nobody here is the coordinator; Java consumers
// before 3.9 die of any other word for it.
#[test]
fn without_partitions_nobody_is_the_coordinator() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    for version in versions("OffsetFetch") {
        assert_eq!(fetch_offsets(&broker, version), 16, "{version}");
    }
    let request = m::DescribeGroupsRequest::default().with_groups(vec![text("g").into()]);
    let response: m::DescribeGroupsResponse = broker.call(0, &request);
    assert_eq!(response.groups[0].error_code, 16);
    let request = m::HeartbeatRequest::default().with_group_id(text("g").into());
    let response: m::HeartbeatResponse = broker.call(0, &request);
    assert_eq!(response.error_code, 16);
}

// G-59: as every other list of names, one that names a group twice is answered once.
#[test]
fn a_group_named_twice_is_deleted_once() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    broker.wait_for_coordinator("g");
    let partition =
        m::offset_commit_request::OffsetCommitRequestPartition::default().with_committed_offset(7);
    let topic = m::offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(vec![partition]);
    let request = m::OffsetCommitRequest::default()
        .with_group_id(text("g").into())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let response: m::OffsetCommitResponse = broker.call(8, &request);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    let names = ["g", "no", "g"].map(|name| text(name).into());
    let request = m::DeleteGroupsRequest::default().with_groups_names(names.to_vec());
    let response: m::DeleteGroupsResponse = broker.call(2, &request);
    let results = response.results.iter();
    let results: Vec<_> = results
        .map(|r| (r.group_id.as_str(), r.error_code))
        .collect();
    assert_eq!(results, [("g", 0), ("no", 69)]);
}

// G-30: from version 5 on a sync says what it is for, whatever else is wrong with it.
#[test]
fn a_sync_without_a_protocol_is_refused() {
    let broker = Broker::start(&["group.initial.rebalance.delay.ms=0"]);
    broker.wait_for_coordinator("g");
    let member = only_member(&broker, 5, "g");
    let sync = |version, protocol_type: Option<&str>, protocol_name: Option<&str>| {
        let mut request = m::SyncGroupRequest::default()
            .with_group_id(text("g").into())
            .with_generation_id(1)
            .with_member_id(member.clone());
        if version >= 5 {
            request.protocol_type = protocol_type.map(text);
            request.protocol_name = protocol_name.map(text);
        }
        let response: m::SyncGroupResponse = broker.call(version, &request);
        response.error_code
    };
    assert_eq!(sync(4, None, None), 0);
    assert_eq!(sync(5, Some("consumer"), Some("range")), 0);
    assert_eq!(sync(5, None, Some("range")), 23);
    assert_eq!(sync(5, Some("consumer"), None), 23);
    let nobody = m::SyncGroupRequest::default().with_group_id(text("").into());
    let response: m::SyncGroupResponse = broker.call(5, &nobody);
    assert_eq!(response.error_code, 23);
}

// G-1: a group without a name has plain commits only.
#[test]
fn a_group_needs_a_name() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    broker.wait_for_coordinator("");
    for version in versions("OffsetDelete") {
        let response: m::OffsetDeleteResponse =
            broker.call(version, &m::OffsetDeleteRequest::default());
        assert_eq!(response.error_code, 24, "{version}");
    }
    for version in versions("TxnOffsetCommit") {
        let partition = m::txn_offset_commit_request::TxnOffsetCommitRequestPartition::default();
        let topic = m::txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = m::TxnOffsetCommitRequest::default()
            .with_transactional_id(text("never begun").into())
            .with_topics(vec![topic]);
        let response: m::TxnOffsetCommitResponse = broker.call(version, &request);
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, 24, "{version}");
    }
}
