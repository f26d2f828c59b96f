//! DescribeTopicPartitions (75), page by page. Rules: SEMANTICS 9.6.

use strandline_metadata::{Image, TopicImage};
use strandline_types::{BrokerId, TopicName, is_internal_topic};
use strandline_wire::ErrorCode;
use strandline_wire::messages::DescribeTopicPartitionsRequest;
use strandline_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};

use super::once::once;
use super::{RequestContext, authorized_operations, text};

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    if !is_cursor_of(&request) {
        return invalid_request(&request);
    }
    let image = context.broker.metadata.image();
    let most = context.broker.config.max_request_partition_size_limit();
    let mut left = usize::try_from(request.response_partition_limit)
        .unwrap_or(0)
        .clamp(1, most);
    let mut names: Vec<String> = if request.topics.is_empty() {
        image
            .topics()
            .iter()
            .map(|t| t.name().to_string())
            .collect()
    } else {
        request
            .topics
            .iter()
            .map(|t| t.name.as_str().to_owned())
            .collect()
    };
    names.sort();
    names.dedup();
    let start = request.cursor.as_ref();
    if let Some(cursor) = start {
        names.retain(|n| n.as_str() >= cursor.topic_name.as_str());
    }
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        let first = match start {
            Some(c) if c.topic_name.as_str() == name => c.partition_index,
            _ => 0,
        };
        let Some(topic) = image.topics().by_name(&name) else {
            response.topics.push(missing(&name));
            continue;
        };
        if left == 0 {
            response.next_cursor = Some(cursor(&name, first));
            break;
        }
        let (described, next) = describe(&image, topic, first, left);
        left -= described.partitions.len();
        response.topics.push(described);
        if let Some(next) = next {
            response.next_cursor = Some(cursor(&name, next));
            break;
        }
    }
    response
}

/// A cursor must point into what is asked for. If that is all topics, its own may have gone meanwhile.
fn is_cursor_of(request: &DescribeTopicPartitionsRequest) -> bool {
    let Some(cursor) = &request.cursor else {
        return true;
    };
    let mut asked = request.topics.iter();
    let is_asked = request.topics.is_empty() || asked.any(|t| t.name == cursor.topic_name);
    is_asked && cursor.partition_index >= 0
}

/// There is no other place for it than each topic; without any the answer is empty, as Kafka's is.
fn invalid_request(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = once(&request.topics, |t| t.name.as_str()).map(|t| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_error_code(ErrorCode::InvalidRequest.code())
            .with_name(Some(t.name.clone()))
            .with_topic_authorized_operations(authorized_operations::NOT_ASKED)
    });
    DescribeTopicPartitionsResponse::default().with_topics(topics.collect())
}

fn cursor(name: &str, partition: i32) -> Cursor {
    Cursor::default()
        .with_topic_name(text(name).into())
        .with_partition_index(partition)
}

fn missing(name: &str) -> DescribeTopicPartitionsResponseTopic {
    let code = match TopicName::new(name) {
        Ok(_) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(code.code())
        .with_name(Some(text(name).into()))
        .with_is_internal(is_internal_topic(name))
        .with_topic_authorized_operations(authorized_operations::of_topic(true))
}

/// At most `limit` partitions from `first` on, and the next one if there are more.
fn describe(
    image: &Image,
    topic: &TopicImage,
    first: i32,
    limit: usize,
) -> (DescribeTopicPartitionsResponseTopic, Option<i32>) {
    let ids = |list: &[BrokerId]| list.iter().map(|b| b.0.into()).collect::<Vec<_>>();
    let first = usize::try_from(first).unwrap_or(0);
    let page = topic.partitions().iter().zip(0..).skip(first).take(limit);
    let partitions = page.map(|(p, index)| {
        let alive = p.leader.filter(|l| image.cluster().is_alive(*l));
        let (code, leader, epoch) = match alive {
            Some(leader) => (ErrorCode::None, leader.0, p.leader_epoch),
            None => (ErrorCode::LeaderNotAvailable, -1, -1),
        };
        let offline: Vec<BrokerId> = p
            .replicas
            .iter()
            .copied()
            .filter(|b| !image.cluster().is_alive(*b))
            .collect();
        DescribeTopicPartitionsResponsePartition::default()
            .with_error_code(code.code())
            .with_partition_index(index)
            .with_leader_id(leader.into())
            .with_leader_epoch(epoch)
            .with_replica_nodes(ids(&p.replicas))
            .with_isr_nodes(ids(&p.isr))
            // Empty, not null: the Java client of Kafka 4.4 does not expect null.
            .with_eligible_leader_replicas(Some(vec![]))
            .with_last_known_elr(Some(vec![]))
            .with_offline_replicas(ids(&offline))
    });
    let partitions: Vec<_> = partitions.collect();
    let end = first + partitions.len();
    let next = (end < topic.partitions().len()).then(|| i32::try_from(end).unwrap_or(i32::MAX));
    let out = DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(text(topic.name().as_str()).into()))
        .with_topic_id(topic.id().0)
        .with_is_internal(topic.name().is_internal())
        .with_partitions(partitions)
        .with_topic_authorized_operations(authorized_operations::of_topic(true));
    (out, next)
}
