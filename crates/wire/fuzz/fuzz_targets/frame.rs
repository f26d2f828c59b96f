//! Bytes that claim to be a request, through header, check and decoder.
//!
//! The first byte chooses how the rest becomes a frame: as it is; as the body of an API and version
//! that two bytes name; or as the values of a sound request, which is then spoilt by a few edits.
//! Whatever comes, nothing panics, check and decoder agree, the check allocates nothing and the
//! decoder no more than the check has said.
#![no_main]

#[path = "../../tests/requests/bounded.rs"]
mod bounded;
#[path = "../../tests/requests/counted.rs"]
mod counted;
#[path = "../../tests/requests/each.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod each;
#[path = "../../tests/requests/fill.rs"]
mod fill;
#[path = "../../tests/requests/filler.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod filler;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use strandline_wire::{
    Api, FrameLimit, ServedApi, check_body, frame_length, parse_header, served_apis,
};

use bounded::hold_to_bounds;
use filler::Filler;

#[global_allocator]
static ALLOCATOR: counted::Counted = counted::Counted;

fuzz_target!(|data: &[u8]| {
    let [mode, rest @ ..] = data else {
        return;
    };
    match mode % 3 {
        0 => any_frame(rest),
        1 => any_body(rest),
        _ => spoilt(rest),
    }
});

fn any_frame(bytes: &[u8]) {
    let limit = FrameLimit(1 << 20);
    if let Ok(Some(length)) = frame_length(bytes, limit) {
        assert!(length <= 1 << 20);
    }
    let frame = Bytes::copy_from_slice(bytes);
    let (parsed, allocated) = counted::count(|| parse_header(frame.clone()));
    // The client's name is copied.
    assert!(allocated.total <= 2 * bytes.len() + 1024, "{allocated:?}");
    let Ok((header, body)) = parsed else {
        return;
    };
    assert!(body.len() <= frame.len());
    if !header.api.serves(header.version) {
        // It is answered without a look at the body.
        assert_eq!(header.api.api, Api::ApiVersions);
        return;
    }
    hold_to_bounds(&header, &body);
}

/// Takes two bytes that name an API and one of its versions.
fn take_version(bytes: &[u8]) -> Option<(&'static ServedApi, i16, &[u8])> {
    let [api, version, rest @ ..] = bytes else {
        return None;
    };
    let api = &served_apis()[usize::from(*api) % served_apis().len()];
    let version = api.min + i16::from(*version) % (api.max - api.min + 1);
    Some((api, version, rest))
}

fn any_body(bytes: &[u8]) {
    let Some((api, version, body)) = take_version(bytes) else {
        return;
    };
    let frame = each::frame(api, version, body);
    let (header, rest) = parse_header(frame).expect("a sound header");
    assert_eq!(rest, body);
    hold_to_bounds(&header, &rest);
}

fn spoilt(bytes: &[u8]) {
    let Some((api, version, rest)) = take_version(bytes) else {
        return;
    };
    let [count, rest @ ..] = rest else {
        return;
    };
    let edits = (usize::from(*count) % 8 * EDIT_BYTES).min(rest.len());
    let (edits, values) = rest.split_at(edits);
    let sound = each::filled(&mut Filler::from_bytes(api, version, values));
    let header = each::header(api, version);
    if edits.len() < EDIT_BYTES {
        let checked = check_body(api, version, &sound);
        assert!(
            checked.is_ok(),
            "{checked:?} {} {version} {sound:?}",
            api.name
        );
        let again = each::decode_and_encode(&header, sound.clone());
        assert_eq!(again.as_ref(), Ok(&sound));
    }
    let mut body = sound.to_vec();
    for edit in edits.chunks_exact(EDIT_BYTES) {
        apply(edit, &mut body);
    }
    hold_to_bounds(&header, &body.into());
}

/// What to do, where (two bytes), and a byte.
const EDIT_BYTES: usize = 4;

fn apply(edit: &[u8], body: &mut Vec<u8>) {
    let [what, high, low, byte] = edit else {
        return;
    };
    if body.is_empty() {
        return;
    }
    let at = usize::from(u16::from_be_bytes([*high, *low])) % body.len();
    match what % 5 {
        0 => body[at] = *byte,
        1 => body.insert(at, *byte),
        2 => drop(body.remove(at)),
        3 => body.truncate(at),
        _ => {
            let end = (at + usize::from(*byte)).min(body.len());
            let piece = body[at..end].to_vec();
            body.splice(at..at, piece);
        }
    }
}
