//! What can go wrong in the cold tier, as facts that the broker turns into Kafka's codes.

use std::sync::Arc;

use strandline_bucket::BucketError;
use strandline_types::{LeaderEpoch, Offset};
use uuid::Uuid;

use crate::invariants::Violation;

/// An operation of the cold tier that failed.
#[derive(Debug, thiserror::Error)]
pub enum TieringError {
    /// The store failed.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// An object is not what was written: damaged, truncated, or of another place. Read twice.
    #[error("'{key}' is corrupt: {why}")]
    Corrupt {
        /// The object.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A segment object that a manifest lists is not in the bucket.
    #[error("'{key}' is not in the bucket")]
    Missing {
        /// The object.
        key: String,
        /// Its last offset (inclusive).
        last_offset: Offset,
    },
    /// An object of a version that this program does not know.
    #[error("'{key}' has format version {version}, this program knows {known} and older")]
    Version {
        /// The object.
        key: String,
        /// Its version.
        version: u16,
        /// The newest version known.
        known: u16,
    },
    /// The offset is not in the cold tier.
    #[error(
        "offset {offset} is not in the cold tier, which holds {log_start_offset} to {end_offset} (exclusive)"
    )]
    OutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// First offset held.
        log_start_offset: Offset,
        /// Offset after the last one held.
        end_offset: Offset,
    },
    /// Another leader took the chain over: this one must stop.
    #[error("leader epoch {epoch} is fenced by epoch {by_epoch} of writer {by_writer}")]
    Fenced {
        /// Our epoch.
        epoch: LeaderEpoch,
        /// The greater epoch in the chain.
        by_epoch: LeaderEpoch,
        /// Who wrote it.
        by_writer: Uuid,
    },
    /// The segment begins below the end of the chain: it, or a part of it, is committed already.
    #[error(
        "a segment at offset {base_offset} overlaps the committed segments, which end at {end_offset}"
    )]
    Overlap {
        /// First offset of the segment.
        base_offset: Offset,
        /// Offset after the last committed segment.
        end_offset: Offset,
    },
    /// The segment begins behind the end of the chain: something in between was never uploaded.
    #[error(
        "a segment at offset {base_offset} leaves a gap behind the committed segments, which end at {end_offset}"
    )]
    Gap {
        /// First offset of the segment.
        base_offset: Offset,
        /// Offset after the last committed segment.
        end_offset: Offset,
    },
    /// The local log ends below the end of the chain: it is not what the chain was made of, or has lost a part.
    #[error(
        "the bucket holds records up to {remote_end}, the local log ended below that and now ends at {local_end}: it is not the log that was tiered"
    )]
    AheadOfLocal {
        /// Offset after the last committed segment.
        remote_end: Offset,
        /// End of the local log.
        local_end: Offset,
    },
    /// The segment reaches above what may be uploaded (S-1).
    #[error("a segment that ends at {next_offset} may not be uploaded: the limit is {limit}")]
    AboveLimit {
        /// Offset after the segment.
        next_offset: Offset,
        /// The smaller of high watermark and last stable offset.
        limit: Offset,
    },
    /// The local segment is not fit for upload: its batches and its description differ.
    #[error("the local segment at offset {base_offset} is damaged: {why}")]
    DamagedSource {
        /// First offset of the segment.
        base_offset: Offset,
        /// What is wrong.
        why: String,
    },
    /// The local segment cannot be read.
    #[error("cannot read the local segment")]
    Source(#[from] std::io::Error),
    /// The partition was deleted from the bucket.
    #[error("the partition was deleted from the bucket")]
    Deleted,
    /// A name that cannot be part of an object key.
    #[error("'{0}' cannot be part of an object key")]
    Name(String),
    /// A manifest that must never exist; the program is wrong, or the bucket was tampered with.
    #[error("the manifest breaks an invariant: {0}")]
    Invariant(#[from] Violation),
    /// The same failure, met by several readers of one chunk.
    #[error("{0}")]
    Shared(Arc<TieringError>),
    /// A background task was cancelled, as at shutdown.
    #[error("cancelled")]
    Cancelled,
}

impl TieringError {
    /// True when the same call may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Bucket(error) => error.is_retriable(),
            Self::Shared(error) => error.is_retriable(),
            Self::Cancelled => true,
            _ => false,
        }
    }

    /// True for damage in the bucket (Kafka's CORRUPT_MESSAGE).
    pub fn is_corruption(&self) -> bool {
        match self {
            Self::Corrupt { .. } | Self::Version { .. } | Self::Invariant(_) => true,
            Self::Shared(error) => error.is_corruption(),
            _ => false,
        }
    }

    /// True when an object is missing that should be there, or the offset is below the log start:
    /// a reader that raced with retention looks at the view again.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Bucket(error) => error.is_not_found(),
            Self::OutOfRange { .. } | Self::Deleted | Self::Missing { .. } => true,
            Self::Shared(error) => error.is_gone(),
            _ => false,
        }
    }

    /// Last offset of the segment whose object is missing. When the segment is still listed, nobody but somebody
    /// outside took it away.
    pub fn missing_segment(&self) -> Option<Offset> {
        match self {
            Self::Missing { last_offset, .. } => Some(*last_offset),
            Self::Shared(error) => error.missing_segment(),
            _ => None,
        }
    }

    pub(crate) fn corrupt(key: &str, why: impl Into<String>) -> Self {
        Self::Corrupt {
            key: key.to_owned(),
            why: why.into(),
        }
    }
}
