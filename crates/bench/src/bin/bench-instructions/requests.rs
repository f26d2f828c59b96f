//! Requests as they come from the socket, and the one response that is written by hand.

use bytes::{Bytes, BytesMut};
use strandline_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use strandline_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use strandline_wire::messages::{
    FetchRequest, ProduceRequest, RequestHeader as WireHeader, TopicName,
};
use strandline_wire::{
    Encodable, FetchPartitionHead, FetchResponseHead, FetchTopicHead, FrameLimit, RequestHeader,
    StrBytes, decode_request, encode_fetch_response, frame_length, parse_header, served,
};

use crate::Outcome;
use crate::batches::batch;
use crate::counted::calls;

const PRODUCE: (i16, i16) = (0, 11);
const FETCH: (i16, i16) = (1, 12);
const LIMIT: FrameLimit = FrameLimit(100 << 20);

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("orders.eu-central"))
}

/// A whole frame, its length in front.
fn frame(api: (i16, i16), request: &impl Encodable) -> Outcome<Bytes> {
    let header = WireHeader::default()
        .with_request_api_key(api.0)
        .with_request_api_version(api.1)
        .with_correlation_id(7)
        .with_client_id(Some(StrBytes::from_static_str("billing-service-1")));
    let mut rest = BytesMut::new();
    header.encode(&mut rest, 2)?;
    request.encode(&mut rest, api.1)?;
    let length = i32::try_from(rest.len())?.to_be_bytes();
    Ok([&length[..], &rest[..]].concat().into())
}

fn produce_request() -> Outcome<ProduceRequest> {
    let records = batch(strandline_records::Compression::None, 16, 1024)?;
    let partition = PartitionProduceData::default().with_records(Some(records));
    let data = TopicProduceData::default()
        .with_name(topic())
        .with_partition_data(vec![partition]);
    Ok(ProduceRequest::default().with_topic_data(vec![data]))
}

fn fetch_request(partitions: usize) -> FetchRequest {
    let topic = FetchTopic::default()
        .with_topic(topic())
        .with_partitions(vec![FetchPartition::default(); partitions]);
    FetchRequest::default().with_topics(vec![topic])
}

pub(crate) fn header() -> Outcome<()> {
    let frame = frame(PRODUCE, &produce_request()?)?;
    calls(
        |_| Ok(frame.clone()),
        |frame| {
            let length = frame_length(&frame, LIMIT).ok().flatten()?;
            parse_header(frame.slice(4..4 + length)).ok()
        },
        |parsed| parsed.as_ref().is_some_and(|(h, _)| h.correlation_id == 7),
    )
}

fn decode<T: Encodable + strandline_wire::Decodable>(
    (key, version): (i16, i16),
    request: &T,
    is_right: impl Fn(&T) -> bool,
) -> Outcome<()> {
    let mut body = BytesMut::new();
    request.encode(&mut body, version)?;
    let (body, header) = (body.freeze(), head(key, version)?);
    calls(
        |_| Ok(body.clone()),
        |body| decode_request::<T>(&header, body),
        |decoded| decoded.as_ref().is_ok_and(&is_right),
    )
}

fn head(key: i16, version: i16) -> Outcome<RequestHeader> {
    Ok(RequestHeader {
        api: served(key).ok_or("an API that is not served")?,
        version,
        correlation_id: 7,
        client_id: None,
    })
}

pub(crate) fn produce() -> Outcome<()> {
    decode(PRODUCE, &produce_request()?, |r| r.topic_data.len() == 1)
}

pub(crate) fn fetch_one() -> Outcome<()> {
    decode(FETCH, &fetch_request(1), |r| r.topics.len() == 1)
}

pub(crate) fn fetch_many() -> Outcome<()> {
    decode(FETCH, &fetch_request(100), |r| r.topics.len() == 1)
}

pub(crate) fn fetch_response() -> Outcome<()> {
    let partition = |partition| FetchPartitionHead {
        partition,
        error_code: 0,
        high_watermark: 1_000_000,
        last_stable_offset: 1_000_000,
        log_start_offset: 0,
        diverging_epoch: None,
        current_leader: None,
        aborted_transactions: None,
        preferred_read_replica: -1,
        records_bytes: 100_000,
    };
    let response = FetchResponseHead {
        topics: vec![FetchTopicHead {
            name: topic().to_string(),
            topic_id: Default::default(),
            partitions: (0..6).map(partition).collect(),
        }],
        ..FetchResponseHead::default()
    };
    let header = head(FETCH.0, FETCH.1)?;
    calls(
        |_| Ok(()),
        |()| encode_fetch_response(&header, &response),
        |frame| frame.as_ref().is_ok_and(|f| f.gaps.len() == 6),
    )
}
