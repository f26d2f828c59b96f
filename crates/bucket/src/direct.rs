//! Large reads from a store without TLS, from the socket straight into the buffers that readers get.
//!
//! The HTTP library reads into a buffer of its own, from which every byte would be copied once more; for a replay
//! that copy, and the pages behind it, cost the broker a tenth of all its CPU. So GETs of large ranges go over
//! plain connections of our own, and everything else, and whatever looks unusual in an answer, goes the library's way.
//!
//! **Retries**: a kept connection that turns out to be closed is replaced once, since nothing was answered.
//! **Cancellation**: a dropped read closes its connection.

mod body;
mod connection;
mod head;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::{Method, Uri, header};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};

use crate::buffers::BufferPool;
use body::DirectBody;
use connection::Connections;

/// Smaller ranges gain nothing.
const LEAST_BYTES: u64 = 256 << 10;
/// Settings of a proxy, which only the library follows.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];

/// Makes clients whose large reads are direct.
#[derive(Debug)]
pub(crate) struct DirectConnector {
    /// Where the bytes go.
    pub(crate) pool: BufferPool,
}

impl HttpConnector for DirectConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let library = ReqwestConnector::default().connect(options)?;
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if PROXIES.iter().any(is_set) {
            return Ok(library);
        }
        Ok(HttpClient::new(DirectReads {
            library,
            connections: Arc::default(),
            pool: self.pool.clone(),
        }))
    }
}

#[derive(Debug)]
struct DirectReads {
    library: HttpClient,
    connections: Arc<Connections>,
    pool: BufferPool,
}

impl DirectReads {
    /// `None` when the answer is none that can be read directly: the library asks again.
    async fn read(&self, request: &HttpRequest) -> Result<Option<HttpResponse>, HttpError> {
        let Some(address) = head::address(request.uri()) else {
            return Ok(None);
        };
        let text = head::encode(request, &address);
        let mut kept = self.connections.take(&address);
        loop {
            let was_kept = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => connection::open(&address)
                    .await
                    .map_err(|e| HttpError::new(HttpErrorKind::Connect, e))?,
            };
            match connection.ask(text.as_bytes()).await {
                Ok(Some(answer)) => {
                    let kept = answer.is_kept.then(|| Arc::clone(&self.connections));
                    let body = DirectBody::new(connection, answer.body_bytes, &self.pool, kept);
                    let response = answer.response;
                    return Ok(Some(response.map(|()| HttpResponseBody::new(body))));
                }
                Ok(None) => return Ok(None),
                // The store had closed it, or closed it now, while nothing was under way.
                Err(_) if was_kept => {}
                Err(e) => return Err(HttpError::new(HttpErrorKind::Interrupted, e)),
            }
        }
    }
}

impl HttpService for DirectReads {
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            if is_large_read(&request)
                && let Some(response) = self.read(&request).await?
            {
                return Ok(response);
            }
            self.library.execute(request).await
        })
    }
}

/// A GET of a large range, without TLS.
fn is_large_read(request: &HttpRequest) -> bool {
    let is_plain = |uri: &Uri| uri.scheme_str() == Some("http");
    let range = request.headers().get(header::RANGE);
    let range = range.and_then(|value| value.to_str().ok());
    let size = range.and_then(|text| {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)
    });
    request.method() == Method::GET
        && is_plain(request.uri())
        && request.body().is_empty()
        && size.is_some_and(|size| size >= LEAST_BYTES)
}

#[cfg(test)]
mod tests;
