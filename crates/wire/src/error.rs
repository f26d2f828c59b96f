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
    /// The body does not decode.
    #[error("the body of {api} version {version} is malformed: {reason}")]
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
