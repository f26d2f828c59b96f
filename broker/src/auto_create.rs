//! Creation of topics that a client names before they exist.

use strandline_metadata::{NewTopic, RequestError};
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TopicName};
use strandline_wire::ErrorCode;

use crate::broker::Broker;
use crate::error_codes;

/// Creates the topics that may be created. The answer for each is an error all the same: a
/// retriable one once the topic is on its way, so that the client asks again.
pub(crate) async fn topics(broker: &Broker, names: &[TopicName]) -> Vec<ErrorCode> {
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let created = if name.as_str() == CONSUMER_OFFSETS_TOPIC {
            create_consumer_offsets(broker).await
        } else if !broker.config.auto_create_topics_enable() || name.is_internal() {
            // The transaction and share coordinators, and so their topics, are not served yet.
            out.push(ErrorCode::UnknownTopicOrPartition);
            continue;
        } else {
            create_plain(broker, name).await
        };
        out.push(match created {
            Ok(()) => ErrorCode::LeaderNotAvailable,
            Err(e) => error_codes::for_metadata(&e),
        });
    }
    out
}

async fn create_plain(broker: &Broker, name: &TopicName) -> Result<(), RequestError> {
    let topic = NewTopic {
        name: name.to_string(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: Vec::new(),
        configs: Vec::new(),
    };
    create(broker, topic).await
}

/// Creates `__consumer_offsets` with its own settings, unless it exists.
pub(crate) async fn create_consumer_offsets(broker: &Broker) -> Result<(), RequestError> {
    let image = broker.metadata.image();
    if image.topics().by_name(CONSUMER_OFFSETS_TOPIC).is_some() {
        return Ok(());
    }
    let alive = i16::try_from(image.cluster().alive_ids().len()).unwrap_or(i16::MAX);
    let configs = [
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "producer".to_owned()),
        (
            "segment.bytes",
            broker.config.offsets_topic_segment_bytes().to_string(),
        ),
    ];
    let topic = NewTopic {
        name: CONSUMER_OFFSETS_TOPIC.to_owned(),
        num_partitions: broker.config.offsets_topic_num_partitions(),
        replication_factor: broker.config.offsets_topic_replication_factor().min(alive),
        assignments: Vec::new(),
        configs: configs
            .map(|(name, value)| (name.to_owned(), Some(value)))
            .into(),
    };
    create(broker, topic).await
}

async fn create(broker: &Broker, topic: NewTopic) -> Result<(), RequestError> {
    match broker.create_topic(topic).await {
        // Somebody else was faster: just as good.
        Err(RequestError::TopicAlreadyExists(_)) => Ok(()),
        other => other.map(|_| ()),
    }
}
