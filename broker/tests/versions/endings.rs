//! How a connection ends (W-1, W-5, W-7).

use std::time::{Duration, Instant};

use bytes::BytesMut;
use strandline_records::Compression;
use strandline_wire::messages as m;
use strandline_wire::{Encodable, HeaderVersion};

use crate::client::{Broker, frame, topic_name};
use crate::{batch, create_topic, fetch, fetch_request};

/// Nobody serves this API.
const UNSERVED: i16 = 9_999;

// W-5, W-7: what closes a connection does not take away the answers to what came before it.
#[test]
fn what_was_asked_before_a_bad_frame_is_answered() {
    let broker = Broker::start(&[]);
    create_topic(&broker, 5, "t", 1);
    let unserved = frame(UNSERVED, 0, 1, &[]);
    let truncated = frame(1, 12, 2, &[]);
    let no_length = u32::MAX.to_be_bytes();
    let ends: [(&str, &[u8]); 3] = [
        ("an unserved API", &unserved),
        ("a body that is cut", &truncated),
        ("a length that no frame has", &no_length),
    ];
    for (at, (what, bad)) in ends.into_iter().enumerate() {
        let partition = m::produce_request::PartitionProduceData::default()
            .with_index(0)
            .with_records(Some(batch(Compression::None, 1, 1_000_000)));
        let topic = m::produce_request::TopicProduceData::default()
            .with_name(topic_name("t"))
            .with_partition_data(vec![partition]);
        let request = m::ProduceRequest::default()
            .with_acks(1)
            .with_timeout_ms(5000)
            .with_topic_data(vec![topic]);
        let mut body = BytesMut::new();
        request.encode(&mut body, 9).unwrap();
        // One write: both are read before the first is answered.
        let mut both = BytesMut::from(&frame(0, 9, 2, &body)[..]);
        both.extend_from_slice(bad);
        let mut connection = broker.connect();
        connection.send_bytes(&both);
        let header_version = m::ProduceResponse::header_version(9);
        let response: m::ProduceResponse = connection.receive(9, header_version);
        let partition = &response.responses[0].partition_responses[0];
        let offset = i64::try_from(at).unwrap();
        assert_eq!(
            (partition.error_code, partition.base_offset),
            (0, offset),
            "{what}"
        );
        assert_eq!(connection.rest(), [], "{what}");
    }
    let end = fetch(&broker, 11, "t", 0).responses[0].partitions[0].high_watermark;
    assert_eq!(end, 3);
}

// W-10: and whoever takes none of these answers is cut off as ever.
#[test]
fn a_bad_frame_behind_answers_that_nobody_takes_closes_in_time() {
    let broker = Broker::start(&["connections.max.idle.ms=200"]);
    create_topic(&broker, 5, "t", 1);
    // 800 KiB of records that do not compress away, for 100 answers: more than sockets hold.
    let records = batch(Compression::None, 4_000, 1_000_000);
    assert!(records.len() > 800 << 10);
    assert_eq!(crate::produce(&broker, 9, "t", records).0, 0);
    let mut body = BytesMut::new();
    fetch_request(&broker, 11, "t", 0)
        .encode(&mut body, 11)
        .unwrap();
    let mut connection = broker.connect();
    for _ in 0..100 {
        connection.send_bytes(&frame(1, 11, 1, &body));
    }
    connection.send_bytes(&frame(UNSERVED, 0, 1, &[]));
    // The end is seen without reading: what is sent to a closed socket is refused.
    let deadline = Instant::now() + Duration::from_secs(30);
    while connection.takes_a_byte() {
        assert!(Instant::now() < deadline, "still open");
        std::thread::yield_now();
    }
}
