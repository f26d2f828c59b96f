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
#[derive(Debug, Default)]
pub(crate) struct ConnectionCount {
    by_ip: Mutex<HashMap<IpAddr, usize>>,
}

impl ConnectionCount {
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
        if total >= max || of_ip >= max_per_ip {
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
        tracing::warn!(%peer, "connection refused: max.connections or max.connections.per.ip");
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
