//! A request of each kind with all the fields that its version has.

use strandline_wire::messages::{
    alter_configs_request as alter, api_versions_request as api_versions,
    create_partitions_request as create_partitions, create_topics_request as create_topics,
    delete_groups_request as delete_groups, delete_records_request as delete_records,
    delete_topics_request as delete_topics, describe_cluster_request as describe_cluster,
    describe_configs_request as describe_configs, describe_groups_request as describe_groups,
    describe_log_dirs_request as describe_log_dirs,
    describe_topic_partitions_request as describe_topic_partitions, fetch_request as fetches,
    find_coordinator_request as find_coordinator, heartbeat_request as heartbeats,
    incremental_alter_configs_request as incremental, init_producer_id_request as init_producer_id,
    join_group_request as join, leave_group_request as leave, list_groups_request as list_groups,
    list_offsets_request as list_offsets, metadata_request as metadatas,
    offset_commit_request as commit, offset_delete_request as offset_delete,
    offset_fetch_request as offset_fetch, offset_for_leader_epoch_request as leader_epoch,
    produce_request as produces, sync_group_request as sync,
};

use crate::filler::Filler;

/// Builds a struct from its default: those of the codec cannot be written as literals. A field
/// with a condition is left alone unless it holds.
macro_rules! fill {
    ($type:ty { $($field:ident $(if $condition:expr)? => $value:expr,)* }) => {{
        let mut made = <$type>::default();
        $(fill!(@set made.$field, $value $(, $condition)?);)*
        made
    }};
    (@set $place:expr, $value:expr) => { $place = $value };
    (@set $place:expr, $value:expr, $condition:expr) => { if $condition { $place = $value } };
}

mod transactions;

pub(crate) use transactions::{
    add_offsets_to_txn, add_partitions_to_txn, describe_producers, describe_transactions, end_txn,
    list_transactions, txn_offset_commit, write_txn_markers,
};

pub(crate) fn produce(f: &mut Filler<'_>) -> produces::ProduceRequest {
    let v = f.version;
    let partition = |f: &mut Filler<'_>| {
        fill!(produces::PartitionProduceData {
            index => f.int32(),
            records => (f.below(4) != 0).then(|| f.blob()),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(produces::TopicProduceData {
            name if v <= 12 => f.text().into(),
            topic_id if v >= 13 => f.uuid(),
            partition_data => f.list(partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(produces::ProduceRequest {
        transactional_id => f.some_text().map(Into::into),
        acks => f.int16(),
        timeout_ms => f.int32(),
        topic_data => f.list(topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn fetch(f: &mut Filler<'_>) -> fetches::FetchRequest {
    let v = f.version;
    let topic = |f: &mut Filler<'_>| {
        fill!(fetches::FetchTopic {
            topic if v <= 12 => f.text().into(),
            topic_id if v >= 13 => f.uuid(),
            partitions => f.list(fetch_partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    let forgotten = |f: &mut Filler<'_>| {
        fill!(fetches::ForgottenTopic {
            topic if v <= 12 => f.text().into(),
            topic_id if v >= 13 => f.uuid(),
            partitions => f.list(Filler::int32),
            unknown_tagged_fields => f.tags(),
        })
    };
    let replica = |f: &mut Filler<'_>| {
        fill!(fetches::ReplicaState {
            replica_id => f.int32().into(),
            replica_epoch => f.int64(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(fetches::FetchRequest {
        cluster_id if v >= 12 => f.some_text(),
        replica_id if v <= 14 => f.int32().into(),
        replica_state if v >= 15 => replica(f),
        max_wait_ms => f.int32(),
        min_bytes => f.int32(),
        max_bytes => f.int32(),
        isolation_level => f.int8(),
        session_id if v >= 7 => f.int32(),
        session_epoch if v >= 7 => f.int32(),
        topics => f.list(topic),
        forgotten_topics_data if v >= 7 => f.list(forgotten),
        rack_id if v >= 11 => f.text(),
        unknown_tagged_fields => f.tags(),
    })
}

fn fetch_partition(f: &mut Filler<'_>) -> fetches::FetchPartition {
    let v = f.version;
    fill!(fetches::FetchPartition {
        partition => f.int32(),
        current_leader_epoch if v >= 9 => f.int32(),
        fetch_offset => f.int64(),
        last_fetched_epoch if v >= 12 => f.int32(),
        log_start_offset if v >= 5 => f.int64(),
        partition_max_bytes => f.int32(),
        replica_directory_id if v >= 17 => f.uuid(),
        high_watermark if v >= 18 => f.int64(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn list_offsets(f: &mut Filler<'_>) -> list_offsets::ListOffsetsRequest {
    let v = f.version;
    let partition = |f: &mut Filler<'_>| {
        fill!(list_offsets::ListOffsetsPartition {
            partition_index => f.int32(),
            current_leader_epoch if v >= 4 => f.int32(),
            timestamp => f.int64(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(list_offsets::ListOffsetsTopic {
            name => f.text().into(),
            partitions => f.list(partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(list_offsets::ListOffsetsRequest {
        replica_id => f.int32().into(),
        isolation_level if v >= 2 => f.int8(),
        topics => f.list(topic),
        timeout_ms if v >= 10 => f.int32(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn metadata(f: &mut Filler<'_>) -> metadatas::MetadataRequest {
    let v = f.version;
    let topic = |f: &mut Filler<'_>| {
        fill!(metadatas::MetadataRequestTopic {
            topic_id if v >= 10 => f.uuid(),
            name => Some(f.text().into()),
            name if v >= 10 => f.some_text().map(Into::into),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(metadatas::MetadataRequest {
        topics => Some(f.list(topic)),
        topics if v >= 1 => f.some_list(topic),
        allow_auto_topic_creation if v >= 4 => f.bool(),
        include_cluster_authorized_operations if (8..=10).contains(&v) => f.bool(),
        include_topic_authorized_operations if v >= 8 => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn offset_commit(f: &mut Filler<'_>) -> commit::OffsetCommitRequest {
    let v = f.version;
    let partition = |f: &mut Filler<'_>| {
        fill!(commit::OffsetCommitRequestPartition {
            partition_index => f.int32(),
            committed_offset => f.int64(),
            committed_leader_epoch if v >= 6 => f.int32(),
            committed_metadata => f.some_text(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(commit::OffsetCommitRequestTopic {
            name => f.text().into(),
            partitions => f.list(partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(commit::OffsetCommitRequest {
        group_id => f.text().into(),
        generation_id_or_member_epoch => f.int32(),
        member_id => f.text(),
        group_instance_id if v >= 7 => f.some_text(),
        retention_time_ms if v <= 4 => f.int64(),
        topics => f.list(topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn offset_fetch(f: &mut Filler<'_>) -> offset_fetch::OffsetFetchRequest {
    let v = f.version;
    let topic = |f: &mut Filler<'_>| {
        fill!(offset_fetch::OffsetFetchRequestTopic {
            name => f.text().into(),
            partition_indexes => f.list(Filler::int32),
            unknown_tagged_fields => f.tags(),
        })
    };
    let group_topic = |f: &mut Filler<'_>| {
        fill!(offset_fetch::OffsetFetchRequestTopics {
            name => f.text().into(),
            partition_indexes => f.list(Filler::int32),
            unknown_tagged_fields => f.tags(),
        })
    };
    let group = |f: &mut Filler<'_>| {
        fill!(offset_fetch::OffsetFetchRequestGroup {
            group_id => f.text().into(),
            member_id if v >= 9 => f.some_text(),
            member_epoch if v >= 9 => f.int32(),
            topics => f.some_list(group_topic),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(offset_fetch::OffsetFetchRequest {
        group_id if v <= 7 => f.text().into(),
        topics if v <= 7 => Some(f.list(topic)),
        topics if (2..=7).contains(&v) => f.some_list(topic),
        groups if v >= 8 => f.list(group),
        require_stable if v >= 7 => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn find_coordinator(f: &mut Filler<'_>) -> find_coordinator::FindCoordinatorRequest {
    let v = f.version;
    fill!(find_coordinator::FindCoordinatorRequest {
        key if v <= 3 => f.text(),
        key_type if v >= 1 => f.int8(),
        coordinator_keys if v >= 4 => f.list(Filler::text),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn join_group(f: &mut Filler<'_>) -> join::JoinGroupRequest {
    let v = f.version;
    let protocol = |f: &mut Filler<'_>| {
        fill!(join::JoinGroupRequestProtocol {
            name => f.text(),
            metadata => f.blob(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(join::JoinGroupRequest {
        group_id => f.text().into(),
        session_timeout_ms => f.int32(),
        rebalance_timeout_ms if v >= 1 => f.int32(),
        member_id => f.text(),
        group_instance_id if v >= 5 => f.some_text(),
        protocol_type => f.text(),
        protocols => f.list(protocol),
        reason if v >= 8 => f.some_text(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn heartbeat(f: &mut Filler<'_>) -> heartbeats::HeartbeatRequest {
    let v = f.version;
    fill!(heartbeats::HeartbeatRequest {
        group_id => f.text().into(),
        generation_id => f.int32(),
        member_id => f.text(),
        group_instance_id if v >= 3 => f.some_text(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn leave_group(f: &mut Filler<'_>) -> leave::LeaveGroupRequest {
    let v = f.version;
    let member = |f: &mut Filler<'_>| {
        fill!(leave::MemberIdentity {
            member_id => f.text(),
            group_instance_id => f.some_text(),
            reason if v >= 5 => f.some_text(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(leave::LeaveGroupRequest {
        group_id => f.text().into(),
        member_id if v <= 2 => f.text(),
        members if v >= 3 => f.list(member),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn sync_group(f: &mut Filler<'_>) -> sync::SyncGroupRequest {
    let v = f.version;
    let assignment = |f: &mut Filler<'_>| {
        fill!(sync::SyncGroupRequestAssignment {
            member_id => f.text(),
            assignment => f.blob(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(sync::SyncGroupRequest {
        group_id => f.text().into(),
        generation_id => f.int32(),
        member_id => f.text(),
        group_instance_id if v >= 3 => f.some_text(),
        protocol_type if v >= 5 => f.some_text(),
        protocol_name if v >= 5 => f.some_text(),
        assignments => f.list(assignment),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn describe_groups(f: &mut Filler<'_>) -> describe_groups::DescribeGroupsRequest {
    let v = f.version;
    fill!(describe_groups::DescribeGroupsRequest {
        groups => f.list(|f| f.text().into()),
        include_authorized_operations if v >= 3 => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn list_groups(f: &mut Filler<'_>) -> list_groups::ListGroupsRequest {
    let v = f.version;
    fill!(list_groups::ListGroupsRequest {
        states_filter if v >= 4 => f.list(Filler::text),
        types_filter if v >= 5 => f.list(Filler::text),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn api_versions(f: &mut Filler<'_>) -> api_versions::ApiVersionsRequest {
    let v = f.version;
    fill!(api_versions::ApiVersionsRequest {
        client_software_name if v >= 3 => f.text(),
        client_software_version if v >= 3 => f.text(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn create_topics(f: &mut Filler<'_>) -> create_topics::CreateTopicsRequest {
    let assignment = |f: &mut Filler<'_>| {
        fill!(create_topics::CreatableReplicaAssignment {
            partition_index => f.int32(),
            broker_ids => f.list(|f| f.int32().into()),
            unknown_tagged_fields => f.tags(),
        })
    };
    let config = |f: &mut Filler<'_>| {
        fill!(create_topics::CreatableTopicConfig {
            name => f.text(),
            value => f.some_text(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(create_topics::CreatableTopic {
            name => f.text().into(),
            num_partitions => f.int32(),
            replication_factor => f.int16(),
            assignments => f.list(assignment),
            configs => f.list(config),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(create_topics::CreateTopicsRequest {
        topics => f.list(topic),
        timeout_ms => f.int32(),
        validate_only => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn delete_topics(f: &mut Filler<'_>) -> delete_topics::DeleteTopicsRequest {
    let v = f.version;
    let state = |f: &mut Filler<'_>| {
        fill!(delete_topics::DeleteTopicState {
            name => f.some_text().map(Into::into),
            topic_id => f.uuid(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(delete_topics::DeleteTopicsRequest {
        topics if v >= 6 => f.list(state),
        topic_names if v <= 5 => f.list(|f| f.text().into()),
        timeout_ms => f.int32(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn delete_records(f: &mut Filler<'_>) -> delete_records::DeleteRecordsRequest {
    let partition = |f: &mut Filler<'_>| {
        fill!(delete_records::DeleteRecordsPartition {
            partition_index => f.int32(),
            offset => f.int64(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(delete_records::DeleteRecordsTopic {
            name => f.text().into(),
            partitions => f.list(partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(delete_records::DeleteRecordsRequest {
        topics => f.list(topic),
        timeout_ms => f.int32(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn init_producer_id(f: &mut Filler<'_>) -> init_producer_id::InitProducerIdRequest {
    let v = f.version;
    fill!(init_producer_id::InitProducerIdRequest {
        transactional_id => f.some_text().map(Into::into),
        transaction_timeout_ms => f.int32(),
        producer_id if v >= 3 => f.int64().into(),
        producer_epoch if v >= 3 => f.int16(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn leader_epoch(f: &mut Filler<'_>) -> leader_epoch::OffsetForLeaderEpochRequest {
    let v = f.version;
    let partition = |f: &mut Filler<'_>| {
        fill!(leader_epoch::OffsetForLeaderPartition {
            partition => f.int32(),
            current_leader_epoch => f.int32(),
            leader_epoch => f.int32(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(leader_epoch::OffsetForLeaderTopic {
            topic => f.text().into(),
            partitions => f.list(partition),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(leader_epoch::OffsetForLeaderEpochRequest {
        replica_id if v >= 3 => f.int32().into(),
        topics => f.list(topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn describe_configs(f: &mut Filler<'_>) -> describe_configs::DescribeConfigsRequest {
    let v = f.version;
    let resource = |f: &mut Filler<'_>| {
        fill!(describe_configs::DescribeConfigsResource {
            resource_type => f.int8(),
            resource_name => f.text(),
            configuration_keys => f.some_list(Filler::text),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(describe_configs::DescribeConfigsRequest {
        resources => f.list(resource),
        include_synonyms => f.bool(),
        include_documentation if v >= 3 => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn alter_configs(f: &mut Filler<'_>) -> alter::AlterConfigsRequest {
    let config = |f: &mut Filler<'_>| {
        fill!(alter::AlterableConfig {
            name => f.text(),
            value => f.some_text(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let resource = |f: &mut Filler<'_>| {
        fill!(alter::AlterConfigsResource {
            resource_type => f.int8(),
            resource_name => f.text(),
            configs => f.list(config),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(alter::AlterConfigsRequest {
        resources => f.list(resource),
        validate_only => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn incremental(f: &mut Filler<'_>) -> incremental::IncrementalAlterConfigsRequest {
    let config = |f: &mut Filler<'_>| {
        fill!(incremental::AlterableConfig {
            name => f.text(),
            config_operation => f.int8(),
            value => f.some_text(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let resource = |f: &mut Filler<'_>| {
        fill!(incremental::AlterConfigsResource {
            resource_type => f.int8(),
            resource_name => f.text(),
            configs => f.list(config),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(incremental::IncrementalAlterConfigsRequest {
        resources => f.list(resource),
        validate_only => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn describe_log_dirs(f: &mut Filler<'_>) -> describe_log_dirs::DescribeLogDirsRequest {
    let topic = |f: &mut Filler<'_>| {
        fill!(describe_log_dirs::DescribableLogDirTopic {
            topic => f.text().into(),
            partitions => f.list(Filler::int32),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(describe_log_dirs::DescribeLogDirsRequest {
        topics => f.some_list(topic),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn create_partitions(f: &mut Filler<'_>) -> create_partitions::CreatePartitionsRequest {
    let assignment = |f: &mut Filler<'_>| {
        fill!(create_partitions::CreatePartitionsAssignment {
            broker_ids => f.list(|f| f.int32().into()),
            unknown_tagged_fields => f.tags(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(create_partitions::CreatePartitionsTopic {
            name => f.text().into(),
            count => f.int32(),
            assignments => f.some_list(assignment),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(create_partitions::CreatePartitionsRequest {
        topics => f.list(topic),
        timeout_ms => f.int32(),
        validate_only => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn delete_groups(f: &mut Filler<'_>) -> delete_groups::DeleteGroupsRequest {
    fill!(delete_groups::DeleteGroupsRequest {
        groups_names => f.list(|f| f.text().into()),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn offset_delete(f: &mut Filler<'_>) -> offset_delete::OffsetDeleteRequest {
    let partition = |f: &mut Filler<'_>| {
        fill!(offset_delete::OffsetDeleteRequestPartition {
            partition_index => f.int32(),
        })
    };
    let topic = |f: &mut Filler<'_>| {
        fill!(offset_delete::OffsetDeleteRequestTopic {
            name => f.text().into(),
            partitions => f.list(partition),
        })
    };
    fill!(offset_delete::OffsetDeleteRequest {
        group_id => f.text().into(),
        topics => f.list(topic),
    })
}

pub(crate) fn describe_cluster(f: &mut Filler<'_>) -> describe_cluster::DescribeClusterRequest {
    let v = f.version;
    fill!(describe_cluster::DescribeClusterRequest {
        include_cluster_authorized_operations => f.bool(),
        endpoint_type if v >= 1 => f.int8(),
        include_fenced_brokers if v >= 2 => f.bool(),
        unknown_tagged_fields => f.tags(),
    })
}

pub(crate) fn describe_topic_partitions(
    f: &mut Filler<'_>,
) -> describe_topic_partitions::DescribeTopicPartitionsRequest {
    let topic = |f: &mut Filler<'_>| {
        fill!(describe_topic_partitions::TopicRequest {
            name => f.text().into(),
            unknown_tagged_fields => f.tags(),
        })
    };
    let cursor = |f: &mut Filler<'_>| {
        fill!(describe_topic_partitions::Cursor {
            topic_name => f.text().into(),
            partition_index => f.int32(),
            unknown_tagged_fields => f.tags(),
        })
    };
    fill!(describe_topic_partitions::DescribeTopicPartitionsRequest {
        topics => f.list(topic),
        response_partition_limit => f.int32(),
        cursor => f.bool().then(|| cursor(f)),
        unknown_tagged_fields => f.tags(),
    })
}
