//! A socket that never blocks, with frames that are half sent and half received.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::{Buf, Bytes, BytesMut};
use rustix::event::PollFlags;

use crate::Outcome;

const READ_BYTES: usize = 64 << 10;
/// No frame that these programs send or ask for is larger.
const MAX_FRAME_BYTES: usize = 2 << 20;

/// A connection, of the driver to a broker or of the floor to the driver.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    unsent: BytesMut,
    received: BytesMut,
}

impl Connection {
    /// Connects, and waits for that.
    pub fn open(broker: SocketAddr) -> Outcome<Self> {
        Self::new(TcpStream::connect(broker)?)
    }

    /// Takes an open socket.
    pub fn new(socket: TcpStream) -> Outcome<Self> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            unsent: BytesMut::new(),
            received: BytesMut::new(),
        })
    }

    /// Sends a frame, or keeps what the socket does not take yet.
    pub fn send(&mut self, mut frame: Bytes) -> Outcome<()> {
        if self.unsent.is_empty() {
            let sent = self.write(&frame)?;
            frame.advance(sent);
        }
        self.unsent.extend_from_slice(&frame);
        Ok(())
    }

    /// Sends more of what is kept.
    pub fn flush(&mut self) -> Outcome<()> {
        let bytes = std::mem::take(&mut self.unsent);
        let sent = self.write(&bytes)?;
        self.unsent = bytes;
        self.unsent.advance(sent);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome<usize> {
        let mut sent = 0;
        while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.write(rest) {
                Ok(0) => return Err("the broker takes no more bytes".into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(sent)
    }

    /// Takes what the socket has; one call reads once, since more is announced by the next poll.
    pub fn receive(&mut self, space: &mut [u8]) -> Outcome<()> {
        match self.socket.read(space) {
            Ok(0) => Err("the other side closed the connection".into()),
            Ok(n) => {
                self.received
                    .extend_from_slice(space.get(..n).unwrap_or_default());
                Ok(())
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// The next whole frame, without its length.
    pub fn next_frame(&mut self) -> Outcome<Option<Bytes>> {
        let Some(length) = self.received.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(format!("a frame of {length} bytes").into());
        }
        if self.received.len() < 4 + length {
            return Ok(None);
        }
        self.received.advance(4);
        Ok(Some(self.received.split_to(length).freeze()))
    }

    /// What a poll has to look for.
    pub fn interest(&self) -> PollFlags {
        if self.unsent.is_empty() {
            PollFlags::IN
        } else {
            PollFlags::IN | PollFlags::OUT
        }
    }

    /// Space for [`Connection::receive`], which all connections can share.
    pub fn space() -> Vec<u8> {
        vec![0; READ_BYTES]
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
