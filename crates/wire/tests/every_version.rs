//! Every served version of every API: sound requests pass the check, unsound ones do not, and
//! responses can be written. Rules: W-3, W-4.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "requests/each.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod each;
#[path = "requests/fill.rs"]
mod fill;
#[path = "requests/filler.rs"]
#[expect(dead_code, reason = "the fuzzer uses the rest")]
mod filler;

use std::path::Path;

use bytes::Bytes;
use strandline_wire::messages as m;
use strandline_wire::{
    Api, Decodable, Encodable, ServedApi, StrBytes, WireError, check_body, parse_header, served,
};

use each::{every_version, header};
use filler::Filler;

const SEEDS: u64 = 200;

fn check_sound(api: &'static ServedApi, version: i16, body: &Bytes) {
    let place = format!("{} {version}: {body:?}", api.name);
    assert!(
        check_body(api, version, body).is_ok(),
        "{place} {:?}",
        check_body(api, version, body)
    );
    let again = each::decode_and_encode(&header(api, version), body.clone()).unwrap();
    assert_eq!(again, body, "{place}");
    let (header, rest) = parse_header(each::frame(api, version, body)).unwrap();
    assert_eq!(
        (header.api, header.version, rest),
        (api, version, body.clone())
    );
}

// W-4
#[test]
fn requests_as_clients_encode_them_pass() {
    for (api, version) in every_version() {
        check_sound(api, version, &each::default(api, version));
        for seed in 0..SEEDS {
            let body = each::filled(&mut Filler::seeded(api, version, seed));
            check_sound(api, version, &body);
        }
    }
}

#[test]
fn a_body_must_not_end_before_its_last_field_does() {
    for (api, version) in every_version() {
        for seed in 0..20 {
            let body = each::filled(&mut Filler::seeded(api, version, seed));
            for length in 0..body.len() {
                let result = check_body(api, version, &body[..length]);
                assert!(
                    result.is_err(),
                    "{} {version} {length} of {body:?}",
                    api.name
                );
            }
            // As in Kafka nobody reads what follows, which some clients send.
            let longer = Bytes::from([&body[..], &[0, 1, 255]].concat());
            let (name, whole) = (api.name, check_body(api, version, &body));
            assert_eq!(check_body(api, version, &longer), whole, "{name} {version}");
            let again = each::decode_and_encode(&header(api, version), longer).unwrap();
            assert_eq!(again, body, "{name} {version}");
        }
    }
}

#[test]
fn versions_that_are_not_served_have_no_body() {
    for (api, _) in every_version() {
        for version in [api.min - 1, api.max + 1, i16::MAX, i16::MIN] {
            let result = check_body(api, version, &[]);
            assert_eq!(
                result,
                Err(WireError::UnsupportedVersion {
                    api: api.name,
                    version
                })
            );
        }
    }
}

/// The largest requests that clients send in earnest stay far below the limit of memory.
#[test]
fn large_requests_of_real_clients_pass() {
    let names: Vec<_> = (0..50_000).map(|n| format!("topic-{n}")).collect();
    let topics = names.iter().map(|name| {
        let name = m::TopicName(StrBytes::from_string(name.clone()));
        let partition = m::fetch_request::FetchPartition::default();
        let topic = m::fetch_request::FetchTopic::default();
        topic.with_topic(name).with_partitions(vec![partition; 4])
    });
    let fetch = m::FetchRequest::default().with_topics(topics.collect());
    let topics = names.iter().map(|name| {
        let name = m::TopicName(StrBytes::from_string(name.clone()));
        m::metadata_request::MetadataRequestTopic::default().with_name(Some(name))
    });
    let metadata = m::MetadataRequest::default().with_topics(Some(topics.collect()));
    for (key, version, body) in [(1, 12, encode(&fetch, 12)), (3, 9, encode(&metadata, 9))] {
        let api = served(key).unwrap();
        let memory = check_body(api, version, &body).unwrap();
        assert!(
            memory < 8 * body.len(),
            "{} takes {memory} for {}",
            api.name,
            body.len()
        );
    }
}

fn encode(message: &impl Encodable, version: i16) -> Bytes {
    let mut out = bytes::BytesMut::new();
    message.encode(&mut out, version).unwrap();
    out.freeze()
}

/// The seeds are written by `examples/fuzz_seeds.rs`.
#[test]
fn the_fuzzer_starts_from_a_frame_of_every_version() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/frame");
    for (api, version) in every_version() {
        let seed = std::fs::read(folder.join(format!("{}-{version}", api.name))).unwrap();
        let (header, body) = parse_header(Bytes::from(seed).slice(1..)).unwrap();
        assert_eq!((header.api, header.version), (api, version));
        assert!(
            check_body(api, version, &body).is_ok(),
            "{} {version}",
            api.name
        );
    }
}

// W-3
#[test]
fn every_response_encodes() {
    for (api, version) in every_version() {
        let place = format!("{} {version}", api.name);
        let mut frame = each::default_response(&header(api, version)).unwrap();
        let length = i32::from_be_bytes(*frame.split_to(4).first_chunk().unwrap());
        assert_eq!(length as usize, frame.len(), "{place}");
        let kafkas = m::ApiKey::try_from(api.key)
            .unwrap()
            .response_header_version(version);
        let ours = i16::from(api.is_flexible(version) && api.api != Api::ApiVersions);
        assert_eq!(kafkas, ours, "{place}");
        let read = m::ResponseHeader::decode(&mut frame, kafkas).unwrap();
        assert_eq!(read.correlation_id, 7, "{place}");
        each::take_response(api, version, &mut frame);
        assert!(frame.is_empty(), "{place}");
    }
}
