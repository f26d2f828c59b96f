//! Record batches as bytes: header view and patch, walking, validation, codecs, building. No I/O.
//!
//! Only format version 2 ("magic 2") exists here (SEMANTICS 0.4).

mod batch;
mod error;

pub use batch::{Attributes, BATCH_HEAD_BYTES, Batch, BatchHeader, Compression, LOG_OVERHEAD_BYTES};
pub use error::BatchError;
