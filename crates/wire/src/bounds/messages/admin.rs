//! Tables of the requests about the cluster, topics and configs.

use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsRequest, AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::api_versions_request::ApiVersionsRequest;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use kafka_protocol::messages::delete_topics_request::{DeleteTopicState, DeleteTopicsRequest};
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::describe_cluster_request::DescribeClusterRequest;
use kafka_protocol::messages::describe_configs_request::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use kafka_protocol::messages::describe_log_dirs_request::{
    DescribableLogDirTopic, DescribeLogDirsRequest,
};
use kafka_protocol::messages::describe_topic_partitions_request::{
    Cursor, DescribeTopicPartitionsRequest, TopicRequest,
};
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource as IncrementalResource, AlterableConfig as IncrementalConfig,
    IncrementalAlterConfigsRequest,
};
use kafka_protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};

use crate::bounds::schema::{
    BOOL, INT8, INT16, INT32, INT32_ARRAY, Kind, NULLABLE_STRING, NULLABLE_STRING_ARRAY, STRING,
    STRING_ARRAY, Struct, UUID, array, field, nullable_array,
};

pub(super) static API_VERSIONS: Struct = Struct::of::<ApiVersionsRequest>(&[
    field("client_software_name", STRING).since(3),
    field("client_software_version", STRING).since(3),
]);

pub(super) static METADATA: Struct = Struct::of::<MetadataRequest>(&[
    field("topics", array(&METADATA_TOPIC)).until(0),
    field("topics", nullable_array(&METADATA_TOPIC)).since(1),
    field("allow_auto_topic_creation", BOOL).since(4),
    field("include_cluster_authorized_operations", BOOL)
        .since(8)
        .until(10),
    field("include_topic_authorized_operations", BOOL).since(8),
]);

static METADATA_TOPIC: Struct = Struct::of::<MetadataRequestTopic>(&[
    field("topic_id", UUID).since(10),
    field("name", STRING).until(9),
    field("name", NULLABLE_STRING).since(10),
]);

pub(super) static CREATE_TOPICS: Struct = Struct::of::<CreateTopicsRequest>(&[
    field("topics", array(&CREATABLE_TOPIC)),
    field("timeout_ms", INT32),
    field("validate_only", BOOL),
]);

static CREATABLE_TOPIC: Struct = Struct::of::<CreatableTopic>(&[
    field("name", STRING),
    field("num_partitions", INT32),
    field("replication_factor", INT16),
    field("assignments", array(&CREATABLE_REPLICA_ASSIGNMENT)),
    field("configs", array(&CREATABLE_TOPIC_CONFIG)),
]);

static CREATABLE_REPLICA_ASSIGNMENT: Struct = Struct::of::<CreatableReplicaAssignment>(&[
    field("partition_index", INT32),
    field("broker_ids", INT32_ARRAY),
]);

static CREATABLE_TOPIC_CONFIG: Struct =
    Struct::of::<CreatableTopicConfig>(&[field("name", STRING), field("value", NULLABLE_STRING)]);

pub(super) static DELETE_TOPICS: Struct = Struct::of::<DeleteTopicsRequest>(&[
    field("topics", array(&DELETE_TOPIC_STATE)).since(6),
    field("topic_names", STRING_ARRAY)
        .until(5)
        .answered_by::<DeletableTopicResult>(),
    field("timeout_ms", INT32),
]);

/// From version 6 on.
static DELETE_TOPIC_STATE: Struct =
    Struct::of::<DeleteTopicState>(&[field("name", NULLABLE_STRING), field("topic_id", UUID)]);

pub(super) static CREATE_PARTITIONS: Struct = Struct::of::<CreatePartitionsRequest>(&[
    field("topics", array(&CREATE_PARTITIONS_TOPIC)),
    field("timeout_ms", INT32),
    field("validate_only", BOOL),
]);

static CREATE_PARTITIONS_TOPIC: Struct = Struct::of::<CreatePartitionsTopic>(&[
    field("name", STRING),
    field("count", INT32),
    field("assignments", nullable_array(&CREATE_PARTITIONS_ASSIGNMENT)),
]);

static CREATE_PARTITIONS_ASSIGNMENT: Struct =
    Struct::of::<CreatePartitionsAssignment>(&[field("broker_ids", INT32_ARRAY)]);

pub(super) static DESCRIBE_CONFIGS: Struct = Struct::of::<DescribeConfigsRequest>(&[
    field("resources", array(&DESCRIBE_CONFIGS_RESOURCE)),
    field("include_synonyms", BOOL),
    field("include_documentation", BOOL).since(3),
]);

static DESCRIBE_CONFIGS_RESOURCE: Struct = Struct::of::<DescribeConfigsResource>(&[
    field("resource_type", INT8),
    field("resource_name", STRING),
    field("configuration_keys", NULLABLE_STRING_ARRAY),
]);

pub(super) static ALTER_CONFIGS: Struct = Struct::of::<AlterConfigsRequest>(&[
    field("resources", array(&ALTER_CONFIGS_RESOURCE)),
    field("validate_only", BOOL),
]);

static ALTER_CONFIGS_RESOURCE: Struct = Struct::of::<AlterConfigsResource>(&[
    field("resource_type", INT8),
    field("resource_name", STRING),
    field("configs", array(&ALTERABLE_CONFIG)),
]);

static ALTERABLE_CONFIG: Struct =
    Struct::of::<AlterableConfig>(&[field("name", STRING), field("value", NULLABLE_STRING)]);

pub(super) static INCREMENTAL_ALTER_CONFIGS: Struct =
    Struct::of::<IncrementalAlterConfigsRequest>(&[
        field("resources", array(&INCREMENTAL_RESOURCE)),
        field("validate_only", BOOL),
    ]);

static INCREMENTAL_RESOURCE: Struct = Struct::of::<IncrementalResource>(&[
    field("resource_type", INT8),
    field("resource_name", STRING),
    field("configs", array(&INCREMENTAL_CONFIG)),
]);

static INCREMENTAL_CONFIG: Struct = Struct::of::<IncrementalConfig>(&[
    field("name", STRING),
    field("config_operation", INT8),
    field("value", NULLABLE_STRING),
]);

pub(super) static DESCRIBE_LOG_DIRS: Struct = Struct::of::<DescribeLogDirsRequest>(&[field(
    "topics",
    nullable_array(&DESCRIBABLE_LOG_DIR_TOPIC),
)]);

static DESCRIBABLE_LOG_DIR_TOPIC: Struct = Struct::of::<DescribableLogDirTopic>(&[
    field("topic", STRING),
    field("partitions", INT32_ARRAY),
]);

pub(super) static DESCRIBE_CLUSTER: Struct = Struct::of::<DescribeClusterRequest>(&[
    field("include_cluster_authorized_operations", BOOL),
    field("endpoint_type", INT8).since(1),
    field("include_fenced_brokers", BOOL).since(2),
]);

pub(super) static DESCRIBE_TOPIC_PARTITIONS: Struct =
    Struct::of::<DescribeTopicPartitionsRequest>(&[
        field("topics", array(&TOPIC_REQUEST)),
        field("response_partition_limit", INT32),
        field("cursor", Kind::OptionalStruct(&CURSOR)),
    ]);

static TOPIC_REQUEST: Struct = Struct::of::<TopicRequest>(&[field("name", STRING)]);

static CURSOR: Struct =
    Struct::of::<Cursor>(&[field("topic_name", STRING), field("partition_index", INT32)]);
