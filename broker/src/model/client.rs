//! The requests of a history, each with its answer in short.

use std::time::{Duration, Instant};

use bytes::Bytes;
use strandline_records::Batch;
use strandline_types::{Offset, TRANSACTION_STATE_TOPIC};
use strandline_wire::messages as m;
use strandline_wire::{ErrorCode, StrBytes};

use crate::model::plan::{
    APPEND_TIME, COMPACTED, DELETE_RETENTION_MS, PLAIN, Setup, TIERED, TOPICS,
    TRANSACTION_TIMEOUT_MS,
};
use crate::model::world::World;

/// A producer id and an epoch.
pub(super) type Pid = (i64, i16);
/// An error code as it is on the wire.
pub(super) type Code = i16;

/// Answers that mean "a moment": the coordinator is being loaded, or the last end is under way.
const LATER: [ErrorCode; 4] = [
    ErrorCode::CoordinatorLoadInProgress,
    ErrorCode::CoordinatorNotAvailable,
    ErrorCode::NotCoordinator,
    ErrorCode::ConcurrentTransactions,
];

/// How long something may take that is under way, on a machine however loaded.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the wait for what does not come.
pub(super) struct Patience(Instant);

impl Patience {
    pub(super) fn begin() -> Self {
        Self(Instant::now() + PATIENCE)
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() > self.0
    }
}

/// What a fetch of one partition gave.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) code: Code,
    pub(super) high_watermark: Offset,
    pub(super) last_stable: Offset,
    pub(super) log_start: Offset,
    /// Producer and first offset; `None` for null.
    pub(super) aborted: Option<Vec<(i64, Offset)>>,
    pub(super) batches: Vec<Batch>,
}

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

fn name(topic: usize) -> m::TopicName {
    m::TopicName(text(TOPICS[topic]))
}

pub(super) fn transactional_id(which: usize) -> String {
    format!("transactional-{which}")
}

fn wire_id(which: usize) -> m::TransactionalId {
    m::TransactionalId(text(&transactional_id(which)))
}

impl World {
    /// The first answers are that it is not there yet, or that it is being loaded.
    pub(super) async fn wait_for_group_coordinator(&self, group: &str) {
        let patience = Patience::begin();
        loop {
            let request = m::FindCoordinatorRequest::default().with_key(text(group));
            let found: m::FindCoordinatorResponse = self.call(1, &request).await;
            let request = m::DescribeGroupsRequest::default().with_groups(vec![text(group).into()]);
            let described: m::DescribeGroupsResponse = self.call(0, &request).await;
            if (found.error_code, described.groups[0].error_code) == (0, 0) {
                return;
            }
            assert!(!patience.is_over(), "no coordinator");
            tokio::task::yield_now().await;
        }
    }

    /// Creates the topics, and waits for the coordinator of transactions.
    pub(super) async fn prepare(&self, setup: &Setup) {
        let of = |at: usize, pairs: &[(&str, String)]| {
            let config = |(name, value): &(&str, String)| {
                m::create_topics_request::CreatableTopicConfig::default()
                    .with_name(text(name))
                    .with_value(Some(text(value)))
            };
            m::create_topics_request::CreatableTopic::default()
                .with_name(name(at))
                .with_num_partitions(1)
                .with_replication_factor(1)
                .with_configs(pairs.iter().map(config).collect())
        };
        let limits = [
            ("retention.ms", setup.retention_ms.to_string()),
            ("retention.bytes", setup.retention_bytes.to_string()),
        ];
        let tiered = [
            limits.to_vec(),
            vec![
                ("remote.storage.enable", "true".to_owned()),
                (
                    "local.retention.bytes",
                    local(setup.local_retention_bytes, setup.retention_bytes).to_string(),
                ),
            ],
        ]
        .concat();
        let compacted = [
            ("cleanup.policy", "compact".to_owned()),
            ("min.cleanable.dirty.ratio", "0".to_owned()),
            ("delete.retention.ms", DELETE_RETENTION_MS.to_string()),
        ];
        let plain = [
            limits.to_vec(),
            vec![("remote.storage.enable", "false".to_owned())],
        ]
        .concat();
        let stamp = ("message.timestamp.type", "LogAppendTime".to_owned());
        let append_time = [tiered.clone(), vec![stamp]].concat();
        let topics = vec![
            of(COMPACTED, &compacted),
            of(TIERED, &tiered),
            of(PLAIN, &plain),
            of(APPEND_TIME, &append_time),
        ];
        let request = m::CreateTopicsRequest::default()
            .with_topics(topics)
            .with_timeout_ms(10_000);
        let answer: m::CreateTopicsResponse = self.call(5, &request).await;
        for topic in &answer.topics {
            assert_eq!(topic.error_code, 0, "{topic:?}");
        }
        self.shrink_segments();
        let request = m::FindCoordinatorRequest::default()
            .with_key(text("any"))
            .with_key_type(1);
        self.patiently(async || {
            let answer: m::FindCoordinatorResponse = self.call(1, &request).await;
            (answer.error_code, ())
        })
        .await;
        assert!(
            self.broker()
                .replicas
                .by_name(TRANSACTION_STATE_TOPIC, 0)
                .is_ok()
        );
    }

    /// IncrementalAlterConfigs of one setting.
    pub(super) async fn set_config(&self, kind: i8, resource: &str, name: &str, value: i64) {
        use m::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
        let config = AlterableConfig::default()
            .with_name(text(name))
            .with_value(Some(text(&value.to_string())));
        let resource = AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(resource))
            .with_configs(vec![config]);
        let request = m::IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let answer: m::IncrementalAlterConfigsResponse = self.call(1, &request).await;
        for resource in &answer.responses {
            assert_eq!(resource.error_code, 0, "{resource:?}");
        }
    }

    /// DeleteTopics of all topics.
    pub(super) async fn delete_topics(&self) {
        let request = m::DeleteTopicsRequest::default()
            .with_topic_names((0..TOPICS.len()).map(name).collect())
            .with_timeout_ms(10_000);
        let answer: m::DeleteTopicsResponse = self.call(5, &request).await;
        for topic in &answer.responses {
            assert_eq!(topic.error_code, 0, "{topic:?}");
        }
    }

    /// Asks until the answer is not "later".
    pub(super) async fn patiently<T>(
        &self,
        mut attempt: impl AsyncFnMut() -> (Code, T),
    ) -> (Code, T) {
        let patience = Patience::begin();
        loop {
            let (code, value) = attempt().await;
            if !LATER.iter().any(|later| later.code() == code) {
                return (code, value);
            }
            assert!(!patience.is_over(), "it stays 'later'");
            tokio::task::yield_now().await;
        }
    }

    /// InitProducerId without an id.
    pub(super) async fn init_idempotent(&self) -> Pid {
        let request = m::InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(1);
        let answer: m::InitProducerIdResponse = self.call(1, &request).await;
        assert_eq!(answer.error_code, 0);
        (answer.producer_id.0, answer.producer_epoch)
    }

    /// InitProducerId of a transactional id.
    pub(super) async fn init(&self, which: usize) -> Pid {
        let request = m::InitProducerIdRequest::default()
            .with_transactional_id(Some(wire_id(which)))
            .with_transaction_timeout_ms(TRANSACTION_TIMEOUT_MS as i32)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let (code, pid) = self
            .patiently(async || {
                let answer: m::InitProducerIdResponse = self.call(4, &request).await;
                let pid = (answer.producer_id.0, answer.producer_epoch);
                (answer.error_code, pid)
            })
            .await;
        assert_eq!(code, 0, "InitProducerId");
        pid
    }

    /// AddPartitionsToTxn of the first generation.
    pub(super) async fn add(&self, which: usize, pid: Pid, topic: usize) -> Code {
        let topic = m::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
            .with_name(name(topic))
            .with_partitions(vec![0]);
        let request = m::AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(wire_id(which))
            .with_v3_and_below_producer_id(pid.0.into())
            .with_v3_and_below_producer_epoch(pid.1)
            .with_v3_and_below_topics(vec![topic]);
        let added = self.patiently(async || {
            let answer: m::AddPartitionsToTxnResponse = self.call(3, &request).await;
            let topic = &answer.results_by_topic_v3_and_below[0];
            let code = topic.results_by_partition[0].partition_error_code;
            (code, ())
        });
        added.await.0
    }

    /// As [`World::produce_once`], until the answer is not "later".
    pub(super) async fn produce(
        &self,
        version: i16,
        which: Option<usize>,
        topic: usize,
        records: Bytes,
    ) -> (Code, (Offset, i64)) {
        self.patiently(async || {
            let records = records.clone();
            let (code, at) = self.produce_once(version, which, topic, records).await;
            let code = match code {
                // P-72: what an older client is told when it must come back.
                code if code == ErrorCode::NotEnoughReplicas.code() => LATER[3].code(),
                code => code,
            };
            (code, at)
        })
        .await
    }

    /// Produce with acks=all; `which` is given for a transactional batch. The base offset, and the
    /// time that the broker gave.
    pub(super) async fn produce_once(
        &self,
        version: i16,
        which: Option<usize>,
        topic: usize,
        records: Bytes,
    ) -> (Code, (Offset, i64)) {
        let answer = self.produce_to(version, which, &[(topic, records)]).await;
        let partition = &answer.responses[0].partition_responses[0];
        let at = (partition.base_offset, partition.log_append_time_ms);
        (partition.error_code, at)
    }

    /// One Produce to several topics with acks=all, as it is answered.
    pub(super) async fn produce_to(
        &self,
        version: i16,
        which: Option<usize>,
        batches: &[(usize, Bytes)],
    ) -> m::ProduceResponse {
        let topic = |(topic, records): &(usize, Bytes)| {
            let partition = m::produce_request::PartitionProduceData::default()
                .with_index(0)
                .with_records(Some(records.clone()));
            m::produce_request::TopicProduceData::default()
                .with_name(name(*topic))
                .with_partition_data(vec![partition])
        };
        let request = m::ProduceRequest::default()
            .with_transactional_id(which.map(wire_id))
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(batches.iter().map(topic).collect());
        self.call(version, &request).await
    }

    /// EndTxn; from version 5 on the answer says who the producer is from now on.
    pub(super) async fn end(
        &self,
        version: i16,
        which: usize,
        pid: Pid,
        commit: bool,
    ) -> (Code, Pid) {
        let request = m::EndTxnRequest::default()
            .with_transactional_id(wire_id(which))
            .with_producer_id(pid.0.into())
            .with_producer_epoch(pid.1)
            .with_committed(commit);
        self.patiently(async || {
            let answer: m::EndTxnResponse = self.call(version, &request).await;
            let next = (answer.producer_id.0, answer.producer_epoch);
            (answer.error_code, next)
        })
        .await
    }

    /// One fetch, which does not wait.
    pub(super) async fn fetch(
        &self,
        topic: usize,
        committed: bool,
        offset: Offset,
        max_bytes: i32,
    ) -> Fetched {
        let topics = [(topic, offset)];
        let fetched = self.fetch_of(&topics, committed, (max_bytes, 10 << 20));
        fetched.await.remove(0)
    }

    /// The same of several topics; the limits are those of a partition and of all.
    pub(super) async fn fetch_of(
        &self,
        topics: &[(usize, Offset)],
        committed: bool,
        (partition_max_bytes, max_bytes): (i32, i32),
    ) -> Vec<Fetched> {
        let topic = |(topic, offset): &(usize, Offset)| {
            let partition = m::fetch_request::FetchPartition::default()
                .with_partition(0)
                .with_fetch_offset(*offset)
                .with_current_leader_epoch(-1)
                .with_partition_max_bytes(partition_max_bytes);
            m::fetch_request::FetchTopic::default()
                .with_topic(name(*topic))
                .with_partitions(vec![partition])
        };
        let request = m::FetchRequest::default()
            .with_replica_id((-1).into())
            .with_session_epoch(-1)
            .with_max_wait_ms(0)
            .with_min_bytes(0)
            .with_max_bytes(max_bytes)
            .with_isolation_level(i8::from(committed))
            .with_topics(topics.iter().map(topic).collect());
        let answer: m::FetchResponse = self.call(12, &request).await;
        assert_eq!(answer.error_code, 0);
        let partitions = answer.responses.iter().map(|topic| &topic.partitions[0]);
        partitions.map(fetched).collect()
    }

    /// ListOffsets: the offset, and the timestamp.
    pub(super) async fn list_offset(
        &self,
        topic: usize,
        committed: bool,
        timestamp: i64,
    ) -> (Offset, i64) {
        let partition = m::list_offsets_request::ListOffsetsPartition::default()
            .with_current_leader_epoch(-1)
            .with_timestamp(timestamp);
        let topic = m::list_offsets_request::ListOffsetsTopic::default()
            .with_name(name(topic))
            .with_partitions(vec![partition]);
        let request = m::ListOffsetsRequest::default()
            .with_replica_id((-1).into())
            .with_isolation_level(i8::from(committed))
            .with_topics(vec![topic]);
        let answer: m::ListOffsetsResponse = self.call(9, &request).await;
        let partition = &answer.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0, "ListOffsets of {timestamp}");
        (partition.offset, partition.timestamp)
    }

    /// DeleteRecords: the low watermark.
    pub(super) async fn delete_records(&self, topic: usize, offset: Offset) -> (Code, Offset) {
        let partition = m::delete_records_request::DeleteRecordsPartition::default()
            .with_partition_index(0)
            .with_offset(offset);
        let topic = m::delete_records_request::DeleteRecordsTopic::default()
            .with_name(name(topic))
            .with_partitions(vec![partition]);
        let request = m::DeleteRecordsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(30_000);
        let answer: m::DeleteRecordsResponse = self.call(2, &request).await;
        let partition = &answer.topics[0].partitions[0];
        (partition.error_code, partition.low_watermark)
    }
}

fn fetched(partition: &m::fetch_response::PartitionData) -> Fetched {
    let listed = partition.aborted_transactions.as_ref();
    let aborted = listed.map(|listed| {
        let each = listed.iter().map(|a| (a.producer_id.0, a.first_offset));
        each.collect()
    });
    Fetched {
        code: partition.error_code,
        high_watermark: partition.high_watermark,
        last_stable: partition.last_stable_offset,
        log_start: partition.log_start_offset,
        aborted,
        batches: batches(partition.records.clone().unwrap_or_default()),
    }
}

/// The disk may not keep more than the whole.
fn local(local: i64, total: i64) -> i64 {
    if total < 0 { local } else { local.min(total) }
}

/// Whole batches; a reader checks them as a client does.
fn batches(mut bytes: Bytes) -> Vec<Batch> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let header = strandline_records::BatchHeader::parse(&bytes).unwrap();
        let batch = Batch::from_bytes(bytes.split_to(header.size_in_bytes())).unwrap();
        batch.verify_crc().unwrap();
        out.push(batch);
    }
    out
}
