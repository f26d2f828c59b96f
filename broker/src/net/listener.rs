//! Accepts connections.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strandline_env::Shutdown;
use tokio::net::{TcpListener, TcpStream};

use crate::api::ClientConnection;
use crate::broker::Broker;
use crate::net::{connection, socket_options};

/// Pause after a failed accept, usually for want of file descriptors.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(50);

/// Connections that are open now, by address.
#[derive(Debug)]
pub(crate) struct ConnectionCount {
    by_ip: Mutex<HashMap<IpAddr, usize>>,
    /// What the process has handles for, beside those of its own files.
    most: usize,
}

impl ConnectionCount {
    /// `handles` is how many files and sockets the process may have open. A quarter is the log's, and an eighth for
    /// all else, so that no number of clients keeps the broker from its own files.
    pub(crate) fn new(handles: u64) -> Self {
        let most = handles - handles / 4 - handles / 8;
        Self {
            by_ip: Mutex::default(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
        }
    }

    /// Counts a connection, unless one of the limits is reached.
    fn admit(
        self: &Arc<Self>,
        ip: IpAddr,
        max: usize,
        max_per_ip: usize,
    ) -> Option<ConnectionPermit> {
        let mut by_ip = self.by_ip.lock();
        let total: usize = by_ip.values().sum();
        let of_ip = by_ip.get(&ip).copied().unwrap_or(0);
        if total >= max.min(self.most) || of_ip >= max_per_ip {
            return None;
        }
        by_ip.insert(ip, of_ip + 1);
        Some(ConnectionPermit {
            count: Arc::clone(self),
            ip,
        })
    }

    /// Connections that are open now.
    pub(crate) fn total(&self) -> usize {
        self.by_ip.lock().values().sum()
    }
}

#[derive(Debug)]
struct ConnectionPermit {
    count: Arc<ConnectionCount>,
    ip: IpAddr,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut by_ip = self.count.by_ip.lock();
        if let Some(n) = by_ip.get_mut(&self.ip) {
            *n -= 1;
            if *n == 0 {
                by_ip.remove(&self.ip);
            }
        }
    }
}

/// Accepts until shutdown.
pub(crate) async fn accept(
    listener: TcpListener,
    listener_name: Arc<str>,
    broker: Arc<Broker>,
    shutdown: Shutdown,
) {
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => start(socket, peer, &listener_name, &broker, &shutdown),
            Err(e) => {
                tracing::warn!(error = %e, "accept failed");
                tokio::time::sleep(ACCEPT_BACK_OFF).await;
            }
        }
    }
}

fn start(
    socket: TcpStream,
    peer: SocketAddr,
    listener_name: &Arc<str>,
    broker: &Arc<Broker>,
    shutdown: &Shutdown,
) {
    let (max, max_per_ip) = broker.config.max_connections();
    let Some(permit) = broker.connections.admit(peer.ip(), max, max_per_ip) else {
        tracing::warn!(%peer, "connection refused: max.connections, max.connections.per.ip, or the process may not open more files");
        return;
    };
    if let Err(e) = socket_options::set(&socket, peer) {
        tracing::debug!(%peer, error = %e, "socket options");
    }
    let client = ClientConnection {
        peer,
        listener: Arc::clone(listener_name),
    };
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = connection::serve(socket, client, broker) => {}
            () = shutdown.cancelled() => {}
        }
        drop(permit);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_handles_for_the_files_of_the_broker() {
        let count = Arc::new(ConnectionCount::new(1024));
        let admit = |last: u8, max: usize| count.admit(IpAddr::from([127, 0, 0, last]), max, 1000);
        let mut open: Vec<_> = (0..640)
            .map(|n| admit(n as u8 % 2, usize::MAX).unwrap())
            .collect();
        assert!(admit(1, usize::MAX).is_none());
        open.truncate(600);
        assert!(admit(1, 600).is_none());
        assert!(admit(1, 601).is_some());
        assert_eq!(count.total(), 600);
    }
}
