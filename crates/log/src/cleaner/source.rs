//! Reads the batches of a sealed segment in large pieces, each checked (L-41).

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use strandline_records::{BATCH_HEAD_BYTES, Batch, BatchHeader};
use strandline_types::Offset;

use crate::error::LogError;
use crate::log::{Log, SealedView};
use crate::segment::SegmentFile;
use crate::sys;

/// The batches of a segment, in order.
pub(crate) struct SegmentSource {
    file: Arc<File>,
    path: PathBuf,
    size: u64,
    /// Where in the file the next piece begins.
    position: u64,
    piece: Bytes,
    piece_bytes: usize,
    /// Offset that the next batch must not be below.
    next_offset: Offset,
    end: Offset,
}

impl SegmentSource {
    /// Reads `piece_bytes` at once, more where a batch is larger.
    pub(crate) fn open(log: &Log, view: &SealedView, piece_bytes: usize) -> Result<Self, LogError> {
        Ok(Self {
            file: log.open_segment_file(view.id, SegmentFile::Log)?,
            path: SegmentFile::Log.path(log.folder(), view.id.base_offset),
            size: view.size,
            position: 0,
            piece: Bytes::new(),
            piece_bytes: piece_bytes.max(BATCH_HEAD_BYTES),
            next_offset: view.id.base_offset,
            end: view.next_offset,
        })
    }

    /// The next batch, and the bytes that had to be read for it. Errors: the file cannot be read, or a
    /// batch is not what was written.
    pub(crate) fn next(&mut self) -> Result<Option<(Batch, usize)>, LogError> {
        let mut read = 0;
        let size = loop {
            let need = match BatchHeader::parse(&self.piece) {
                Ok(header) if header.size_in_bytes() <= self.piece.len() => {
                    break header.size_in_bytes();
                }
                Ok(header) => header.size_in_bytes(),
                Err(_) if self.piece.len() < BATCH_HEAD_BYTES => BATCH_HEAD_BYTES,
                Err(e) => return Err(self.damaged(e.to_string())),
            };
            if self.piece.is_empty() && self.position == self.size {
                return Ok(None);
            }
            read += self.fill(need)?;
        };
        let bytes = self.piece.split_to(size);
        let batch = Batch::from_bytes(bytes).and_then(|b| b.verify_crc().map(|()| b));
        let batch = batch.map_err(|e| self.damaged(e.to_string()))?;
        let header = batch.header();
        let is_in_range = header.base_offset >= self.next_offset
            && header.last_offset() >= header.base_offset
            && header.next_offset() <= self.end;
        if !is_in_range {
            return Err(self.damaged(format!("its offset {} is out of order", header.base_offset)));
        }
        self.next_offset = header.next_offset();
        Ok(Some((batch, read)))
    }

    /// Makes the piece hold at least `need` bytes from its beginning; how many were read.
    fn fill(&mut self, need: usize) -> Result<usize, LogError> {
        let begin = self.position - self.piece.len() as u64;
        let left = usize::try_from(self.size - begin).unwrap_or(usize::MAX);
        if need > left {
            return Err(self.damaged("it is longer than the file".into()));
        }
        let mut bytes = BytesMut::zeroed(need.max(self.piece_bytes).min(left));
        let n = sys::read_up_to(&self.file, &mut bytes, begin)
            .map_err(|e| LogError::io("read", self.path.clone(), e))?;
        if n < bytes.len() {
            return Err(self.damaged("the file is shorter than expected".into()));
        }
        self.position = begin + n as u64;
        self.piece = bytes.freeze();
        Ok(n)
    }

    fn damaged(&self, reason: String) -> LogError {
        let position = self.position - self.piece.len() as u64;
        LogError::corrupt(
            &*self.path,
            format!("the batch before position {position}: {reason}"),
        )
    }
}
