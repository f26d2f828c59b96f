//! What can be done with a request of whatever API.

use bytes::{BufMut, Bytes, BytesMut};
use strandline_wire::messages as m;
use strandline_wire::{
    Api, Decodable, Encodable, RequestHeader, ServedApi, WireError, decode_request,
    encode_response, served_apis,
};

use crate::fill;
use crate::filler::Filler;

macro_rules! requests {
    ($($api:ident: $request:ident, $response:ident, $fill:ident;)*) => {
        /// The body of a request with values from the filler.
        pub(crate) fn filled(filler: &mut Filler<'_>) -> Bytes {
            match filler.api.api {
                $(Api::$api => encode(&fill::$fill(filler), filler.version),)*
            }
        }

        /// The body of a request in which nothing is set.
        pub(crate) fn default(api: &ServedApi, version: i16) -> Bytes {
            match api.api {
                $(Api::$api => encode(&m::$request::default(), version),)*
            }
        }

        /// Decodes a body, as the broker does, and encodes it again.
        pub(crate) fn decode_and_encode(
            header: &RequestHeader,
            body: Bytes,
        ) -> Result<Bytes, WireError> {
            match header.api.api {
                $(Api::$api => decode_request::<m::$request>(header, body)
                    .map(|request| encode(&request, header.version)),)*
            }
        }

        /// Decodes a body, as the broker does.
        pub(crate) fn decode(header: &RequestHeader, body: Bytes) -> Result<(), WireError> {
            match header.api.api {
                $(Api::$api => decode_request::<m::$request>(header, body).map(drop),)*
            }
        }

        /// The frame of a response in which nothing is set.
        pub(crate) fn default_response(header: &RequestHeader) -> Result<Bytes, WireError> {
            match header.api.api {
                $(Api::$api => encode_response(header, &m::$response::default()),)*
            }
        }

        /// Takes the body of a response from the front.
        pub(crate) fn take_response(api: &ServedApi, version: i16, body: &mut Bytes) {
            let decoded = match api.api {
                $(Api::$api => m::$response::decode(body, version).map(drop),)*
            };
            assert!(decoded.is_ok(), "{} {version}: {decoded:?}", api.name);
        }
    };
}

requests! {
    Produce: ProduceRequest, ProduceResponse, produce;
    Fetch: FetchRequest, FetchResponse, fetch;
    ListOffsets: ListOffsetsRequest, ListOffsetsResponse, list_offsets;
    Metadata: MetadataRequest, MetadataResponse, metadata;
    OffsetCommit: OffsetCommitRequest, OffsetCommitResponse, offset_commit;
    OffsetFetch: OffsetFetchRequest, OffsetFetchResponse, offset_fetch;
    FindCoordinator: FindCoordinatorRequest, FindCoordinatorResponse, find_coordinator;
    JoinGroup: JoinGroupRequest, JoinGroupResponse, join_group;
    Heartbeat: HeartbeatRequest, HeartbeatResponse, heartbeat;
    LeaveGroup: LeaveGroupRequest, LeaveGroupResponse, leave_group;
    SyncGroup: SyncGroupRequest, SyncGroupResponse, sync_group;
    DescribeGroups: DescribeGroupsRequest, DescribeGroupsResponse, describe_groups;
    ListGroups: ListGroupsRequest, ListGroupsResponse, list_groups;
    ApiVersions: ApiVersionsRequest, ApiVersionsResponse, api_versions;
    CreateTopics: CreateTopicsRequest, CreateTopicsResponse, create_topics;
    DeleteTopics: DeleteTopicsRequest, DeleteTopicsResponse, delete_topics;
    DeleteRecords: DeleteRecordsRequest, DeleteRecordsResponse, delete_records;
    InitProducerId: InitProducerIdRequest, InitProducerIdResponse, init_producer_id;
    OffsetForLeaderEpoch: OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, leader_epoch;
    AddPartitionsToTxn: AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, add_partitions_to_txn;
    AddOffsetsToTxn: AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, add_offsets_to_txn;
    EndTxn: EndTxnRequest, EndTxnResponse, end_txn;
    WriteTxnMarkers: WriteTxnMarkersRequest, WriteTxnMarkersResponse, write_txn_markers;
    TxnOffsetCommit: TxnOffsetCommitRequest, TxnOffsetCommitResponse, txn_offset_commit;
    DescribeProducers: DescribeProducersRequest, DescribeProducersResponse, describe_producers;
    DescribeTransactions: DescribeTransactionsRequest, DescribeTransactionsResponse, describe_transactions;
    ListTransactions: ListTransactionsRequest, ListTransactionsResponse, list_transactions;
    DescribeConfigs: DescribeConfigsRequest, DescribeConfigsResponse, describe_configs;
    AlterConfigs: AlterConfigsRequest, AlterConfigsResponse, alter_configs;
    DescribeLogDirs: DescribeLogDirsRequest, DescribeLogDirsResponse, describe_log_dirs;
    CreatePartitions: CreatePartitionsRequest, CreatePartitionsResponse, create_partitions;
    DeleteGroups: DeleteGroupsRequest, DeleteGroupsResponse, delete_groups;
    IncrementalAlterConfigs: IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, incremental;
    OffsetDelete: OffsetDeleteRequest, OffsetDeleteResponse, offset_delete;
    DescribeCluster: DescribeClusterRequest, DescribeClusterResponse, describe_cluster;
    DescribeTopicPartitions: DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, describe_topic_partitions;
}

fn encode(message: &impl Encodable, version: i16) -> Bytes {
    let mut out = BytesMut::new();
    let encoded = message.encode(&mut out, version);
    assert!(
        encoded.is_ok(),
        "the version has all the fields that are set: {encoded:?}"
    );
    out.freeze()
}

/// Every API with every version of it that is served.
pub(crate) fn every_version() -> impl Iterator<Item = (&'static ServedApi, i16)> {
    served_apis()
        .iter()
        .flat_map(|api| (api.min..=api.max).map(move |version| (api, version)))
}

/// The header of a request without a client's name.
pub(crate) fn header(api: &'static ServedApi, version: i16) -> RequestHeader {
    RequestHeader {
        api,
        version,
        correlation_id: 7,
        client_id: None,
    }
}

/// The frame, without its length, of a request without a client's name.
pub(crate) fn frame(api: &ServedApi, version: i16, body: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_i16(api.key);
    out.put_i16(version);
    out.put_i32(7);
    out.put_i16(-1);
    if api.is_flexible(version) {
        out.put_u8(0);
    }
    out.put_slice(body);
    out.freeze()
}
