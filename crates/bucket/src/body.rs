//! The body of an answer, into buffers that are used again.

use std::fs::File;
use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use object_store::{Error, GetResult, GetResultPayload};

use crate::buffers::{BufferPool, ReadBuffer};

/// Reads all of `result`. Errors: the store's; an answer of another length than it announced.
pub(crate) async fn collect(result: GetResult, pool: &BufferPool) -> Result<Bytes, Error> {
    let mut whole = Bytes::new();
    collect_pieces(result, pool, u64::MAX, |bytes| whole = bytes).await?;
    Ok(whole)
}

/// Reads all of `result` and hands out each `piece_bytes` of it, the last with what is left, as soon as they are
/// there. Errors: as [`collect`], after any number of pieces.
pub(crate) async fn collect_pieces(
    result: GetResult,
    pool: &BufferPool,
    piece_bytes: u64,
    deliver: impl FnMut(Bytes),
) -> Result<(), Error> {
    let range = result.range;
    let pieces = Pieces::new(&range, pool, piece_bytes, deliver);
    match result.payload {
        GetResultPayload::File(file, _) => pieces.read_file(file, range.start).await,
        GetResultPayload::Stream(body) => pieces.read_stream(body).await,
    }
}

/// The piece that is being filled, and what is to come.
struct Pieces<'a, F> {
    pool: &'a BufferPool,
    piece_bytes: usize,
    /// Bytes behind the current piece.
    behind: usize,
    /// Bytes of the current piece.
    size: usize,
    /// The current piece, once something was copied into it.
    current: Option<ReadBuffer>,
    filled: usize,
    /// Nothing was asked for: that is one piece.
    is_empty: bool,
    deliver: F,
}

impl<'a, F: FnMut(Bytes)> Pieces<'a, F> {
    fn new(range: &Range<u64>, pool: &'a BufferPool, piece_bytes: u64, deliver: F) -> Self {
        let saturated = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let all = saturated(range.end.saturating_sub(range.start));
        let piece_bytes = saturated(piece_bytes).max(1);
        let first = all.min(piece_bytes);
        Self {
            pool,
            piece_bytes,
            behind: all - first,
            size: first,
            current: None,
            filled: 0,
            is_empty: all == 0,
            deliver,
        }
    }

    /// Hands the current piece out; false when it was the last.
    fn next(&mut self, piece: Bytes) -> bool {
        (self.deliver)(piece);
        self.size = self.behind.min(self.piece_bytes);
        self.behind -= self.size;
        self.filled = 0;
        self.size > 0
    }

    fn next_copied(&mut self) -> bool {
        let piece = self
            .current
            .take()
            .map_or_else(Bytes::new, ReadBuffer::freeze);
        self.next(piece)
    }

    async fn read_file(mut self, file: File, mut at: u64) -> Result<(), Error> {
        let file = std::sync::Arc::new(file);
        loop {
            let (file, mut buffer) = (file.clone(), self.pool.take(self.size));
            let read = move || read_exact(&file, at, buffer.bytes_mut()).map(|()| buffer);
            let piece = tokio::task::spawn_blocking(read).await??.freeze();
            at += piece.len() as u64;
            if !self.next(piece) {
                return Ok(());
            }
        }
    }

    async fn read_stream(
        mut self,
        mut body: impl futures::Stream<Item = Result<Bytes, Error>> + Unpin,
    ) -> Result<(), Error> {
        let mut has_more = self.size > 0;
        while let Some(part) = body.next().await {
            let mut part = part?;
            while !part.is_empty() {
                if !has_more {
                    return Err(wrong_length("longer"));
                }
                let size = part.len().min(self.size - self.filled);
                let here = part.split_to(size);
                // One that is a whole piece need not be copied.
                has_more = if size == self.size {
                    self.next(here)
                } else {
                    self.copy(&here)
                };
            }
        }
        if has_more {
            return Err(wrong_length("shorter"));
        }
        if self.is_empty {
            self.next(Bytes::new());
        }
        Ok(())
    }

    /// Adds to the current piece; false when the last one is full.
    fn copy(&mut self, bytes: &[u8]) -> bool {
        let (pool, size) = (self.pool, self.size);
        let piece = self.current.get_or_insert_with(|| pool.take(size));
        let end = self.filled + bytes.len();
        if let Some(room) = piece.bytes_mut().get_mut(self.filled..end) {
            room.copy_from_slice(bytes);
        }
        self.filled = end;
        end < self.size || self.next_copied()
    }
}

fn read_exact(file: &File, at: u64, into: &mut [u8]) -> Result<(), Error> {
    use std::os::unix::fs::FileExt;
    file.read_exact_at(into, at)
        .map_err(|source| Error::Generic {
            store: "LocalFileSystem",
            source: Box::new(source),
        })
}

/// Not an `io::Error`: that would tell of the local disk, and be final.
fn wrong_length(how: &str) -> Error {
    Error::Generic {
        store: "the store",
        source: format!("the answer is {how} than it announced").into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures::stream;

    use super::*;

    async fn pieces(len: u64, piece: u64, body: &[&'static str]) -> Result<Vec<Bytes>, Error> {
        let (pool, mut found) = (BufferPool::default(), Vec::new());
        let body = stream::iter(body.iter().map(|part| Ok(Bytes::from(*part))));
        let pieces = Pieces::new(&(10..10 + len), &pool, piece, |bytes| found.push(bytes));
        pieces.read_stream(body).await.map(|()| found)
    }

    #[tokio::test]
    async fn pieces_are_put_together_and_a_wrong_length_is_an_error() {
        assert_eq!(pieces(5, 9, &["ab", "", "cde"]).await.unwrap(), ["abcde"]);
        assert_eq!(pieces(0, 9, &[]).await.unwrap(), [""]);
        let long = pieces(4, 9, &["ab", "cde"]).await.unwrap_err();
        assert!(long.to_string().contains("longer"), "{long}");
        let longer = pieces(4, 9, &["abcd", "e"]).await.unwrap_err();
        assert!(longer.to_string().contains("longer"), "{longer}");
        let short = pieces(6, 9, &["ab", "cde"]).await.unwrap_err();
        assert!(short.to_string().contains("shorter"), "{short}");
    }

    #[tokio::test]
    async fn a_body_is_cut_where_it_was_asked_to_be_however_it_arrives() {
        let want = ["abc", "def", "gh"];
        let arrivals: [&[&str]; 4] = [
            &["abcdefgh"],
            &["abc", "def", "gh"],
            &["a", "b", "cdefg", "h"],
            &["abcd", "efgh"],
        ];
        for body in arrivals {
            assert_eq!(pieces(8, 3, body).await.unwrap(), want, "{body:?}");
            assert!(pieces(9, 3, body).await.is_err(), "{body:?}");
        }
        assert_eq!(pieces(6, 3, &["abcdef"]).await.unwrap(), ["abc", "def"]);
    }

    #[tokio::test]
    async fn a_file_is_read_in_pieces_and_one_that_shrank_is_an_error() {
        use std::io::Write;
        let pool = BufferPool::default();
        let read = async |range: Range<u64>, piece| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(b"0123456789").unwrap();
            let mut found = Vec::new();
            let pieces = Pieces::new(&range, &pool, piece, |bytes| found.push(bytes));
            pieces.read_file(file, range.start).await.map(|()| found)
        };
        assert_eq!(read(2..6, 100).await.unwrap(), ["2345"]);
        assert_eq!(read(2..9, 3).await.unwrap(), ["234", "567", "8"]);
        let Error::Generic { source, .. } = read(8..12, 100).await.unwrap_err() else {
            panic!("another error");
        };
        let source = source.downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.kind(), io::ErrorKind::UnexpectedEof);
    }
}
