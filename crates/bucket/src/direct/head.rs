//! Heads of requests and answers (HTTP/1.1).

use http::{HeaderMap, Response, StatusCode, Uri, header};
use object_store::client::HttpRequest;

/// Header fields of an answer at most.
const MAX_FIELDS: usize = 64;

/// Host and port of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

/// What an answer begins with.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) response: Response<()>,
    pub(super) body_bytes: u64,
    /// The connection can be used again behind the body.
    pub(super) is_kept: bool,
}

/// What the first bytes of an answer are.
#[derive(Debug)]
pub(super) enum Parsed {
    /// Not all of the head.
    Partial,
    /// The head, and its length.
    Head(Box<Answer>, usize),
    /// A head, but what follows it has no length that it tells, or leads elsewhere.
    Unusual,
}

/// `None` without a host.
pub(super) fn address(uri: &Uri) -> Option<Address> {
    Some(Address {
        host: uri.host()?.to_owned(),
        port: uri.port_u16().unwrap_or(80),
    })
}

/// The head of a GET; there is no body.
pub(super) fn encode(request: &HttpRequest, address: &Address) -> String {
    let target = request.uri().path_and_query().map_or("/", |p| p.as_str());
    let mut text = format!("GET {target} HTTP/1.1\r\nhost: {}", address.host);
    // As it was signed.
    if address.port != 80 {
        text.push_str(&format!(":{}", address.port));
    }
    text.push_str("\r\n");
    for (name, value) in request.headers() {
        if name != header::HOST
            && let Ok(value) = value.to_str()
        {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str("\r\n");
    text
}

/// Errors: it is no HTTP.
pub(super) fn parse(bytes: &[u8]) -> Result<Parsed, httparse::Error> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(length) = parsed.parse(bytes)? else {
        return Ok(Parsed::Partial);
    };
    let mut headers = HeaderMap::new();
    for field in parsed.headers.iter() {
        let name = http::HeaderName::from_bytes(field.name.as_bytes());
        let value = http::HeaderValue::from_bytes(field.value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Ok(Parsed::Unusual);
        };
        headers.append(name, value);
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let body_bytes = text(header::CONTENT_LENGTH).and_then(|value| value.parse().ok());
    let status = StatusCode::from_u16(parsed.code.unwrap_or_default()).ok();
    let (Some(body_bytes), Some(status)) = (body_bytes, status) else {
        return Ok(Parsed::Unusual);
    };
    let is_plain = !headers.contains_key(header::TRANSFER_ENCODING)
        && !headers.contains_key(header::CONTENT_ENCODING)
        && headers.get_all(header::CONTENT_LENGTH).iter().count() == 1;
    if !is_plain || status.is_informational() || status.is_redirection() {
        return Ok(Parsed::Unusual);
    }
    let closes = text(header::CONNECTION).is_some_and(|v| v.eq_ignore_ascii_case("close"));
    let is_kept = parsed.version == Some(1) && !closes;
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    let answer = Answer {
        response,
        body_bytes,
        is_kept,
    };
    Ok(Parsed::Head(Box::new(answer), length))
}
