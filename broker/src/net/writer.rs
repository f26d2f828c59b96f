//! Writes responses to a socket with vectored writes and `sendfile`; nothing is concatenated.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::net::response::Part;

/// Slices in one vectored write; Linux takes at most 1024.
const MAX_SLICES: usize = 1024;
/// Bytes that one `sendfile` call may move before other tasks get their turn.
const MAX_SENDFILE_BYTES: usize = 1 << 20;

/// Parts that wait for the socket, and how far the first of them has been sent.
#[derive(Debug, Default)]
pub(crate) struct PartQueue {
    parts: VecDeque<Part>,
    /// Bytes of the first part that are already out.
    sent: usize,
    bytes: usize,
}

fn part_len(part: &Part) -> usize {
    match part {
        Part::Bytes(bytes) => bytes.len(),
        Part::Batch(batch) => batch.size_in_bytes(),
        Part::File(slice) => slice.len,
    }
}

impl PartQueue {
    /// Puts a response behind what waits.
    pub(crate) fn push(&mut self, parts: Vec<Part>) {
        for part in parts {
            let len = part_len(&part);
            if len > 0 {
                self.bytes += len;
                self.parts.push_back(part);
            }
        }
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// Sends everything. Errors: the socket's, [`io::ErrorKind::TimedOut`] when the peer has taken nothing
    /// for `patience`, or a segment file that is shorter than its range.
    pub(crate) async fn flush(
        &mut self,
        socket: &TcpStream,
        patience: Option<Duration>,
    ) -> io::Result<()> {
        while let Some(first) = self.parts.front() {
            let sent = if let Part::File(slice) = first {
                let position = slice.position + self.sent as u64;
                let left = (slice.len - self.sent).min(MAX_SENDFILE_BYTES);
                let attempt = socket.try_io(Interest::WRITABLE, || {
                    let mut at = position;
                    Ok(rustix::fs::sendfile(
                        socket,
                        &*slice.file,
                        Some(&mut at),
                        left,
                    )?)
                });
                if matches!(attempt, Ok(0)) {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                attempt
            } else {
                let mut slices = Vec::with_capacity(self.parts.len().min(16) * 2);
                self.memory_slices(&mut slices);
                socket.try_write_vectored(&slices)
            };
            match sent {
                Ok(n) => self.advance(n),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    writable(socket, patience).await?
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Slices of the parts in memory in front of the next file.
    fn memory_slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        let mut skip = self.sent;
        for part in &self.parts {
            if slices.len() + 2 > MAX_SLICES {
                return;
            }
            match part {
                Part::Bytes(bytes) => slices.push(IoSlice::new(&bytes[skip..])),
                Part::Batch(batch) => {
                    let head = batch.head();
                    if skip < head.len() {
                        slices.push(IoSlice::new(&head[skip..]));
                    }
                    let body_from = skip.saturating_sub(head.len());
                    slices.push(IoSlice::new(&batch.body()[body_from..]));
                }
                Part::File(_) => return,
            }
            skip = 0;
        }
    }

    fn advance(&mut self, mut n: usize) {
        self.bytes -= n;
        while let Some(first) = self.parts.front() {
            let left = part_len(first) - self.sent;
            if n < left {
                self.sent += n;
                return;
            }
            n -= left;
            self.sent = 0;
            self.parts.pop_front();
        }
    }
}

async fn writable(socket: &TcpStream, patience: Option<Duration>) -> io::Result<()> {
    match patience {
        None => socket.writable().await,
        Some(patience) => tokio::time::timeout(patience, socket.writable()).await?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::sync::Arc;
    use strandline_log::FileSlice;
    use strandline_records::{Attributes, Batch, BatchHeader};
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    fn batch(body: Vec<u8>) -> Arc<Batch> {
        let header = BatchHeader {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: 0,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: 1,
        };
        Arc::new(Batch::build(&header, body.into()))
    }

    #[tokio::test]
    async fn parts_of_all_kinds_arrive_in_order_through_a_slow_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7) as u8).collect();
        io::Write::write_all(&mut file, &content).unwrap();
        let file = Arc::new(file);

        let mut queue = PartQueue::default();
        let mut expected = Vec::new();
        for round in 0..40_usize {
            let own = Bytes::from(vec![round as u8; round * 1000 + 1]);
            let tail = batch(vec![round as u8 ^ 0x55; round * 2000]);
            let (position, len) = (round as u64 * 777, round * 50_001);
            expected.extend_from_slice(&own);
            expected.extend_from_slice(&tail.to_bytes());
            expected.extend_from_slice(&content[position as usize..position as usize + len]);
            let slice = FileSlice {
                file: Arc::clone(&file),
                position,
                len,
            };
            queue.push(vec![Part::Bytes(own), Part::Batch(tail), Part::File(slice)]);
        }
        assert_eq!(queue.len(), expected.len());
        let reader = tokio::spawn(async move {
            let mut client = client;
            let mut got = Vec::new();
            client.read_to_end(&mut got).await.unwrap();
            got
        });
        queue.flush(&server, None).await.unwrap();
        assert_eq!(queue.len(), 0);
        drop(server);
        assert!(reader.await.unwrap() == expected, "the bytes differ");
    }
}
