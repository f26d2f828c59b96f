//! DeleteTopics (20), by name and by id. Rules: SEMANTICS 9.3.

use std::collections::HashMap;
use std::time::Duration;

use strandline_metadata::{DeletedTopic, RequestError, TopicRef};
use strandline_types::TopicId;
use strandline_wire::ErrorCode;
use strandline_wire::messages::DeleteTopicsRequest;
use strandline_wire::messages::delete_topics_response::{
    DeletableTopicResult, DeleteTopicsResponse,
};

use super::{RequestContext, some_text, text};
use crate::error_codes;

/// One topic of the request, and the error that it has on its own.
struct Asked {
    name: Option<String>,
    id: TopicId,
    target: Result<TopicRef, RequestError>,
}

pub(super) async fn handle(
    context: &RequestContext,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let mut asked = asked(context, &request);
    if !context.broker.config.delete_topic_enable() {
        let code = if context.version() < 3 {
            ErrorCode::InvalidRequest
        } else {
            ErrorCode::TopicDeletionDisabled
        };
        let responses = asked
            .iter()
            .map(|a| refused(context, a, code, "topic deletion is disabled"));
        return DeleteTopicsResponse::default().with_responses(responses.collect());
    }
    refuse_repeated(context, &mut asked);
    let targets: Vec<TopicRef> = asked.iter().filter_map(|a| a.target.clone().ok()).collect();
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let mut results = match context.broker.delete_topics(targets.clone(), timeout).await {
        Ok(results) => results.into_iter(),
        Err(e) => targets
            .iter()
            .map(|_| Err(e.clone()))
            .collect::<Vec<_>>()
            .into_iter(),
    };
    let responses = asked.into_iter().map(|a| {
        let result = match &a.target {
            Ok(_) => results.next().unwrap_or(Err(RequestError::NotController)),
            Err(e) => Err(e.clone()),
        };
        respond(context, &a, result)
    });
    DeleteTopicsResponse::default().with_responses(responses.collect())
}

fn asked(context: &RequestContext, request: &DeleteTopicsRequest) -> Vec<Asked> {
    if context.version() < 6 {
        let by_name = |name: &strandline_wire::messages::TopicName| Asked {
            name: Some(name.as_str().to_owned()),
            id: TopicId::ZERO,
            target: Ok(TopicRef::Name(name.as_str().to_owned())),
        };
        return request.topic_names.iter().map(by_name).collect();
    }
    let state = |t: &strandline_wire::messages::delete_topics_request::DeleteTopicState| {
        let name = t.name.as_ref().map(|n| n.as_str().to_owned());
        let id = TopicId(t.topic_id);
        let target = match (&name, id.is_zero()) {
            (Some(name), true) => Ok(TopicRef::Name(name.clone())),
            (None, false) => Ok(TopicRef::Id(id)),
            _ => Err(RequestError::InvalidRequest(
                "a topic is named either by its name or by its id".to_owned(),
            )),
        };
        Asked { name, id, target }
    };
    request.topics.iter().map(state).collect()
}

/// A topic that is named twice, also once by name and once by id, is refused.
fn refuse_repeated(context: &RequestContext, asked: &mut [Asked]) {
    let image = context.broker.metadata.image();
    let identity = |target: &TopicRef| match target {
        TopicRef::Id(id) => image
            .topics()
            .by_id(*id)
            .map_or_else(|| id.to_string(), |topic| format!("name {}", topic.name())),
        TopicRef::Name(name) => format!("name {name}"),
    };
    let mut counts: HashMap<String, usize> = HashMap::new();
    for target in asked.iter().filter_map(|a| a.target.as_ref().ok()) {
        *counts.entry(identity(target)).or_default() += 1;
    }
    for a in asked {
        let is_repeated = matches!(&a.target, Ok(target) if counts[&identity(target)] > 1);
        if is_repeated {
            let text = "a topic is named more than once".to_owned();
            a.target = Err(RequestError::InvalidRequest(text));
        }
    }
}

fn respond(
    context: &RequestContext,
    asked: &Asked,
    result: Result<DeletedTopic, RequestError>,
) -> DeletableTopicResult {
    match result {
        Ok(deleted) => {
            let out =
                DeletableTopicResult::default().with_name(Some(text(deleted.name.as_str()).into()));
            if context.version() >= 6 {
                out.with_topic_id(deleted.topic_id.0)
            } else {
                out
            }
        }
        Err(e) => refused(
            context,
            asked,
            error_codes::for_metadata(&e),
            &e.to_string(),
        ),
    }
}

fn refused(
    context: &RequestContext,
    asked: &Asked,
    code: ErrorCode,
    message: &str,
) -> DeletableTopicResult {
    let mut out = DeletableTopicResult::default()
        .with_name(asked.name.as_ref().map(|n| text(n.as_str()).into()))
        .with_error_code(code.code());
    if context.version() >= 5 {
        out.error_message = some_text(message);
    }
    if context.version() >= 6 {
        out.topic_id = asked.id.0;
    }
    out
}
