//! CreateTopics (19). Rules: D-1 … D-16.

use std::collections::HashMap;
use std::time::Duration;

use strandline_metadata::{CreateTopics, CreatedTopic, NewTopic, RequestError};
use strandline_types::{BrokerId, TopicId};
use strandline_wire::ErrorCode;
use strandline_wire::messages::CreateTopicsRequest;
use strandline_wire::messages::create_topics_request::CreatableTopic;
use strandline_wire::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse,
};

use super::{RequestContext, some_text, text};
use crate::configs;
use crate::error_codes;

pub(super) async fn handle(
    context: &RequestContext,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let broker = &context.broker;
    // A name that comes twice is answered once, with an error (9.1).
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *counts.entry(topic.name.as_str()).or_default() += 1;
    }
    let once: Vec<&CreatableTopic> = request
        .topics
        .iter()
        .filter(|t| counts[t.name.as_str()] == 1)
        .collect();
    let command = CreateTopics {
        topics: once.iter().map(|t| new_topic(t)).collect(),
        validate_only: request.validate_only,
        default_num_partitions: broker.config.num_partitions(),
        default_replication_factor: broker.config.default_replication_factor(),
    };
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let results = match broker.create_topics(command, timeout).await {
        Ok(results) => results,
        Err(e) => once.iter().map(|_| Err(e.clone())).collect(),
    };
    let mut topics: Vec<CreatableTopicResult> = once
        .iter()
        .zip(results)
        .map(|(t, r)| result(context, &t.name, r))
        .collect();
    let mut twice: Vec<&str> = counts
        .iter()
        .filter(|(_, n)| **n > 1)
        .map(|(name, _)| *name)
        .collect();
    twice.sort_unstable();
    for name in twice {
        let text = format!("topic '{name}' is named more than once");
        topics.push(refused(context, name, &RequestError::InvalidRequest(text)));
    }
    CreateTopicsResponse::default().with_topics(topics)
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    let brokers =
        |ids: &[strandline_wire::messages::BrokerId]| ids.iter().map(|b| BrokerId(b.0)).collect();
    NewTopic {
        name: topic.name.as_str().to_owned(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|a| (a.partition_index, brokers(&a.broker_ids)))
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|c| {
                (
                    c.name.as_str().to_owned(),
                    c.value.as_ref().map(|v| v.as_str().to_owned()),
                )
            })
            .collect(),
    }
}

fn refused(context: &RequestContext, name: &str, e: &RequestError) -> CreatableTopicResult {
    let out = CreatableTopicResult::default()
        .with_name(text(name).into())
        .with_topic_id(TopicId::ZERO.0)
        .with_error_code(error_codes::for_metadata(e).code())
        .with_error_message(some_text(e.to_string()));
    if context.version() >= 5 {
        out.with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_configs(Some(Vec::new()))
    } else {
        out
    }
}

fn result(
    context: &RequestContext,
    name: &str,
    result: Result<CreatedTopic, RequestError>,
) -> CreatableTopicResult {
    let created = match result {
        Ok(created) => created,
        Err(e) => return refused(context, name, &e),
    };
    let out = CreatableTopicResult::default()
        .with_name(text(created.name.as_str()).into())
        .with_error_code(ErrorCode::None.code());
    if context.version() < 5 {
        return out;
    }
    // D-14: all effective settings, sorted by name.
    let entries = configs::describe_topic(&context.broker, &created.name, &created.configs, None);
    let configs = entries.into_iter().map(|entry| {
        CreatableTopicConfigs::default()
            .with_name(text(entry.name))
            .with_value(entry.value.map(text))
            .with_read_only(entry.read_only)
            .with_config_source(entry.source.wire())
            .with_is_sensitive(entry.is_sensitive)
    });
    let out = out
        .with_num_partitions(created.num_partitions)
        .with_replication_factor(created.replication_factor)
        .with_configs(Some(configs.collect()));
    if context.version() >= 7 {
        out.with_topic_id(created.topic_id.0)
    } else {
        out
    }
}
