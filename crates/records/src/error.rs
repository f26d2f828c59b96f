//! Why bytes are not a record batch, and what is wrong with a record (P-5, P-22, P-24, P-33).

use crate::batch::Compression;

/// A batch that cannot be trusted, or that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than a header, or than the header's length field claims.
    #[error("the batch is truncated: {have} bytes of {need}")]
    Truncated {
        /// Bytes at hand.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The length field is smaller than a header.
    #[error("the batch length {0} is smaller than a batch header")]
    Length(i32),
    /// Not format version 2.
    #[error("record format version {0} is not supported, only 2 is")]
    Magic(i8),
    /// The checksum of the header and the bytes differ.
    #[error("the batch's CRC-32C is {stored:#010x}, its bytes give {computed:#010x}")]
    Crc {
        /// Checksum in the header.
        stored: u32,
        /// Checksum of the bytes.
        computed: u32,
    },
    /// The codec bits have no meaning.
    #[error("compression codec {0} is unknown")]
    Codec(u8),
    /// The codec refused the bytes.
    #[error("the records cannot be decompressed with {codec:?}: {reason}")]
    Decompress {
        /// Codec of the batch.
        codec: Compression,
        /// What the codec said.
        reason: String,
    },
    /// Decompression was stopped at the limit (P-32).
    #[error("the decompressed records exceed {max} bytes")]
    DecompressedTooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// A record is malformed; `index` is its position in the batch.
    #[error("record {index} of the batch is malformed: {fault}")]
    Record {
        /// Index of the record in the batch, from 0.
        index: i32,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// Bytes follow the last record (P-33).
    #[error("bytes follow the last of the batch's {records} records")]
    TrailingBytes {
        /// The record count of the header.
        records: i32,
    },
    /// The header claims a negative number of records.
    #[error("the batch claims {0} records")]
    RecordCount(i32),
    /// The codec could not compress.
    #[error("the records cannot be compressed with {codec:?}: {reason}")]
    Compress {
        /// Codec asked for.
        codec: Compression,
        /// What the codec said.
        reason: String,
    },
    /// The batch to be written would be larger than allowed.
    #[error("the batch exceeds {max} bytes")]
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
    /// A batch without records is not written by us.
    #[error("the batch has no records")]
    Empty,
    /// A control batch does not hold what it must (0.4).
    #[error("the control record is malformed: {0}")]
    Control(&'static str),
}

/// What is wrong with one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The records end inside the record.
    #[error("its bytes end too early")]
    Truncated,
    /// A variable-length integer is longer than its value needs, or overflows.
    #[error("it holds an overlong variable-length integer")]
    Varint,
    /// The record's own length is negative.
    #[error("its length is {0}")]
    Length(i32),
    /// The fields of the record do not fill its length exactly.
    #[error("its fields do not match its length of {0}")]
    LengthMismatch(i32),
    /// A key, value or header value has a negative length other than -1.
    #[error("it holds a field of length {0}")]
    FieldLength(i32),
    /// The number of headers is negative.
    #[error("it claims {0} headers")]
    HeaderCount(i32),
    /// A header without a key.
    #[error("it holds a header whose key has length {0}")]
    HeaderKey(i32),
    /// Base timestamp plus delta overflows.
    #[error("its timestamp delta {0} overflows")]
    Timestamp(i64),
    /// The offset lies outside the batch.
    #[error("its offset delta {0} lies outside the batch")]
    OffsetDelta(i32),
}

impl RecordFault {
    pub(crate) fn at(self, index: i32) -> BatchError {
        BatchError::Record { index, fault: self }
    }
}
