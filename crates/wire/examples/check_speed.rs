//! Measures the check of request bodies, and the decoder behind it.
//! Run with `cargo run --release -p strandline-wire --example check_speed`.

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use strandline_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use strandline_wire::messages::metadata_request::MetadataRequestTopic;
use strandline_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use strandline_wire::messages::{FetchRequest, MetadataRequest, ProduceRequest, TopicName};
use strandline_wire::{
    Decodable, Encodable, RequestHeader, StrBytes, check_body, decode_request, served,
};

fn main() -> io::Result<()> {
    let one = produce(1, 1);
    report::<ProduceRequest>(
        "Produce 12, 1 topic, 1 partition, 1 MiB",
        0,
        12,
        &one(1 << 20),
    )?;
    report::<ProduceRequest>(
        "Produce 9, 1 topic, 1 partition, 16 KiB",
        0,
        9,
        &one(16 << 10),
    )?;
    report::<ProduceRequest>(
        "Produce 3, 1 topic, 1 partition, 16 KiB",
        0,
        3,
        &one(16 << 10),
    )?;
    let many = produce(10, 10);
    report::<ProduceRequest>(
        "Produce 12, 10 topics, 100 partitions",
        0,
        12,
        &many(16 << 10),
    )?;
    for (topics, partitions) in [(1, 1), (1, 100), (1000, 10)] {
        let what = format!("Fetch 12, {topics} topics, {partitions} partitions each");
        report::<FetchRequest>(&what, 1, 12, &fetch(topics, partitions))?;
    }
    report::<MetadataRequest>("Metadata 9, 100 topics", 3, 9, &metadata(100))?;
    Ok(())
}

fn name(number: usize) -> TopicName {
    TopicName(StrBytes::from_string(format!("orders.eu-central.{number}")))
}

fn produce(topics: usize, partitions: usize) -> impl Fn(usize) -> ProduceRequest {
    move |bytes| {
        let records = Bytes::from(vec![7; bytes]);
        let partition = |index| {
            PartitionProduceData::default()
                .with_index(index as i32)
                .with_records(Some(records.clone()))
        };
        let topic = |number| {
            TopicProduceData::default()
                .with_name(name(number))
                .with_partition_data((0..partitions).map(partition).collect())
        };
        ProduceRequest::default().with_topic_data((0..topics).map(topic).collect())
    }
}

fn fetch(topics: usize, partitions: usize) -> FetchRequest {
    let topic = |number| {
        FetchTopic::default()
            .with_topic(name(number))
            .with_partitions(vec![FetchPartition::default(); partitions])
    };
    FetchRequest::default().with_topics((0..topics).map(topic).collect())
}

fn metadata(topics: usize) -> MetadataRequest {
    let topic = |number| MetadataRequestTopic::default().with_name(Some(name(number)));
    MetadataRequest::default().with_topics(Some((0..topics).map(topic).collect()))
}

fn report<T: Decodable + Encodable>(
    what: &str,
    key: i16,
    version: i16,
    request: &T,
) -> io::Result<()> {
    let mut body = BytesMut::new();
    request
        .encode(&mut body, version)
        .map_err(io::Error::other)?;
    let body = body.freeze();
    let api = served(key).ok_or_else(|| io::Error::other("not served"))?;
    let header = RequestHeader {
        api,
        version,
        correlation_id: 1,
        client_id: None,
    };
    let check = nanoseconds(|| check_body(api, version, black_box(&body)).is_ok());
    let stock = nanoseconds(|| T::decode(&mut black_box(body.clone()), version).is_ok());
    let both = nanoseconds(|| decode_request::<T>(&header, black_box(body.clone())).is_ok());
    writeln!(
        io::stdout(),
        "{what:44} check {check:>9.0} ns   decoder {stock:>9.0} ns   both {both:>9.0} ns"
    )
}

/// Time of one call: the best of many rounds, since others share the machine.
fn nanoseconds(mut run: impl FnMut() -> bool) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..200 {
        let started = Instant::now();
        let mut calls = 0;
        while calls < 20 || started.elapsed().as_micros() < 500 {
            assert!(black_box(run()));
            calls += 1;
        }
        best = best.min(started.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    best
}
