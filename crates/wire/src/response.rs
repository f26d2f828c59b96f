//! Bodies in, responses out.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable};

use crate::api::ServedApi;
use crate::bounds::check_body;
use crate::error::WireError;
use crate::header::RequestHeader;

/// Decodes the body of a request after [`check_body`] has found it sound, so that memory stays in
/// proportion to the body. Errors: those of the check.
pub fn decode_request<T: Decodable>(
    header: &RequestHeader,
    mut body: Bytes,
) -> Result<T, WireError> {
    check_body(header.api, header.version, &body)?;
    let fault = |reason: String| WireError::Body {
        api: header.api.name,
        version: header.version,
        reason,
    };
    T::decode(&mut body, header.version).map_err(|e| fault(e.to_string()))
}

/// Encodes a whole response frame: length, header, body. Errors: a field that the version lacks.
pub fn encode_response<T: Encodable>(
    header: &RequestHeader,
    response: &T,
) -> Result<Bytes, WireError> {
    encode_response_with_header(header.api, header.version, header.correlation_id, response)
}

/// As [`encode_response`], for an answer in another version than the request's.
pub fn encode_response_with_header<T: Encodable>(
    api: &ServedApi,
    version: i16,
    correlation_id: i32,
    response: &T,
) -> Result<Bytes, WireError> {
    let fault = |e: String| WireError::Encode {
        api: api.name,
        version,
        reason: e,
    };
    let size = response
        .compute_size(version)
        .map_err(|e| fault(e.to_string()))?;
    let mut out = BytesMut::with_capacity(size + 9);
    let header_size = 4 + usize::from(api.response_header_version(version) == 1);
    let length = i32::try_from(size + header_size).map_err(|e| fault(e.to_string()))?;
    out.put_i32(length);
    out.put_i32(correlation_id);
    if header_size == 5 {
        out.put_u8(0);
    }
    response
        .encode(&mut out, version)
        .map_err(|e| fault(e.to_string()))?;
    if out.len() != size + header_size + 4 {
        return Err(fault(format!(
            "{} bytes instead of {}",
            out.len(),
            size + header_size + 4
        )));
    }
    Ok(out.freeze())
}
