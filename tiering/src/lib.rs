#![doc = include_str!("../README.md")]

mod error;
mod expire;
mod invariants;
mod key;
mod manifest;
mod metrics;
mod partition;
mod read;
mod segment_object;
mod source;
mod tier;
mod upload;
mod wire;

pub use error::TieringError;
pub use expire::{ExpireRequest, Expired};
pub use invariants::Violation;
pub use key::{PartitionKeys, SegmentName};
pub use manifest::{
    Manifest, ManifestView, PendingDelete, SealedPointer, SegmentEntry, Superseded,
};
pub use metrics::{TieringMetrics, TopicLabel};
pub use partition::{RemotePartition, RemotePartitionId};
pub use read::collector::RemoteRead;
pub use read::lookup::TimestampedOffset;
pub use segment_object::{AbortedTransaction, BLOCK_BYTES, EpochStart};
pub use tier::{RemoteTier, RemoteTierOptions};
pub use upload::{SegmentSource, Uploaded};
