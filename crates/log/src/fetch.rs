//! What a read gives: whole batches in memory or as ranges of files (DESIGN §3, F-4).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use strandline_records::{Batch, BatchError, BatchHeader};
use strandline_types::Offset;

use crate::error::LogError;
use crate::tail::TailRead;

/// A range of whole batches in a segment file. The handle keeps it readable whatever retention
/// does meanwhile.
#[derive(Debug, Clone)]
pub struct FileSlice {
    /// The segment's file.
    pub file: Arc<File>,
    /// First byte.
    pub position: u64,
    /// Number of bytes.
    pub len: usize,
}

impl FileSlice {
    /// Reads the range into memory. Blocks on the page cache or the device.
    pub fn read(&self) -> io::Result<Bytes> {
        let mut bytes = BytesMut::zeroed(self.len);
        self.file.read_exact_at(&mut bytes, self.position)?;
        Ok(bytes.freeze())
    }
}

/// A piece of a read: always whole batches.
#[derive(Debug, Clone)]
pub enum FetchPart {
    /// A batch in memory.
    Batch(Arc<Batch>),
    /// A range of a file.
    File(FileSlice),
    /// Bytes from elsewhere (the cold tier).
    Bytes(Bytes),
}

impl FetchPart {
    /// Size in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.size_in_bytes(),
            Self::File(slice) => slice.len,
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// True when there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in memory, read if need be.
    pub fn to_bytes(&self) -> io::Result<Bytes> {
        match self {
            Self::Batch(batch) => Ok(batch.to_bytes()),
            Self::File(slice) => slice.read(),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

/// What a read gives: consecutive whole batches, the first of which holds the offset asked for.
#[derive(Debug, Clone)]
pub struct LogRead {
    /// The pieces, in order.
    pub parts: Vec<FetchPart>,
    /// Bytes of all pieces.
    pub size_in_bytes: usize,
    /// Offset after the last batch (exclusive); the offset asked for when there is none.
    pub end_offset: Offset,
}

impl LogRead {
    pub(crate) fn empty(start: Offset) -> Self {
        Self {
            parts: Vec::new(),
            size_in_bytes: 0,
            end_offset: start,
        }
    }

    /// All batches, read into memory if need be; their records' bytes are slices, not copies.
    /// Errors: a file cannot be read, or what is in it is no batch.
    pub fn batches(&self) -> Result<Vec<Batch>, LogError> {
        let mut batches = Vec::new();
        for part in &self.parts {
            if let FetchPart::Batch(batch) = part {
                batches.push(Batch::clone(batch));
                continue;
            }
            let mut bytes = part
                .to_bytes()
                .map_err(|e| LogError::io("read", "segment", e))?;
            while !bytes.is_empty() {
                let damaged = |e: BatchError| LogError::corrupt("segment", e.to_string());
                let size = BatchHeader::parse(&bytes).map_err(damaged)?.size_in_bytes();
                let whole = bytes.split_to(size.min(bytes.len()));
                batches.push(Batch::from_bytes(whole).map_err(damaged)?);
            }
        }
        Ok(batches)
    }

    pub(crate) fn add_tail(&mut self, read: TailRead) {
        self.size_in_bytes += read.size;
        if !read.batches.is_empty() {
            self.end_offset = read.end_offset;
        }
        self.parts
            .extend(read.batches.into_iter().map(FetchPart::Batch));
    }
}
