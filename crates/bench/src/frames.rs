//! Requests and answers as frames.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use strandline_wire::messages::RequestHeader;
use strandline_wire::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use crate::Outcome;

/// A whole frame with a request; `size` is what its body takes, more or less. Errors: the request has
/// fields that the version lacks.
pub fn frame<Q: Request>(
    correlation_id: i32,
    version: i16,
    request: &Q,
    size: usize,
) -> Outcome<Bytes> {
    let header = RequestHeader::default()
        .with_request_api_key(Q::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str("strandline-bench")));
    let mut frame = BytesMut::with_capacity(size + 256);
    frame.put_i32(0);
    header.encode(&mut frame, Q::header_version(version))?;
    request.encode(&mut frame, version)?;
    with_length(frame)
}

/// A frame whose first four bytes were kept free, with its length there. Errors: it is too long for any.
pub fn with_length(mut frame: BytesMut) -> Outcome<Bytes> {
    let length = i32::try_from(frame.len().saturating_sub(4))?.to_be_bytes();
    if let Some(front) = frame.first_chunk_mut::<4>() {
        *front = length;
    }
    Ok(frame.freeze())
}

/// Reads an answer (without its length). Errors: it is not that to the request of this number.
pub fn answer<A: Decodable + HeaderVersion>(
    mut frame: Bytes,
    correlation_id: i32,
    version: i16,
) -> Outcome<A> {
    let is_flexible = A::header_version(version) >= 1;
    let is_it = frame.len() >= 5 && frame.get_i32() == correlation_id;
    if !is_it || (is_flexible && frame.get_u8() != 0) {
        return Err(format!("the answer to request {correlation_id} was expected").into());
    }
    Ok(A::decode(&mut frame, version)?)
}
