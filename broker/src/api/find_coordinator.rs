//! FindCoordinator (10). Rules.

use strandline_coordinator::partition_for_key;
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC};
use strandline_wire::ErrorCode;
use strandline_wire::messages::FindCoordinatorRequest;
use strandline_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};

use super::{RequestContext, some_text, text};
use crate::auto_create;

const KEY_TYPE_GROUP: i8 = 0;
const KEY_TYPE_TRANSACTION: i8 = 1;

pub(super) async fn handle(
    context: &RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    if context.version() < 4 {
        let key_type = if context.version() >= 1 {
            request.key_type
        } else {
            KEY_TYPE_GROUP
        };
        let found = find(context, key_type, &request.key).await;
        let out = FindCoordinatorResponse::default()
            .with_error_code(found.error_code)
            .with_node_id(found.node_id)
            .with_host(found.host)
            .with_port(found.port);
        return if context.version() >= 1 {
            out.with_error_message(found.error_message)
        } else {
            out
        };
    }
    let mut coordinators = Vec::with_capacity(request.coordinator_keys.len());
    for key in &request.coordinator_keys {
        coordinators.push(find(context, request.key_type, key).await);
    }
    FindCoordinatorResponse::default().with_coordinators(coordinators)
}

async fn find(context: &RequestContext, key_type: i8, key: &str) -> Coordinator {
    let out = Coordinator::default().with_key(text(key));
    let name = match key_type {
        KEY_TYPE_GROUP => CONSUMER_OFFSETS_TOPIC,
        KEY_TYPE_TRANSACTION if key.is_empty() => {
            let code = ErrorCode::InvalidRequest;
            return refuse(out, code, "the transactional id is empty");
        }
        KEY_TYPE_TRANSACTION => TRANSACTION_STATE_TOPIC,
        _ => {
            let code = ErrorCode::InvalidRequest;
            return refuse(out, code, "only groups and transactions are coordinated");
        }
    };
    let image = context.broker.metadata.image();
    let Some(topic) = image.topics().by_name(name) else {
        let code = ErrorCode::CoordinatorNotAvailable;
        return match auto_create::create_internal(&context.broker, name).await {
            Ok(()) => refuse(out, code, "the coordinator is being created"),
            Err(e) => refuse(out, code, &e.to_string()),
        };
    };
    let count = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
    let index = partition_for_key(key, count);
    let leader = topic.partition(index).and_then(|p| p.leader);
    let broker = leader.and_then(|id| image.cluster().broker(id));
    let endpoint = broker.and_then(|b| Some((b.id, b.listener(&context.client.listener)?)));
    match endpoint {
        Some((id, listener)) => out
            .with_node_id(id.0.into())
            .with_host(text(listener.host.as_str()))
            .with_port(i32::from(listener.port)),
        None => refuse(
            out,
            ErrorCode::CoordinatorNotAvailable,
            "the coordinator has no leader",
        ),
    }
}

fn refuse(out: Coordinator, code: ErrorCode, message: &str) -> Coordinator {
    out.with_error_code(code.code())
        .with_error_message(some_text(message))
        .with_node_id((-1).into())
        .with_port(-1)
}
