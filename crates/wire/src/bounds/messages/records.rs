//! Tables of the requests about records and offsets of partitions.

use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use kafka_protocol::messages::fetch_request::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState,
};
use kafka_protocol::messages::init_producer_id_request::InitProducerIdRequest;
use kafka_protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;

use crate::bounds::schema::{
    INT8, INT16, INT32, INT32_ARRAY, INT64, Kind, NULLABLE_RECORDS, NULLABLE_STRING, STRING,
    Struct, UUID, array, field, tag,
};

pub(super) static PRODUCE: Struct = Struct::of::<ProduceRequest>(&[
    field("transactional_id", NULLABLE_STRING),
    field("acks", INT16),
    field("timeout_ms", INT32),
    field("topic_data", array(&PRODUCE_TOPIC)),
]);

static PRODUCE_TOPIC: Struct = Struct::of::<TopicProduceData>(&[
    field("name", STRING).until(12),
    field("topic_id", UUID).since(13),
    field("partition_data", array(&PRODUCE_PARTITION))
        .answered_per_partition_by::<PartitionProduceResponse>(),
]);

static PRODUCE_PARTITION: Struct = Struct::of::<PartitionProduceData>(&[
    field("index", INT32),
    field("records", NULLABLE_RECORDS),
]);

pub(super) static FETCH: Struct = Struct::of::<FetchRequest>(&[
    field("replica_id", INT32).until(14),
    field("max_wait_ms", INT32),
    field("min_bytes", INT32),
    field("max_bytes", INT32),
    field("isolation_level", INT8),
    field("session_id", INT32).since(7),
    field("session_epoch", INT32).since(7),
    field("topics", array(&FETCH_TOPIC)),
    field("forgotten_topics_data", array(&FORGOTTEN_TOPIC)).since(7),
    field("rack_id", STRING).since(11),
])
.tagged(&[
    tag(0, field("cluster_id", NULLABLE_STRING).since(12)),
    tag(
        1,
        field("replica_state", Kind::Struct(&REPLICA_STATE)).since(15),
    ),
]);

static REPLICA_STATE: Struct = Struct::of::<ReplicaState>(&[
    field("replica_id", INT32).since(15),
    field("replica_epoch", INT64).since(15),
]);

static FETCH_TOPIC: Struct = Struct::of::<FetchTopic>(&[
    field("topic", STRING).until(12),
    field("topic_id", UUID).since(13),
    field("partitions", array(&FETCH_PARTITION)),
]);

static FETCH_PARTITION: Struct = Struct::of::<FetchPartition>(&[
    field("partition", INT32),
    field("current_leader_epoch", INT32).since(9),
    field("fetch_offset", INT64),
    field("last_fetched_epoch", INT32).since(12),
    field("log_start_offset", INT64).since(5),
    field("partition_max_bytes", INT32),
])
.tagged(&[
    tag(0, field("replica_directory_id", UUID).since(17)),
    tag(1, field("high_watermark", INT64).since(18)),
]);

static FORGOTTEN_TOPIC: Struct = Struct::of::<ForgottenTopic>(&[
    field("topic", STRING).since(7).until(12),
    field("topic_id", UUID).since(13),
    field("partitions", INT32_ARRAY).since(7),
]);

pub(super) static LIST_OFFSETS: Struct = Struct::of::<ListOffsetsRequest>(&[
    field("replica_id", INT32),
    field("isolation_level", INT8).since(2),
    field("topics", array(&LIST_OFFSETS_TOPIC)),
    field("timeout_ms", INT32).since(10),
]);

static LIST_OFFSETS_TOPIC: Struct = Struct::of::<ListOffsetsTopic>(&[
    field("name", STRING),
    field("partitions", array(&LIST_OFFSETS_PARTITION)),
]);

static LIST_OFFSETS_PARTITION: Struct = Struct::of::<ListOffsetsPartition>(&[
    field("partition_index", INT32),
    field("current_leader_epoch", INT32).since(4),
    field("timestamp", INT64),
]);

pub(super) static OFFSET_FOR_LEADER_EPOCH: Struct = Struct::of::<OffsetForLeaderEpochRequest>(&[
    field("replica_id", INT32).since(3),
    field("topics", array(&OFFSET_FOR_LEADER_TOPIC)),
]);

static OFFSET_FOR_LEADER_TOPIC: Struct = Struct::of::<OffsetForLeaderTopic>(&[
    field("topic", STRING),
    field("partitions", array(&OFFSET_FOR_LEADER_PARTITION)),
]);

static OFFSET_FOR_LEADER_PARTITION: Struct = Struct::of::<OffsetForLeaderPartition>(&[
    field("partition", INT32),
    field("current_leader_epoch", INT32),
    field("leader_epoch", INT32),
]);

pub(super) static DELETE_RECORDS: Struct = Struct::of::<DeleteRecordsRequest>(&[
    field("topics", array(&DELETE_RECORDS_TOPIC)),
    field("timeout_ms", INT32),
]);

static DELETE_RECORDS_TOPIC: Struct = Struct::of::<DeleteRecordsTopic>(&[
    field("name", STRING),
    field("partitions", array(&DELETE_RECORDS_PARTITION)),
]);

static DELETE_RECORDS_PARTITION: Struct = Struct::of::<DeleteRecordsPartition>(&[
    field("partition_index", INT32),
    field("offset", INT64),
]);

pub(super) static INIT_PRODUCER_ID: Struct = Struct::of::<InitProducerIdRequest>(&[
    field("transactional_id", NULLABLE_STRING),
    field("transaction_timeout_ms", INT32),
    field("producer_id", INT64).since(3),
    field("producer_epoch", INT16).since(3),
]);
