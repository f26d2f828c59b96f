//! What may come between a transaction and its end: a topic that vanishes, markers of others, sequence
//! numbers at their edges.

use bytes::Bytes;
use strandline_records::{BatchBuilder, Compression};
use strandline_types::TimestampType;
use strandline_wire::messages as m;

use crate::client::{Broker, topic_name};
use crate::transactions::{
    Pid, add, end, patiently, produce_as, producer, transactional, transactional_id,
};
use crate::{create_topic, fetch, produce};

/// The records of these tests are old; a broker that forgets none of them.
const SETTINGS: [&str; 1] = ["log.retention.ms=-1"];

fn start(id: &str) -> Broker {
    let broker = Broker::start(&SETTINGS);
    create_topic(&broker, 5, "t", 2);
    broker.wait_for_transaction_coordinator(id);
    broker
}

fn delete_topic(broker: &Broker, name: &str) {
    let request = m::DeleteTopicsRequest::default()
        .with_topic_names(vec![topic_name(name)])
        .with_timeout_ms(10_000);
    let response: m::DeleteTopicsResponse = broker.call(1, &request);
    assert_eq!(response.responses[0].error_code, 0);
}

fn state_of(broker: &Broker, id: &str) -> String {
    let request = m::DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![transactional_id(id)]);
    let response: m::DescribeTransactionsResponse = broker.call(0, &request);
    let state = &response.transaction_states[0];
    assert_eq!(state.error_code, 0);
    state.transaction_state.to_string()
}

fn last_stable(broker: &Broker, name: &str) -> (i64, i64) {
    let response = fetch(broker, 11, name, 0);
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0, "{name}: {partition:?}");
    (partition.last_stable_offset, partition.high_watermark)
}

/// The codes of an operator's markers for partition 0 of these topics.
fn mark(broker: &Broker, pid: Pid, coordinator_epoch: i32, topics: &[&str]) -> Vec<i16> {
    let topics = topics.iter().map(|name| {
        m::write_txn_markers_request::WritableTxnMarkerTopic::default()
            .with_name(topic_name(name))
            .with_partition_indexes(vec![0])
    });
    let marker = m::write_txn_markers_request::WritableTxnMarker::default()
        .with_producer_id(pid.0.into())
        .with_producer_epoch(pid.1)
        .with_transaction_result(false)
        .with_coordinator_epoch(coordinator_epoch)
        .with_topics(topics.collect());
    let request = m::WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let response: m::WriteTxnMarkersResponse = broker.call(1, &request);
    let topics = response.markers[0].topics.iter();
    topics.map(|t| t.partitions[0].error_code).collect()
}

// T-40: in both generations, and whether it comes to its end by the client or by a fence
#[test]
fn a_topic_that_vanishes_holds_no_end_up() {
    let broker = start("a");
    for version in [3, 5] {
        for way in ["commit", "abort", "fence"] {
            let (id, gone) = (format!("{way}-{version}"), format!("gone-{way}-{version}"));
            create_topic(&broker, 5, &gone, 1);
            create_topic(&broker, 5, &id, 1);
            let pid = producer(&broker, &id);
            let produce_version = if version == 5 { 12 } else { 9 };
            for name in [&gone, &id] {
                if version < 5 {
                    assert_eq!(add(&broker, 0, &id, pid, &[(name, 0)]), [0]);
                }
                let records = transactional(pid, 0, "x");
                let sent = produce_as(&broker, produce_version, Some(&id), name, records);
                assert_eq!(sent, (0, 0));
            }
            delete_topic(&broker, &gone);
            if way != "fence" {
                let ended = end(&broker, version, &id, pid, way == "commit");
                assert_eq!(ended.0, 0, "{id}");
            }
            let next = producer_patiently(&broker, &id);
            assert!(next.1 > pid.1);
            assert_eq!(state_of(&broker, &id), "Empty");
            assert_eq!(last_stable(&broker, &id), (2, 2), "{id}");
            // One of the same name is another topic, and is not concerned.
            create_topic(&broker, 5, &gone, 1);
            assert_eq!(last_stable(&broker, &gone), (0, 0));
        }
    }
}

/// InitProducerId until the last transaction is ended.
fn producer_patiently(broker: &Broker, id: &str) -> Pid {
    let mut pid = (-1, -1);
    let code = patiently(|| {
        let (code, given) = crate::transactions::init(broker, 1, id, (-1, -1));
        pid = given;
        code
    });
    assert_eq!(code, 0);
    pid
}

// T-40: whoever wrote there with a newer epoch has ended it there
#[test]
fn a_marker_that_comes_too_late_completes_the_transaction() {
    let broker = start("a");
    create_topic(&broker, 5, "u", 1);
    let pid = producer(&broker, "late");
    for name in ["t", "u"] {
        assert_eq!(add(&broker, 0, "late", pid, &[(name, 0)]), [0]);
        let sent = produce_as(&broker, 9, Some("late"), name, transactional(pid, 0, "x"));
        assert_eq!(sent, (0, 0));
    }
    assert_eq!(mark(&broker, (pid.0, pid.1 + 1), 0, &["t"]), [0]);
    assert_eq!(end(&broker, 3, "late", pid, true).0, 0);
    let again = patiently(|| end(&broker, 3, "late", pid, true).0);
    assert_eq!(
        (again, state_of(&broker, "late").as_str()),
        (0, "CompleteCommit")
    );
    assert_eq!(last_stable(&broker, "t"), (2, 2), "one marker, the other's");
    assert_eq!(last_stable(&broker, "u"), (2, 2));
}

// T-40: a coordinator that is deposed writes nothing there, and leaves the end to its successor
#[test]
fn a_deposed_coordinator_leaves_the_transaction_prepared() {
    const NEWER: i32 = 1000;
    let broker = start("a");
    create_topic(&broker, 5, "u", 1);
    let other = producer(&broker, "other");
    let pid = producer(&broker, "deposed");
    assert_eq!(
        add(&broker, 0, "deposed", pid, &[("t", 0), ("u", 0)]),
        [0, 0]
    );
    for name in ["t", "u"] {
        let records = transactional(pid, 0, "x");
        let sent = produce_as(&broker, 9, Some("deposed"), name, records);
        assert_eq!(sent, (0, 0));
    }
    assert_eq!(mark(&broker, pid, NEWER, &["t"]), [0]);
    assert_eq!(mark(&broker, pid, NEWER - 1, &["t"]), [52]);
    assert_eq!(end(&broker, 3, "deposed", pid, true).0, 0);
    // The marker of the other partition shows that both were tried.
    while last_stable(&broker, "u") != (2, 2) {
        std::thread::yield_now();
    }
    for _ in 0..20 {
        assert_eq!(end(&broker, 3, "deposed", pid, true).0, 51);
        assert_eq!(add(&broker, 0, "deposed", pid, &[("u", 0)]), [51]);
    }
    assert_eq!(state_of(&broker, "deposed"), "PrepareCommit");
    assert_eq!(last_stable(&broker, "t"), (2, 2));
    // Others are not concerned.
    assert_eq!(add(&broker, 0, "other", other, &[("t", 0)]), [0]);
    let sent = produce_as(&broker, 9, Some("other"), "t", transactional(other, 0, "y"));
    assert_eq!(sent, (0, 2));
    assert_eq!(end(&broker, 3, "other", other, true).0, 0);
    assert_eq!(patiently(|| end(&broker, 3, "other", other, true).0), 0);
    assert_eq!(last_stable(&broker, "t"), (4, 4));
}

fn numbered(pid: Pid, sequence: i32, count: usize) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0)
        .with_producer(pid.0, pid.1, sequence);
    for _ in 0..count {
        builder.append(1_000_000, None, Some(b"v"), &[]).unwrap();
    }
    builder.build().unwrap().to_bytes()
}

// P-50, P-51, P-53, P-54, P-60: before and after kill -9, of which only the last batch is known then
#[test]
fn sequences_wrap_and_what_is_older_than_five_batches_is_refused() {
    let broker = Broker::start(&SETTINGS);
    create_topic(&broker, 5, "t", 1);
    let response: m::InitProducerIdResponse = broker.call(
        1,
        &m::InitProducerIdRequest::default().with_transactional_id(None),
    );
    let pid = (response.producer_id.0, response.producer_epoch);
    let send = |broker: &Broker, pid, sequence| produce(broker, 9, "t", numbered(pid, sequence, 3));
    // i32::MAX - 1, i32::MAX, 0
    let first = i32::MAX - 1;
    assert_eq!(send(&broker, pid, first), (0, 0), "P-55");
    assert_eq!(send(&broker, pid, first), (0, 0), "P-50");
    assert_eq!(send(&broker, pid, 0).0, 45);
    assert_eq!(send(&broker, pid, first + 1).0, 45);
    for (n, sequence) in [1, 4, 7, 10].into_iter().enumerate() {
        assert_eq!(send(&broker, pid, sequence), (0, 3 * (n as i64 + 1)));
    }
    assert_eq!(send(&broker, pid, first), (0, 0), "the fifth from the end");
    assert_eq!(send(&broker, pid, 13), (0, 15));
    assert_eq!(send(&broker, pid, first).0, 45, "P-54");
    assert_eq!(send(&broker, pid, 1), (0, 3));
    let broker = broker.kill_and_restart(&SETTINGS);
    assert_eq!(send(&broker, pid, 13), (0, 15), "P-60");
    assert_eq!(send(&broker, pid, 19).0, 45, "P-53");
    assert_eq!(send(&broker, pid, 16), (0, 18));
    // P-51, P-52
    let next = (pid.0, pid.1 + 1);
    assert_eq!(send(&broker, next, 19).0, 45);
    assert_eq!(send(&broker, next, 0), (0, 21));
    assert_eq!(send(&broker, pid, 19).0, 47);
}
