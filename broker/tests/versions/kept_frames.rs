//! What stays of a frame of which little is kept.

use bytes::{Bytes, BytesMut};
use strandline_records::{BatchBuilder, Compression};
use strandline_types::TimestampType;
use strandline_wire::Encodable;
use strandline_wire::messages as m;

use crate::client::{Broker, frame, topic_name};
use crate::create_topic;

const FRAMES: usize = 40;
const JUNK_BYTES: usize = 10 << 20;

// The tail of the log keeps the batches, and the batches what they arrived in.
#[test]
fn a_batch_keeps_no_frame_of_many_times_its_size() {
    let broker = Broker::start(&["strandline.tail.memory.bytes=67108864"]);
    create_topic(&broker, 5, "t", 1);
    let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
    let value = vec![b'v'; 20_000];
    builder.append(1_000_000, None, Some(&value), &[]).unwrap();
    let partition = |index, records| {
        m::produce_request::PartitionProduceData::default()
            .with_index(index)
            .with_records(Some(records))
    };
    let good = partition(0, builder.build().unwrap().to_bytes());
    let nobodys = partition(7, Bytes::from(vec![0; JUNK_BYTES]));
    let topic = m::produce_request::TopicProduceData::default()
        .with_name(topic_name("t"))
        .with_partition_data(vec![good, nobodys]);
    let request = m::ProduceRequest::default()
        .with_acks(1)
        .with_timeout_ms(5000)
        .with_topic_data(vec![topic]);
    let mut body = BytesMut::new();
    request.encode(&mut body, 9).unwrap();
    let frame = frame(0, 9, 2, &body);
    let mut connection = broker.connect();
    for at in 0..FRAMES {
        connection.send_bytes(&frame);
        let response: m::ProduceResponse = connection.receive(9, 1);
        let answers = &response.responses[0].partition_responses;
        let codes: Vec<_> = answers.iter().map(|p| p.error_code).collect();
        assert_eq!(codes, [0, 3]);
        assert_eq!(answers[0].base_offset, i64::try_from(at).unwrap());
    }
    let resident = broker.resident_bytes();
    assert!(
        resident < (FRAMES * JUNK_BYTES / 3) as u64,
        "{resident} bytes"
    );
}
