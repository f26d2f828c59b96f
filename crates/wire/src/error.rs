//! Why bytes are not a request, or a response cannot be written.

/// A fault of the wire; the connection is closed on all of them (W-1, W-7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The length in front of a frame is negative or above the limit.
    #[error("frame length {length} is outside 0..={limit}")]
    FrameLength {
        /// What the client sent.
        length: i32,
        /// What is allowed now.
        limit: u32,
    },
    /// The request header is cut off or malformed.
    #[error("the request header is malformed: {0}")]
    Header(&'static str),
    /// An API that is not served.
    #[error("api key {0} is not served")]
    UnknownApi(i16),
    /// A version that is not served.
    #[error("version {version} of {api} is not served")]
    UnsupportedVersion {
        /// Name of the API.
        api: &'static str,
        /// What the client sent.
        version: i16,
    },
    /// The body breaks the encoding, or asks for too much.
    #[error("the body of {api} version {version} is malformed at byte {at}, {field}: {fault}")]
    Malformed {
        /// Name of the API.
        api: &'static str,
        /// Version of the request.
        version: i16,
        /// The field that was read last.
        field: &'static str,
        /// Offset in the body, in bytes.
        at: usize,
        /// What is wrong.
        fault: BodyFault,
    },
    /// The body passed our check, and yet does not decode: the two disagree, a fault of ours.
    #[error("the body of {api} version {version} does not decode: {reason}")]
    Body {
        /// Name of the API.
        api: &'static str,
        /// Version of the request.
        version: i16,
        /// The decoder's words.
        reason: String,
    },
    /// A response that cannot be written in the request's version: a fault of ours.
    #[error("a response of {api} version {version} cannot be encoded: {reason}")]
    Encode {
        /// Name of the API.
        api: &'static str,
        /// Version of the request.
        version: i16,
        /// The encoder's words.
        reason: String,
    },
}

/// What is wrong with a request body (W-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyFault {
    /// A length, or a field, goes beyond the end.
    #[error("{needed} bytes are needed, {left} are left")]
    Truncated {
        /// Least number of bytes that the claim takes.
        needed: usize,
        /// Bytes that follow.
        left: usize,
    },
    /// A length below zero that does not mean null.
    #[error("a length of {0}")]
    NegativeLength(i32),
    /// Null where the version has none.
    #[error("null is not allowed")]
    Null,
    /// A string longer than the protocol's strings.
    #[error("a string of {0} bytes")]
    StringLength(usize),
    /// Bytes that are no text.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A variable-length number of more than 32 bits.
    #[error("a variable-length number is too long")]
    Varint,
    /// A tag that does not follow the one before it, or repeats it.
    #[error("tag {0} is out of order")]
    TagOrder(u32),
    /// A tag that other versions have.
    #[error("tag {0} does not belong to the version")]
    TagVersion(u32),
    /// A struct is neither present nor null.
    #[error("a struct's marker is {0}")]
    StructMarker(i8),
    /// The decoded form would be far larger than the body.
    #[error("decoding takes {needed} bytes of memory or more, {limit} are allowed")]
    Memory {
        /// Bytes that were counted before the walk stopped.
        needed: usize,
        /// Bytes that a body of this size may take.
        limit: usize,
    },
    /// The answer to what is named would be far larger than the body.
    #[error("the answer takes {needed} bytes of memory or more, {limit} are allowed")]
    Answer {
        /// Bytes that were counted before the walk stopped.
        needed: usize,
        /// Bytes that the answer to a body of this size may take.
        limit: usize,
    },
    /// Bytes follow the last field of a tagged field.
    #[error("{0} bytes are left over")]
    LeftOver(usize),
}
