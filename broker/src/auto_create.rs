//! Creation of topics that a client names before they exist.

use strandline_metadata::{NewTopic, RequestError};
use strandline_telemetry::Throttle;
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicName};
use strandline_wire::ErrorCode;

use crate::broker::Broker;
use crate::error_codes;

/// One line in a while of what clients are not told.
static UNTOLD: Throttle = Throttle::new(10_000);

/// Creates the topics that may be created. The answer for each is an error all the same: a
/// retriable one once the topic is on its way, so that the client asks again.
pub(crate) async fn topics(broker: &Broker, names: &[TopicName]) -> Vec<ErrorCode> {
    let mut out = Vec::with_capacity(names.len());
    let mut untold = None;
    for name in names {
        let created = if !broker.config.auto_create_topics_enable() {
            out.push(ErrorCode::UnknownTopicOrPartition);
            continue;
        } else if is_coordinators(name) {
            create_internal(broker, name).await
        } else if name.is_internal() {
            // The share coordinators, and so their topic, are not served yet.
            out.push(ErrorCode::UnknownTopicOrPartition);
            continue;
        } else {
            create_plain(broker, name).await
        };
        out.push(match created {
            Ok(()) => ErrorCode::LeaderNotAvailable,
            Err(error) => {
                let code = error_codes::for_auto_creation(&error);
                if code == ErrorCode::UnknownTopicOrPartition {
                    untold.get_or_insert((name, error));
                }
                code
            }
        });
    }
    // The client is told no cause, and asks again and again; one request may name many.
    if let Some((topic, error)) = untold
        && let Some(more) = UNTOLD.pass(broker.clock.monotonic_ms())
    {
        tracing::warn!(%topic, %error, more, "could not create a topic that a client asked for");
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

fn is_coordinators(name: &str) -> bool {
    matches!(name, CONSUMER_OFFSETS_TOPIC | TRANSACTION_STATE_TOPIC)
}

/// Creates `__consumer_offsets` with its own settings, unless it exists.
pub(crate) async fn create_consumer_offsets(broker: &Broker) -> Result<(), RequestError> {
    create_internal(broker, CONSUMER_OFFSETS_TOPIC).await
}

/// Creates a coordinators' topic with its own settings, unless it exists.
pub(crate) async fn create_internal(broker: &Broker, name: &str) -> Result<(), RequestError> {
    let image = broker.metadata.image();
    if image.topics().by_name(name).is_some() {
        return Ok(());
    }
    let alive = i16::try_from(image.cluster().alive_ids().len()).unwrap_or(i16::MAX);
    let settings = &broker.config.get().settings;
    let topic = if name == TRANSACTION_STATE_TOPIC {
        let replicas = settings.transaction_state_log_replication_factor.min(alive);
        // What is written must stay: but one replica cannot be two.
        let min_isr = settings
            .transaction_state_log_min_isr
            .min(i32::from(replicas));
        let configs = [
            ("cleanup.policy", "compact".to_owned()),
            ("compression.type", "uncompressed".to_owned()),
            ("min.insync.replicas", min_isr.to_string()),
            ("unclean.leader.election.enable", "false".to_owned()),
            (
                "segment.bytes",
                settings.transaction_state_log_segment_bytes.to_string(),
            ),
        ];
        let partitions = settings.transaction_state_log_num_partitions;
        internal(name, partitions, replicas, &configs)
    } else {
        let replicas = settings.offsets_topic_replication_factor.min(alive);
        let configs = [
            ("cleanup.policy", "compact".to_owned()),
            ("compression.type", "producer".to_owned()),
            (
                "segment.bytes",
                settings.offsets_topic_segment_bytes.to_string(),
            ),
        ];
        let partitions = settings.offsets_topic_num_partitions;
        internal(name, partitions, replicas, &configs)
    };
    create(broker, topic).await
}

fn internal(
    name: &str,
    num_partitions: i32,
    replication_factor: i16,
    configs: &[(&str, String)],
) -> NewTopic {
    let configs = configs.iter();
    NewTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor,
        assignments: Vec::new(),
        configs: configs
            .map(|(name, value)| ((*name).to_owned(), Some(value.clone())))
            .collect(),
    }
}

async fn create(broker: &Broker, topic: NewTopic) -> Result<(), RequestError> {
    match broker.create_topic(topic).await {
        // Somebody else was faster: just as good.
        Err(RequestError::TopicAlreadyExists(_)) => Ok(()),
        other => other.map(|_| ()),
    }
}
