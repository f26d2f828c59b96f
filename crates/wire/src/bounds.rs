//! The check that a request body passes before the stock decoder sees it. Rules: W-4.
//!
//! The decoder reserves memory for as many elements as a length claims, so ten bytes can ask for
//! hundreds of gigabytes. [`check_body`] walks the body along a table of its fields and refuses
//! what does not fit: lengths beyond the bytes that follow, malformed numbers, tags out of order,
//! bytes left over in a tag, and frames whose elements would take far more memory than the frame, or whose
//! answer would. It allocates nothing, and what it accepts the decoder accepts.
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod cursor;
mod messages;
mod schema;
#[cfg(test)]
mod tests;
mod walker;

use crate::api::ServedApi;
use crate::error::WireError;
use walker::{Limits, Walker};

/// Decoded memory that every request may take, in bytes.
const BASE_BYTES: usize = 1 << 20;
/// Decoded memory that each byte of a body adds to that. Requests of real clients need 2 to 7
/// times their size, a crafted one more than 100 times.
const BYTES_PER_BYTE: usize = 16;
/// What no request may exceed: some three million partitions of a fetch.
const MAX_BYTES: usize = 256 << 20;
/// The same as [`BASE_BYTES`] for the answer to what a request names: some 25,000 groups, however short
/// their ids are.
const ANSWER_BASE_BYTES: usize = 8 << 20;

/// Checks the body of a request, and returns how many bytes of memory the decoder will allocate
/// for it at most; text and records are not among them, they stay in the frame. Errors: the body
/// is malformed, it or its answer would take too much memory, or the version is not served.
pub fn check_body(api: &ServedApi, version: i16, body: &[u8]) -> Result<usize, WireError> {
    if !api.serves(version) {
        return Err(WireError::UnsupportedVersion {
            api: api.name,
            version,
        });
    }
    let mut walker = Walker::new(
        body,
        version,
        api.is_flexible(version),
        Limits {
            decoded: limit(BASE_BYTES, body.len()),
            answer: limit(ANSWER_BASE_BYTES, body.len()),
        },
    );
    walker
        .message(messages::request(api.api))
        .map_err(|fault| WireError::Malformed {
            api: api.name,
            version,
            field: walker.field(),
            at: walker.position(),
            fault,
        })
}

/// The memory that a body of so many bytes may take.
fn limit(base_bytes: usize, body_bytes: usize) -> usize {
    body_bytes
        .saturating_mul(BYTES_PER_BYTE)
        .saturating_add(base_bytes)
        .min(MAX_BYTES)
}
