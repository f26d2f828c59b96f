//! Walking the batch headers of a log file through a window, with or without checksums (L-20).

use std::fs::File;
use std::io;

use strandline_records::{BATCH_HEAD_BYTES, Batch, BatchError, BatchHeader};

use crate::sys;

/// From here on a batch's bytes are under its checksum.
const CHECKED_FROM: u64 = 21;

/// A batch in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileBatch {
    pub(crate) position: u64,
    pub(crate) header: BatchHeader,
}

impl FileBatch {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.header.size_in_bytes() as u64
    }
}

/// Why the walk stopped before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WalkError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("position {position}: {reason}")]
    Damaged { position: u64, reason: String },
}

impl WalkError {
    fn damaged(position: u64, reason: impl ToString) -> Self {
        Self::Damaged {
            position,
            reason: reason.to_string(),
        }
    }
}

/// Goes from batch to batch in `[position, end)` of a file.
#[derive(Debug)]
pub(crate) struct BatchWalk<'f> {
    file: &'f File,
    position: u64,
    end: u64,
    window: Vec<u8>,
    window_at: u64,
    window_bytes: usize,
}

impl<'f> BatchWalk<'f> {
    /// A walk that reads `window_bytes` (at least a header) at once.
    pub(crate) fn new(file: &'f File, position: u64, end: u64, window_bytes: usize) -> Self {
        let window_bytes = window_bytes.max(BATCH_HEAD_BYTES);
        Self {
            file,
            position,
            end,
            window: Vec::new(),
            window_at: 0,
            window_bytes,
        }
    }

    /// Makes the window begin at `position`.
    fn fill(&mut self, position: u64) -> io::Result<()> {
        let left = usize::try_from(self.end - position).unwrap_or(usize::MAX);
        self.window.resize(self.window_bytes.min(left), 0);
        self.window_at = position;
        let n = sys::read_up_to(self.file, &mut self.window, position)?;
        self.window.truncate(n);
        Ok(())
    }

    fn in_window(&self, position: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(position.checked_sub(self.window_at)?).ok()?;
        self.window.get(at..at.checked_add(len)?)
    }

    /// The next batch, `None` at the end. Errors: the bytes are no batch, or it passes the end.
    pub(crate) fn next(&mut self) -> Result<Option<FileBatch>, WalkError> {
        let position = self.position;
        if position >= self.end {
            return Ok(None);
        }
        if self.end - position < BATCH_HEAD_BYTES as u64 {
            return Err(WalkError::damaged(
                position,
                "less than a batch header is left",
            ));
        }
        if self.in_window(position, BATCH_HEAD_BYTES).is_none() {
            self.fill(position)?;
        }
        let Some(bytes) = self.in_window(position, BATCH_HEAD_BYTES) else {
            return Err(WalkError::damaged(
                position,
                "the file is shorter than expected",
            ));
        };
        let header = BatchHeader::parse(bytes).map_err(|e| WalkError::damaged(position, e))?;
        let batch = FileBatch { position, header };
        if batch.end() > self.end {
            return Err(WalkError::damaged(
                position,
                "the batch is longer than the file",
            ));
        }
        if header.last_offset_delta < 0 || header.record_count < 0 || header.base_offset < 0 {
            return Err(WalkError::damaged(
                position,
                "a count or offset is negative",
            ));
        }
        self.position = batch.end();
        Ok(Some(batch))
    }

    /// Compares the checksum of `batch` with its bytes.
    pub(crate) fn verify(&mut self, batch: &FileBatch) -> Result<(), WalkError> {
        let from = batch.position + CHECKED_FROM;
        let len = batch.header.size_in_bytes() - CHECKED_FROM as usize;
        if self.in_window(from, len).is_none() && len <= self.window_bytes {
            self.fill(batch.position)?;
        }
        let computed = match self.in_window(from, len) {
            Some(bytes) => crc32c::crc32c(bytes),
            None => self.checksum_in_pieces(from, batch.end())?,
        };
        let stored = batch.header.crc;
        if stored == computed {
            return Ok(());
        }
        Err(WalkError::damaged(
            batch.position,
            BatchError::Crc { stored, computed },
        ))
    }

    fn checksum_in_pieces(&mut self, mut from: u64, end: u64) -> Result<u32, WalkError> {
        let mut crc = 0;
        while from < end {
            self.fill(from)?;
            let left = usize::try_from(end - from).unwrap_or(usize::MAX);
            let piece = self
                .window
                .get(..left.min(self.window.len()))
                .unwrap_or(&[]);
            if piece.is_empty() {
                return Err(WalkError::damaged(
                    from,
                    "the file is shorter than expected",
                ));
            }
            crc = crc32c::crc32c_append(crc, piece);
            from += piece.len() as u64;
        }
        Ok(crc)
    }

    /// The whole of a small batch (a marker); `None` for one above `limit` bytes.
    pub(crate) fn whole(&self, batch: &FileBatch, limit: usize) -> io::Result<Option<Batch>> {
        let len = batch.header.size_in_bytes();
        if len > limit {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        let n = sys::read_up_to(self.file, &mut bytes, batch.position)?;
        bytes.truncate(n);
        Ok(Batch::from_bytes(bytes.into()).ok())
    }
}
