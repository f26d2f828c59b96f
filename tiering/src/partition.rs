//! The cold tier of one partition: upload, read, look up, expire. This is what the broker holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use strandline_types::{LeaderEpoch, Offset, TopicId};

use crate::error::TieringError;
use crate::expire::{ExpirePlan, ExpireRequest, Expired};
use crate::key::PartitionKeys;
use crate::manifest::chain::{Chain, Verdict};
use crate::manifest::{Manifest, ManifestView, PendingDelete, SealedPointer, SegmentEntry};
use crate::metrics::TopicLabel;
use crate::read::fill::SegmentRef;
use crate::read::lookup::{self, TimestampedOffset};
use crate::read::read_ahead::{Ended, ReadAhead, Stream};
use crate::read::reader::{Collector, RemoteRead, SegmentReader};
use crate::segment_object::{AbortedTransaction, EpochStart};
use crate::tier::Shared;
use crate::upload::{SegmentSource, Uploaded, Uploader};

/// Names a partition in the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemotePartitionId {
    /// Id of the topic: a topic that is created again has another one.
    pub topic_id: TopicId,
    /// Name of the topic, for metrics and for people.
    pub topic: String,
    /// Index of the partition.
    pub partition: i32,
}

/// One partition's part of the bucket. All methods take `&self`; several readers and one uploader
/// at a time are normal, more uploaders are safe.
#[derive(Debug)]
pub struct RemotePartition {
    id: RemotePartitionId,
    shared: Arc<Shared>,
    keys: Arc<PartitionKeys>,
    chain: Chain,
    read_ahead: Arc<ReadAhead>,
    /// What this partition added to the topic's gauge.
    counted_bytes: AtomicI64,
}

impl RemotePartition {
    pub(crate) async fn open(
        shared: Arc<Shared>,
        id: RemotePartitionId,
        leader_epoch: LeaderEpoch,
    ) -> Result<Arc<Self>, TieringError> {
        let keys = Arc::new(shared.keys(&id)?);
        let chain = Chain::open(
            Arc::clone(&shared.fetcher.bucket),
            Arc::clone(&keys),
            shared.identity(&id),
            shared.chain_options,
            leader_epoch,
        )
        .await?;
        let read_ahead =
            ReadAhead::new(shared.read_ahead_budget.clone(), shared.read_ahead_max_bytes);
        let counted_bytes = AtomicI64::new(0);
        let partition = Self { id, shared, keys, chain, read_ahead, counted_bytes };
        partition.count_bytes();
        Ok(Arc::new(partition))
    }

    /// What it is the cold tier of.
    pub fn id(&self) -> &RemotePartitionId {
        &self.id
    }

    /// The newest view known; stays valid, but its oldest segments may leave the bucket after the
    /// grace period.
    pub fn view(&self) -> ManifestView {
        let lists = Arc::clone(&self.shared.lists);
        ManifestView::new(self.chain.manifest(), Arc::clone(&self.keys), lists)
    }

    /// Last offset in the cold tier (inclusive); `None` when nothing is tiered (S-2, S-20).
    pub fn highest_offset(&self) -> Option<Offset> {
        self.view().highest_offset()
    }

    /// Bytes of batches in the cold tier.
    pub fn size_in_bytes(&self) -> u64 {
        self.chain.manifest().log_bytes()
    }

    /// Leads with this epoch from now on. The chain learns it with the next commit.
    pub fn set_leader_epoch(&self, epoch: LeaderEpoch) {
        self.chain.set_leader_epoch(epoch);
    }

    /// Writes a manifest with our epoch if the newest has a lower one, so that a deposed leader is
    /// fenced from here on.
    pub async fn take_over(&self, now_ms: i64) -> Result<(), TieringError> {
        let epoch = self.chain.leader_epoch();
        self.commit(now_ms, |manifest| {
            Ok(if manifest.leader_epoch < epoch { Verdict::Write } else { Verdict::Keep })
        })
        .await?;
        Ok(())
    }

    /// Reads the chain again, as a follower does.
    pub async fn refresh(&self) -> Result<(), TieringError> {
        self.chain.refresh().await?;
        self.count_bytes();
        Ok(())
    }

    /// Uploads a segment and commits it. `limit` is the smaller of high watermark and last stable
    /// offset. Errors: nothing is committed, but for an outcome of "maybe", which the next call
    /// clears up; a segment that is already there is [`TieringError::Overlap`].
    pub async fn upload(
        &self,
        source: Arc<dyn SegmentSource>,
        limit: Offset,
        now_ms: i64,
    ) -> Result<Uploaded, TieringError> {
        let uploaded = self.try_upload(source, limit, now_ms).await;
        let metrics = &self.shared.fetcher.metrics;
        match &uploaded {
            Ok(uploaded) => {
                metrics.uploaded_segments.get_or_create(&self.label()).inc();
                let bytes = uploaded.entry.log_bytes;
                metrics.uploaded_bytes.get_or_create(&self.label()).inc_by(bytes);
            }
            Err(_) => {
                metrics.upload_errors.get_or_create(&self.label()).inc();
            }
        }
        uploaded
    }

    async fn try_upload(
        &self,
        source: Arc<dyn SegmentSource>,
        limit: Offset,
        now_ms: i64,
    ) -> Result<Uploaded, TieringError> {
        let next_offset = source.next_offset();
        if next_offset > limit {
            return Err(TieringError::AboveLimit { next_offset, limit });
        }
        // Before the bytes travel; the commit asks again.
        may_follow(&self.chain.manifest(), source.base_offset(), next_offset)?;
        let uploader = Uploader {
            bucket: &self.shared.fetcher.bucket,
            keys: &self.keys,
            topic_id: self.id.topic_id,
            partition: self.id.partition,
            options: self.shared.writer_options,
        };
        let entry = uploader.upload(source, self.chain.leader_epoch(), now_ms).await?;
        let manifest = self.commit(now_ms, |manifest| append(manifest, &entry)).await?;
        Ok(Uploaded { entry, manifest_number: manifest.number })
    }

    async fn commit(
        &self,
        now_ms: i64,
        edit: impl FnMut(&mut Manifest) -> Result<Verdict, TieringError>,
    ) -> Result<Arc<Manifest>, TieringError> {
        let committed = self.chain.commit(now_ms, edit).await;
        self.count_bytes();
        committed
    }

    /// Whole batches from the one that holds `offset` on, `max_bytes` at most, but with `min_one`
    /// at least one. Empty when the first is too large, and behind the last batch of the tier.
    /// Errors: [`TieringError::OutOfRange`] outside of the tier.
    pub async fn read(
        &self,
        offset: Offset,
        max_bytes: usize,
        min_one: bool,
    ) -> Result<RemoteRead, TieringError> {
        let metrics = &self.shared.fetcher.metrics;
        metrics.cold_reads.inc();
        let view = self.view();
        let read = self.read_in(&view, offset, max_bytes, min_one).await;
        if read.is_err() {
            metrics.cold_read_errors.inc();
        }
        read
    }

    async fn read_in(
        &self,
        view: &ManifestView,
        offset: Offset,
        max_bytes: usize,
        min_one: bool,
    ) -> Result<RemoteRead, TieringError> {
        let end_offset = self.check_range(view, offset)?;
        let fetcher = &self.shared.fetcher;
        let mut collector = Collector::new(offset, max_bytes, min_one);
        let stream = self.read_ahead.begin(offset);
        let mut waited = false;
        let mut last: Option<(SegmentRef, u64)> = None;
        let mut next = view.segment_for_offset(offset).await?;
        while let Some(entry) = next {
            let after = entry.next_offset();
            let segment = fetcher.segment(&self.keys, entry);
            let position = self.position(&segment, offset, &stream).await?;
            let mut reader = SegmentReader::new(fetcher, &segment, Some(&stream), position);
            reader.collect(&mut collector).await?;
            waited |= reader.waited;
            let position = reader.position;
            last = Some((segment, position));
            if collector.full {
                break;
            }
            // F-66: the segment holds no more, even if its range goes on.
            collector.read.end_offset = after;
            if collector.read.size_in_bytes >= max_bytes {
                break;
            }
            next = view.segment_for_offset(after).await?;
        }
        let read = collector.read;
        debug_assert!(read.end_offset <= end_offset);
        if let Some((segment, position)) = last {
            let ended = Ended {
                next_offset: read.end_offset,
                segment: &segment,
                position,
                waited,
                read_something: read.size_in_bytes > 0,
            };
            let ahead = self.read_ahead.end(stream, fetcher, &self.keys, view, ended).await;
            if let Err(error) = ahead {
                tracing::debug!(%error, "read-ahead failed");
            }
        }
        Ok(read)
    }

    fn check_range(&self, view: &ManifestView, offset: Offset) -> Result<Offset, TieringError> {
        let log_start_offset = view.log_start_offset();
        let end_offset = view.end_offset().unwrap_or(log_start_offset);
        if offset < log_start_offset || offset >= end_offset {
            return Err(TieringError::OutOfRange { offset, log_start_offset, end_offset });
        }
        Ok(end_offset)
    }

    async fn position(
        &self,
        segment: &SegmentRef,
        offset: Offset,
        stream: &Stream,
    ) -> Result<u64, TieringError> {
        if offset <= segment.entry.base_offset {
            return Ok(0);
        }
        if let Some(position) = stream.position_in(segment) {
            return Ok(position);
        }
        Ok(self.shared.fetcher.tail(segment).await?.position_for_offset(offset))
    }

    /// The first record with a timestamp at or above `timestamp`; `None` when there is none in the
    /// cold tier, so the local log must be asked (O-5, S-16).
    pub async fn offset_for_timestamp(
        &self,
        timestamp: i64,
    ) -> Result<Option<TimestampedOffset>, TieringError> {
        let view = self.view();
        let from = view.log_start_offset();
        lookup::offset_for_timestamp(&self.shared.fetcher, &self.keys, &view, timestamp, from).await
    }

    /// The first record with the greatest timestamp of the cold tier (O-9).
    pub async fn max_timestamp(&self) -> Result<Option<TimestampedOffset>, TieringError> {
        lookup::max_timestamp(&self.shared.fetcher, &self.keys, &self.view()).await
    }

    /// Aborted transactions that touch offsets from `from` to `upper` (exclusive), by their first
    /// offset. With `true` the local log need not be asked for more (F-31…F-34).
    pub async fn aborted_transactions(
        &self,
        from: Offset,
        upper: Offset,
    ) -> Result<(Vec<AbortedTransaction>, bool), TieringError> {
        let mut found = Vec::new();
        let mut complete = false;
        for entry in self.view().segments_with_aborted(from).await? {
            let segment = self.shared.fetcher.segment(&self.keys, entry);
            let tail = self.shared.fetcher.tail(&segment).await?;
            for transaction in &tail.aborted {
                if transaction.last_offset >= from && transaction.first_offset < upper {
                    found.push(*transaction);
                }
                complete |= transaction.last_stable_offset >= upper;
            }
            if complete {
                break;
            }
        }
        found.sort_by_key(|transaction| transaction.first_offset);
        Ok((found, complete))
    }

    /// The producers' state at the end of the segment that ends at `next_offset`, and the leader
    /// epochs up to there: what a new replica begins with (S-31). `None` without such a segment.
    pub async fn state_at(
        &self,
        next_offset: Offset,
    ) -> Result<Option<(Bytes, Vec<EpochStart>)>, TieringError> {
        let view = self.view();
        let Some(entry) = view.segment_for_offset(next_offset - 1).await? else { return Ok(None) };
        if entry.next_offset() != next_offset {
            return Ok(None);
        }
        let segment = self.shared.fetcher.segment(&self.keys, entry);
        let tail = self.shared.fetcher.tail(&segment).await?;
        let epochs = view.leader_epochs().iter().copied();
        let epochs = epochs.filter(|start| start.start_offset < next_offset).collect();
        Ok(Some((tail.producer_snapshot.clone(), epochs)))
    }

    /// Applies retention: first a manifest with the new log start offset, then, after the grace
    /// period and by later calls, the objects go. Call it from time to time also without retention.
    pub async fn expire(
        &self,
        now_ms: i64,
        request: ExpireRequest,
    ) -> Result<Expired, TieringError> {
        self.chain.refresh_if_stale().await?;
        let view = self.view();
        let (plan, front) = self.plan_expiry(&view, &request, now_ms).await?;
        let swept = self.sweep(view.manifest(), now_ms).await;
        let due_ms = now_ms.saturating_add(self.shared.delete_grace_ms);
        let planned_on = view.manifest().number;
        let committed = self
            .commit(now_ms, |manifest| {
                if manifest.number != planned_on {
                    // Another writer was here: plan again on what it left.
                    return Err(TieringError::Cancelled);
                }
                let old = (manifest.log_start_offset, manifest.pending_deletes.len());
                manifest.pending_deletes.retain(|p| !swept.contains(&p.relative));
                let swept_any = manifest.pending_deletes.len() != old.1;
                remove_front(manifest, &front, due_ms);
                manifest.log_start_offset = manifest.log_start_offset.max(plan.log_start_offset);
                trim_epochs(manifest);
                let changed =
                    plan.segments > 0 || swept_any || manifest.log_start_offset != old.0;
                Ok(if changed { Verdict::Write } else { Verdict::Keep })
            })
            .await?;
        if plan.segments > 0 {
            let expired = &self.shared.fetcher.metrics.expired_segments;
            expired.get_or_create(&self.label()).inc_by(plan.segments);
        }
        Ok(Expired {
            log_start_offset: committed.log_start_offset,
            segments: plan.segments,
            bytes: plan.bytes,
        })
    }

    async fn plan_expiry(
        &self,
        view: &ManifestView,
        request: &ExpireRequest,
        now_ms: i64,
    ) -> Result<(ExpirePlan, Front), TieringError> {
        let manifest = view.manifest();
        let mut plan =
            ExpirePlan::new(request, manifest.log_start_offset, manifest.log_bytes(), now_ms);
        let mut front = Front::default();
        for pointer in &manifest.sealed {
            let live = view.live_of(pointer).await?;
            let removed = live.iter().take_while(|entry| plan.removes(entry)).count();
            front.names.extend(live.iter().take(removed).map(|entry| entry.name().relative()));
            if let Some(first) = live.get(removed) {
                if removed > 0 {
                    let bytes = live.iter().skip(removed).map(|entry| entry.log_bytes).sum();
                    front.partial = Some(SealedPointer {
                        base_offset: first.base_offset,
                        removed: pointer.removed + removed as u32,
                        log_bytes: bytes,
                        ..pointer.clone()
                    });
                }
                return Ok((plan, front));
            }
            front.lists += 1;
            front.names.push(pointer.relative.clone());
        }
        let removed = manifest.inline.iter().take_while(|entry| plan.removes(entry)).count();
        let names = manifest.inline.iter().take(removed).map(|entry| entry.name().relative());
        front.names.extend(names);
        front.inline = removed;
        Ok((plan, front))
    }

    /// Deletes what is due; answers what is gone.
    async fn sweep(&self, manifest: &Manifest, now_ms: i64) -> Vec<String> {
        let due = manifest.pending_deletes.iter().filter(|pending| pending.due_ms <= now_ms);
        let due: Vec<String> = due.map(|pending| pending.relative.clone()).take(1000).collect();
        let keys: Vec<String> = due.iter().map(|name| self.keys.absolute(name)).collect();
        match self.shared.fetcher.bucket.delete_many(&keys).await {
            Ok(()) => due,
            Err(error) => {
                tracing::warn!(%error, "objects that retention removed stay for now");
                Vec::new()
            }
        }
    }

    /// Deletes the partition from the bucket: first a manifest that says so, which ends every other
    /// writer, then all objects, the manifests last. May be called again until it succeeds.
    pub async fn delete_all(&self, now_ms: i64) -> Result<(), TieringError> {
        let deleted = self
            .commit(now_ms, |manifest| {
                if manifest.number == 0 {
                    return Ok(Verdict::Keep);
                }
                manifest.deleted = true;
                Ok(Verdict::Write)
            })
            .await;
        match deleted {
            Ok(_) | Err(TieringError::Deleted) => {}
            Err(error) => return Err(error),
        }
        let bucket = &self.shared.fetcher.bucket;
        let listed = bucket.list(self.keys.prefix(), None).await?;
        let (manifests, others): (Vec<String>, Vec<String>) = listed
            .into_iter()
            .map(|object| object.key)
            .partition(|key| self.keys.parse_manifest(key).is_some());
        bucket.delete_many(&others).await?;
        if let Some((newest, older)) = manifests.split_last() {
            bucket.delete_many(older).await?;
            bucket.delete_many(std::slice::from_ref(newest)).await?;
        }
        self.uncount_bytes();
        Ok(())
    }

    fn label(&self) -> TopicLabel {
        TopicLabel { topic: self.id.topic.clone() }
    }

    fn count_bytes(&self) {
        let manifest = self.chain.manifest();
        let bytes = if manifest.deleted { 0 } else { manifest.log_bytes() };
        self.set_counted(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn uncount_bytes(&self) {
        self.set_counted(0);
    }

    fn set_counted(&self, bytes: i64) {
        let before = self.counted_bytes.swap(bytes, Ordering::AcqRel);
        let gauge = self.shared.fetcher.metrics.tiered_bytes.get_or_create(&self.label()).clone();
        gauge.inc_by(bytes - before);
    }
}

impl Drop for RemotePartition {
    fn drop(&mut self) {
        self.uncount_bytes();
    }
}

/// What expiry takes from the front of a manifest.
#[derive(Debug, Default)]
struct Front {
    lists: usize,
    partial: Option<SealedPointer>,
    inline: usize,
    names: Vec<String>,
}

fn remove_front(manifest: &mut Manifest, front: &Front, due_ms: i64) {
    manifest.sealed.drain(..front.lists.min(manifest.sealed.len()));
    if let (Some(partial), Some(first)) = (&front.partial, manifest.sealed.first_mut()) {
        *first = partial.clone();
    }
    manifest.inline.drain(..front.inline.min(manifest.inline.len()));
    let names = front.names.iter().cloned();
    let doomed = names.map(|relative| PendingDelete { relative, due_ms });
    manifest.pending_deletes.extend(doomed);
}

/// Epochs that end at or below the log start are no longer needed; the one it lies in is.
fn trim_epochs(manifest: &mut Manifest) {
    let start = manifest.log_start_offset;
    let ended = manifest.epochs.iter().skip(1).take_while(|next| next.start_offset <= start).count();
    manifest.epochs.drain(..ended);
}

/// T-1 at commit: no overlap, no gap.
fn may_follow(
    manifest: &Manifest,
    base_offset: Offset,
    next_offset: Offset,
) -> Result<(), TieringError> {
    match manifest.end_offset() {
        Some(end_offset) if base_offset < end_offset => {
            Err(TieringError::Overlap { base_offset, end_offset })
        }
        Some(end_offset) if base_offset > end_offset => {
            Err(TieringError::Gap { base_offset, end_offset })
        }
        None if next_offset <= manifest.log_start_offset => {
            Err(TieringError::Overlap { base_offset, end_offset: manifest.log_start_offset })
        }
        _ => Ok(()),
    }
}

fn append(manifest: &mut Manifest, entry: &SegmentEntry) -> Result<Verdict, TieringError> {
    // Our own commit, of which we did not know that it was done.
    if manifest.inline.iter().any(|there| there.uuid == entry.uuid)
        || manifest.sealed.last().is_some_and(|list| list.last_offset == entry.last_offset)
    {
        return Ok(Verdict::Keep);
    }
    may_follow(manifest, entry.base_offset, entry.next_offset())?;
    manifest.log_start_offset = manifest.log_start_offset.max(entry.base_offset);
    for start in &entry.epochs {
        if manifest.epochs.last().is_none_or(|last| last.epoch < start.epoch) {
            manifest.epochs.push(*start);
        }
    }
    manifest.inline.push(entry.clone());
    Ok(Verdict::Write)
}
