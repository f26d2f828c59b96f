//! The table of each request that is served.
//!
//! Fields and versions are those of the codec. Where Kafka allows null only from some version on,
//! a field has two rows.

mod admin;
mod groups;
mod records;
mod transactions;

use super::schema::Struct;
use crate::api::Api;

/// The table of an API's request.
pub(super) fn request(api: Api) -> &'static Struct {
    match api {
        Api::Produce => &records::PRODUCE,
        Api::Fetch => &records::FETCH,
        Api::ListOffsets => &records::LIST_OFFSETS,
        Api::OffsetForLeaderEpoch => &records::OFFSET_FOR_LEADER_EPOCH,
        Api::DeleteRecords => &records::DELETE_RECORDS,
        Api::InitProducerId => &records::INIT_PRODUCER_ID,
        Api::AddPartitionsToTxn => &transactions::ADD_PARTITIONS_TO_TXN,
        Api::AddOffsetsToTxn => &transactions::ADD_OFFSETS_TO_TXN,
        Api::EndTxn => &transactions::END_TXN,
        Api::WriteTxnMarkers => &transactions::WRITE_TXN_MARKERS,
        Api::TxnOffsetCommit => &transactions::TXN_OFFSET_COMMIT,
        Api::DescribeProducers => &transactions::DESCRIBE_PRODUCERS,
        Api::DescribeTransactions => &transactions::DESCRIBE_TRANSACTIONS,
        Api::ListTransactions => &transactions::LIST_TRANSACTIONS,
        Api::OffsetCommit => &groups::OFFSET_COMMIT,
        Api::OffsetFetch => &groups::OFFSET_FETCH,
        Api::OffsetDelete => &groups::OFFSET_DELETE,
        Api::FindCoordinator => &groups::FIND_COORDINATOR,
        Api::JoinGroup => &groups::JOIN_GROUP,
        Api::Heartbeat => &groups::HEARTBEAT,
        Api::LeaveGroup => &groups::LEAVE_GROUP,
        Api::SyncGroup => &groups::SYNC_GROUP,
        Api::DescribeGroups => &groups::DESCRIBE_GROUPS,
        Api::ListGroups => &groups::LIST_GROUPS,
        Api::DeleteGroups => &groups::DELETE_GROUPS,
        Api::ApiVersions => &admin::API_VERSIONS,
        Api::Metadata => &admin::METADATA,
        Api::CreateTopics => &admin::CREATE_TOPICS,
        Api::DeleteTopics => &admin::DELETE_TOPICS,
        Api::CreatePartitions => &admin::CREATE_PARTITIONS,
        Api::DescribeConfigs => &admin::DESCRIBE_CONFIGS,
        Api::AlterConfigs => &admin::ALTER_CONFIGS,
        Api::IncrementalAlterConfigs => &admin::INCREMENTAL_ALTER_CONFIGS,
        Api::DescribeLogDirs => &admin::DESCRIBE_LOG_DIRS,
        Api::DescribeCluster => &admin::DESCRIBE_CLUSTER,
        Api::DescribeTopicPartitions => &admin::DESCRIBE_TOPIC_PARTITIONS,
    }
}
