//! Metadata (3). Rules: A-20 … A-28.

use strandline_metadata::{Image, TopicImage};
use strandline_types::{TopicId, TopicName, is_internal_topic};
use strandline_wire::ErrorCode;
use strandline_wire::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use strandline_wire::messages::{MetadataRequest, TopicName as WireTopicName};

use super::once::once;
use super::{RequestContext, authorized_operations, some_text, text};
use crate::auto_create;

pub(super) async fn handle(context: &RequestContext, request: MetadataRequest) -> MetadataResponse {
    let version = context.version();
    let image = context.broker.metadata.image();
    let topics = match &request.topics {
        Some(topics) if !(version == 0 && topics.is_empty()) => {
            if !is_well_formed(&request, version) {
                return invalid_request(context, &image, &request);
            }
            let may_create = version < 4 || request.allow_auto_topic_creation;
            named_topics(context, &image, topics, may_create).await
        }
        // null, or an empty list in version 0, is all topics.
        _ => image
            .topics()
            .iter()
            .map(|t| describe(&image, t, context))
            .collect(),
    };
    let mut response = cluster(context, &image);
    response.topics = topics;
    if version >= 8 && request.include_topic_authorized_operations {
        // As in Kafka also of a name that is unknown, but not of an id that is.
        for topic in response.topics.iter_mut().filter(|t| t.name.is_some()) {
            topic.topic_authorized_operations = authorized_operations::of_topic(true);
        }
    }
    let of_cluster = (8..=10).contains(&version) && request.include_cluster_authorized_operations;
    response.cluster_authorized_operations = authorized_operations::of_cluster(of_cluster);
    response
}

/// an id below version 12, or neither name nor id, fails the whole request.
fn is_well_formed(request: &MetadataRequest, version: i16) -> bool {
    request.topics.iter().flatten().all(|t| {
        let has_id = !t.topic_id.is_nil();
        (t.name.is_some() || has_id) && (version >= 12 || !has_id)
    })
}

fn invalid_request(
    context: &RequestContext,
    image: &Image,
    request: &MetadataRequest,
) -> MetadataResponse {
    let mut response = cluster(context, image);
    response.topics = request
        .topics
        .iter()
        .flatten()
        .map(|t| {
            topic_error(
                Some(t.name.clone().unwrap_or_default()),
                TopicId(t.topic_id),
                ErrorCode::InvalidRequest,
            )
        })
        .collect();
    response
}

async fn named_topics(
    context: &RequestContext,
    image: &Image,
    topics: &[strandline_wire::messages::metadata_request::MetadataRequestTopic],
    may_create: bool,
) -> Vec<MetadataResponseTopic> {
    let mut out = Vec::new();
    let mut missing = Vec::new();
    for topic in once(topics, |topic| (topic.topic_id, topic.name.as_ref())) {
        let id = TopicId(topic.topic_id);
        if !id.is_zero() {
            out.push(match image.topics().by_id(id) {
                Some(t) => describe(image, t, context),
                None => topic_error(None, id, ErrorCode::UnknownTopicId),
            });
            continue;
        }
        let name = topic.name.clone().unwrap_or_default();
        match image.topics().by_name(&name) {
            Some(t) => out.push(describe(image, t, context)),
            None => match TopicName::new(&name) {
                Ok(legal) => missing.push(legal),
                Err(_) => {
                    out.push(topic_error(
                        Some(name),
                        TopicId::ZERO,
                        ErrorCode::InvalidTopicException,
                    ));
                }
            },
        }
    }
    if !missing.is_empty() {
        let outcomes = if may_create {
            auto_create::topics(&context.broker, &missing).await
        } else {
            vec![ErrorCode::UnknownTopicOrPartition; missing.len()]
        };
        for (name, code) in missing.iter().zip(outcomes) {
            out.push(topic_error(Some(wire_name(name)), TopicId::ZERO, code));
        }
    }
    out
}

fn wire_name(name: &str) -> WireTopicName {
    WireTopicName(text(name))
}

fn topic_error(name: Option<WireTopicName>, id: TopicId, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(code.code())
        .with_is_internal(name.as_ref().is_some_and(|n| is_internal_topic(n)))
        .with_name(name)
        .with_topic_id(id.0)
        .with_topic_authorized_operations(authorized_operations::NOT_ASKED)
}

fn describe(image: &Image, topic: &TopicImage, context: &RequestContext) -> MetadataResponseTopic {
    let version = context.version();
    let partitions = topic.partitions().iter().zip(0..).map(|(p, index)| {
        let leader = p.leader.filter(|l| image.cluster().is_alive(*l));
        let (code, leader, epoch) = match leader {
            Some(l) => (ErrorCode::None, l.0, p.leader_epoch),
            // leader and epoch are both known or both not.
            None => (ErrorCode::LeaderNotAvailable, -1, -1),
        };
        let ids = |list: &[strandline_types::BrokerId]| list.iter().map(|b| b.0.into()).collect();
        let offline = p
            .replicas
            .iter()
            .filter(|b| !image.cluster().is_alive(**b))
            .map(|b| b.0.into())
            .collect();
        MetadataResponsePartition::default()
            .with_error_code(code.code())
            .with_partition_index(index)
            .with_leader_id(leader.into())
            .with_leader_epoch(if version >= 7 { epoch } else { -1 })
            .with_replica_nodes(ids(&p.replicas))
            .with_isr_nodes(ids(&p.isr))
            .with_offline_replicas(if version >= 5 { offline } else { vec![] })
    });
    MetadataResponseTopic::default()
        .with_name(Some(wire_name(topic.name())))
        .with_topic_id(topic.id().0)
        .with_is_internal(topic.name().is_internal())
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(authorized_operations::NOT_ASKED)
}

fn cluster(context: &RequestContext, image: &Image) -> MetadataResponse {
    let brokers = image.cluster().unfenced_brokers().filter_map(|b| {
        let endpoint = b.listener(&context.client.listener)?;
        let out = MetadataResponseBroker::default()
            .with_node_id(b.id.0.into())
            .with_host(text(endpoint.host.as_str()))
            .with_port(i32::from(endpoint.port));
        Some(out.with_rack(b.rack.clone().map(text)))
    });
    MetadataResponse::default()
        .with_brokers(brokers.collect())
        .with_cluster_id(some_text(context.broker.cluster_id.as_str()))
        .with_controller_id(context.broker.node_id.0.into())
        .with_cluster_authorized_operations(authorized_operations::NOT_ASKED)
}
