//! DescribeCluster (60). Rules: SEMANTICS 9.6.

use strandline_wire::ErrorCode;
use strandline_wire::messages::DescribeClusterRequest;
use strandline_wire::messages::describe_cluster_response::{
    DescribeClusterBroker, DescribeClusterResponse,
};

use super::{RequestContext, authorized_operations, some_text, text};

const ENDPOINT_BROKERS: i8 = 1;
const ENDPOINT_CONTROLLERS: i8 = 2;

pub(super) async fn handle(
    context: &RequestContext,
    request: DescribeClusterRequest,
) -> DescribeClusterResponse {
    let version = context.version();
    let endpoint = if version >= 1 {
        request.endpoint_type
    } else {
        ENDPOINT_BROKERS
    };
    let refused = match endpoint {
        ENDPOINT_BROKERS => None,
        ENDPOINT_CONTROLLERS => Some((
            ErrorCode::MismatchedEndpointType,
            "this listener belongs to a broker, not to a controller",
        )),
        _ => Some((ErrorCode::UnsupportedEndpointType, "unknown endpoint type")),
    };
    if let Some((code, message)) = refused {
        return DescribeClusterResponse::default()
            .with_error_code(code.code())
            .with_error_message(some_text(message))
            .with_cluster_authorized_operations(authorized_operations::NOT_ASKED);
    }
    let image = context.broker.metadata.image();
    let with_fenced = version >= 2 && request.include_fenced_brokers;
    let brokers = image
        .cluster()
        .brokers()
        .filter(|b| with_fenced || b.is_alive());
    let brokers = brokers.filter_map(|b| {
        let endpoint = b.listener(&context.client.listener)?;
        let out = DescribeClusterBroker::default()
            .with_broker_id(b.id.0.into())
            .with_host(text(endpoint.host.as_str()))
            .with_port(i32::from(endpoint.port))
            .with_rack(b.rack.clone().map(text));
        Some(if version >= 2 {
            out.with_is_fenced(b.fenced)
        } else {
            out
        })
    });
    DescribeClusterResponse::default()
        .with_endpoint_type(ENDPOINT_BROKERS)
        .with_cluster_id(text(context.broker.cluster_id.as_str()))
        .with_controller_id(context.broker.node_id.0.into())
        .with_brokers(brokers.collect())
        .with_cluster_authorized_operations(authorized_operations::of_cluster(
            request.include_cluster_authorized_operations,
        ))
}
