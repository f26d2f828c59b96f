//! Which handler serves which API: one match.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
pub(crate) mod admission;
mod alter_configs;
mod api_versions;
mod authorized_operations;
mod committing;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod describe_transactions;
mod end_txn;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod once;
mod produce;
mod sync_group;
mod txn_offset_commit;
mod write_txn_markers;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use strandline_wire::{
    Api, Encodable, RequestHeader, StrBytes, WireError, decode_request, encode_response,
};

use crate::broker::Broker;
use crate::net::connection::Slot;
use crate::net::response::Outcome;

/// Where a request came from.
#[derive(Debug, Clone)]
pub(crate) struct ClientConnection {
    /// Address of the client.
    pub(crate) peer: SocketAddr,
    /// Name of the listener that accepted it; its advertised address is what the client gets.
    pub(crate) listener: Arc<str>,
}

/// What a handler knows about its request besides the body.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) broker: Arc<Broker>,
    pub(crate) client: ClientConnection,
    pub(crate) header: RequestHeader,
}

impl RequestContext {
    fn version(&self) -> i16 {
        self.header.version
    }

    fn client_id(&self) -> &str {
        self.header.client_id.as_deref().unwrap_or("")
    }
}

/// Decodes a request and starts it. Errors close the connection (W-7).
pub(crate) async fn dispatch(
    broker: &Arc<Broker>,
    client: &ClientConnection,
    header: RequestHeader,
    body: Bytes,
) -> Result<Slot, WireError> {
    let started = Instant::now();
    let api = header.api;
    let context = RequestContext {
        broker: Arc::clone(broker),
        client: client.clone(),
        header,
    };
    let slot = start(context, body).await?;
    Ok(match slot {
        Slot::Ready(outcome) => {
            broker.metrics.requests.observe(api, started.elapsed());
            Slot::Ready(outcome)
        }
        Slot::Pending(future) => {
            let broker = Arc::clone(broker);
            Slot::pending(async move {
                let outcome = future.await;
                broker.metrics.requests.observe(api, started.elapsed());
                outcome
            })
        }
    })
}

async fn start(context: RequestContext, body: Bytes) -> Result<Slot, WireError> {
    macro_rules! serve {
        ($handler:path) => {{
            let request = decode_request(&context.header, body)?;
            Slot::pending(async move {
                let response = $handler(&context, request).await;
                respond(&context.header, &response)
            })
        }};
    }
    Ok(match context.header.api.api {
        Api::Produce => produce::start(context, body).await?,
        Api::Fetch => {
            let request = decode_request(&context.header, body)?;
            Slot::pending(async move { fetch::handle(&context, request).await })
        }
        Api::ApiVersions => Slot::Ready(api_versions::handle(&context, body)?),
        Api::Metadata => serve!(metadata::handle),
        Api::ListOffsets => serve!(list_offsets::handle),
        Api::OffsetForLeaderEpoch => serve!(offset_for_leader_epoch::handle),
        Api::InitProducerId => serve!(init_producer_id::handle),
        Api::AddPartitionsToTxn => serve!(add_partitions_to_txn::handle),
        Api::AddOffsetsToTxn => serve!(add_offsets_to_txn::handle),
        Api::EndTxn => serve!(end_txn::handle),
        Api::TxnOffsetCommit => serve!(txn_offset_commit::handle),
        Api::WriteTxnMarkers => serve!(write_txn_markers::handle),
        Api::DescribeProducers => serve!(describe_producers::handle),
        Api::DescribeTransactions => serve!(describe_transactions::handle),
        Api::ListTransactions => serve!(list_transactions::handle),
        Api::CreateTopics => serve!(create_topics::handle),
        Api::DeleteTopics => serve!(delete_topics::handle),
        Api::CreatePartitions => serve!(create_partitions::handle),
        Api::DeleteRecords => serve!(delete_records::handle),
        Api::DescribeConfigs => serve!(describe_configs::handle),
        Api::AlterConfigs => serve!(alter_configs::handle_legacy),
        Api::IncrementalAlterConfigs => serve!(alter_configs::handle_incremental),
        Api::DescribeCluster => serve!(describe_cluster::handle),
        Api::DescribeLogDirs => serve!(describe_log_dirs::handle),
        Api::DescribeTopicPartitions => serve!(describe_topic_partitions::handle),
        Api::FindCoordinator => serve!(find_coordinator::handle),
        Api::JoinGroup => serve!(join_group::handle),
        Api::SyncGroup => serve!(sync_group::handle),
        Api::Heartbeat => serve!(heartbeat::handle),
        Api::LeaveGroup => serve!(leave_group::handle),
        Api::OffsetCommit => serve!(offset_commit::handle),
        Api::OffsetFetch => serve!(offset_fetch::handle),
        Api::OffsetDelete => serve!(offset_delete::handle),
        Api::ListGroups => serve!(list_groups::handle),
        Api::DescribeGroups => serve!(describe_groups::handle),
        Api::DeleteGroups => serve!(delete_groups::handle),
    })
}

/// Encodes a response in the version of its request.
fn respond<T: Encodable>(header: &RequestHeader, response: &T) -> Outcome {
    match encode_response(header, response) {
        Ok(bytes) => Outcome::frame(bytes),
        Err(e) => {
            tracing::error!(error = %e, "response lost");
            Outcome::Close("a response could not be encoded")
        }
    }
}

fn text(value: impl Into<String>) -> StrBytes {
    StrBytes::from_string(value.into())
}

fn some_text(value: impl Into<String>) -> Option<StrBytes> {
    Some(text(value))
}
