//! What leaves a connection: own bytes, batches from memory, ranges of files.

use std::sync::Arc;

use bytes::Bytes;
use strandline_log::{FetchPart, FileSlice};
use strandline_records::Batch;

/// A piece of a response; none is ever copied into another.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// Own bytes, or bytes of the chunk cache.
    Bytes(Bytes),
    /// A batch of the in-memory tail.
    Batch(Arc<Batch>),
    /// A range of a segment file.
    File(FileSlice),
}

impl From<FetchPart> for Part {
    fn from(part: FetchPart) -> Self {
        match part {
            FetchPart::Batch(batch) => Self::Batch(batch),
            FetchPart::File(slice) => Self::File(slice),
            FetchPart::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A frame for the client.
    Response(Vec<Part>),
    /// Nothing, the request asked for none (W-8).
    Silence,
    /// The connection must go: the client could not understand any answer (W-7), or asked for none
    /// and must learn of a failure (2.6, acks 0).
    Close(&'static str),
}

impl Outcome {
    /// A response of own bytes only.
    pub(crate) fn frame(bytes: Bytes) -> Self {
        Self::Response(vec![Part::Bytes(bytes)])
    }
}
