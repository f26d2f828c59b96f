//! Record batches as bytes: header view and patch, walking, validation, codecs, building. No I/O.
//!
//! Only format version 2 ("magic 2") exists here (SEMANTICS 0.4). Bytes come from anyone: no input
//! makes this crate panic, or take memory out of proportion to what the input really holds.
#![forbid(unsafe_code)]

mod batch;
mod builder;
mod compact;
pub mod compression;
mod control;
mod error;
mod record;
#[cfg(test)]
mod test_batches;
mod validate;
mod varint;
mod walk;

pub use batch::{
    Attributes, BATCH_HEAD_BYTES, Batch, BatchHeader, Compression, LOG_OVERHEAD_BYTES,
};
pub use builder::BatchBuilder;
pub use compact::{Compacted, DeleteHorizon, KeyedRecord, OpenBatch};
pub use control::{ControlRecordType, EndTransactionMarker};
pub use error::{BatchError, RecordFault};
pub use record::{Record, Records, records};
pub use validate::{
    CheckDepth, RejectKind, RejectedBatch, TargetCompression, ValidateOptions, validate_produce,
};
pub use varint::{put_varint, put_varlong, read_varint, read_varlong, varint_len, varlong_len};
pub use walk::{
    MAX_LOOKUP_BYTES, RecordHead, RecordPosition, first_record_at_or_after, max_timestamp_record,
    walk,
};
