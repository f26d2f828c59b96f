//! What must hold for any body at all, sound or hostile.

use bytes::Bytes;
use strandline_wire::{RequestHeader, WireError, check_body};

use crate::counted::{Allocated, count};
use crate::each;

/// An allocation of the decoder may be so many times as large as the body ...
const BYTES_PER_BYTE: usize = 64;
/// ... and so many bytes on top.
const BASE_BYTES: usize = 64 << 10;

/// Passes a body through the check and the decoder; true when both accept it. The two agree, the
/// check allocates nothing, and the decoder no more than the check says.
pub(crate) fn hold_to_bounds(header: &RequestHeader, body: &Bytes) -> bool {
    let place = || format!("{} {}: {body:?}", header.api.name, header.version);
    let (checked, allocated) = count(|| check_body(header.api, header.version, body));
    assert_eq!(allocated, Allocated::default(), "the check of {}", place());
    // The first clone allocates: the count of references.
    let copy = body.clone();
    let (decoded, allocated) = count(|| each::decode(header, copy));
    match (checked, decoded) {
        (Ok(memory), Ok(())) => {
            let limit = body.len() * BYTES_PER_BYTE + BASE_BYTES;
            assert!(
                allocated.largest <= limit,
                "{allocated:?} at once for {}",
                place()
            );
            assert!(
                allocated.total <= memory,
                "{allocated:?}, not {memory} for {}",
                place()
            );
            true
        }
        (Err(refused), Err(again)) => {
            assert_eq!(refused, again, "{}", place());
            assert!(!matches!(refused, WireError::Body { .. }), "{}", place());
            assert_eq!(
                allocated,
                Allocated::default(),
                "the refusal of {}",
                place()
            );
            false
        }
        (checked, decoded) => panic!("{checked:?}, {decoded:?}: {}", place()),
    }
}
