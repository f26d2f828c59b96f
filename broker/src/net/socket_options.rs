//! What a connection of a client asks of the kernel.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpStream;

/// For connections within the machine. The machine's own choice may be one that spaces its packets
/// out for a network's sake (BBR): a timer and a wake-up for every few of them, twice the CPU of a
/// large response. Nothing can be lost or crowded here, so the simplest algorithm does.
const WITHIN_THE_MACHINE: &[u8] = b"reno";

/// Sets the options of an accepted connection.
///
/// # Errors
/// The kernel's; the connection works without them too.
pub(super) fn set(socket: &TcpStream, peer: SocketAddr) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let options = SockRef::from(socket);
    options.set_keepalive(true)?;
    if is_within_the_machine(socket.local_addr()?, peer) {
        options.set_tcp_congestion(WITHIN_THE_MACHINE)?;
    }
    Ok(())
}

/// Both ends have the same address, or a loopback one.
fn is_within_the_machine(local: SocketAddr, peer: SocketAddr) -> bool {
    let (local, peer) = (local.ip().to_canonical(), peer.ip().to_canonical());
    local == peer || (local.is_loopback() && peer.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use tokio::net::TcpListener;

    use super::*;

    fn at(ip: impl Into<std::net::IpAddr>, port: u16) -> SocketAddr {
        SocketAddr::new(ip.into(), port)
    }

    #[test]
    fn only_what_crosses_no_network_is_within_the_machine() {
        let (here, other) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
        assert!(is_within_the_machine(at(here, 9092), at(here, 50_000)));
        assert!(is_within_the_machine(
            at(Ipv6Addr::LOCALHOST, 9092),
            at(Ipv6Addr::LOCALHOST, 50_000)
        ));
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        let second = Ipv4Addr::new(127, 0, 0, 2);
        assert!(is_within_the_machine(at(mapped, 9092), at(second, 50_000)));
        assert!(!is_within_the_machine(at(here, 9092), at(other, 50_000)));
    }

    #[tokio::test]
    async fn a_client_on_this_machine_is_served_without_pacing() {
        let listener = TcpListener::bind(at(Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let to = listener.local_addr().unwrap();
        let client = TcpStream::connect(to).await.unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        set(&accepted, peer).unwrap();

        let options = SockRef::from(&accepted);
        assert!(accepted.nodelay().unwrap() && options.keepalive().unwrap());
        let algorithm = options.tcp_congestion().unwrap();
        assert_eq!(
            algorithm.split(|b| *b == 0).next(),
            Some(WITHIN_THE_MACHINE)
        );
        drop(client);
    }
}
