//! Bodies made from the tables, with each length replaced by hostile ones. Rules: W-4.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::*;
use crate::api::{served, served_apis};
use crate::error::BodyFault;
use schema::{Element, Field, Kind, Null, Struct};

/// Writes a body in which every array has two elements, nothing is null and every known tag is
/// sent, and notes where lengths lie.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    version: i16,
    is_flexible: bool,
    /// Ranges of the lengths, and whose they are.
    lengths: Vec<(std::ops::Range<usize>, Whose)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Array(Null),
    Bytes(Null),
    String(Null),
    TagCount,
    TagSize,
}

impl Writer {
    fn message(api: &ServedApi, version: i16) -> Self {
        let is_flexible = api.is_flexible(version);
        let mut writer = Self {
            version,
            is_flexible,
            ..Self::default()
        };
        writer.fields(messages::request(api.api));
        writer
    }

    fn fields(&mut self, of: &Struct) {
        for field in of.fields {
            self.field(field);
        }
        if !self.is_flexible {
            return;
        }
        let tags = of.tags.iter().filter(|tag| tag.field.is_in(self.version));
        let tags: Vec<_> = tags.collect();
        // One that nobody knows comes last.
        self.varint(tags.len() as u32 + 1, Some(Whose::TagCount));
        for tag in tags {
            self.varint(tag.number, None);
            let (version, is_flexible) = (self.version, self.is_flexible);
            let mut inner = Self {
                version,
                is_flexible,
                ..Self::default()
            };
            inner.field(&tag.field);
            self.varint(inner.out.len() as u32, Some(Whose::TagSize));
            let at = self.out.len();
            self.out.extend(&inner.out);
            let moved = |(range, whose): (std::ops::Range<usize>, Whose)| {
                (range.start + at..range.end + at, whose)
            };
            self.lengths.extend(inner.lengths.into_iter().map(moved));
        }
        self.varint(100, None);
        self.varint(3, Some(Whose::TagSize));
        self.out.extend([1, 2, 3]);
    }

    fn field(&mut self, field: &Field) {
        if !field.is_in(self.version) {
            return;
        }
        match field.kind {
            Kind::Fixed(size) => self.out.extend(vec![7; size]),
            Kind::String(null) => self.string(null),
            Kind::Bytes(null) => {
                self.length32(4, Whose::Bytes(null));
                self.out.extend([0xff; 4]);
            }
            Kind::Array(element, null) => {
                self.length32(2, Whose::Array(null));
                for _ in 0..2 {
                    match element {
                        Element::Fixed(size) => self.out.extend(vec![9; size]),
                        Element::String => self.string(Null::Refused),
                        Element::Struct(inner) => self.fields(inner),
                    }
                }
            }
            Kind::Struct(inner) => self.fields(inner),
            Kind::OptionalStruct(inner) => {
                self.out.push(1);
                self.fields(inner);
            }
        }
    }

    fn string(&mut self, null: Null) {
        if self.is_flexible {
            self.varint(6, Some(Whose::String(null)));
        } else {
            self.lengths
                .push((self.out.len()..self.out.len() + 2, Whose::String(null)));
            self.out.extend([0, 5]);
        }
        self.out.extend(b"topic");
    }

    fn length32(&mut self, length: i32, whose: Whose) {
        if self.is_flexible {
            self.varint(length as u32 + 1, Some(whose));
        } else {
            self.lengths
                .push((self.out.len()..self.out.len() + 4, whose));
            self.out.extend(length.to_be_bytes());
        }
    }

    fn varint(&mut self, value: u32, whose: Option<Whose>) {
        let at = self.out.len();
        self.out.extend(varint(value));
        if let Some(whose) = whose {
            self.lengths.push((at..self.out.len(), whose));
        }
    }

    fn replaced(&self, range: &std::ops::Range<usize>, bytes: &[u8]) -> Vec<u8> {
        [&self.out[..range.start], bytes, &self.out[range.end..]].concat()
    }
}

fn varint(mut value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn every_version() -> impl Iterator<Item = (&'static ServedApi, i16)> {
    served_apis()
        .iter()
        .flat_map(|api| (api.min..=api.max).map(move |version| (api, version)))
}

fn fault(api: &ServedApi, version: i16, body: &[u8]) -> Option<BodyFault> {
    match check_body(api, version, body) {
        Ok(_) => None,
        Err(WireError::Malformed { fault, .. }) => Some(fault),
        Err(other) => panic!("{other}"),
    }
}

// W-4
#[test]
fn hostile_lengths_are_refused_wherever_a_length_is() {
    let mut arrays = 0;
    for (api, version) in every_version() {
        let writer = Writer::message(api, version);
        assert_eq!(
            fault(api, version, &writer.out),
            None,
            "{} {version}",
            api.name
        );
        for (range, whose) in &writer.lengths {
            arrays += usize::from(matches!(whose, Whose::Array(_)));
            let hostile: Vec<Vec<u8>> = if writer.is_flexible {
                let values = [writer.out.len() as u32, 1 << 14, 1 << 21, 1 << 28, u32::MAX];
                let mut hostile: Vec<_> = values.map(varint).into();
                // More than 32 bits, and a number that does not end.
                hostile.push(vec![0x80, 0x80, 0x80, 0x80, 0x10]);
                hostile.push(vec![0xff; 5]);
                hostile.push(vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x00]);
                hostile
            } else if range.len() == 2 {
                [i16::MAX, -2, i16::MIN]
                    .map(|n| n.to_be_bytes().to_vec())
                    .into()
            } else {
                let all = writer.out.len() as i32;
                [all, 1 << 16, i32::MAX, -2, i32::MIN]
                    .map(|n| n.to_be_bytes().to_vec())
                    .into()
            };
            for bytes in hostile {
                let body = writer.replaced(range, &bytes);
                let found = fault(api, version, &body);
                assert!(
                    found.is_some(),
                    "{} {version}: {whose:?} {bytes:?}",
                    api.name
                );
            }
        }
    }
    assert!(arrays > 200, "the test looks at {arrays} arrays");
}

// W-4
#[test]
fn null_is_refused_where_it_is_no_value() {
    for (api, version) in every_version() {
        let writer = Writer::message(api, version);
        for (range, whose) in &writer.lengths {
            let (Whose::Array(null) | Whose::Bytes(null) | Whose::String(null)) = *whose else {
                continue;
            };
            if null == Null::Allowed {
                continue;
            }
            let bytes = if writer.is_flexible {
                vec![0]
            } else {
                vec![0xff; range.len()]
            };
            let found = fault(api, version, &writer.replaced(range, &bytes));
            assert_eq!(
                found,
                Some(BodyFault::Null),
                "{} {version} {whose:?}",
                api.name
            );
        }
    }
}

/// Heartbeat 4: three strings and a number, so that tags are easy to place.
fn heartbeat_with_tags(tags: &[u8]) -> Vec<u8> {
    [&[2, b'g', 0, 0, 0, 1, 2, b'm', 0][..], tags].concat()
}

// W-4
#[test]
fn tags_are_unknown_or_in_order_or_refused() {
    let api = served(12).unwrap();
    let tags = |bytes: &[u8]| check_body(api, 4, &heartbeat_with_tags(bytes));
    assert_eq!(tags(&[0]), Ok(0));
    assert!(tags(&[2, 3, 1, 9, 200, 1, 0]).is_ok());
    let faults = [
        (&[2, 4, 0, 3, 0][..], BodyFault::TagOrder(3)),
        (&[2, 4, 0, 4, 0], BodyFault::TagOrder(4)),
        (&[1, 4, 9, 1], BodyFault::Truncated { needed: 9, left: 1 }),
        (&[1, 4, 0xff, 0xff, 0xff, 0xff, 0x7f], BodyFault::Varint),
        (&[2, 4, 0], BodyFault::Truncated { needed: 1, left: 0 }),
    ];
    for (bytes, fault) in faults {
        let Err(WireError::Malformed { fault: found, .. }) = tags(bytes) else {
            panic!("{bytes:?} passes");
        };
        assert_eq!(found, fault, "{bytes:?}");
    }
}

/// Fetch without topics.
fn fetch_with_tags(version: i16, tags: &[u8]) -> Vec<u8> {
    let replica = if version <= 14 { 4 } else { 0 };
    [&vec![0; replica + 21][..], &[1, 1, 1], tags].concat()
}

// W-4
#[test]
fn known_tags_are_walked_to_their_very_end() {
    let api = served(1).unwrap();
    let state = [vec![1, 1, 13], vec![0; 13]].concat();
    assert_eq!(fault(api, 15, &fetch_with_tags(15, &state)), None);
    assert_eq!(fault(api, 14, &fetch_with_tags(14, &[0])), None);
    let early = fault(api, 14, &fetch_with_tags(14, &state));
    assert_eq!(early, Some(BodyFault::TagVersion(1)));
    let long = [vec![1, 1, 14], vec![0; 14]].concat();
    assert_eq!(
        fault(api, 15, &fetch_with_tags(15, &long)),
        Some(BodyFault::LeftOver(1))
    );
    let short = [vec![1, 1, 12], vec![0; 13]].concat();
    let found = fault(api, 15, &fetch_with_tags(15, &short));
    assert_eq!(found, Some(BodyFault::Truncated { needed: 1, left: 0 }));
    // The cluster's id, null and "x".
    assert_eq!(fault(api, 15, &fetch_with_tags(15, &[1, 0, 1, 0])), None);
    assert_eq!(
        fault(api, 15, &fetch_with_tags(15, &[1, 0, 2, 2, b'x'])),
        None
    );
}

#[test]
fn strings_are_text_and_not_too_long() {
    let api = served(22).unwrap();
    let body = |text: &[u8]| {
        [
            varint(text.len() as u32 + 1),
            text.to_vec(),
            vec![0; 4],
            vec![0],
        ]
        .concat()
    };
    assert_eq!(fault(api, 2, &body("雨".as_bytes())), None);
    assert_eq!(fault(api, 2, &body(&[0xe9])), Some(BodyFault::NotUtf8));
    assert_eq!(fault(api, 2, &body(&[b'a'; 32_767])), None);
    let found = fault(api, 2, &body(&[b'a'; 32_768]));
    assert_eq!(found, Some(BodyFault::StringLength(32_768)));
}

#[test]
fn an_optional_struct_is_there_or_not() {
    let api = served(75).unwrap();
    let body = |cursor: &[u8]| [&[1, 0, 0, 0, 9][..], cursor, &[0]].concat();
    assert_eq!(fault(api, 0, &body(&[0xff])), None);
    assert_eq!(fault(api, 0, &body(&[1, 2, b't', 0, 0, 0, 1, 0])), None);
    assert_eq!(fault(api, 0, &body(&[0])), Some(BodyFault::StructMarker(0)));
}

/// Elements of two bytes that take far more when they are decoded.
#[test]
fn elements_that_blow_up_are_refused() {
    let api = served(3).unwrap();
    // Metadata 9: topics with an empty name.
    let body = |count: u32| {
        let mut body = varint(count + 1);
        body.extend([1, 0].repeat(count as usize));
        body.extend([1, 0, 0, 0]);
        body
    };
    let small = body(10_000);
    let memory = check_body(api, 9, &small).unwrap();
    assert!(
        memory > 30 * small.len(),
        "{memory} for {} bytes",
        small.len()
    );
    assert!(matches!(
        fault(api, 9, &body(1_000_000)),
        Some(BodyFault::Memory { .. })
    ));
    // A tag in each element costs more than the element.
    let mut tagged = varint(3000 + 1);
    tagged.extend([1, 1, 50, 0].repeat(3000));
    tagged.extend([1, 0, 0, 0]);
    assert!(matches!(
        fault(api, 9, &tagged),
        Some(BodyFault::Memory { .. })
    ));
}

#[test]
fn the_limit_of_memory_follows_the_body_up_to_a_bound() {
    assert_eq!(limit(BASE_BYTES, 0), 1 << 20);
    assert_eq!(limit(BASE_BYTES, 1000), (1 << 20) + 16_000);
    assert_eq!(limit(BASE_BYTES, 100 << 20), 256 << 20);
    assert_eq!(limit(BASE_BYTES, usize::MAX), 256 << 20);
}

/// What the operator reads names the field.
#[test]
fn a_fault_says_where_it_is() {
    let api = served(12).unwrap();
    let error = check_body(api, 4, &[2, b'g', 0, 0, 0, 1, 2, 0xff, 0, 0]).unwrap_err();
    let expected = "the body of Heartbeat version 4 is malformed at byte 8, member_id: \
                    a string is not UTF-8";
    assert_eq!(error.to_string(), expected);
}
