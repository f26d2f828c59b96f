//! What OffsetDelete answers for each partition that it names (G-59).

use strandline_wire::messages as m;

use crate::client::{Broker, text, topic_name};
use crate::create_topic;
use crate::groups::only_member;

/// The code of the group, and what each partition is answered.
fn delete(
    broker: &Broker,
    group: &str,
    topics: &[(&str, &[i32])],
) -> (i16, Vec<(String, i32, i16)>) {
    let topics = topics.iter().map(|(name, partitions)| {
        let partitions = partitions.iter().map(|index| {
            m::offset_delete_request::OffsetDeleteRequestPartition::default()
                .with_partition_index(*index)
        });
        m::offset_delete_request::OffsetDeleteRequestTopic::default()
            .with_name(topic_name(name))
            .with_partitions(partitions.collect())
    });
    let request = m::OffsetDeleteRequest::default()
        .with_group_id(text(group).into())
        .with_topics(topics.collect());
    let response: m::OffsetDeleteResponse = broker.call(0, &request);
    let answers = response.topics.iter().flat_map(|t| {
        let name = t.name.to_string();
        let partitions = t.partitions.iter();
        partitions.map(move |p| (name.clone(), p.partition_index, p.error_code))
    });
    (response.error_code, answers.collect())
}

fn commit(broker: &Broker, group: &str, topic: &str) {
    let partition = m::offset_commit_request::OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(7);
    let topic = m::offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    let request = m::OffsetCommitRequest::default()
        .with_group_id(text(group).into())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let response: m::OffsetCommitResponse = broker.call(8, &request);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
}

// G-59: what does not exist is told so, whatever the group is; what the group is comes first.
#[test]
fn what_does_not_exist_is_unknown() {
    let broker = Broker::start(&["group.initial.rebalance.delay.ms=0"]);
    create_topic(&broker, 5, "t", 2);
    let asked: [(&str, &[i32]); 3] = [("t", &[0, 99]), ("foobar", &[0]), ("t", &[1])];
    let answer = |of_existing| {
        vec![
            ("t".to_owned(), 0, of_existing),
            ("t".to_owned(), 99, 3),
            ("foobar".to_owned(), 0, 3),
            ("t".to_owned(), 1, of_existing),
        ]
    };
    broker.wait_for_coordinator("missing");
    assert_eq!(delete(&broker, "missing", &asked), (69, vec![]));
    assert_eq!(
        delete(&broker, "missing", &[("foobar", &[0])]),
        (69, vec![])
    );

    broker.wait_for_coordinator("simple");
    commit(&broker, "simple", "t");
    assert_eq!(delete(&broker, "simple", &asked), (0, answer(0)));

    // A member whose subscription nobody understands may need every topic there is.
    broker.wait_for_coordinator("stable");
    only_member(&broker, 5, "stable");
    assert_eq!(delete(&broker, "stable", &asked), (0, answer(86)));
}
