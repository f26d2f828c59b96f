//! The request header, read by hand: the stock decoder panics on short frames (W-2).

use bytes::{Buf, Bytes};
use kafka_protocol::protocol::StrBytes;

use crate::api::{ServedApi, served};
use crate::error::WireError;

/// Header of a request, version 1 or 2 (W-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// Row of the API in our table.
    pub api: &'static ServedApi,
    /// Version of the request; not checked against the row for ApiVersions.
    pub version: i16,
    /// What the response must repeat.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<StrBytes>,
}

/// Reads the header at the front of a frame, and returns it with the body behind it. Errors: an
/// unknown API, a version that is not served (except of ApiVersions), too few bytes.
pub fn parse_header(mut frame: Bytes) -> Result<(RequestHeader, Bytes), WireError> {
    if frame.len() < 8 {
        return Err(WireError::Header("fewer than 8 bytes"));
    }
    let key = frame.get_i16();
    let version = frame.get_i16();
    let correlation_id = frame.get_i32();
    let api = served(key).ok_or(WireError::UnknownApi(key))?;
    let is_api_versions = api.api == crate::Api::ApiVersions;
    if !api.serves(version) {
        if is_api_versions {
            // The rest of the header cannot be trusted; the answer does not need it.
            let header = RequestHeader {
                api,
                version,
                correlation_id,
                client_id: None,
            };
            return Ok((header, Bytes::new()));
        }
        return Err(WireError::UnsupportedVersion {
            api: api.name,
            version,
        });
    }
    let client_id = take_client_id(&mut frame)?;
    if api.is_flexible(version) {
        skip_tagged_fields(&mut frame)?;
    }
    Ok((
        RequestHeader {
            api,
            version,
            correlation_id,
            client_id,
        },
        frame,
    ))
}

fn take_client_id(frame: &mut Bytes) -> Result<Option<StrBytes>, WireError> {
    if frame.len() < 2 {
        return Err(WireError::Header("no client id"));
    }
    let length = frame.get_i16();
    if length < 0 {
        return Ok(None);
    }
    let length = length as usize;
    if frame.len() < length {
        return Err(WireError::Header("client id longer than the frame"));
    }
    // A copy: the name outlives the frame, which may be large.
    let text = Bytes::copy_from_slice(&frame.split_to(length));
    StrBytes::from_utf8(text)
        .map(Some)
        .map_err(|_| WireError::Header("client id is not UTF-8"))
}

fn skip_tagged_fields(frame: &mut Bytes) -> Result<(), WireError> {
    let count = take_varint(frame)?;
    for _ in 0..count {
        take_varint(frame)?;
        let size = take_varint(frame)? as usize;
        if frame.len() < size {
            return Err(WireError::Header("tagged field longer than the frame"));
        }
        frame.advance(size);
    }
    Ok(())
}

fn take_varint(frame: &mut Bytes) -> Result<u32, WireError> {
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        if frame.is_empty() {
            return Err(WireError::Header("cut off in a variable-length number"));
        }
        let byte = frame.get_u8();
        if shift == 28 && byte > 0x0f {
            break;
        }
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(WireError::Header("a variable-length number is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{BufMut, BytesMut};

    fn frame(key: i16, version: i16, client: Option<&str>, rest: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(key);
        out.put_i16(version);
        out.put_i32(77);
        match client {
            Some(c) => {
                out.put_i16(c.len() as i16);
                out.put_slice(c.as_bytes());
            }
            None => out.put_i16(-1),
        }
        out.put_slice(rest);
        out.freeze()
    }

    // W-2, W-4
    #[test]
    fn both_header_versions_parse() {
        let (h, body) = parse_header(frame(3, 1, Some("me"), &[1, 2])).unwrap();
        assert_eq!((h.version, h.correlation_id), (1, 77));
        assert_eq!(h.client_id.as_deref(), Some("me"));
        assert_eq!(&body[..], &[1, 2]);
        // One tagged field, tag 9, three bytes; it is skipped.
        let (_, body) = parse_header(frame(3, 9, None, &[1, 9, 3, 7, 7, 7, 42])).unwrap();
        assert_eq!(&body[..], &[42]);
    }

    // W-7, A-3
    #[test]
    fn unknown_apis_and_versions() {
        assert_eq!(
            parse_header(frame(99, 0, None, &[])),
            Err(WireError::UnknownApi(99))
        );
        assert!(parse_header(frame(3, 99, None, &[])).is_err());
        assert!(parse_header(frame(0, 2, None, &[])).is_err());
        let (h, _) = parse_header(frame(18, 127, None, &[])).unwrap();
        assert_eq!(h.version, 127);
    }

    #[test]
    fn short_and_hostile_headers_are_errors() {
        let whole = frame(3, 9, Some("client"), &[2, 1, 1, 0, 2, 0, 5]);
        for cut in 0..whole.len() - 1 {
            assert!(parse_header(whole.slice(..cut)).is_err(), "{cut}");
        }
        assert!(parse_header(frame(3, 9, None, &[0xff; 9])).is_err());
    }
}
