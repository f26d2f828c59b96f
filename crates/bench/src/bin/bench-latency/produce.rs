//! Produce requests and their answers, as bytes.

use bytes::{BufMut, Bytes, BytesMut};
use strandline_bench::{Outcome, Values, answer, frame, with_length};
use strandline_records::{BatchBuilder, Compression};
use strandline_types::TimestampType;
use strandline_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use strandline_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use strandline_wire::messages::{ProduceRequest, ProduceResponse, TopicName};
use strandline_wire::{Encodable, StrBytes};

/// Of Produce, by name: every broker of the last years serves it.
const VERSION: i16 = 9;
const TIMEOUT_MS: i32 = 60_000;

/// Makes requests for one topic.
#[derive(Debug)]
pub(crate) struct Requests {
    topic: TopicName,
    acks: i16,
    size: usize,
    values: Values,
}

impl Requests {
    /// Records of `size` bytes to `topic`.
    pub(crate) fn new(topic: &str, size: usize, acks: i16) -> Self {
        Self {
            topic: TopicName(StrBytes::from_string(topic.to_owned())),
            acks,
            size,
            values: Values::new(size),
        }
    }

    /// A whole frame with one batch of `count` records of the time `now_ms`.
    pub(crate) fn frame(
        &mut self,
        correlation_id: i32,
        partition: u32,
        count: u64,
        now_ms: i64,
    ) -> Outcome<Bytes> {
        let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
        for _ in 0..count {
            batch.append(now_ms, None, Some(self.values.next_value()), &[])?;
        }
        let partition = PartitionProduceData::default()
            .with_index(i32::try_from(partition)?)
            .with_records(Some(batch.build()?.to_bytes()));
        let topic = TopicProduceData::default()
            .with_name(self.topic.clone())
            .with_partition_data(vec![partition]);
        let request = ProduceRequest::default()
            .with_acks(self.acks)
            .with_timeout_ms(TIMEOUT_MS)
            .with_topic_data(vec![topic]);
        frame(
            correlation_id,
            VERSION,
            &request,
            self.size * count as usize,
        )
    }
}

/// What a broker that took everything would answer to a frame (without its length).
pub(crate) fn accept(request: &[u8]) -> Outcome<Bytes> {
    let correlation_id = request.get(4..8).ok_or("a request without a header")?;
    let partition = PartitionProduceResponse::default().with_base_offset(0);
    let topic = TopicProduceResponse::default().with_partition_responses(vec![partition]);
    let response = ProduceResponse::default().with_responses(vec![topic]);
    let mut out = BytesMut::with_capacity(128);
    out.put_i32(0);
    out.put_slice(correlation_id);
    out.put_u8(0);
    response.encode(&mut out, VERSION)?;
    with_length(out)
}

/// Checks an answer (without its length): the one that is expected, and without an error.
pub(crate) fn check_answer(frame: Bytes, correlation_id: i32) -> Outcome<()> {
    let response: ProduceResponse = answer(frame, correlation_id, VERSION)?;
    let mut partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    match (partitions.next(), partitions.next()) {
        (Some(only), None) if only.error_code == 0 && only.base_offset >= 0 => Ok(()),
        _ => Err(format!("a record was not taken: {response:?}").into()),
    }
}
