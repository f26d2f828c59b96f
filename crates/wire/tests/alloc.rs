//! Memory: no body, however made, costs more than the check says. Rules: W-4.

#[path = "requests/bounded.rs"]
mod bounded;
#[path = "requests/counted.rs"]
mod counted;
#[path = "requests/each.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod each;
#[path = "requests/fill.rs"]
mod fill;
#[path = "requests/filler.rs"]
#[expect(dead_code, reason = "the fuzzer uses the rest")]
mod filler;

use bytes::Bytes;
use proptest::prelude::*;
use strandline_wire::{BodyFault, WireError, check_body, parse_header, served};

use bounded::hold_to_bounds;
use each::{every_version, header};
use filler::Filler;

#[global_allocator]
static ALLOCATOR: counted::Counted = counted::Counted;

fn varint(mut value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

#[test]
fn sound_requests_cost_what_the_check_says() {
    for (api, version) in every_version() {
        for seed in 0..300 {
            let body = each::filled(&mut Filler::seeded(api, version, seed));
            assert!(
                hold_to_bounds(&header(api, version), &body),
                "{} {version}",
                api.name
            );
        }
    }
}

/// The frame that ends a process: ten bytes that claim four billion topics.
#[test]
fn a_claim_of_four_billion_elements_costs_nothing() {
    for (version, claim) in [(12, &[0xff, 0xff, 0xff, 0xff, 0x0f][..]), (1, &[0x7f; 4])] {
        let api = served(3).unwrap();
        let frame = each::frame(api, version, claim);
        let (header, body) = parse_header(frame).unwrap();
        assert!(!hold_to_bounds(&header, &body));
    }
}

/// Tags cost far more memory than bytes; the count of them must not be short.
#[test]
fn unknown_tags_cost_what_the_check_says() {
    let api = served(12).unwrap();
    for count in (0..300).chain([1000, 5000]) {
        let mut body = vec![2, b'g', 0, 0, 0, 1, 2, b'm', 0];
        body.extend(varint(count));
        for tag in 0..count {
            body.extend(varint(tag));
            body.push(0);
        }
        assert!(hold_to_bounds(&header(api, 4), &body.into()), "{count}");
    }
}

/// Arrays of the smallest elements, up to the limit.
#[test]
fn small_elements_cost_what_the_check_says() {
    let (metadata, list_groups) = (served(3).unwrap(), served(16).unwrap());
    let mut largest = 0;
    for count in [0, 1, 100, 14_000, 20_000, 40_000, 1_000_000] {
        let mut topics = varint(count + 1);
        topics.extend([1, 0].repeat(count as usize));
        topics.extend([1, 0, 0, 0]);
        let mut names = varint(count + 1);
        names.extend(vec![1; count as usize]);
        names.extend([1, 0]);
        for (api, version, body) in [(metadata, 9, topics), (list_groups, 5, names)] {
            let body = Bytes::from(body);
            let passes = hold_to_bounds(&header(api, version), &body);
            assert!(passes == (count <= 40_000 && !(api == metadata && count == 40_000)));
            largest = largest.max(check_body(api, version, &body).unwrap_or(0));
        }
    }
    assert!(
        largest > 1 << 20,
        "the test comes near the limit: {largest}"
    );
}

/// Names of few bytes whose answers are structs of many: what the answer takes is counted, too.
#[test]
fn an_answer_out_of_proportion_is_refused() {
    let names = |count: u32, length: usize| {
        let mut names = varint(count + 1);
        for at in 0..count {
            names.extend(varint(length as u32 + 1));
            names.extend(format!("{at:0length$x}").into_bytes());
        }
        names
    };
    // By API and version: what is before the names, and after them.
    let find = (served(10).unwrap(), 4, &[0_u8][..], &[0_u8][..]);
    let describe = (served(15).unwrap(), 5, &[][..], &[0_u8, 0][..]);
    let delete = (served(42).unwrap(), 2, &[][..], &[0_u8][..]);
    let transactions = (served(65).unwrap(), 0, &[][..], &[0_u8][..]);
    // All groups of a large cluster in one request are sound, whatever they are called.
    let short = (names(20_000, 5), true);
    let long = (names(100_000, 36), true);
    let hostile = (names(1_000_000, 5), false);
    for (api, version, before, after) in [find, describe, delete, transactions] {
        for (names, is_sound) in [&short, &long, &hostile] {
            let body = Bytes::from([before, names, after].concat());
            if *is_sound {
                assert!(hold_to_bounds(&header(api, version), &body), "{}", api.name);
                continue;
            }
            let (checked, allocated) = counted::count(|| check_body(api, version, &body));
            let Err(WireError::Malformed { fault, .. }) = checked else {
                panic!("{}: {checked:?}", api.name);
            };
            assert!(matches!(fault, BodyFault::Answer { .. }), "{fault}");
            assert_eq!(allocated, counted::Allocated::default());
        }
    }
}

/// The same of partitions without records, six bytes each: what a producer that writes to 100,000 of them at once sends
/// is sound.
#[test]
fn a_produce_of_very_many_empty_partitions_is_refused() {
    for (count, is_sound) in [(100_000, true), (3_000_000, false)] {
        let before = [0, 0, 1, 0, 0, 0, 9, 2, 2, b't'];
        let elements = (0..count).flat_map(|n: u32| [&n.to_be_bytes()[..], &[0, 0]].concat());
        let elements: Vec<u8> = elements.collect();
        let body = [&before, &*varint(count + 1), &elements, &[0, 0]].concat();
        match (is_sound, check_body(served(0).unwrap(), 9, &body)) {
            (true, Ok(_)) => {}
            (false, Err(WireError::Malformed { fault, .. })) => {
                assert!(matches!(fault, BodyFault::Answer { .. }), "{fault}");
            }
            (_, checked) => panic!("{count}: {checked:?}"),
        }
    }
}

/// The same of arrays of partitions, which take four bytes each: some 100,000 are sound.
#[test]
fn partitions_whose_answer_is_out_of_proportion_are_refused() {
    let partitions = |count: u32| {
        let numbers = (0..count).flat_map(u32::to_be_bytes);
        varint(count + 1)
            .into_iter()
            .chain(numbers)
            .collect::<Vec<u8>>()
    };
    // By API and version: what is before the partitions of one topic, and after them.
    let fetch = (
        served(9).unwrap(),
        8,
        &[2, 2, b'g', 2, 2, b't'][..],
        &[0_u8, 0, 0, 0][..],
    );
    let old_fetch = (
        served(9).unwrap(),
        6,
        &[2, b'g', 2, 2, b't'][..],
        &[0_u8, 0][..],
    );
    let producers = (served(61).unwrap(), 0, &[2, 2, b't'][..], &[0_u8, 0][..]);
    for (api, version, before, after) in [fetch, old_fetch, producers] {
        for (count, is_sound) in [(100_000, true), (20_000_000, false)] {
            let body = Bytes::from([before, &partitions(count), after].concat());
            let checked = check_body(api, version, &body);
            match (is_sound, &checked) {
                (true, Ok(_)) => {}
                (false, Err(WireError::Malformed { fault, .. })) => {
                    assert!(matches!(fault, BodyFault::Answer { .. }), "{fault}");
                }
                _ => panic!("{} {version}, {count}: {checked:?}", api.name),
            }
        }
    }
}

/// A change to the bytes of a sound body.
#[derive(Debug, Clone)]
enum Edit {
    Replace(usize, u8),
    Insert(usize, u8),
    Remove(usize),
    Cut(usize),
    Repeat(usize, usize),
}

impl Edit {
    fn apply(&self, body: &mut Vec<u8>) {
        if body.is_empty() {
            return;
        }
        let length = body.len();
        match *self {
            Self::Replace(at, byte) => body[at % length] = byte,
            Self::Insert(at, byte) => body.insert(at % length, byte),
            Self::Remove(at) => drop(body.remove(at % length)),
            Self::Cut(at) => body.truncate(at % length),
            Self::Repeat(at, count) => {
                let from = at % length;
                let piece = body[from..(from + count % 32).min(length)].to_vec();
                body.splice(from..from, piece);
            }
        }
    }
}

/// Bytes of which half are small lengths, markers and ends of numbers.
fn byte() -> impl Strategy<Value = u8> {
    any::<u8>().prop_map(|byte| match byte {
        0..=119 => byte % 8,
        120..=135 => 0x7f + byte % 2,
        136..=143 => 0xff,
        _ => byte,
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (any::<usize>(), byte()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        2 => (any::<usize>(), byte()).prop_map(|(at, byte)| Edit::Insert(at, byte)),
        2 => any::<usize>().prop_map(Edit::Remove),
        1 => any::<usize>().prop_map(Edit::Cut),
        1 => (any::<usize>(), any::<usize>()).prop_map(|(at, count)| Edit::Repeat(at, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn spoilt_requests_are_refused_or_cost_what_the_check_says(
        which in any::<prop::sample::Index>(),
        seed in any::<u64>(),
        edits in prop::collection::vec(edit(), 1..6),
    ) {
        let all: Vec<_> = every_version().collect();
        let (api, version) = all[which.index(all.len())];
        let mut body = each::filled(&mut Filler::seeded(api, version, seed)).to_vec();
        for edit in &edits {
            edit.apply(&mut body);
        }
        hold_to_bounds(&header(api, version), &body.into());
    }

    #[test]
    fn any_bytes_are_refused_or_cost_what_the_check_says(
        which in any::<prop::sample::Index>(),
        body in prop::collection::vec(byte(), 0..60),
    ) {
        let all: Vec<_> = every_version().collect();
        let (api, version) = all[which.index(all.len())];
        hold_to_bounds(&header(api, version), &body.into());
    }
}
