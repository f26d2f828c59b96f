//! One client connection: frames in, responses out in request order.
//!
//! Rules: W-1, W-5, W-6, W-7, W-8, W-10. A produce request is validated and appended when it is
//! read, so that several are in flight; every other request starts when the answers to those before it
//! are known. In Kafka it starts when they are sent; here they may leave together with its own.
//! Both halves live in one task.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::future::poll_fn;
use strandline_wire::{Api, FrameLimit, WireError, frame_length, parse_header};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;

use crate::api::{self, ClientConnection};
use crate::broker::Broker;
use crate::net::response::Outcome;
use crate::net::writer::PartQueue;

/// Requests of one connection that may be in flight; beyond this the socket is not read. Java
/// producers have 5, librdkafka at acks=0 as many as it likes.
const MAX_IN_FLIGHT: usize = 128;
/// What the requests in flight of one connection may weigh in memory, in bytes; one alone may weigh more.
const MAX_IN_FLIGHT_BYTES: u32 = 512 << 20;
/// What a byte of a request becomes at most when it is decoded; records stay as they arrived.
const DECODED_BYTES: usize = 16;
/// Room for the first read of an idle connection, in bytes.
const READ_BYTES: usize = 64 << 10;
/// Responses that are ready are written together up to this size.
const COALESCE_BYTES: usize = 256 << 10;

/// A response that is there, or will be.
pub(crate) enum Slot {
    /// The answer is known.
    Ready(Outcome),
    /// The answer needs time; polled only when the answers before it are known.
    Pending(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ready(_) => "Ready",
            Self::Pending(_) => "Pending",
        })
    }
}

impl Slot {
    /// An answer that needs time.
    pub(crate) fn pending(future: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::Pending(Box::pin(future))
    }

    pub(crate) async fn outcome(self) -> Outcome {
        match self {
            Self::Ready(outcome) => outcome,
            Self::Pending(future) => future.await,
        }
    }
}

/// Why a connection ended.
#[derive(Debug)]
enum End {
    /// The client closed it.
    ClosedByClient,
    /// Nothing went in or out for `connections.max.idle.ms` (W-10).
    Idle,
    /// The bytes were not a request that is served (W-1, W-7).
    Wire(WireError),
    /// A request asked for no answer, and failed (2.6).
    Refused(&'static str),
    /// The socket failed.
    Io(io::Error),
}

impl From<io::Error> for End {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::TimedOut => Self::Idle,
            _ => Self::Io(e),
        }
    }
}

/// Serves a connection until either side ends it.
pub(crate) async fn serve(socket: TcpStream, client: ClientConnection, broker: Arc<Broker>) {
    let in_flight = AtomicUsize::new(0);
    let room = Arc::new(Semaphore::new(MAX_IN_FLIGHT_BYTES as usize));
    let (slots, responses) = mpsc::channel(MAX_IN_FLIGHT);
    let read = read_requests(&socket, &client, &broker, slots, &in_flight, &room);
    let idle = broker.config.connections_max_idle();
    let write = write_responses(&socket, responses, &in_flight, idle);
    let end = run_both(read, write, idle).await;
    match end {
        End::ClosedByClient | End::Idle => tracing::debug!(peer = %client.peer, ?end, "closed"),
        End::Io(e) => tracing::debug!(peer = %client.peer, error = %e, "connection failed"),
        End::Wire(e) => tracing::info!(peer = %client.peer, error = %e, "connection closed"),
        End::Refused(why) => tracing::info!(peer = %client.peer, why, "connection closed"),
    }
}

/// Longest time that responses are waited for behind which nothing was understood: nobody may be there any more, and
/// a fetch may wait for days.
const DRAIN: Duration = Duration::from_secs(30);

/// Polls both halves in one task. When nothing more can be read, because the client has closed its side or
/// sent what is not served, the responses to what it sent before still go out: a batch that was
/// appended must not look lost. A client that takes nothing of them is cut off as ever.
///
/// After the client has closed its side they have `idle`, as nobody need be there any more and a fetch may wait for
/// weeks (W-10).
async fn run_both(
    read: impl Future<Output = End>,
    write: impl Future<Output = Result<(), End>>,
    idle: Option<Duration>,
) -> End {
    let mut read = std::pin::pin!(read);
    let mut write = std::pin::pin!(write);
    let mut read_end = None;
    let mut drained: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if read_end.is_none()
            && let Poll::Ready(end) = read.as_mut().poll(cx)
        {
            if matches!(end, End::Io(_)) {
                return Poll::Ready(end);
            }
            let limit = if matches!(end, End::Wire(_)) {
                Some(DRAIN)
            } else {
                idle.map(|idle| idle.max(DRAIN))
            };
            drained = limit.map(|limit| Box::pin(tokio::time::sleep(limit)));
            read_end = Some(end);
        }
        if let Some(sleep) = &mut drained
            && sleep.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(read_end.take().unwrap_or(End::ClosedByClient));
        }
        match write.as_mut().poll(cx) {
            Poll::Ready(Err(end)) => Poll::Ready(end),
            Poll::Ready(Ok(())) => Poll::Ready(read_end.take().unwrap_or(End::ClosedByClient)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn read_requests(
    socket: &TcpStream,
    client: &ClientConnection,
    broker: &Arc<Broker>,
    slots: mpsc::Sender<Weighed>,
    in_flight: &AtomicUsize,
    room: &Arc<Semaphore>,
) -> End {
    let limit = FrameLimit(broker.config.socket_request_max_bytes());
    let idle = broker.config.connections_max_idle();
    let mut buffer = BytesMut::new();
    // The largest frame that this client has sent.
    let mut largest = 0;
    loop {
        match frame_length(&buffer, limit) {
            Ok(Some(length)) if buffer.len() >= 4 + length => {
                largest = largest.max(length);
                buffer.advance(4);
                let frame = buffer.split_to(length).freeze();
                if buffer.is_empty() {
                    // An idle connection holds no buffer.
                    buffer = BytesMut::new();
                }
                broker.metrics.network.bytes_in(length + 4);
                let (header, body) = match parse_header(frame) {
                    Ok(parsed) => parsed,
                    Err(e) => return End::Wire(e),
                };
                // Reserve the place in the row first: the order of responses is that of frames.
                let Ok(permit) = slots.reserve().await else {
                    return End::ClosedByClient;
                };
                // Likewise the room: nothing is decoded for a client that does not take its answers.
                let weight = weight(header.api.api, length);
                let Ok(weight) = Arc::clone(room).acquire_many_owned(weight).await else {
                    return End::ClosedByClient;
                };
                in_flight.fetch_add(1, Ordering::Relaxed);
                match api::dispatch(broker, client, header, body).await {
                    Ok(slot) => permit.send((slot, weight)),
                    Err(e) => return End::Wire(e),
                }
                continue;
            }
            Ok(Some(length)) => {
                // A claim is believed as far as the client has kept its word: memory grows with what
                // really arrived, and a client that sends large frames gets room for a whole one.
                let missing = 4 + length - buffer.len();
                let believed = READ_BYTES.max(buffer.len()).max(2 * largest);
                buffer.reserve(missing.min(believed));
            }
            Ok(None) => {}
            Err(e) => return End::Wire(e),
        }
        match wait_readable(socket, idle, in_flight).await {
            Ok(true) => {}
            Ok(false) => return End::Idle,
            Err(e) => return End::Io(e),
        }
        if buffer.capacity() - buffer.len() < 4096 {
            buffer.reserve(READ_BYTES);
        }
        match socket.try_read_buf(&mut buffer) {
            Ok(0) => return End::ClosedByClient,
            Ok(_) => {}
            // The first wait after a frame ends at once, since nothing has said that the socket is
            // empty; the one that lasts is without a buffer.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && buffer.is_empty() => {
                buffer = BytesMut::new();
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return End::Io(e),
        }
    }
}

/// A slot, and what its request takes of the connection's room.
type Weighed = (Slot, OwnedSemaphorePermit);

fn weight(api: Api, length: usize) -> u32 {
    let factor = if api == Api::Produce {
        1
    } else {
        DECODED_BYTES
    };
    let bytes = u32::try_from(length.saturating_mul(factor)).unwrap_or(u32::MAX);
    bytes.min(MAX_IN_FLIGHT_BYTES)
}

/// Waits for bytes; false after `idle` without any, unless a request is in progress (W-10).
async fn wait_readable(
    socket: &TcpStream,
    idle: Option<Duration>,
    in_flight: &AtomicUsize,
) -> io::Result<bool> {
    let Some(idle) = idle else {
        socket.readable().await?;
        return Ok(true);
    };
    loop {
        match tokio::time::timeout(idle, socket.readable()).await {
            Ok(ready) => return ready.map(|()| true),
            Err(_) if in_flight.load(Ordering::Relaxed) > 0 => {}
            Err(_) => return Ok(false),
        }
    }
}

async fn write_responses(
    socket: &TcpStream,
    mut responses: mpsc::Receiver<Weighed>,
    in_flight: &AtomicUsize,
    idle: Option<Duration>,
) -> Result<(), End> {
    let mut queue = PartQueue::default();
    let mut held: Option<Weighed> = None;
    loop {
        let (slot, mut weight) = match held.take() {
            Some(slot) => slot,
            None => match responses.recv().await {
                Some(slot) => slot,
                None => return Ok(()),
            },
        };
        let mut outcome = slot.outcome().await;
        let mut answered = 0;
        loop {
            answered += 1;
            match outcome {
                Outcome::Response(parts) => queue.push(parts),
                Outcome::Silence => {}
                Outcome::Close(why) => {
                    queue.flush(socket, idle).await?;
                    return Err(End::Refused(why));
                }
            }
            if queue.len() >= COALESCE_BYTES {
                break;
            }
            match next_ready(&mut responses).await {
                NextSlot::Ready(next, next_weight) => {
                    outcome = next;
                    drop(std::mem::replace(&mut weight, next_weight));
                }
                NextSlot::NotYet(slot) => {
                    held = Some(slot);
                    break;
                }
                NextSlot::None => break,
            }
        }
        drop(weight);
        // A client that takes its answer, however slowly, is not idle; one that takes nothing is.
        queue.flush(socket, idle).await?;
        in_flight.fetch_sub(answered, Ordering::Relaxed);
    }
}

enum NextSlot {
    Ready(Outcome, OwnedSemaphorePermit),
    NotYet(Weighed),
    None,
}

/// Takes the next slot if its answer is there already.
async fn next_ready(responses: &mut mpsc::Receiver<Weighed>) -> NextSlot {
    match responses.try_recv() {
        Err(_) => NextSlot::None,
        Ok((Slot::Ready(outcome), weight)) => NextSlot::Ready(outcome, weight),
        Ok((Slot::Pending(mut future), weight)) => {
            let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
            match polled {
                Poll::Ready(outcome) => NextSlot::Ready(outcome, weight),
                Poll::Pending => NextSlot::NotYet((Slot::Pending(future), weight)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad_frame() -> End {
        End::Wire(parse_header(bytes::Bytes::new()).unwrap_err())
    }

    // W-5, W-7
    #[tokio::test(start_paused = true)]
    async fn answers_behind_which_nothing_was_understood_are_waited_for_but_not_for_ever() {
        let (minute, began) = (Duration::from_secs(60), tokio::time::Instant::now());
        let late = async {
            tokio::time::sleep(DRAIN / 2).await;
            Ok(())
        };
        let end = run_both(async { bad_frame() }, late, None).await;
        assert!(matches!(end, End::Wire(_)));
        assert_eq!(began.elapsed(), DRAIN / 2);

        let never = std::future::pending::<Result<(), End>>();
        let end = tokio::time::timeout(minute, run_both(async { bad_frame() }, never, None)).await;
        assert!(matches!(end, Ok(End::Wire(_))));
        // Who has only closed its own side may be waiting for them.
        let never = std::future::pending::<Result<(), End>>;
        let closed = run_both(async { End::ClosedByClient }, never(), None);
        assert!(tokio::time::timeout(minute, closed).await.is_err());
    }

    // W-10
    #[tokio::test(start_paused = true)]
    async fn who_has_closed_its_side_is_waited_for_as_long_as_who_says_nothing() {
        let (idle, began) = (Duration::from_secs(600), tokio::time::Instant::now());
        let never = std::future::pending::<Result<(), End>>();
        let end = run_both(async { End::ClosedByClient }, never, Some(idle));
        let end = tokio::time::timeout(2 * idle, end).await;
        assert!(matches!(end, Ok(End::ClosedByClient)));
        assert_eq!(began.elapsed(), idle);
    }
}
