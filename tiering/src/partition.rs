//! The cold tier of one partition: what the broker holds.

mod expiry;
mod lookups;
mod reading;
mod uploading;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use strandline_types::{LeaderEpoch, Offset, TopicId};
use tokio::sync::RwLock;

use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::manifest::chain::{Chain, Verdict};
use crate::manifest::{Manifest, ManifestView};
use crate::metrics::{TieringMetrics, TopicLabel};
use crate::read::read_ahead::ReadAhead;
use crate::tier::Shared;

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
    /// Held by each upload, and by the deletion of everything.
    uploads: RwLock<()>,
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
        let read_ahead = ReadAhead::new(
            shared.read_ahead_budget.clone(),
            shared.read_ahead_max_bytes,
        );
        let counted_bytes = AtomicI64::new(0);
        let partition = Self {
            id,
            shared,
            keys,
            chain,
            read_ahead,
            uploads: RwLock::default(),
            counted_bytes,
        };
        partition.metrics().opened(&partition.id.topic);
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
            Ok(if manifest.leader_epoch < epoch {
                Verdict::Write
            } else {
                Verdict::Keep
            })
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

    async fn commit(
        &self,
        now_ms: i64,
        edit: impl FnMut(&mut Manifest) -> Result<Verdict, TieringError>,
    ) -> Result<Arc<Manifest>, TieringError> {
        let committed = self.chain.commit(now_ms, edit).await;
        self.count_bytes();
        committed
    }

    fn metrics(&self) -> &TieringMetrics {
        &self.shared.fetcher.metrics
    }

    fn label(&self) -> TopicLabel {
        TopicLabel::of(&self.id.topic)
    }

    fn count_bytes(&self) {
        let manifest = self.chain.manifest();
        let bytes = if manifest.deleted {
            0
        } else {
            manifest.log_bytes()
        };
        self.set_counted(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn set_counted(&self, bytes: i64) {
        let before = self.counted_bytes.swap(bytes, Ordering::AcqRel);
        self.metrics().count_bytes(&self.id.topic, bytes - before);
    }
}

impl Drop for RemotePartition {
    fn drop(&mut self) {
        self.set_counted(0);
        self.metrics().closed(&self.id.topic);
    }
}
