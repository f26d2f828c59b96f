//! Plain connections to a store, kept for the next read.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::head::{self, Address, Answer, Parsed};

const CONNECT: Duration = Duration::from_secs(5);
/// Stores close what was idle for longer.
const IDLE: Duration = Duration::from_secs(20);
/// Connections to one address that are kept.
const MAX_KEPT: usize = 64;
/// A head of an answer at most, in bytes.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// A connection that nothing is under way on, or one answer.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: TcpStream,
    /// What came behind the head of the answer, and belongs to its body.
    pub(super) rest: Bytes,
    address: Address,
}

/// Those that wait for the next read.
#[derive(Debug, Default)]
pub(super) struct Connections {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_address: HashMap<Address, Vec<(Connection, Instant)>>,
    /// Somebody closes those that nobody takes.
    is_watched: bool,
}

impl Kept {
    /// Closes what has waited too long; false when nothing is left.
    fn close_idle(&mut self) -> bool {
        self.by_address.retain(|_, connections| {
            connections.retain(|(_, since)| since.elapsed() < IDLE);
            !connections.is_empty()
        });
        self.is_watched = !self.by_address.is_empty();
        self.is_watched
    }
}

/// Ends with the last connection that waits.
async fn watch(connections: Weak<Connections>) {
    loop {
        tokio::time::sleep(IDLE).await;
        match connections.upgrade() {
            Some(connections) if connections.kept.lock().close_idle() => {}
            _ => return,
        }
    }
}

/// Errors: nobody listens there, or not in time.
pub(super) async fn open(address: &Address) -> io::Result<Connection> {
    // An IPv6 address has brackets in a URL.
    let host = address.host.trim_matches(['[', ']']);
    let connect = TcpStream::connect((host, address.port));
    let socket = tokio::time::timeout(CONNECT, connect)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    socket.set_nodelay(true)?;
    Ok(Connection {
        socket,
        rest: Bytes::new(),
        address: address.clone(),
    })
}

impl Connections {
    /// One that was kept and is not closed, as far as can be seen.
    pub(super) fn take(&self, address: &Address) -> Option<Connection> {
        let mut kept = self.kept.lock();
        let of_address = kept.by_address.get_mut(address)?;
        // The newest is the least likely to be closed.
        while let Some((connection, _)) = of_address.pop() {
            let mut byte = [0];
            // Nothing is owed: a byte, or an end, means that it is of no use.
            let peeked = connection.socket.try_read(&mut byte);
            if peeked.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps one whose answer was read to its end. Must be called within a tokio runtime.
    pub(super) fn keep(self: &Arc<Self>, connection: Connection) {
        let mut kept = self.kept.lock();
        let of_address = kept.by_address.entry(connection.address.clone());
        let of_address = of_address.or_default();
        if of_address.len() < MAX_KEPT {
            of_address.push((connection, Instant::now()));
        }
        if !std::mem::replace(&mut kept.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }
}

impl Connection {
    /// Sends a request, and reads the head of its answer. `None`: the answer is not for us.
    pub(super) async fn ask(&mut self, request: &[u8]) -> io::Result<Option<Answer>> {
        self.socket.write_all(request).await?;
        let mut bytes = BytesMut::with_capacity(16 << 10);
        loop {
            if self.socket.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match head::parse(&bytes) {
                Ok(Parsed::Head(answer, length)) => {
                    bytes.advance(length);
                    self.rest = bytes.freeze();
                    return Ok(Some(*answer));
                }
                Ok(Parsed::Partial) if bytes.len() < MAX_HEAD_BYTES => {}
                Ok(Parsed::Partial | Parsed::Unusual) | Err(_) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_nobody_takes_is_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
        };
        let connections = Arc::new(Connections::default());
        connections.keep(open(&address).await.unwrap());
        assert!(connections.kept.lock().close_idle(), "it is new");
        for (_, since) in connections.kept.lock().by_address.values_mut().flatten() {
            *since -= IDLE;
        }
        assert!(!connections.kept.lock().close_idle());
        assert!(connections.take(&address).is_none());
        let (mut other, _) = listener.accept().await.unwrap();
        assert_eq!(other.read(&mut [0]).await.unwrap(), 0, "it is closed");
    }
}
