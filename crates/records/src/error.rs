//! Why bytes are not a record batch.

/// A batch that cannot be trusted (rules P-5, P-22, P-24, P-33).
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
}
