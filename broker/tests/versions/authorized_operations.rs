//! What a client may do, if it asks: all that there is, since nobody is refused anything.

use strandline_wire::messages as m;
use uuid::Uuid;

use crate::client::{Broker, text, topic_name};
use crate::{create_topic, versions};

const NOT_ASKED: i32 = i32::MIN;
const TOPIC: i32 = 3576;
const CLUSTER: i32 = 8096;
const GROUP: i32 = 3400;

#[test]
fn metadata() {
    let broker = Broker::start(&["auto.create.topics.enable=false"]);
    create_topic(&broker, 5, "t", 1);
    for version in versions("Metadata") {
        let ask = |asks: bool| {
            let names = ["t", "missing"];
            let by_name = |name| {
                let topic = m::metadata_request::MetadataRequestTopic::default();
                topic.with_name(Some(topic_name(name)))
            };
            let mut topics = names.map(by_name).to_vec();
            if version >= 12 {
                let topic = m::metadata_request::MetadataRequestTopic::default();
                topics.push(topic.with_name(None).with_topic_id(Uuid::from_u128(7)));
            }
            let mut request = m::MetadataRequest::default().with_topics(Some(topics));
            request.include_topic_authorized_operations = asks && version >= 8;
            request.include_cluster_authorized_operations = asks && (8..=10).contains(&version);
            let response: m::MetadataResponse = broker.call(version, &request);
            let of = |name: Option<&str>| {
                let mut topics = response.topics.iter();
                let topic = topics.find(|t| t.name.as_ref().map(|n| n.as_str()) == name);
                topic.map(|t| t.topic_authorized_operations)
            };
            assert_eq!(of(None), (version >= 12).then_some(NOT_ASKED));
            let cluster = response.cluster_authorized_operations;
            (of(Some("t")), of(Some("missing")), cluster)
        };
        let told = |is_told, what| if is_told { what } else { NOT_ASKED };
        let topic = Some(told(version >= 8, TOPIC));
        let cluster = told((8..=10).contains(&version), CLUSTER);
        assert_eq!(ask(true), (topic, topic, cluster), "{version}");
        let nothing = (Some(NOT_ASKED), Some(NOT_ASKED), NOT_ASKED);
        assert_eq!(ask(false), nothing, "{version}");
    }
}

#[test]
fn groups() {
    let broker = Broker::start(&[]);
    broker.wait_for_coordinator("g");
    for version in versions("DescribeGroups") {
        let ask = |asks: bool| {
            let mut request = m::DescribeGroupsRequest::default();
            request.groups = vec![text("g").into()];
            request.include_authorized_operations = asks && version >= 3;
            let response: m::DescribeGroupsResponse = broker.call(version, &request);
            let group = &response.groups[0];
            (group.error_code, group.authorized_operations)
        };
        // What is not there is Dead until version 5, and an error from then on (G-80).
        let expected = match version {
            ..=2 => (0, NOT_ASKED),
            3..=5 => (0, GROUP),
            _ => (69, NOT_ASKED),
        };
        assert_eq!(ask(true), expected, "{version}");
        assert_eq!(ask(false).1, NOT_ASKED, "{version}");
    }
}

#[test]
fn cluster_and_pages_of_topics() {
    let broker = Broker::start(&[]);
    for version in versions("DescribeCluster") {
        let ask = |asks: bool, endpoint: i8| {
            let mut request = m::DescribeClusterRequest::default();
            request.include_cluster_authorized_operations = asks;
            if version >= 1 {
                request.endpoint_type = endpoint;
            }
            let response: m::DescribeClusterResponse = broker.call(version, &request);
            (response.error_code, response.cluster_authorized_operations)
        };
        assert_eq!(ask(true, 1), (0, CLUSTER), "{version}");
        assert_eq!(ask(false, 1), (0, NOT_ASKED), "{version}");
        if version >= 1 {
            assert_eq!(ask(true, 2), (114, NOT_ASKED), "{version}");
        }
    }
    create_topic(&broker, 5, "t", 1);
    let asked = ["t", "missing"].map(|name| {
        m::describe_topic_partitions_request::TopicRequest::default().with_name(topic_name(name))
    });
    let request = m::DescribeTopicPartitionsRequest::default()
        .with_topics(asked.to_vec())
        .with_response_partition_limit(5);
    let response: m::DescribeTopicPartitionsResponse = broker.call(0, &request);
    let told = response.topics.iter();
    let told: Vec<_> = told
        .map(|t| (t.error_code, t.topic_authorized_operations))
        .collect();
    assert_eq!(told, [(3, TOPIC), (0, TOPIC)]);
}
