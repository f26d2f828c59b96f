//! What is true in the bucket for one partition: an immutable, numbered manifest, each the successor
//! of the one before.
//!
//! The bytes are described in `docs/formats/manifest.md`.

pub(crate) mod chain;
mod codec;
mod entry;
mod sealed;
mod view;

#[cfg(test)]
pub(crate) use codec::tests as tests_support;
use strandline_types::{LeaderEpoch, Offset, TopicId};
use uuid::Uuid;

pub use entry::{SealedPointer, SegmentEntry};
pub(crate) use sealed::{SealedLists, encode_sealed};
pub use view::ManifestView;

use crate::segment_object::EpochStart;

/// An object that left the manifest and goes from the bucket after a grace period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDelete {
    /// Its name below the partition's prefix.
    pub relative: String,
    /// When it may go, ms since the Unix epoch.
    pub due_ms: i64,
}

/// An older manifest that is still in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superseded {
    /// Its number.
    pub number: u64,
    /// When its successor was written, ms since the Unix epoch.
    pub at_ms: i64,
}

/// One manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its place in the chain; the first is 1.
    pub number: u64,
    /// Of the process that wrote it.
    pub writer_id: Uuid,
    /// Broker that wrote it.
    pub broker_id: i32,
    /// Epoch of the leader that wrote it; never falls along the chain.
    pub leader_epoch: LeaderEpoch,
    /// When it was written, ms since the Unix epoch, by the writer's clock.
    pub created_ms: i64,
    /// Cluster of the partition.
    pub cluster_id: String,
    /// Topic of the partition.
    pub topic_id: TopicId,
    /// Name of the topic, for those who find the bucket without a cluster.
    pub topic: String,
    /// Index of the partition.
    pub partition: i32,
    /// The partition was deleted; nothing follows.
    pub deleted: bool,
    /// First offset that readers may see. At or above the base of the first segment.
    pub log_start_offset: Offset,
    /// Where each leader epoch of the held range begins, oldest first.
    pub epochs: Vec<EpochStart>,
    /// Lists of older segments, oldest first.
    pub sealed: Vec<SealedPointer>,
    /// The newest segments, oldest first.
    pub inline: Vec<SegmentEntry>,
    /// Objects to delete later.
    pub pending_deletes: Vec<PendingDelete>,
    /// Older manifests that are still there.
    pub superseded: Vec<Superseded>,
}

impl Manifest {
    /// Offset after the last segment; `None` without any.
    pub fn end_offset(&self) -> Option<Offset> {
        let inline = self.inline.last().map(|entry| entry.last_offset + 1);
        inline.or_else(|| self.sealed.last().map(|list| list.last_offset + 1))
    }

    /// First offset of the first segment; `None` without any.
    pub fn base_offset(&self) -> Option<Offset> {
        let sealed = self.sealed.first().map(|list| list.base_offset);
        sealed.or_else(|| self.inline.first().map(|entry| entry.base_offset))
    }

    /// Bytes of batches in all segments.
    pub fn log_bytes(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|list| list.log_bytes).sum();
        sealed + self.inline.iter().map(|entry| entry.log_bytes).sum::<u64>()
    }

    /// Number of segments.
    pub fn segment_count(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|list| u64::from(list.live())).sum();
        sealed + self.inline.len() as u64
    }
}
