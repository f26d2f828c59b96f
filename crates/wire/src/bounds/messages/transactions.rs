//! Tables of the requests about transactions.

use kafka_protocol::messages::ProducerId;
use kafka_protocol::messages::add_offsets_to_txn_request::AddOffsetsToTxnRequest;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::add_partitions_to_txn_response::AddPartitionsToTxnPartitionResult;
use kafka_protocol::messages::describe_producers_request::{
    DescribeProducersRequest, TopicRequest,
};
use kafka_protocol::messages::describe_producers_response::PartitionResponse;
use kafka_protocol::messages::describe_transactions_request::DescribeTransactionsRequest;
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::end_txn_request::EndTxnRequest;
use kafka_protocol::messages::list_transactions_request::ListTransactionsRequest;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use kafka_protocol::messages::write_txn_markers_response::WritableTxnMarkerPartitionResult;

use crate::bounds::schema::{
    BOOL, Element, INT16, INT32, INT32_ARRAY, INT64, Kind, NULLABLE_STRING, Null, STRING,
    STRING_ARRAY, Struct, array, field,
};

const PRODUCER_IDS: Kind = Kind::Array(Element::Fixed(size_of::<ProducerId>()), Null::Refused);

pub(super) static ADD_PARTITIONS_TO_TXN: Struct = Struct::of::<AddPartitionsToTxnRequest>(&[
    field("transactions", array(&ADD_PARTITIONS_TRANSACTION)).since(4),
    field("v3_and_below_transactional_id", STRING).until(3),
    field("v3_and_below_producer_id", INT64).until(3),
    field("v3_and_below_producer_epoch", INT16).until(3),
    field("v3_and_below_topics", array(&ADD_PARTITIONS_TOPIC)).until(3),
]);

static ADD_PARTITIONS_TRANSACTION: Struct = Struct::of::<AddPartitionsToTxnTransaction>(&[
    field("transactional_id", STRING),
    field("producer_id", INT64),
    field("producer_epoch", INT16),
    field("verify_only", BOOL),
    field("topics", array(&ADD_PARTITIONS_TOPIC)),
]);

static ADD_PARTITIONS_TOPIC: Struct = Struct::of::<AddPartitionsToTxnTopic>(&[
    field("name", STRING),
    field("partitions", INT32_ARRAY)
        .answered_per_partition_by::<AddPartitionsToTxnPartitionResult>(),
]);

pub(super) static ADD_OFFSETS_TO_TXN: Struct = Struct::of::<AddOffsetsToTxnRequest>(&[
    field("transactional_id", STRING),
    field("producer_id", INT64),
    field("producer_epoch", INT16),
    field("group_id", STRING),
]);

pub(super) static END_TXN: Struct = Struct::of::<EndTxnRequest>(&[
    field("transactional_id", STRING),
    field("producer_id", INT64),
    field("producer_epoch", INT16),
    field("committed", BOOL),
]);

pub(super) static WRITE_TXN_MARKERS: Struct =
    Struct::of::<WriteTxnMarkersRequest>(&[field("markers", array(&TXN_MARKER))]);

static TXN_MARKER: Struct = Struct::of::<WritableTxnMarker>(&[
    field("producer_id", INT64),
    field("producer_epoch", INT16),
    field("transaction_result", BOOL),
    field("topics", array(&TXN_MARKER_TOPIC)),
    field("coordinator_epoch", INT32),
]);

static TXN_MARKER_TOPIC: Struct = Struct::of::<WritableTxnMarkerTopic>(&[
    field("name", STRING),
    field("partition_indexes", INT32_ARRAY)
        .answered_per_partition_by::<WritableTxnMarkerPartitionResult>(),
]);

pub(super) static TXN_OFFSET_COMMIT: Struct = Struct::of::<TxnOffsetCommitRequest>(&[
    field("transactional_id", STRING),
    field("group_id", STRING),
    field("producer_id", INT64),
    field("producer_epoch", INT16),
    field("generation_id", INT32).since(3),
    field("member_id", STRING).since(3),
    field("group_instance_id", NULLABLE_STRING).since(3),
    field("topics", array(&TXN_OFFSET_COMMIT_TOPIC)),
]);

static TXN_OFFSET_COMMIT_TOPIC: Struct = Struct::of::<TxnOffsetCommitRequestTopic>(&[
    field("name", STRING),
    field("partitions", array(&TXN_OFFSET_COMMIT_PARTITION)),
]);

static TXN_OFFSET_COMMIT_PARTITION: Struct = Struct::of::<TxnOffsetCommitRequestPartition>(&[
    field("partition_index", INT32),
    field("committed_offset", INT64),
    field("committed_leader_epoch", INT32).since(2),
    field("committed_metadata", NULLABLE_STRING),
]);

pub(super) static DESCRIBE_PRODUCERS: Struct =
    Struct::of::<DescribeProducersRequest>(&[field("topics", array(&DESCRIBE_PRODUCERS_TOPIC))]);

static DESCRIBE_PRODUCERS_TOPIC: Struct = Struct::of::<TopicRequest>(&[
    field("name", STRING),
    field("partition_indexes", INT32_ARRAY).answered_per_partition_by::<PartitionResponse>(),
]);

pub(super) static DESCRIBE_TRANSACTIONS: Struct = Struct::of::<DescribeTransactionsRequest>(&[
    field("transactional_ids", STRING_ARRAY).answered_by::<TransactionState>(),
]);

pub(super) static LIST_TRANSACTIONS: Struct = Struct::of::<ListTransactionsRequest>(&[
    field("state_filters", STRING_ARRAY),
    field("producer_id_filters", PRODUCER_IDS),
    field("duration_filter", INT64).since(1),
    field("transactional_id_pattern", NULLABLE_STRING).since(2),
]);
