//! Which APIs are served, in which versions (SEMANTICS 1, rules ).

use kafka_protocol::messages as m;
use kafka_protocol::protocol::Message;

macro_rules! apis {
    ($($name:ident = $key:literal, $request:ident, min $min:literal, flexible $flexible:literal;)*) => {
        /// An API that the broker serves completely.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the names are Kafka's, and say it")]
        pub enum Api { $($name,)* }

        const SERVED: &[ServedApi] = &[$(ServedApi {
            api: Api::$name,
            name: stringify!($name),
            key: $key,
            min: $min,
            max: <m::$request as Message>::VERSIONS.max,
            first_flexible: $flexible,
        },)*];
    };
}

// `min` is the recommendation of SEMANTICS 1.2; the newest version is what the codec knows.
apis! {
    Produce = 0, ProduceRequest, min 3, flexible 9;
    Fetch = 1, FetchRequest, min 4, flexible 12;
    ListOffsets = 2, ListOffsetsRequest, min 1, flexible 6;
    Metadata = 3, MetadataRequest, min 0, flexible 9;
    OffsetCommit = 8, OffsetCommitRequest, min 2, flexible 8;
    OffsetFetch = 9, OffsetFetchRequest, min 1, flexible 6;
    FindCoordinator = 10, FindCoordinatorRequest, min 0, flexible 3;
    JoinGroup = 11, JoinGroupRequest, min 0, flexible 6;
    Heartbeat = 12, HeartbeatRequest, min 0, flexible 4;
    LeaveGroup = 13, LeaveGroupRequest, min 0, flexible 4;
    SyncGroup = 14, SyncGroupRequest, min 0, flexible 4;
    DescribeGroups = 15, DescribeGroupsRequest, min 0, flexible 5;
    ListGroups = 16, ListGroupsRequest, min 0, flexible 3;
    ApiVersions = 18, ApiVersionsRequest, min 0, flexible 3;
    CreateTopics = 19, CreateTopicsRequest, min 2, flexible 5;
    DeleteTopics = 20, DeleteTopicsRequest, min 1, flexible 4;
    DeleteRecords = 21, DeleteRecordsRequest, min 0, flexible 2;
    InitProducerId = 22, InitProducerIdRequest, min 0, flexible 2;
    OffsetForLeaderEpoch = 23, OffsetForLeaderEpochRequest, min 2, flexible 4;
    AddPartitionsToTxn = 24, AddPartitionsToTxnRequest, min 0, flexible 3;
    AddOffsetsToTxn = 25, AddOffsetsToTxnRequest, min 0, flexible 3;
    EndTxn = 26, EndTxnRequest, min 0, flexible 3;
    WriteTxnMarkers = 27, WriteTxnMarkersRequest, min 1, flexible 1;
    TxnOffsetCommit = 28, TxnOffsetCommitRequest, min 0, flexible 3;
    DescribeConfigs = 32, DescribeConfigsRequest, min 1, flexible 4;
    AlterConfigs = 33, AlterConfigsRequest, min 0, flexible 2;
    DescribeLogDirs = 35, DescribeLogDirsRequest, min 1, flexible 2;
    CreatePartitions = 37, CreatePartitionsRequest, min 0, flexible 2;
    DeleteGroups = 42, DeleteGroupsRequest, min 0, flexible 2;
    IncrementalAlterConfigs = 44, IncrementalAlterConfigsRequest, min 0, flexible 1;
    OffsetDelete = 47, OffsetDeleteRequest, min 0, flexible 32767;
    DescribeCluster = 60, DescribeClusterRequest, min 0, flexible 0;
    DescribeProducers = 61, DescribeProducersRequest, min 0, flexible 0;
    DescribeTransactions = 65, DescribeTransactionsRequest, min 0, flexible 0;
    ListTransactions = 66, ListTransactionsRequest, min 0, flexible 0;
    DescribeTopicPartitions = 75, DescribeTopicPartitionsRequest, min 0, flexible 0;
}

/// One row of the table of APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedApi {
    /// Which.
    pub api: Api,
    /// Kafka's name.
    pub name: &'static str,
    /// Number on the wire.
    pub key: i16,
    /// Oldest version that is served (inclusive).
    pub min: i16,
    /// Newest version that is served (inclusive).
    pub max: i16,
    /// First version with the flexible encoding (W-4).
    pub first_flexible: i16,
}

impl ServedApi {
    /// The minimum that ApiVersions tells: old librdkafka reads "can compress" from a range of
    /// Produce that reaches down to 0.
    pub fn advertised_min(&self) -> i16 {
        if self.api == Api::Produce {
            0
        } else {
            self.min
        }
    }

    /// True for a version that is served.
    pub fn serves(&self, version: i16) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// True when the version has the flexible encoding.
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.first_flexible
    }

    /// Version of the response header; ApiVersions always answers with version 0 (W-3).
    pub fn response_header_version(&self, version: i16) -> i16 {
        i16::from(self.api != Api::ApiVersions && self.is_flexible(version))
    }
}

/// All APIs that are served, by ascending key.
pub fn served_apis() -> &'static [ServedApi] {
    SERVED
}

/// The row of an API key; `None` when it is not served.
pub fn served(key: i16) -> Option<&'static ServedApi> {
    SERVED
        .binary_search_by_key(&key, |row| row.key)
        .ok()
        .map(|at| &SERVED[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::ApiKey;

    #[test]
    fn the_table_is_sorted_and_agrees_with_the_codec() {
        assert!(SERVED.windows(2).all(|w| w[0].key < w[1].key));
        for row in SERVED {
            let key = ApiKey::try_from(row.key).unwrap();
            for version in row.min..=row.max {
                assert_eq!(
                    key.request_header_version(version),
                    if row.is_flexible(version) { 2 } else { 1 },
                    "{} {version}",
                    row.name
                );
                assert_eq!(
                    key.response_header_version(version),
                    row.response_header_version(version),
                    "{} {version}",
                    row.name
                );
            }
        }
    }

    //
    #[test]
    fn ranges_that_old_clients_look_at() {
        assert_eq!(served(0).unwrap().advertised_min(), 0);
        assert_eq!(served(11).unwrap().advertised_min(), 0);
        assert!(
            served(68).is_none(),
            "groups of the new protocol are not served"
        );
        assert_eq!((served(8).unwrap().max, served(9).unwrap().max), (9, 9));
    }
}
