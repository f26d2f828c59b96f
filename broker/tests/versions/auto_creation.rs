//! Topics that Metadata creates, or does not.

use strandline_wire::messages as m;

use crate::client::{Broker, text, topic_name};

/// What is said of each topic.
fn ask(broker: &Broker, names: &[&str]) -> Vec<i16> {
    let topics = names.iter().map(|name| {
        m::metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)))
    });
    let request = m::MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(true);
    let response: m::MetadataResponse = broker.call(9, &request);
    response.topics.iter().map(|t| t.error_code).collect()
}

fn all(broker: &Broker) -> Vec<String> {
    let request = m::MetadataRequest::default().with_topics(None);
    let response: m::MetadataResponse = broker.call(9, &request);
    let names = response.topics.iter();
    names
        .map(|t| t.name.as_ref().unwrap().to_string())
        .collect()
}

const COORDINATORS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

// switched off is switched off for the coordinators' topics too; who needs a coordinator asks for it.
#[test]
fn what_may_not_be_created_is_unknown() {
    let broker = Broker::start(&["auto.create.topics.enable=false"]);
    let [offsets, transactions] = COORDINATORS;
    assert_eq!(ask(&broker, &["t", offsets, transactions]), [3, 3, 3]);
    assert!(all(&broker).is_empty());
    let request = m::FindCoordinatorRequest::default().with_key(text("g"));
    let response: m::FindCoordinatorResponse = broker.call(1, &request);
    assert_eq!(response.error_code, 15, "A-29");
    assert_eq!(all(&broker), [offsets]);
}

#[test]
fn what_may_be_created_is_on_its_way() {
    let broker = Broker::start(&[]);
    let [offsets, transactions] = COORDINATORS;
    assert_eq!(ask(&broker, &["t", offsets, transactions]), [5, 5, 5]);
    assert_eq!(ask(&broker, &["t", "a.b"]), [0, 5]);
    // One that differs in `.` and `_` alone.
    assert_eq!(ask(&broker, &["a_b", "a/b"]), [17, 17]);
}

// clients know no other words for a topic that is not there.
#[test]
fn what_cannot_be_created_is_unknown() {
    let broker = Broker::start(&["default.replication.factor=3"]);
    assert_eq!(ask(&broker, &["t", "u"]), [3, 3]);
    assert!(all(&broker).is_empty());
}
