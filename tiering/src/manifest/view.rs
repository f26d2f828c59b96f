//! What readers see: one manifest, and the sealed lists behind it when they are needed.

use std::sync::Arc;

use strandline_types::{LeaderEpoch, Offset};

use super::{Manifest, SealedLists, SealedPointer, SegmentEntry};
use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::segment_object::EpochStart;

/// An immutable view of a partition's cold tier; cheap to make, safe to keep.
#[derive(Debug, Clone)]
pub struct ManifestView {
    manifest: Arc<Manifest>,
    keys: Arc<PartitionKeys>,
    lists: Arc<SealedLists>,
}

impl ManifestView {
    pub(crate) fn new(
        manifest: Arc<Manifest>,
        keys: Arc<PartitionKeys>,
        lists: Arc<SealedLists>,
    ) -> Self {
        Self {
            manifest,
            keys,
            lists,
        }
    }

    /// The manifest itself; number 0 before the first one.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// First offset that readers may see.
    pub fn log_start_offset(&self) -> Offset {
        self.manifest.log_start_offset
    }

    /// First offset of the first segment; `None` when nothing is tiered.
    pub fn base_offset(&self) -> Option<Offset> {
        self.manifest.base_offset()
    }

    /// Offset after the last segment; `None` when nothing is tiered.
    pub fn end_offset(&self) -> Option<Offset> {
        self.manifest.end_offset()
    }

    /// Last offset in the cold tier (inclusive); `None` when nothing is tiered.
    pub fn highest_offset(&self) -> Option<Offset> {
        self.end_offset().map(|end| end - 1)
    }

    /// Bytes of batches in the cold tier.
    pub fn size_in_bytes(&self) -> u64 {
        self.manifest.log_bytes()
    }

    /// Segments in the cold tier.
    pub fn segment_count(&self) -> u64 {
        self.manifest.segment_count()
    }

    /// True when some segment may be older than `cutoff_ms`, as far as the manifest itself tells;
    /// false is certain. Asks the store for nothing.
    pub fn may_hold_older_than(&self, cutoff_ms: i64) -> bool {
        let first = self.manifest.inline.first();
        self.manifest
            .sealed
            .first()
            .is_some_and(|list| list.min_timestamp.min(list.max_timestamp) <= cutoff_ms)
            || first.is_some_and(|entry| entry.retention_timestamp() <= cutoff_ms)
    }

    /// True when objects that left the log may be deleted from the store now.
    pub fn has_due_deletes(&self, now_ms: i64) -> bool {
        self.manifest
            .pending_deletes
            .iter()
            .any(|object| object.due_ms <= now_ms)
    }

    /// Where each leader epoch of the tiered range begins, oldest first (S-13).
    pub fn leader_epochs(&self) -> &[EpochStart] {
        &self.manifest.epochs
    }

    /// Epoch of the leader that wrote the record at `offset`; `None` outside of the tiered range.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        if !self.contains(offset) {
            return None;
        }
        let epochs = &self.manifest.epochs;
        let after = epochs.partition_point(|start| start.start_offset <= offset);
        epochs.get(after.checked_sub(1)?).map(|start| start.epoch)
    }

    /// The greatest epoch at or below `epoch`, and where it ends: where the next one begins, or, for
    /// the last one, the end of the tiered range, after which the local log goes on (O-21). `None`
    /// when all epochs here are greater.
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let epochs = &self.manifest.epochs;
        let after = epochs.partition_point(|start| start.epoch <= epoch);
        let found = epochs.get(after.checked_sub(1)?)?;
        let next = epochs.get(after).map(|start| start.start_offset);
        Some((found.epoch, next.or_else(|| self.end_offset())?))
    }

    /// True when `offset` can be read here.
    pub fn contains(&self, offset: Offset) -> bool {
        offset >= self.log_start_offset() && self.end_offset().is_some_and(|end| offset < end)
    }

    /// The first segment that ends at or above `offset`; `None` behind the last one.
    pub async fn segment_for_offset(
        &self,
        offset: Offset,
    ) -> Result<Option<SegmentEntry>, TieringError> {
        let sealed = &self.manifest.sealed;
        let at = sealed.partition_point(|list| list.last_offset < offset);
        if let Some(pointer) = sealed.get(at) {
            let list = self.lists.get(&self.keys, pointer).await?;
            return Ok(first_ending_at(live(pointer, &list), offset).cloned());
        }
        Ok(first_ending_at(&self.manifest.inline, offset).cloned())
    }

    /// The first segment at or behind `from` with a record at or above `timestamp` (S-16).
    pub(crate) async fn segment_for_timestamp(
        &self,
        timestamp: i64,
        from: Offset,
    ) -> Result<Option<SegmentEntry>, TieringError> {
        let fits =
            |entry: &&SegmentEntry| entry.max_timestamp >= timestamp && entry.last_offset >= from;
        for pointer in &self.manifest.sealed {
            if pointer.max_timestamp >= timestamp && pointer.last_offset >= from {
                let list = self.lists.get(&self.keys, pointer).await?;
                if let Some(found) = live(pointer, &list).iter().find(fits) {
                    return Ok(Some(found.clone()));
                }
            }
        }
        Ok(self.manifest.inline.iter().find(fits).cloned())
    }

    /// Of the segments that begin at or above `from` the first with the greatest timestamp (O-9);
    /// `None` without any timestamp.
    pub(crate) async fn segment_with_max_timestamp(
        &self,
        from: Offset,
    ) -> Result<Option<SegmentEntry>, TieringError> {
        let mut best: Option<SegmentEntry> = None;
        let better = |best: &Option<SegmentEntry>, timestamp: i64| {
            timestamp >= 0
                && best
                    .as_ref()
                    .is_none_or(|entry| entry.max_timestamp < timestamp)
        };
        for pointer in &self.manifest.sealed {
            if better(&best, pointer.max_timestamp) {
                let list = self.lists.get(&self.keys, pointer).await?;
                for entry in live(pointer, &list) {
                    if entry.base_offset >= from && better(&best, entry.max_timestamp) {
                        best = Some(entry.clone());
                    }
                }
            }
        }
        for entry in &self.manifest.inline {
            if entry.base_offset >= from && better(&best, entry.max_timestamp) {
                best = Some(entry.clone());
            }
        }
        Ok(best)
    }

    /// Where segments with aborted transactions at or above `from` are listed, oldest first; the last source is
    /// the manifest itself.
    pub(crate) fn sources_of_aborted(
        &self,
        from: Offset,
    ) -> impl Iterator<Item = Option<&SealedPointer>> {
        let fits = move |list: &&SealedPointer| list.has_aborted && list.last_offset >= from;
        let sealed = self.manifest.sealed.iter().filter(fits);
        sealed.map(Some).chain([None])
    }

    /// Those segments of one source, oldest first.
    pub(crate) async fn segments_with_aborted(
        &self,
        source: Option<&SealedPointer>,
        from: Offset,
    ) -> Result<Vec<SegmentEntry>, TieringError> {
        let fits = |entry: &&SegmentEntry| entry.has_aborted && entry.last_offset >= from;
        let Some(pointer) = source else {
            let inline = self.manifest.inline.iter();
            return Ok(inline.filter(fits).cloned().collect());
        };
        let list = self.lists.get(&self.keys, pointer).await?;
        Ok(live(pointer, &list).iter().filter(fits).cloned().collect())
    }

    /// The segments of one sealed list that are still part of the log.
    pub(crate) async fn live_of(
        &self,
        pointer: &SealedPointer,
    ) -> Result<Vec<SegmentEntry>, TieringError> {
        let list = self.lists.get(&self.keys, pointer).await?;
        Ok(live(pointer, &list).to_vec())
    }
}

fn live<'a>(pointer: &SealedPointer, list: &'a [SegmentEntry]) -> &'a [SegmentEntry] {
    list.get(pointer.removed as usize..).unwrap_or_default()
}

fn first_ending_at(entries: &[SegmentEntry], offset: Offset) -> Option<&SegmentEntry> {
    let at = entries.partition_point(|entry| entry.last_offset < offset);
    entries.get(at)
}
