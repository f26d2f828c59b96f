//! Every API in every version that is served, against the real binary: the response must decode to
//! its last byte and say what it should.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod authorized_operations;
mod auto_creation;
mod broker_configs;
mod client;
mod endings;
mod group_answers;
mod groups;
mod kept_frames;
mod many_groups;
mod offset_delete;
mod topic_pages;
mod transaction_ends;
mod transactions;

use bytes::Bytes;
use client::{Broker, text, topic_name};
use strandline_records::{BatchBuilder, Compression, Records, records};
use strandline_types::TimestampType;
use strandline_wire::messages as m;
use strandline_wire::served_apis;

fn versions(name: &str) -> std::ops::RangeInclusive<i16> {
    let api = served_apis().iter().find(|a| a.name == name).unwrap();
    api.min..=api.max
}

const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn batch(codec: Compression, count: i64, from_ms: i64) -> Bytes {
    let mut builder = BatchBuilder::new(codec, TimestampType::CreateTime, 0);
    for i in 0..count {
        let value = format!("value {i}").repeat(20);
        builder
            .append(from_ms + i, Some(b"key"), Some(value.as_bytes()), &[])
            .unwrap();
    }
    builder.build().unwrap().to_bytes()
}

fn create_topic(
    broker: &Broker,
    version: i16,
    name: &str,
    partitions: i32,
) -> m::CreateTopicsResponse {
    let topic = m::create_topics_request::CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(1);
    let request = m::CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000);
    broker.call(version, &request)
}

fn topic_id(broker: &Broker, name: &str) -> uuid::Uuid {
    let topic =
        m::metadata_request::MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let response: m::MetadataResponse = broker.call(
        12,
        &m::MetadataRequest::default().with_topics(Some(vec![topic])),
    );
    response.topics[0].topic_id
}

fn produce(broker: &Broker, version: i16, name: &str, records: Bytes) -> (i16, i64) {
    let partition = m::produce_request::PartitionProduceData::default()
        .with_index(0)
        .with_records(Some(records));
    let mut topic =
        m::produce_request::TopicProduceData::default().with_partition_data(vec![partition]);
    if version >= 13 {
        topic.topic_id = topic_id(broker, name);
    } else {
        topic.name = topic_name(name);
    }
    let request = m::ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(5000)
        .with_topic_data(vec![topic]);
    let response: m::ProduceResponse = broker.call(version, &request);
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}

fn fetch(broker: &Broker, version: i16, name: &str, offset: i64) -> m::FetchResponse {
    broker.call(version, &fetch_request(broker, version, name, offset))
}

fn fetch_request(broker: &Broker, version: i16, name: &str, offset: i64) -> m::FetchRequest {
    let partition = m::fetch_request::FetchPartition::default()
        .with_partition(0)
        .with_fetch_offset(offset)
        .with_current_leader_epoch(-1)
        .with_partition_max_bytes(1 << 20);
    let mut topic = m::fetch_request::FetchTopic::default().with_partitions(vec![partition]);
    if version >= 13 {
        topic.topic_id = topic_id(broker, name);
    } else {
        topic.topic = topic_name(name);
    }
    let mut request = m::FetchRequest::default()
        .with_max_wait_ms(10)
        .with_min_bytes(1)
        .with_max_bytes(10 << 20)
        .with_topics(vec![topic])
        .with_isolation_level(1);
    if version < 15 {
        request.replica_id = (-1).into();
    }
    if version >= 7 {
        request.session_epoch = -1;
    }
    request
}

fn read_batches(mut bytes: Bytes) -> Vec<Records> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let size = strandline_records::BatchHeader::parse(&bytes)
            .unwrap()
            .size_in_bytes();
        let batch = strandline_records::Batch::from_bytes(bytes.split_to(size)).unwrap();
        batch.verify_crc().unwrap();
        out.push(records(&batch, 1 << 20).unwrap());
    }
    out
}

#[test]
fn api_versions() {
    let broker = Broker::start(&[]);
    for version in versions("ApiVersions") {
        let request = m::ApiVersionsRequest::default()
            .with_client_software_name(text(if version >= 3 { "test" } else { "" }))
            .with_client_software_version(text(if version >= 3 { "1" } else { "" }));
        let response: m::ApiVersionsResponse = broker.call(version, &request);
        assert_eq!(
            (response.error_code, response.api_keys.len()),
            (0, served_apis().len())
        );
        if version >= 3 {
            // what Java and franz-go choose their protocol by (5.9).
            let finalized = response.finalized_features.iter();
            let finalized: Vec<_> = finalized
                .map(|f| (f.name.as_str(), f.min_version_level, f.max_version_level))
                .collect();
            assert_eq!(finalized, [("transaction.version", 2, 2)]);
            assert!(response.finalized_features_epoch >= 0);
            // The one with a minimum of 0 is told to those who can take it.
            assert_eq!(response.supported_features.len(), usize::from(version >= 4));
        }
    }
    // an unknown version is answered in version 0, with a list.
    let response: m::ApiVersionsResponse = broker.call_raw(18, 127, 0, 0, &[]);
    assert_eq!(response.error_code, 35);
    assert!(
        response
            .api_keys
            .iter()
            .any(|k| k.api_key == 18 && k.max_version == 4)
    );
    // W-11: a bad name is an error on a connection that stays open.
    let mut connection = broker.connect();
    let bad = m::ApiVersionsRequest::default()
        .with_client_software_name(text("a b"))
        .with_client_software_version(text("1"));
    let response: m::ApiVersionsResponse = connection.call(3, &bad);
    assert_eq!(response.error_code, 42);
    let response: m::MetadataResponse = connection.call(1, &m::MetadataRequest::default());
    assert_eq!(response.brokers.len(), 1);
}

#[test]
fn topics_and_metadata() {
    let broker = Broker::start(&[]);
    for version in versions("CreateTopics") {
        let name = format!("created-{version}");
        let response = create_topic(&broker, version, &name, 2);
        let topic = &response.topics[0];
        assert_eq!(topic.error_code, 0, "{version}: {:?}", topic.error_message);
        if version >= 5 {
            // D-14, D-33
            assert_eq!((topic.num_partitions, topic.replication_factor), (2, 1));
            let configs = topic.configs.as_ref().unwrap();
            let retention = configs
                .iter()
                .find(|c| c.name.as_str() == "retention.ms")
                .unwrap();
            assert_eq!(retention.config_source, 5);
            assert!(configs.windows(2).all(|w| w[0].name < w[1].name));
        }
        if version >= 7 {
            assert_eq!(topic.topic_id, topic_id(&broker, &name));
        }
        assert_eq!(
            create_topic(&broker, version, &name, 2).topics[0].error_code,
            36
        ); // D-3
        assert_eq!(
            create_topic(&broker, version, "a/b", 1).topics[0].error_code,
            17
        ); // D-1
        assert_eq!(
            create_topic(&broker, version, "none", 0).topics[0].error_code,
            37
        ); // D-8
    }
    for version in versions("Metadata") {
        let all: m::MetadataResponse = broker.call(
            version,
            &m::MetadataRequest::default().with_topics(
                // all topics are an empty list in version 0, null later.
                if version == 0 { Some(vec![]) } else { None },
            ),
        );
        // "missing" exists once a version below 4, which always may, has asked for it.
        let topics = if version == 0 { 6 } else { 7 };
        assert_eq!(
            (all.brokers.len(), all.topics.len()),
            (1, topics),
            "{version}"
        );
        assert_eq!(all.topics[0].partitions.len(), 2);
        assert_eq!(all.topics[0].partitions[0].leader_id, 1);
        let missing = m::metadata_request::MetadataRequestTopic::default()
            .with_name(Some(topic_name("missing")));
        let request = m::MetadataRequest::default()
            .with_topics(Some(vec![missing]))
            .with_allow_auto_topic_creation(version < 4);
        let response: m::MetadataResponse = broker.call(version, &request);
        // created by the first who may, and known to the others.
        assert!(
            matches!(response.topics[0].error_code, 0 | 3 | 5),
            "{version}"
        );
    }
    for version in versions("CreatePartitions") {
        let topic = |name: &str, count| {
            m::create_partitions_request::CreatePartitionsTopic::default()
                .with_name(topic_name(name))
                .with_count(count)
                .with_assignments(None)
        };
        let count = 10 + i32::from(version);
        let request = m::CreatePartitionsRequest::default()
            .with_topics(vec![
                topic("created-2", count),
                topic("created-3", 1),
                topic("no", 9),
            ])
            .with_timeout_ms(5000);
        let response: m::CreatePartitionsResponse = broker.call(version, &request);
        let codes: Vec<i16> = response.results.iter().map(|r| r.error_code).collect();
        assert_eq!(codes, [0, 37, 3], "{version}");
    }
    for version in versions("DescribeTopicPartitions") {
        let request = m::DescribeTopicPartitionsRequest::default().with_response_partition_limit(5);
        let response: m::DescribeTopicPartitionsResponse = broker.call(version, &request);
        let described: usize = response.topics.iter().map(|t| t.partitions.len()).sum();
        assert_eq!(described, 5);
        let cursor = response.next_cursor.unwrap();
        assert_eq!(
            (cursor.topic_name.as_str(), cursor.partition_index),
            ("created-2", 5)
        );
    }
    for version in versions("DeleteTopics") {
        let name = format!("created-{}", version.max(2));
        let request = if version >= 6 {
            let by_id = m::delete_topics_request::DeleteTopicState::default()
                .with_name(None)
                .with_topic_id(topic_id(&broker, &name));
            m::DeleteTopicsRequest::default()
                .with_topics(vec![by_id])
                .with_timeout_ms(5000)
        } else {
            m::DeleteTopicsRequest::default()
                .with_topic_names(vec![topic_name(&name), topic_name("unknown")])
                .with_timeout_ms(5000)
        };
        let response: m::DeleteTopicsResponse = broker.call(version, &request);
        // Versions 1 and 2 delete the same topic.
        let expected = if version == 2 { 3 } else { 0 };
        assert_eq!(response.responses[0].error_code, expected, "{version}");
        if version < 6 {
            assert_eq!(response.responses[1].error_code, 3);
        }
    }
}

#[test]
fn produce_fetch_and_offsets() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    let mut end = 0;
    for version in versions("Produce") {
        for codec in CODECS {
            let answer = produce(&broker, version, "t", batch(codec, 3, 1_000_000 + end));
            if codec == Compression::Zstd && version < 7 {
                assert_eq!(answer, (76, -1), "P-6");
                continue;
            }
            assert_eq!(answer, (0, end), "{version} {codec:?}");
            end += 3;
        }
        // P-22
        let mut bad = batch(Compression::None, 1, 0).to_vec();
        *bad.last_mut().unwrap() ^= 1;
        assert_eq!(produce(&broker, version, "t", bad.into()), (2, -1));
    }
    for version in versions("Fetch") {
        let response = fetch(&broker, version, "t", 0);
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        assert_eq!(
            (partition.high_watermark, partition.last_stable_offset),
            (end, end)
        );
        let batches = read_batches(partition.records.clone().unwrap());
        let mut expected = 0;
        for record in batches.into_iter().flatten() {
            assert_eq!(record.unwrap().offset, expected);
            expected += 1;
        }
        assert_eq!(expected, end, "{version}");
        // F-20
        let beyond = fetch(&broker, version, "t", end + 1);
        assert_eq!(beyond.responses[0].partitions[0].error_code, 1);
        let at_end = fetch(&broker, version, "t", end);
        let records = at_end.responses[0].partitions[0].records.clone();
        assert_eq!(records, Some(Bytes::new()), "F-11");
    }
    for version in versions("ListOffsets") {
        let asked = |timestamp| {
            let partition = m::list_offsets_request::ListOffsetsPartition::default()
                .with_partition_index(0)
                .with_current_leader_epoch(-1)
                .with_timestamp(timestamp);
            let topic = m::list_offsets_request::ListOffsetsTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition]);
            let request = m::ListOffsetsRequest::default()
                .with_replica_id((-1).into())
                .with_topics(vec![topic]);
            let response: m::ListOffsetsResponse = broker.call(version, &request);
            let p = &response.topics[0].partitions[0];
            (p.error_code, p.offset, p.timestamp)
        };
        assert_eq!(asked(-1), (0, end, -1));
        assert_eq!(asked(-2), (0, 0, -1));
        let unsupported = (35, -1, -1); // O-1
        let last_ms = 1_000_000 + end - 1;
        assert_eq!(
            asked(-3),
            if version >= 7 {
                (0, end - 1, last_ms)
            } else {
                unsupported
            }
        );
        assert_eq!(
            asked(-4),
            if version >= 8 {
                (0, 0, -1)
            } else {
                unsupported
            }
        );
        assert_eq!(
            asked(-5),
            if version >= 9 {
                (0, -1, -1)
            } else {
                unsupported
            }
        );
        assert_eq!(asked(1_000_004), (0, 4, 1_000_004)); // O-5
        assert_eq!(asked(i64::MAX), (0, -1, -1));
    }
    for version in versions("OffsetForLeaderEpoch") {
        let partition = m::offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(-1)
            .with_leader_epoch(0);
        let topic = m::offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = m::OffsetForLeaderEpochRequest::default().with_topics(vec![topic]);
        let response: m::OffsetForLeaderEpochResponse = broker.call(version, &request);
        let answer = &response.topics[0].partitions[0];
        assert_eq!(
            (answer.error_code, answer.leader_epoch, answer.end_offset),
            (0, 0, end)
        );
    }
    for version in versions("DeleteRecords") {
        let partition = m::delete_records_request::DeleteRecordsPartition::default()
            .with_partition_index(0)
            .with_offset(i64::from(version) + 1);
        let topic = m::delete_records_request::DeleteRecordsTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = m::DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(1000);
        let response: m::DeleteRecordsResponse = broker.call(version, &request);
        let answer = &response.topics[0].partitions[0];
        assert_eq!(
            (answer.error_code, answer.low_watermark),
            (0, i64::from(version) + 1)
        );
    }
    let mut ids = std::collections::HashSet::new();
    for version in versions("InitProducerId") {
        let mut request = m::InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(1000);
        if version >= 3 {
            request = request
                .with_producer_id((-1).into())
                .with_producer_epoch(-1);
        }
        let response: m::InitProducerIdResponse = broker.call(version, &request);
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        assert!(ids.insert(response.producer_id.0), "T-5");
    }
}

// nothing of a deleted topic may meet a new one of its name, not even after a crash.
#[test]
fn a_topic_of_an_old_name_keeps_its_records_over_a_crash() {
    let broker = Broker::start(&["replica.high.watermark.checkpoint.interval.ms=50"]);
    create_topic(&broker, 5, "t", 1);
    for _ in 0..10 {
        produce(&broker, 7, "t", batch(Compression::None, 100, 1_000_000));
    }
    let partition = m::delete_records_request::DeleteRecordsPartition::default()
        .with_partition_index(0)
        .with_offset(900);
    let topic = m::delete_records_request::DeleteRecordsTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(vec![partition]);
    let request = m::DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(1000);
    let deleted: m::DeleteRecordsResponse = broker.call(2, &request);
    assert_eq!(deleted.topics[0].partitions[0].low_watermark, 900);
    broker.wait_for_text("log/log-start-offset-checkpoint", "t 0 900");
    // From here on no checkpoint comes by itself.
    let broker = broker.kill_and_restart(&[]);
    let request = m::DeleteTopicsRequest::default()
        .with_topic_names(vec![topic_name("t")])
        .with_timeout_ms(5000);
    let gone: m::DeleteTopicsResponse = broker.call(4, &request);
    assert_eq!(gone.responses[0].error_code, 0);
    create_topic(&broker, 5, "t", 1);
    let answer = produce(&broker, 7, "t", batch(Compression::None, 50, 1_000_000));
    assert_eq!(answer, (0, 0));
    let broker = broker.kill_and_restart(&[]);
    let response = fetch(&broker, 11, "t", 0);
    let partition = &response.responses[0].partitions[0];
    assert_eq!((partition.error_code, partition.high_watermark), (0, 50));
    assert_eq!(partition.log_start_offset, 0);
}

// F-23: a reader that is ahead on another branch learns where it left ours.
#[test]
fn divergence_is_told_before_out_of_range() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    produce(&broker, 7, "t", batch(Compression::None, 10, 1_000_000));
    let partition = m::fetch_request::FetchPartition::default()
        .with_partition(0)
        .with_fetch_offset(15)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(0)
        .with_partition_max_bytes(1 << 20);
    let topic = m::fetch_request::FetchTopic::default()
        .with_topic(topic_name("t"))
        .with_partitions(vec![partition]);
    let request = m::FetchRequest::default()
        .with_replica_id((-1).into())
        .with_session_epoch(-1)
        .with_max_bytes(1 << 20)
        .with_topics(vec![topic]);
    let response: m::FetchResponse = broker.call(12, &request);
    let partition = &response.responses[0].partitions[0];
    let at = (
        partition.diverging_epoch.epoch,
        partition.diverging_epoch.end_offset,
    );
    assert_eq!((partition.error_code, at), (0, (0, 10)));
}

#[test]
fn configs_and_cluster() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    let describe = |version: i16, kind: i8, name: &str| {
        let resource = m::describe_configs_request::DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configuration_keys(None);
        let request = m::DescribeConfigsRequest::default()
            .with_resources(vec![resource])
            .with_include_synonyms(true);
        let mut response: m::DescribeConfigsResponse = broker.call(version, &request);
        response.results.remove(0)
    };
    let value_of = |key: &str| {
        let result = describe(4, 2, "t");
        let entry = result
            .configs
            .iter()
            .find(|c| c.name.as_str() == key)
            .unwrap();
        (
            entry.value.as_ref().map(|v| v.as_str().to_owned()),
            entry.config_source,
        )
    };
    for version in versions("DescribeConfigs") {
        assert_eq!(describe(version, 2, "t").error_code, 0);
        assert_eq!(describe(version, 2, "missing").error_code, 3); // D-32
        assert_eq!(describe(version, 4, "1").error_code, 0);
        assert_eq!(describe(version, 4, "").error_code, 0);
        assert_eq!(describe(version, 4, "7").error_code, 42); // D-31
    }
    for version in versions("IncrementalAlterConfigs") {
        use m::incremental_alter_configs_request as r;
        let alter = |key: &str, op: i8, value: &str| {
            let config = r::AlterableConfig::default()
                .with_name(text(key))
                .with_config_operation(op)
                .with_value(Some(text(value)));
            let resource = r::AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name(text("t"))
                .with_configs(vec![config]);
            let request =
                m::IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
            let response: m::IncrementalAlterConfigsResponse = broker.call(version, &request);
            response.responses[0].error_code
        };
        assert_eq!(alter("retention.ms", 0, "123456"), 0);
        assert_eq!(value_of("retention.ms"), (Some("123456".to_owned()), 1));
        assert_eq!(alter("retention.ms", 1, ""), 0);
        assert_eq!(value_of("retention.ms").1, 5);
        // D-43 and PEERS 2.14: nothing is swallowed.
        assert_eq!(alter("foo", 0, "bar"), 40);
        assert_eq!(alter("cleanup.policy", 0, "banana"), 40);
        assert_eq!(alter("retention.ms", 2, "1"), 40); // D-41
    }
    for version in versions("AlterConfigs") {
        use m::alter_configs_request as r;
        let config = r::AlterableConfig::default()
            .with_name(text("segment.ms"))
            .with_value(Some(text("9999")));
        let resource = r::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let request = m::AlterConfigsRequest::default().with_resources(vec![resource]);
        let response: m::AlterConfigsResponse = broker.call(version, &request);
        assert_eq!(response.responses[0].error_code, 0);
        assert_eq!(value_of("segment.ms"), (Some("9999".to_owned()), 1));
    }
    for version in versions("DescribeCluster") {
        let request = m::DescribeClusterRequest::default().with_endpoint_type(if version >= 1 {
            1
        } else {
            0
        });
        let request = if version >= 1 {
            request
        } else {
            m::DescribeClusterRequest::default()
        };
        let response: m::DescribeClusterResponse = broker.call(version, &request);
        assert_eq!((response.error_code, response.brokers.len()), (0, 1));
        assert_eq!(response.cluster_id.len(), 22);
    }
    for version in versions("DescribeLogDirs") {
        let request = m::DescribeLogDirsRequest::default().with_topics(None);
        let response: m::DescribeLogDirsResponse = broker.call(version, &request);
        assert_eq!(response.results[0].topics[0].name.as_str(), "t");
        if version >= 4 {
            assert!(response.results[0].total_bytes > 0);
        }
    }
}
