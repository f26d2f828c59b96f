//! The body of an answer, read into the buffers that readers get.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpErrorKind};

use super::connection::{Connection, Connections};
use crate::buffers::{BufferPool, ReadBuffer};

/// Pieces of a body: as large as the chunks of the cold tier, which then need no copy.
const PIECE_BYTES: u64 = 4 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct DirectBody {
    /// Until the end.
    connection: Option<Connection>,
    /// Bytes that no piece was begun for.
    left: u64,
    piece: Option<ReadBuffer>,
    filled: usize,
    pool: BufferPool,
    /// Where the connection goes at the end, if it can be used again.
    kept: Option<Arc<Connections>>,
}

impl DirectBody {
    pub(super) fn new(
        connection: Connection,
        bytes: u64,
        pool: &BufferPool,
        kept: Option<Arc<Connections>>,
    ) -> Self {
        Self {
            connection: Some(connection),
            left: bytes,
            piece: None,
            filled: 0,
            pool: pool.clone(),
            kept,
        }
    }

    /// Fills the piece that is begun.
    fn poll_fill(
        connection: &mut Connection,
        piece: &mut [u8],
        filled: &mut usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(room) = piece.get_mut(*filled..).filter(|room| !room.is_empty()) {
            if !connection.rest.is_empty() {
                let size = room.len().min(connection.rest.len());
                room[..size].copy_from_slice(&connection.rest[..size]);
                connection.rest.advance(size);
                *filled += size;
                continue;
            }
            match connection.socket.try_read(room) {
                Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Ok(size) => *filled += size,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    ready!(connection.socket.poll_read_ready(cx))?;
                }
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The answer is read: the connection is free, unless the store sent more than it announced.
    fn end(&mut self) {
        if let (Some(connection), Some(kept)) = (self.connection.take(), self.kept.take())
            && connection.rest.is_empty()
        {
            kept.keep(connection);
        }
    }
}

impl Body for DirectBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        let Some(connection) = &mut this.connection else {
            return Poll::Ready(None);
        };
        if this.piece.is_none() && this.left == 0 {
            this.end();
            return Poll::Ready(None);
        }
        let piece = this.piece.get_or_insert_with(|| {
            let size = this.left.min(PIECE_BYTES);
            this.left -= size;
            this.pool.take(usize::try_from(size).unwrap_or(usize::MAX))
        });
        let filled = Self::poll_fill(connection, piece.bytes_mut(), &mut this.filled, cx);
        if let Err(error) = ready!(filled) {
            this.connection = None;
            let error = HttpError::new(HttpErrorKind::Interrupted, error);
            return Poll::Ready(Some(Err(error)));
        }
        this.filled = 0;
        let bytes = this.piece.take().map(ReadBuffer::freeze);
        if this.left == 0 {
            this.end();
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        let begun = self.piece.as_ref().map_or(0, |piece| piece.as_ref().len());
        SizeHint::with_exact(self.left + begun as u64)
    }
}
