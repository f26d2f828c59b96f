//! AlterConfigs (33) and IncrementalAlterConfigs (44). Rules: D-40 … D-45.

use strandline_metadata::{
    AlterConfigs, ConfigAlteration, ConfigChange, ConfigOp, ConfigResource, ConfigResourceType,
    RequestError,
};
use strandline_types::BrokerId;
use strandline_wire::ErrorCode;
use strandline_wire::messages::alter_configs_response::{
    AlterConfigsResourceResponse, AlterConfigsResponse,
};
use strandline_wire::messages::incremental_alter_configs_response::{
    AlterConfigsResourceResponse as IncrementalResourceResponse, IncrementalAlterConfigsResponse,
};
use strandline_wire::messages::{AlterConfigsRequest, IncrementalAlterConfigsRequest};

use super::{RequestContext, text};
use crate::error_codes;

type Change = Result<(ConfigResource, ConfigAlteration), RequestError>;

pub(super) async fn handle_legacy(
    context: &RequestContext,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let changes = request.resources.iter().map(|r| {
        let values = r.configs.iter().map(|c| {
            (
                c.name.as_str().to_owned(),
                c.value.as_ref().map(|v| v.as_str().to_owned()),
            )
        });
        let resource = resource(context, r.resource_type, &r.resource_name)?;
        Ok((resource, ConfigAlteration::Replace(values.collect())))
    });
    let outcomes = alter(context, changes.collect(), request.validate_only).await;
    let responses = request
        .resources
        .iter()
        .zip(outcomes)
        .map(|(r, (code, message))| {
            AlterConfigsResourceResponse::default()
                .with_error_code(code.code())
                .with_error_message(message.map(text))
                .with_resource_type(r.resource_type)
                .with_resource_name(r.resource_name.clone())
        });
    AlterConfigsResponse::default().with_responses(responses.collect())
}

pub(super) async fn handle_incremental(
    context: &RequestContext,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let changes = request.resources.iter().map(|r| {
        let changes: Result<Vec<ConfigChange>, RequestError> = r
            .configs
            .iter()
            .map(|c| {
                let op = ConfigOp::from_id(c.config_operation).ok_or_else(|| {
                    let text = format!("config operation {} is unknown", c.config_operation);
                    RequestError::InvalidRequest(text)
                })?;
                let value = c.value.as_ref().map(|v| v.as_str().to_owned());
                Ok(ConfigChange {
                    name: c.name.as_str().to_owned(),
                    op,
                    value,
                })
            })
            .collect();
        let resource = resource(context, r.resource_type, &r.resource_name)?;
        Ok((resource, ConfigAlteration::Incremental(changes?)))
    });
    let outcomes = alter(context, changes.collect(), request.validate_only).await;
    let responses = request
        .resources
        .iter()
        .zip(outcomes)
        .map(|(r, (code, message))| {
            IncrementalResourceResponse::default()
                .with_error_code(code.code())
                .with_error_message(message.map(text))
                .with_resource_type(r.resource_type)
                .with_resource_name(r.resource_name.clone())
        });
    IncrementalAlterConfigsResponse::default().with_responses(responses.collect())
}

fn resource(
    context: &RequestContext,
    kind: i8,
    name: &str,
) -> Result<ConfigResource, RequestError> {
    match ConfigResourceType::from_id(kind) {
        Some(ConfigResourceType::Topic) => Ok(ConfigResource::topic(name)),
        Some(ConfigResourceType::Broker) if name.is_empty() => Ok(ConfigResource::default_broker()),
        Some(ConfigResourceType::Broker) => match name.parse() {
            Ok(id) if id == context.broker.node_id.0 => Ok(ConfigResource::broker(BrokerId(id))),
            _ => {
                let text = format!("this is broker {}, not '{name}'", context.broker.node_id);
                Err(RequestError::InvalidRequest(text))
            }
        },
        _ => Err(RequestError::InvalidRequest(format!(
            "resource type {kind} is not served"
        ))),
    }
}

/// Sends what is well formed to the controller; the answers are in the order of the request.
async fn alter(
    context: &RequestContext,
    changes: Vec<Change>,
    validate_only: bool,
) -> Vec<(ErrorCode, Option<String>)> {
    let resources: Vec<_> = changes
        .iter()
        .filter_map(|c| c.as_ref().ok().cloned())
        .collect();
    let command = AlterConfigs {
        resources: resources.clone(),
        validate_only,
    };
    let mut results = match context.broker.alter_configs(command).await {
        Ok(results) => results.into_iter(),
        Err(e) => resources
            .iter()
            .map(|_| Err(e.clone()))
            .collect::<Vec<_>>()
            .into_iter(),
    };
    let answer = |result: Result<(), RequestError>| match result {
        Ok(()) => (ErrorCode::None, None),
        Err(e) => (error_codes::for_metadata(&e), Some(e.to_string())),
    };
    changes
        .into_iter()
        .map(|change| match change {
            Ok(_) => answer(results.next().unwrap_or(Err(RequestError::NotController))),
            Err(e) => answer(Err(e)),
        })
        .collect()
}
