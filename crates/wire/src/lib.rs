//! The Kafka wire protocol: frames, headers, versions, messages, error codes.
//!
//! The only crate that knows `kafka-protocol`. A record set is opaque [`bytes::Bytes`] here.
#![forbid(unsafe_code)]

mod api;
mod bounds;
mod error;
mod error_code;
mod fetch_response;
mod frame;
mod header;
mod response;

pub use api::{Api, ServedApi, served, served_apis};
pub use bounds::check_body;
pub use error::{BodyFault, WireError};
pub use error_code::ErrorCode;
pub use fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchPartitionHead, FetchResponseHead, FetchTopicHead,
    LeaderIdAndEpoch, NodeEndpoint, SplicedFrame, encode_fetch_response,
};
pub use frame::{FrameLimit, frame_length};
pub use header::{RequestHeader, parse_header};
pub use kafka_protocol::messages;
pub use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
pub use response::{decode_request, encode_response, encode_response_with_header};
