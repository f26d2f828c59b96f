//! The pages of DescribeTopicPartitions (9.6).

use strandline_wire::messages as m;

use crate::client::{Broker, topic_name};
use crate::create_topic;

/// The code and the partitions of each topic of a page that begins at a cursor.
fn page(broker: &Broker, topics: &[&str], cursor: (&str, i32)) -> Vec<(String, i16, Vec<i32>)> {
    use m::describe_topic_partitions_request as r;
    let topics = topics
        .iter()
        .map(|name| r::TopicRequest::default().with_name(topic_name(name)));
    let cursor = r::Cursor::default()
        .with_topic_name(topic_name(cursor.0))
        .with_partition_index(cursor.1);
    let request = m::DescribeTopicPartitionsRequest::default()
        .with_topics(topics.collect())
        .with_response_partition_limit(100)
        .with_cursor(Some(cursor));
    let response: m::DescribeTopicPartitionsResponse = broker.call(0, &request);
    let topics = response.topics.iter().map(|t| {
        let name = t.name.as_ref().unwrap().to_string();
        let partitions = t.partitions.iter().map(|p| p.partition_index);
        (name, t.error_code, partitions.collect())
    });
    topics.collect()
}

// As in Kafka a cursor points into what is asked for, and to a partition that may be.
#[test]
fn a_cursor_points_into_the_list() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "a", 2);
    create_topic(&broker, 5, "c", 2);
    let topic = |name: &str, code, partitions: &[i32]| (name.to_owned(), code, partitions.to_vec());
    let from_a = [topic("a", 0, &[1]), topic("c", 0, &[0, 1])];
    assert_eq!(page(&broker, &["c", "a"], ("a", 1)), from_a);
    assert_eq!(page(&broker, &[], ("a", 1)), from_a);
    // Of all topics the one of the cursor may be gone; of some it is told to be.
    assert_eq!(page(&broker, &[], ("b", 1)), from_a[1..]);
    let gone = [topic("b", 3, &[]), topic("c", 0, &[0, 1])];
    assert_eq!(page(&broker, &["a", "b", "c"], ("b", 1)), gone);

    let refused = [topic("c", 42, &[]), topic("a", 42, &[])];
    assert_eq!(page(&broker, &["c", "a", "c"], ("b", 0)), refused);
    assert_eq!(page(&broker, &["c", "a"], ("a", -1)), refused);
    assert_eq!(page(&broker, &[], ("a", -1)), []);
}
