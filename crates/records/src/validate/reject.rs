//! Why a batch was refused, in the terms of a Produce response (P-34).

use std::fmt;

/// The error that the partition answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RejectKind {
    /// INVALID_RECORD.
    InvalidRecord,
    /// CORRUPT_MESSAGE; the producer sends again.
    CorruptMessage,
    /// MESSAGE_TOO_LARGE; the producer may split.
    MessageTooLarge,
    /// INVALID_TIMESTAMP.
    InvalidTimestamp,
    /// UNSUPPORTED_COMPRESSION_TYPE.
    UnsupportedCompression,
}

/// A refused batch: nothing of it may be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedBatch {
    /// The partition's error.
    pub kind: RejectKind,
    /// The partition's error message.
    pub message: String,
    /// Index in the batch and message of records at fault, in order and at most a thousand; empty
    /// when the batch as a whole is at fault.
    pub records: Vec<(i32, String)>,
}

impl RejectedBatch {
    pub(super) fn new(kind: RejectKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            records: Vec::new(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(RejectKind::InvalidRecord, message)
    }
}

impl fmt::Display for RejectedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RejectedBatch {}
