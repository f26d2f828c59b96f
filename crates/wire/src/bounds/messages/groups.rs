//! Tables of the requests about groups and their offsets.

use kafka_protocol::messages::delete_groups_request::DeleteGroupsRequest;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_request::DescribeGroupsRequest;
use kafka_protocol::messages::describe_groups_response::DescribedGroup;
use kafka_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::heartbeat_request::HeartbeatRequest;
use kafka_protocol::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafka_protocol::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use kafka_protocol::messages::list_groups_request::ListGroupsRequest;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
};
use kafka_protocol::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::bounds::schema::{
    BOOL, BYTES, INT8, INT32, INT32_ARRAY, INT64, NULLABLE_STRING, STRING, STRING_ARRAY, Struct,
    array, field, nullable_array,
};

pub(super) static OFFSET_COMMIT: Struct = Struct::of::<OffsetCommitRequest>(&[
    field("group_id", STRING),
    field("generation_id_or_member_epoch", INT32),
    field("member_id", STRING),
    field("group_instance_id", NULLABLE_STRING).since(7),
    field("retention_time_ms", INT64).until(4),
    field("topics", array(&OFFSET_COMMIT_TOPIC)),
]);

static OFFSET_COMMIT_TOPIC: Struct = Struct::of::<OffsetCommitRequestTopic>(&[
    field("name", STRING),
    field("partitions", array(&OFFSET_COMMIT_PARTITION)),
]);

static OFFSET_COMMIT_PARTITION: Struct = Struct::of::<OffsetCommitRequestPartition>(&[
    field("partition_index", INT32),
    field("committed_offset", INT64),
    field("committed_leader_epoch", INT32).since(6),
    field("committed_metadata", NULLABLE_STRING),
]);

pub(super) static OFFSET_FETCH: Struct = Struct::of::<OffsetFetchRequest>(&[
    field("group_id", STRING).until(7),
    field("topics", array(&OFFSET_FETCH_TOPIC)).until(1),
    field("topics", nullable_array(&OFFSET_FETCH_TOPIC))
        .since(2)
        .until(7),
    field("groups", array(&OFFSET_FETCH_GROUP)).since(8),
    field("require_stable", BOOL).since(7),
]);

/// Up to version 7.
static OFFSET_FETCH_TOPIC: Struct = Struct::of::<OffsetFetchRequestTopic>(&[
    field("name", STRING),
    field("partition_indexes", INT32_ARRAY)
        .answered_per_partition_by::<OffsetFetchResponsePartition>(),
]);

/// From version 8 on.
static OFFSET_FETCH_GROUP: Struct = Struct::of::<OffsetFetchRequestGroup>(&[
    field("group_id", STRING),
    field("member_id", NULLABLE_STRING).since(9),
    field("member_epoch", INT32).since(9),
    field("topics", nullable_array(&OFFSET_FETCH_GROUP_TOPIC)),
]);

static OFFSET_FETCH_GROUP_TOPIC: Struct = Struct::of::<OffsetFetchRequestTopics>(&[
    field("name", STRING),
    field("partition_indexes", INT32_ARRAY)
        .answered_per_partition_by::<OffsetFetchResponsePartitions>(),
]);

pub(super) static OFFSET_DELETE: Struct = Struct::of::<OffsetDeleteRequest>(&[
    field("group_id", STRING),
    field("topics", array(&OFFSET_DELETE_TOPIC)),
]);

static OFFSET_DELETE_TOPIC: Struct = Struct::of::<OffsetDeleteRequestTopic>(&[
    field("name", STRING),
    field("partitions", array(&OFFSET_DELETE_PARTITION)),
]);

static OFFSET_DELETE_PARTITION: Struct =
    Struct::of::<OffsetDeleteRequestPartition>(&[field("partition_index", INT32)]);

pub(super) static FIND_COORDINATOR: Struct = Struct::of::<FindCoordinatorRequest>(&[
    field("key", STRING).until(3),
    field("key_type", INT8).since(1),
    field("coordinator_keys", STRING_ARRAY)
        .since(4)
        .answered_by::<Coordinator>(),
]);

pub(super) static JOIN_GROUP: Struct = Struct::of::<JoinGroupRequest>(&[
    field("group_id", STRING),
    field("session_timeout_ms", INT32),
    field("rebalance_timeout_ms", INT32).since(1),
    field("member_id", STRING),
    field("group_instance_id", NULLABLE_STRING).since(5),
    field("protocol_type", STRING),
    field("protocols", array(&JOIN_GROUP_PROTOCOL)),
    field("reason", NULLABLE_STRING).since(8),
]);

static JOIN_GROUP_PROTOCOL: Struct =
    Struct::of::<JoinGroupRequestProtocol>(&[field("name", STRING), field("metadata", BYTES)]);

pub(super) static HEARTBEAT: Struct = Struct::of::<HeartbeatRequest>(&[
    field("group_id", STRING),
    field("generation_id", INT32),
    field("member_id", STRING),
    field("group_instance_id", NULLABLE_STRING).since(3),
]);

pub(super) static LEAVE_GROUP: Struct = Struct::of::<LeaveGroupRequest>(&[
    field("group_id", STRING),
    field("member_id", STRING).until(2),
    field("members", array(&LEAVE_GROUP_MEMBER)).since(3),
]);

static LEAVE_GROUP_MEMBER: Struct = Struct::of::<MemberIdentity>(&[
    field("member_id", STRING),
    field("group_instance_id", NULLABLE_STRING),
    field("reason", NULLABLE_STRING).since(5),
]);

pub(super) static SYNC_GROUP: Struct = Struct::of::<SyncGroupRequest>(&[
    field("group_id", STRING),
    field("generation_id", INT32),
    field("member_id", STRING),
    field("group_instance_id", NULLABLE_STRING).since(3),
    field("protocol_type", NULLABLE_STRING).since(5),
    field("protocol_name", NULLABLE_STRING).since(5),
    field("assignments", array(&SYNC_GROUP_ASSIGNMENT)),
]);

static SYNC_GROUP_ASSIGNMENT: Struct = Struct::of::<SyncGroupRequestAssignment>(&[
    field("member_id", STRING),
    field("assignment", BYTES),
]);

pub(super) static DESCRIBE_GROUPS: Struct = Struct::of::<DescribeGroupsRequest>(&[
    field("groups", STRING_ARRAY).answered_by::<DescribedGroup>(),
    field("include_authorized_operations", BOOL).since(3),
]);

pub(super) static LIST_GROUPS: Struct = Struct::of::<ListGroupsRequest>(&[
    field("states_filter", STRING_ARRAY).since(4),
    field("types_filter", STRING_ARRAY).since(5),
]);

pub(super) static DELETE_GROUPS: Struct =
    Struct::of::<DeleteGroupsRequest>(&[
        field("groups_names", STRING_ARRAY).answered_by::<DeletableGroupResult>()
    ]);
