//! Direct reads from a store that answers as the test says.

use futures::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{BackoffConfig, GetOptions, GetRange, ObjectStore, RetryConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

const SIZE: usize = 600_000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|n| (n * 31 % 251) as u8).collect()
}

/// What the store does with one request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    /// The whole answer.
    Good,
    /// The whole answer, and then it closes the connection without saying so before.
    GoodThenClosed,
    /// Half of the body, and then it closes the connection.
    Half,
    /// In chunks, without a length.
    Chunked,
    Missing,
    /// It closes the connection instead of answering.
    Closed,
}

struct Store {
    client: Arc<dyn ObjectStore>,
    /// Connections that were made, when all acts are done.
    connections: JoinHandle<usize>,
}

/// A store that answers one request after the other.
async fn store(acts: &'static [Act]) -> Store {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = tokio::spawn(async move {
        let (mut acts, mut connections) = (acts.iter(), 0);
        let mut current: Option<TcpStream> = None;
        while acts.len() > 0 {
            let mut socket = match current.take() {
                Some(socket) => socket,
                None => {
                    connections += 1;
                    listener.accept().await.unwrap().0
                }
            };
            let Some(request) = request(&mut socket).await else {
                continue;
            };
            assert!(request.starts_with("GET /bucket/key HTTP/1.1"), "{request}");
            assert_eq!(request.matches("\r\nhost: ").count(), 1, "{request}");
            assert!(
                request.contains("\r\nrange: bytes=0-599999\r\n"),
                "{request}"
            );
            let act = *acts.next().unwrap();
            if answer(&mut socket, act).await {
                current = Some(socket);
            }
        }
        connections
    });
    let client = AmazonS3Builder::new()
        .with_bucket_name("bucket")
        .with_endpoint(format!("http://{address}"))
        .with_access_key_id("id")
        .with_secret_access_key("secret")
        .with_allow_http(true)
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: 0,
            retry_timeout: std::time::Duration::from_secs(5),
        })
        .with_http_connector(DirectConnector {
            pool: BufferPool::default(),
        })
        .build()
        .unwrap();
    Store {
        client: Arc::new(client),
        connections,
    }
}

/// The head of the next request; `None` at the end of the connection.
async fn request(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap().to_lowercase().replacen(
        "get /bucket/key http/1.1",
        "GET /bucket/key HTTP/1.1",
        1,
    ))
}

/// True when the connection stays open.
async fn answer(socket: &mut TcpStream, act: Act) -> bool {
    let head = |status: &str, more: &str| {
        format!(
            "HTTP/1.1 {status}\r\nlast-modified: Mon, 30 Nov 2026 00:00:00 GMT\r\netag: \"1\"\r\n\
             content-range: bytes 0-599999/600000\r\n{more}\r\n"
        )
    };
    let whole = head("206 Partial Content", "content-length: 600000\r\n");
    let content = content();
    let (head, body, stays) = match act {
        Act::Good => (whole, &content[..], true),
        Act::GoodThenClosed => (whole, &content[..], false),
        Act::Half => (whole, &content[..SIZE / 2], false),
        Act::Closed => return false,
        Act::Missing => {
            let head = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n";
            (head.to_owned(), &b"no"[..], true)
        }
        Act::Chunked => {
            let chunked = head("206 Partial Content", "transfer-encoding: chunked\r\n");
            let size = format!("{SIZE:x}\r\n");
            socket
                .write_all((chunked + &size).as_bytes())
                .await
                .unwrap();
            // Whoever does not want it has gone.
            let _ = socket.write_all(&content).await;
            let _ = socket.write_all(b"\r\n0\r\n\r\n").await;
            return false;
        }
    };
    socket.write_all(head.as_bytes()).await.unwrap();
    // In two parts, of which the first comes with the head.
    let (first, second) = body.split_at(body.len() / 3);
    socket.write_all(first).await.unwrap();
    tokio::task::yield_now().await;
    socket.write_all(second).await.unwrap();
    stays
}

async fn read(store: &Store) -> object_store::Result<Vec<u8>> {
    let options = GetOptions {
        range: Some(GetRange::Bounded(0..SIZE as u64)),
        ..GetOptions::default()
    };
    let got = store.client.get_opts(&Path::from("key"), options).await?;
    assert_eq!(got.meta.size, SIZE as u64);
    let mut body = got.into_stream();
    let mut all = Vec::new();
    while let Some(part) = body.try_next().await? {
        all.extend_from_slice(&part);
    }
    assert!(body.next().await.is_none());
    Ok(all)
}

#[tokio::test]
async fn a_connection_is_used_again_and_one_that_is_closed_replaced() {
    use Act::{Closed, Good, GoodThenClosed};
    let store = store(&[Good, Good, GoodThenClosed, Good, Closed, Good]).await;
    for _ in 0..3 {
        assert_eq!(read(&store).await.unwrap(), content());
    }
    // Closed behind the third answer, and instead of the fifth: both times another one is made.
    assert_eq!(read(&store).await.unwrap(), content());
    assert_eq!(read(&store).await.unwrap(), content());
    assert_eq!(store.connections.await.unwrap(), 3);
}

#[tokio::test]
async fn an_answer_without_a_length_is_left_to_the_library() {
    let store = store(&[Act::Chunked, Act::Chunked]).await;
    let error = read(&store).await.unwrap_err();
    assert!(error.to_string().contains("Content-Length"), "{error}");
    assert_eq!(store.connections.await.unwrap(), 2);
}

#[tokio::test]
async fn errors_are_the_stores() {
    let store = store(&[Act::Missing, Act::Good]).await;
    let error = read(&store).await.unwrap_err();
    assert!(
        matches!(error, object_store::Error::NotFound { .. }),
        "{error}"
    );
    assert_eq!(read(&store).await.unwrap(), content());
    assert_eq!(store.connections.await.unwrap(), 1);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_or_read_on() {
    let store = store(&[Act::Half]).await;
    assert!(read(&store).await.is_err());
}
