//! Every version of the APIs about transactions.

use std::time::{Duration, Instant};

use bytes::Bytes;
use strandline_records::{BatchBuilder, Compression};
use strandline_types::TimestampType;
use strandline_wire::messages as m;

use crate::client::{Broker, text, topic_name};
use crate::{batch, create_topic, fetch, produce, topic_id, versions};

/// A producer id and an epoch.
pub(crate) type Pid = (i64, i16);

pub(crate) fn transactional_id(id: &str) -> m::TransactionalId {
    m::TransactionalId(text(id))
}

pub(crate) fn init(broker: &Broker, version: i16, id: &str, expected: Pid) -> (i16, Pid) {
    let mut request = m::InitProducerIdRequest::default()
        .with_transactional_id(Some(transactional_id(id)))
        .with_transaction_timeout_ms(60_000);
    if version >= 3 {
        request = request
            .with_producer_id(expected.0.into())
            .with_producer_epoch(expected.1);
    }
    let response: m::InitProducerIdResponse = broker.call(version, &request);
    let pid = (response.producer_id.0, response.producer_epoch);
    (response.error_code, pid)
}

pub(crate) fn producer(broker: &Broker, id: &str) -> Pid {
    let (code, pid) = init(broker, 1, id, (-1, -1));
    assert_eq!(code, 0);
    pid
}

pub(crate) fn add(
    broker: &Broker,
    version: i16,
    id: &str,
    pid: Pid,
    topics: &[(&str, i32)],
) -> Vec<i16> {
    let topics = topics.iter().map(|(name, partition)| {
        m::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
            .with_name(topic_name(name))
            .with_partitions(vec![*partition])
    });
    let topics: Vec<_> = topics.collect();
    if version < 4 {
        let request = m::AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(transactional_id(id))
            .with_v3_and_below_producer_id(pid.0.into())
            .with_v3_and_below_producer_epoch(pid.1)
            .with_v3_and_below_topics(topics);
        let response: m::AddPartitionsToTxnResponse = broker.call(version, &request);
        return codes(&response.results_by_topic_v3_and_below);
    }
    batched(broker, version, id, pid, topics, false)
}

fn batched(
    broker: &Broker,
    version: i16,
    id: &str,
    pid: Pid,
    topics: Vec<m::add_partitions_to_txn_request::AddPartitionsToTxnTopic>,
    verify_only: bool,
) -> Vec<i16> {
    let transaction = m::add_partitions_to_txn_request::AddPartitionsToTxnTransaction::default()
        .with_transactional_id(transactional_id(id))
        .with_producer_id(pid.0.into())
        .with_producer_epoch(pid.1)
        .with_verify_only(verify_only)
        .with_topics(topics);
    let request = m::AddPartitionsToTxnRequest::default().with_transactions(vec![transaction]);
    let response: m::AddPartitionsToTxnResponse = broker.call(version, &request);
    assert_eq!(response.error_code, 0);
    let result = &response.results_by_transaction[0];
    assert_eq!(result.transactional_id.as_str(), id);
    codes(&result.topic_results)
}

fn codes(topics: &[m::add_partitions_to_txn_response::AddPartitionsToTxnTopicResult]) -> Vec<i16> {
    let partitions = topics.iter().flat_map(|t| &t.results_by_partition);
    partitions.map(|p| p.partition_error_code).collect()
}

pub(crate) fn end(
    broker: &Broker,
    version: i16,
    id: &str,
    pid: Pid,
    committed: bool,
) -> (i16, Pid) {
    let request = m::EndTxnRequest::default()
        .with_transactional_id(transactional_id(id))
        .with_producer_id(pid.0.into())
        .with_producer_epoch(pid.1)
        .with_committed(committed);
    let response: m::EndTxnResponse = broker.call(version, &request);
    let next = (response.producer_id.0, response.producer_epoch);
    (response.error_code, next)
}

/// Until it is no longer CONCURRENT_TRANSACTIONS: the markers of the last end are being written.
pub(crate) fn patiently(mut attempt: impl FnMut() -> i16) -> i16 {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        match attempt() {
            51 => std::thread::yield_now(),
            code => return code,
        }
    }
    51
}

pub(crate) fn transactional(pid: Pid, sequence: i32, value: &str) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0)
        .with_producer(pid.0, pid.1, sequence)
        .transactional();
    builder
        .append(1_000_000, Some(b"k"), Some(value.as_bytes()), &[])
        .unwrap();
    builder.build().unwrap().to_bytes()
}

pub(crate) fn produce_as(
    broker: &Broker,
    version: i16,
    id: Option<&str>,
    name: &str,
    records: Bytes,
) -> (i16, i64) {
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
        .with_transactional_id(id.map(transactional_id))
        .with_acks(-1)
        .with_timeout_ms(5000)
        .with_topic_data(vec![topic]);
    let response: m::ProduceResponse = broker.call(version, &request);
    let partition = &response.responses[0].partition_responses[0];
    (partition.error_code, partition.base_offset)
}

fn start(id: &str) -> Broker {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 2);
    broker.wait_for_transaction_coordinator(id);
    broker
}

// T-1 … T-5
#[test]
fn init_producer_id() {
    let broker = start("a");
    let mut last = (-1, -1);
    for version in versions("InitProducerId") {
        let (code, pid) = init(&broker, version, "a", (-1, -1));
        assert_eq!((code, pid.1), (0, last.1 + 1), "{version}");
        assert!(last.0 == -1 || pid.0 == last.0);
        last = pid;
        if version >= 3 {
            let (code, next) = init(&broker, version, "a", pid);
            assert_eq!((code, next), (0, (pid.0, pid.1 + 1)));
            // T-4
            let fenced = if version >= 4 { 90 } else { 47 };
            let old = (pid.0, pid.1 - 1);
            assert_eq!(init(&broker, version, "a", old), (fenced, (-1, -1)));
            assert_eq!(init(&broker, version, "a", (pid.0, -1)).0, 42, "T-2");
            last = next;
        }
        let request = m::InitProducerIdRequest::default()
            .with_transactional_id(Some(transactional_id("a")))
            .with_transaction_timeout_ms(900_001);
        let request = if version >= 3 {
            request
                .with_producer_id((-1).into())
                .with_producer_epoch(-1)
        } else {
            request
        };
        let response: m::InitProducerIdResponse = broker.call(version, &request);
        assert_eq!(response.error_code, 50, "T-2");
    }
}

//
#[test]
fn transaction_coordinators_are_found() {
    let broker = start("a");
    for version in versions("FindCoordinator") {
        if version == 0 {
            continue; // knows groups only
        }
        let request = m::FindCoordinatorRequest::default().with_key_type(1);
        if version < 4 {
            let response: m::FindCoordinatorResponse =
                broker.call(version, &request.with_key(text("a")));
            assert_eq!((response.error_code, response.node_id.0), (0, 1));
        } else {
            let keys = vec![text("a"), text("")];
            let response: m::FindCoordinatorResponse =
                broker.call(version, &request.with_coordinator_keys(keys));
            let codes: Vec<i16> = response.coordinators.iter().map(|c| c.error_code).collect();
            assert_eq!(codes, [0, 42]);
        }
    }
}

// T-10 … T-12
#[test]
fn add_partitions_to_txn() {
    let broker = start("a");
    for version in versions("AddPartitionsToTxn") {
        let id = format!("add-{version}");
        let pid = producer(&broker, &id);
        // T-10: all or none.
        let codes = add(&broker, version, &id, pid, &[("t", 0), ("?", 0), ("t", 9)]);
        assert_eq!(codes, [55, 3, 3], "{version}");
        assert_eq!(
            add(&broker, version, &id, pid, &[("t", 0), ("t", 1)]),
            [0, 0]
        );
        assert_eq!(add(&broker, version, "never", pid, &[("t", 0)]), [49]);
        let fenced = if version >= 2 { 90 } else { 47 };
        let newer = (pid.0, pid.1 + 1);
        assert_eq!(add(&broker, version, &id, newer, &[("t", 0)]), [fenced]);
        if version < 4 {
            continue;
        }
        let topic = |name, partition| {
            m::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
                .with_name(topic_name(name))
                .with_partitions(vec![partition])
        };
        let topics = vec![topic("t", 0), topic("t", 7), topic("??", 0)];
        let codes = batched(&broker, version, &id, pid, topics, true);
        assert_eq!(codes, [0, 120, 120], "T-12");
    }
}

// T-13, T-20 … T-23, G-56, G-62
#[test]
fn offsets_in_a_transaction() {
    let broker = start("a");
    broker.wait_for_coordinator("g");
    for version in versions("AddOffsetsToTxn") {
        let id = format!("offsets-{version}");
        let pid = producer(&broker, &id);
        let ask = |pid: Pid| {
            let request = m::AddOffsetsToTxnRequest::default()
                .with_transactional_id(transactional_id(&id))
                .with_producer_id(pid.0.into())
                .with_producer_epoch(pid.1)
                .with_group_id(text("g").into());
            let response: m::AddOffsetsToTxnResponse = broker.call(version, &request);
            response.error_code
        };
        assert_eq!(ask(pid), 0, "{version}");
        assert_eq!(ask((pid.0, pid.1 + 1)), if version >= 2 { 90 } else { 47 });
    }
    for version in versions("TxnOffsetCommit") {
        let id = format!("commit-{version}");
        let group = format!("group-{version}");
        let mut pid = producer(&broker, &id);
        let commit = |pid: Pid, offset: i64, generation: i32| {
            let partition = |index| {
                let out = m::txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
                    .with_partition_index(index)
                    .with_committed_offset(offset)
                    .with_committed_metadata(Some(text("")));
                if version >= 2 {
                    out.with_committed_leader_epoch(0)
                } else {
                    out
                }
            };
            let topic = m::txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name("t"))
                .with_partitions(vec![partition(0), partition(9)]);
            let mut request = m::TxnOffsetCommitRequest::default()
                .with_transactional_id(transactional_id(&id))
                .with_group_id(text(&*group).into())
                .with_producer_id(pid.0.into())
                .with_producer_epoch(pid.1)
                .with_topics(vec![topic]);
            if version >= 3 {
                request.generation_id = generation;
            }
            let response: m::TxnOffsetCommitResponse = broker.call(version, &request);
            let partitions = response.topics[0].partitions.iter();
            partitions.map(|p| p.error_code).collect::<Vec<_>>()
        };
        if version < 5 {
            // P-70: nobody has added the group's offsets to a transaction.
            let expected = if version >= 4 { 120 } else { 48 };
            assert_eq!(commit(pid, 7, -1), [expected, 3], "{version}");
            let request = m::AddOffsetsToTxnRequest::default()
                .with_transactional_id(transactional_id(&id))
                .with_producer_id(pid.0.into())
                .with_producer_epoch(pid.1)
                .with_group_id(text(&*group).into());
            let response: m::AddOffsetsToTxnResponse = broker.call(0, &request);
            assert_eq!(response.error_code, 0);
        }
        assert_eq!(commit(pid, 7, -1), [0, 3], "{version}");
        if version >= 3 {
            assert_eq!(commit(pid, 8, 5), [25, 3], "T-21");
        }
        assert_eq!(committed(&broker, &group, true), (88, -1), "G-56");
        assert_eq!(committed(&broker, &group, false), (0, -1), "G-62");
        let (code, next) = end(&broker, version.min(5), &id, pid, true);
        assert_eq!(code, 0);
        let mut done = committed(&broker, &group, true);
        while done.0 == 88 {
            done = committed(&broker, &group, true);
        }
        assert_eq!(done, (0, 7), "{version}");
        if version >= 5 {
            pid = next;
        }
        assert_eq!(pid.1, i16::from(version >= 5));
    }
}

fn committed(broker: &Broker, group: &str, require_stable: bool) -> (i16, i64) {
    let topic = m::offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0]);
    let request = m::OffsetFetchRequest::default()
        .with_group_id(text(group).into())
        .with_topics(Some(vec![topic]))
        .with_require_stable(require_stable);
    let response: m::OffsetFetchResponse = broker.call(7, &request);
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.committed_offset)
}

// T-30 … T-33, F-30, F-31, T-41
#[test]
fn end_txn_and_committed_reads() {
    let broker = start("a");
    let mut expected_aborted = Vec::new();
    let mut at = 0;
    for version in versions("EndTxn") {
        for committed in [true, false] {
            let id = format!("end-{version}-{committed}");
            let pid = producer(&broker, &id);
            let fenced = if version >= 2 { 90 } else { 47 };
            let add_version = if version >= 5 { 4 } else { 0 };
            assert_eq!(add(&broker, add_version, &id, pid, &[("t", 0)]), [0]);
            let sent = produce_as(&broker, 9, Some(&id), "t", transactional(pid, 0, "x"));
            assert_eq!(sent, (0, at), "{version}");
            let newer = (pid.0, pid.1 + 1);
            assert_eq!(end(&broker, version, &id, newer, committed).0, fenced);
            let (code, next) = end(&broker, version, &id, pid, committed);
            assert_eq!(code, 0, "{version}");
            // T-33
            let now = if version >= 5 { newer } else { pid };
            let unset = if version >= 5 { now } else { (-1, 0) };
            if version >= 5 {
                assert_eq!(next, unset);
            }
            // A retry has the same answer, when the markers are there.
            let again = patiently(|| end(&broker, version, &id, pid, committed).0);
            assert_eq!(again, 0, "{version}");
            let other = patiently(|| end(&broker, version, &id, pid, !committed).0);
            assert_eq!(other, 48, "{version}");
            if !committed {
                expected_aborted.push((pid.0, at));
            }
            at += 2; // a record and its marker
        }
    }
    for version in versions("Fetch") {
        let response = fetch(&broker, version, "t", 0);
        let partition = &response.responses[0].partitions[0];
        assert_eq!(
            (
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset
            ),
            (0, at, at)
        );
        let aborted = partition.aborted_transactions.as_ref().unwrap().iter();
        let aborted: Vec<_> = aborted.map(|a| (a.producer_id.0, a.first_offset)).collect();
        assert_eq!(aborted, expected_aborted, "{version}");
    }
    // F-31, F-34: what ended before the offset is not listed.
    let response = fetch(&broker, 11, "t", expected_aborted[1].1 + 1);
    let partition = &response.responses[0].partitions[0];
    let first = &partition.aborted_transactions.as_ref().unwrap()[0];
    assert_eq!(
        (first.producer_id.0, first.first_offset),
        expected_aborted[1]
    );
}

// P-2, P-57, P-70 … P-73
#[test]
fn transactional_produce() {
    let broker = start("a");
    for version in versions("Produce") {
        let id = format!("produce-{version}");
        let pid = producer(&broker, &id);
        let batch_of = |sequence| transactional(pid, sequence, "x");
        assert_eq!(
            produce_as(&broker, version, None, "t", batch_of(0)).0,
            53,
            "P-2"
        );
        if version < 12 {
            // P-70
            let expected = if version >= 11 { 120 } else { 48 };
            let sent = produce_as(&broker, version, Some(&id), "t", batch_of(0));
            assert_eq!(sent.0, expected, "{version}");
            assert_eq!(add(&broker, 0, &id, pid, &[("t", 0)]), [0]);
        }
        // P-71: from version 12 on the broker adds the partition.
        let sent = produce_as(&broker, version, Some(&id), "t", batch_of(0));
        assert_eq!(sent.0, 0, "{version}");
        let again = produce_as(&broker, version, Some(&id), "t", batch_of(0));
        assert_eq!(again, sent, "P-50");
        assert_eq!(
            produce_as(&broker, version, Some(&id), "t", batch_of(1)).0,
            0
        );
        // P-73
        let zombie = transactional((pid.0, -1 + pid.1), 2, "x");
        let fenced = produce_as(&broker, version, Some(&id), "t", zombie);
        assert!([47, 87].contains(&fenced.0), "{fenced:?}");
        assert_eq!(end(&broker, 0, &id, pid, true).0, 0);
        // D-62, X-73
        assert_eq!(
            produce(&broker, version, "t", batch(Compression::None, 1, 1)).0,
            0
        );
    }
}

// T-40, T-41, T-53
#[test]
fn markers_and_what_operators_see() {
    let broker = start("a");
    let pid = producer(&broker, "hangs");
    let sent = produce_as(&broker, 12, Some("hangs"), "t", transactional(pid, 0, "x"));
    assert_eq!(sent, (0, 0));
    let describe_producers = || {
        let topic = m::describe_producers_request::TopicRequest::default()
            .with_name(topic_name("t"))
            .with_partition_indexes(vec![0, 9]);
        let request = m::DescribeProducersRequest::default().with_topics(vec![topic]);
        let response: m::DescribeProducersResponse = broker.call(0, &request);
        let partitions = response.topics[0].partitions.clone();
        assert_eq!(partitions[1].error_code, 3);
        partitions[0].active_producers[0].clone()
    };
    let state = describe_producers();
    assert_eq!(
        (
            state.producer_id.0,
            state.producer_epoch,
            state.last_sequence
        ),
        (pid.0, 0, 0)
    );
    assert_eq!(
        (state.coordinator_epoch, state.current_txn_start_offset),
        (-1, 0)
    );
    let describe = |id: &str| {
        let request = m::DescribeTransactionsRequest::default()
            .with_transactional_ids(vec![transactional_id(id)]);
        let response: m::DescribeTransactionsResponse = broker.call(0, &request);
        response.transaction_states[0].clone()
    };
    let described = describe("hangs");
    assert_eq!(described.transaction_state.as_str(), "Ongoing");
    assert_eq!(described.producer_id.0, pid.0);
    assert_eq!(described.topics[0].partitions, [0]);
    assert_eq!(describe("never").error_code, 105);
    assert_eq!(describe("").error_code, 42);
    for version in versions("ListTransactions") {
        let list = |states: &[&str], pattern: Option<&str>| {
            let mut request = m::ListTransactionsRequest::default()
                .with_state_filters(states.iter().map(|s| text(*s)).collect());
            if version >= 1 {
                request.duration_filter = -1;
            }
            if version >= 2 {
                request.transactional_id_pattern = pattern.map(text);
            }
            let response: m::ListTransactionsResponse = broker.call(version, &request);
            let ids = response.transaction_states.iter();
            let ids: Vec<String> = ids.map(|t| t.transactional_id.to_string()).collect();
            (
                response.error_code,
                ids,
                response.unknown_state_filters.len(),
            )
        };
        let one = (0, vec!["hangs".to_owned()], 0);
        assert_eq!(list(&["Ongoing"], None), one, "{version}");
        assert_eq!(list(&[], None).1, ["hangs", "probe of a"], "all of them");
        assert_eq!(list(&["Empty"], None).1, ["probe of a"]);
        assert_eq!(list(&["Sleeping"], None), (0, vec![], 1));
        if version >= 2 {
            assert_eq!(list(&[], Some("h.*s")), one);
            assert_eq!(list(&[], Some("ang")), (0, vec![], 0));
            assert_eq!(list(&[], Some("(")).0, 128);
        }
    }
    for version in versions("WriteTxnMarkers") {
        let write = |coordinator_epoch: i32, epoch: i16| {
            let topic = |name: &str| {
                m::write_txn_markers_request::WritableTxnMarkerTopic::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(vec![0])
            };
            let marker = m::write_txn_markers_request::WritableTxnMarker::default()
                .with_producer_id(pid.0.into())
                .with_producer_epoch(epoch)
                .with_transaction_result(false)
                .with_coordinator_epoch(coordinator_epoch)
                .with_topics(vec![topic("t"), topic("gone")]);
            let request = m::WriteTxnMarkersRequest::default().with_markers(vec![marker]);
            let response: m::WriteTxnMarkersResponse = broker.call(version, &request);
            let topics = response.markers[0].topics.iter();
            topics
                .map(|t| t.partitions[0].error_code)
                .collect::<Vec<_>>()
        };
        assert_eq!(write(5, 0), [0, 3]);
        assert_eq!(write(4, 0), [52, 3], "T-40");
        assert_eq!(write(5, -1), [47, 3], "T-40");
    }
    assert_eq!(describe_producers().current_txn_start_offset, -1);
    // P-74: what was verified before the marker must be verified again; it is, since the
    // coordinator still knows the transaction.
    let sent = produce_as(&broker, 11, Some("hangs"), "t", transactional(pid, 1, "y"));
    assert_eq!(sent.0, 0);
}

// P-71, P-74: the answer to an end comes before its markers, so the next transaction of a fast
// client meets them; it is told to come back, and never that it is not ongoing.
#[test]
fn the_next_transaction_may_follow_at_once() {
    let broker = start("a");
    let mut pid = producer(&broker, "fast");
    let mut connection = broker.connect();
    for round in 0..300 {
        let sent = patiently(|| {
            let records = transactional(pid, 0, "x");
            let partition = m::produce_request::PartitionProduceData::default()
                .with_index(0)
                .with_records(Some(records));
            let topic = m::produce_request::TopicProduceData::default()
                .with_name(topic_name("t"))
                .with_partition_data(vec![partition]);
            let request = m::ProduceRequest::default()
                .with_transactional_id(Some(transactional_id("fast")))
                .with_acks(-1)
                .with_timeout_ms(5000)
                .with_topic_data(vec![topic]);
            let response: m::ProduceResponse = connection.call(12, &request);
            response.responses[0].partition_responses[0].error_code
        });
        assert_eq!(sent, 0, "round {round}");
        let request = m::EndTxnRequest::default()
            .with_transactional_id(transactional_id("fast"))
            .with_producer_id(pid.0.into())
            .with_producer_epoch(pid.1)
            .with_committed(round % 2 == 0);
        let response: m::EndTxnResponse = connection.call(5, &request);
        assert_eq!(response.error_code, 0, "round {round}");
        pid = (response.producer_id.0, response.producer_epoch);
    }
}
