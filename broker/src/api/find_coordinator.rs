//! FindCoordinator (10). Rules.

use std::sync::Arc;

use strandline_coordinator::partition_for_key;
use strandline_metadata::Image;
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC};
use strandline_wire::messages::FindCoordinatorRequest;
use strandline_wire::messages::find_coordinator_response::{Coordinator, FindCoordinatorResponse};
use strandline_wire::{ErrorCode, StrBytes};
use tokio::task::coop::consume_budget;

use super::once::once;
use super::{RequestContext, text};
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
        let coordinators = Coordinators::of(context, key_type).await;
        let found = coordinators.find(context, key_type, request.key);
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
    let coordinators = Coordinators::of(context, request.key_type).await;
    let mut out = Vec::with_capacity(request.coordinator_keys.len());
    for key in once(&request.coordinator_keys, |key| key.as_str()) {
        out.push(coordinators.find(context, request.key_type, key.clone()));
        // One request may name a million.
        consume_budget().await;
    }
    FindCoordinatorResponse::default().with_coordinators(out)
}

/// Where the coordinators of one type are; the same for all keys of a request.
enum Coordinators {
    /// On the partitions of this topic.
    Topic {
        image: Arc<Image>,
        name: &'static str,
    },
    /// Nowhere, or not yet.
    None { code: ErrorCode, why: StrBytes },
}

impl Coordinators {
    async fn of(context: &RequestContext, key_type: i8) -> Self {
        let name = match key_type {
            KEY_TYPE_GROUP => CONSUMER_OFFSETS_TOPIC,
            KEY_TYPE_TRANSACTION => TRANSACTION_STATE_TOPIC,
            _ => {
                let why = "only groups and transactions are coordinated";
                let (code, why) = (ErrorCode::InvalidRequest, StrBytes::from_static_str(why));
                return Self::None { code, why };
            }
        };
        let image = context.broker.metadata.image();
        if image.topics().by_name(name).is_some() {
            return Self::Topic { image, name };
        }
        let why = match auto_create::create_internal(&context.broker, name).await {
            Ok(()) => StrBytes::from_static_str("the coordinator is being created"),
            Err(e) => text(e.to_string()),
        };
        let code = ErrorCode::CoordinatorNotAvailable;
        Self::None { code, why }
    }

    fn find(&self, context: &RequestContext, key_type: i8, key: StrBytes) -> Coordinator {
        if key_type == KEY_TYPE_TRANSACTION && key.is_empty() {
            let why = StrBytes::from_static_str("the transactional id is empty");
            return refuse(key, ErrorCode::InvalidRequest, why);
        }
        let (image, name) = match self {
            Self::Topic { image, name } => (image, *name),
            Self::None { code, why } => return refuse(key, *code, why.clone()),
        };
        let endpoint = image.topics().by_name(name).and_then(|topic| {
            let count = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
            let leader = topic.partition(partition_for_key(&key, count))?.leader?;
            let broker = image.cluster().broker(leader)?;
            Some((broker.id, broker.listener(&context.client.listener)?))
        });
        match endpoint {
            Some((id, listener)) => Coordinator::default()
                .with_key(key)
                .with_node_id(id.0.into())
                .with_host(text(listener.host.as_str()))
                .with_port(i32::from(listener.port)),
            None => {
                let why = StrBytes::from_static_str("the coordinator has no leader");
                refuse(key, ErrorCode::CoordinatorNotAvailable, why)
            }
        }
    }
}

fn refuse(key: StrBytes, code: ErrorCode, why: StrBytes) -> Coordinator {
    Coordinator::default()
        .with_key(key)
        .with_error_code(code.code())
        .with_error_message(Some(why))
        .with_node_id((-1).into())
        .with_port(-1)
}
