//! DescribeConfigs (32). Rules: D-30 … D-36.

use strandline_config::ConfigEntry;
use strandline_metadata::ConfigResourceType;
use strandline_types::TopicName;
use strandline_wire::ErrorCode;
use strandline_wire::messages::DescribeConfigsRequest;
use strandline_wire::messages::describe_configs_request::DescribeConfigsResource;
use strandline_wire::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResponse, DescribeConfigsResult,
    DescribeConfigsSynonym,
};

use super::once::once;
use super::{RequestContext, some_text, text};
use crate::configs;

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let asked = once(&request.resources, |r| {
        (
            r.resource_type,
            r.resource_name.as_str(),
            &r.configuration_keys,
        )
    });
    let results = asked.map(|resource| {
        let out = DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        match entries(context, resource) {
            Ok(entries) => out.with_configs(
                entries
                    .into_iter()
                    .map(|e| entry(context.version(), &request, e))
                    .collect(),
            ),
            Err((code, message)) => out
                .with_error_code(code.code())
                .with_error_message(some_text(message)),
        }
    });
    DescribeConfigsResponse::default().with_results(results.collect())
}

/// D-30: no list, or an empty one, is all.
fn keys(resource: &DescribeConfigsResource) -> Option<Vec<String>> {
    let keys = resource
        .configuration_keys
        .as_ref()
        .filter(|keys| !keys.is_empty())?;
    Some(keys.iter().map(|k| k.as_str().to_owned()).collect())
}

type Refusal = (ErrorCode, String);

fn entries(
    context: &RequestContext,
    resource: &DescribeConfigsResource,
) -> Result<Vec<ConfigEntry>, Refusal> {
    let broker = &context.broker;
    let keys = keys(resource);
    let keys = keys.as_deref();
    let name = resource.resource_name.as_str();
    match ConfigResourceType::from_id(resource.resource_type) {
        Some(ConfigResourceType::Topic) => {
            TopicName::new(name).map_err(|e| (ErrorCode::InvalidTopicException, e.to_string()))?;
            let image = broker.metadata.image();
            if image.topics().by_name(name).is_none() {
                let text = format!("topic '{name}' does not exist");
                return Err((ErrorCode::UnknownTopicOrPartition, text));
            }
            let overrides = image
                .configs()
                .topic(name)
                .map(|o| (**o).clone())
                .unwrap_or_default();
            Ok(configs::describe_topic(broker, name, &overrides, keys))
        }
        Some(ConfigResourceType::Broker) if name.is_empty() => {
            Ok(configs::describe_default_broker(broker, keys))
        }
        Some(ConfigResourceType::Broker) => {
            // D-31
            if name.parse() != Ok(broker.node_id.0) {
                let text = format!("this is broker {}, not '{name}'", broker.node_id);
                return Err((ErrorCode::InvalidRequest, text));
            }
            Ok(configs::describe_broker(broker, keys))
        }
        _ => {
            let text = format!("resource type {} is not served", resource.resource_type);
            Err((ErrorCode::InvalidRequest, text))
        }
    }
}

fn entry(
    version: i16,
    request: &DescribeConfigsRequest,
    e: ConfigEntry,
) -> DescribeConfigsResourceResult {
    let mut out = DescribeConfigsResourceResult::default()
        .with_name(text(e.name))
        .with_value(e.value.map(text))
        .with_read_only(e.read_only)
        .with_config_source(e.source.wire())
        .with_is_sensitive(e.is_sensitive);
    if request.include_synonyms {
        let synonyms = e.synonyms.into_iter().map(|s| {
            DescribeConfigsSynonym::default()
                .with_name(text(s.name))
                .with_value(s.value.map(text))
                .with_source(s.source.wire())
        });
        out.synonyms = synonyms.collect();
    }
    if version >= 3 {
        out.config_type = e.config_type.wire();
        if request.include_documentation {
            out.documentation = some_text(e.documentation);
        }
    }
    out
}
