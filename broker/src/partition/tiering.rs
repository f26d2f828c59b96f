//! The remote half of a partition: reads, lookups, uploads, and retention over both tiers.
//!
//! Rules: O-2 … O-9, F-60 … F-66, L-5, S-1, S-5, S-20 … S-23.

mod lookup;
mod upkeep;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use arc_swap::ArcSwapOption;
use strandline_env::Clock;
use strandline_tiering::{
    RemotePartition, RemotePartitionId, RemoteRead, RemoteTier, TieringError,
};
use strandline_types::{LeaderEpoch, Offset, TopicId};
use strandline_wire::ErrorCode;
use tokio::sync::Mutex;

pub(crate) use lookup::OffsetLookup;

use crate::partition::Partition;

/// The bucket's side of a partition; its chain is read when it is first needed.
pub(crate) struct RemoteHalf {
    tier: Option<Arc<RemoteTier>>,
    id: RemotePartitionId,
    chain: Arc<Chain>,
    /// Between two looks of retention, in ms (`log.retention.check.interval.ms`).
    expiry_interval_ms: i64,
    next_expiry_ms: AtomicI64,
    /// The last look of retention failed: until the next one it holds up nothing that it need not.
    has_expiry_failed: AtomicBool,
    /// Nothing is left in the bucket after tiering was switched off (8.1).
    is_purged: AtomicBool,
    /// The local log was found to end below the chain: nothing may be taken from it or added to the chain.
    is_ahead: AtomicBool,
}

/// The chain of a partition, once it was read.
#[derive(Debug, Default)]
struct Chain {
    opened: ArcSwapOption<RemotePartition>,
    /// One opening at a time.
    opening: Arc<Mutex<()>>,
}

impl fmt::Debug for RemoteHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteHalf")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl RemoteHalf {
    pub(crate) fn new(
        tier: Option<Arc<RemoteTier>>,
        id: RemotePartitionId,
        expiry_interval_ms: i64,
    ) -> Self {
        let next_expiry_ms = AtomicI64::new(0);
        Self {
            tier,
            id,
            chain: Arc::default(),
            expiry_interval_ms,
            next_expiry_ms,
            has_expiry_failed: AtomicBool::new(false),
            is_purged: AtomicBool::new(false),
            is_ahead: AtomicBool::new(false),
        }
    }

    /// Opens the chain, or returns it. Errors: the store's; without a cold tier, that it is off.
    pub(crate) async fn open(
        &self,
        leader_epoch: LeaderEpoch,
    ) -> Result<Arc<RemotePartition>, TieringError> {
        if let Some(remote) = self.get() {
            remote.set_leader_epoch(leader_epoch);
            return Ok(remote);
        }
        let opening = Arc::clone(&self.chain.opening).lock_owned().await;
        if let Some(remote) = self.get() {
            return Ok(remote);
        }
        let tier = self.tier.as_ref().ok_or(TieringError::Deleted)?;
        let (tier, chain, id) = (Arc::clone(tier), Arc::clone(&self.chain), self.id.clone());
        // A task of its own: it takes several requests, and a fetch that does not wait for so long (F-60) would
        // begin them anew each time.
        let opened = tokio::spawn(async move {
            let _opening = opening;
            let remote = tier.open_partition(id, leader_epoch).await?;
            chain.opened.store(Some(Arc::clone(&remote)));
            Ok(remote)
        });
        opened.await.unwrap_or(Err(TieringError::Cancelled))
    }

    /// What tells this partition from others, also from earlier ones of its name.
    pub(crate) fn identity(&self) -> (TopicId, i32) {
        (self.id.topic_id, self.id.partition)
    }

    /// The chain, if it was opened.
    pub(crate) fn get(&self) -> Option<Arc<RemotePartition>> {
        self.chain.opened.load_full()
    }

    /// Forgets the chain, which was deleted: the next one begins anew.
    fn forget(&self) {
        self.chain.opened.store(None);
    }

    /// True when this broker has a cold tier.
    pub(crate) fn exists(&self) -> bool {
        self.tier.is_some()
    }

    /// Last offset in the bucket (inclusive), as far as it is known and is of this log.
    pub(crate) fn highest_offset(&self) -> Option<Offset> {
        let remote = self
            .get()
            .filter(|_| !self.is_ahead.load(Ordering::Acquire));
        remote.and_then(|remote| remote.highest_offset())
    }

    /// True for a segment object that is not in the bucket although retention has not removed it.
    fn lists_what_is_missing(&self, error: &TieringError) -> bool {
        let (last, remote) = (error.missing_segment(), self.get());
        last.zip(remote)
            .is_some_and(|(last, remote)| remote.view().contains(last))
    }

    /// Deletes everything of the partition in the bucket, if there is one (S-24).
    pub(crate) async fn delete_all(
        &self,
        leader_epoch: LeaderEpoch,
        clock: &Clock,
    ) -> Result<(), TieringError> {
        if !self.exists() {
            return Ok(());
        }
        let remote = self.open(leader_epoch).await?;
        remote.delete_all(clock.now_ms()).await
    }

    /// Errors: the chain ends, or ended, above `log_end` (exclusive).
    fn check_joins(&self, remote: &RemotePartition, log_end: Offset) -> Result<(), TieringError> {
        let remote_end = remote.view().end_offset().unwrap_or(0);
        if remote_end > log_end {
            self.is_ahead.store(true, Ordering::Release);
        }
        if self.is_ahead.load(Ordering::Acquire) {
            let local_end = log_end;
            return Err(TieringError::AheadOfLocal {
                remote_end,
                local_end,
            });
        }
        Ok(())
    }
}

impl Partition {
    /// Reads whole batches from the bucket (F-64).
    pub(crate) async fn read_remote(
        &self,
        offset: Offset,
        max_bytes: usize,
        min_one: bool,
    ) -> Result<RemoteRead, ErrorCode> {
        let remote = self
            .remote
            .open(self.leader_epoch())
            .await
            .map_err(|e| self.fault(&e))?;
        remote
            .read(offset, max_bytes, min_one)
            .await
            .map_err(|e| self.fault(&e))
    }

    /// Turns an error of the cold tier into a code, and logs what an operator must know.
    pub(super) fn fault(&self, error: &TieringError) -> ErrorCode {
        let partition = &self.id;
        if self.remote.lists_what_is_missing(error) {
            tracing::error!(%partition, %error, "an object that the cold tier lists was taken away");
            return ErrorCode::KafkaStorageError;
        }
        if error.is_gone() {
            // Retention was faster; the client asks again and gets the right answer (F-21).
            tracing::debug!(%partition, %error, "gone from the cold tier");
            return ErrorCode::NotLeaderOrFollower;
        }
        if error.is_corruption() {
            tracing::error!(%partition, %error, "the cold tier is damaged");
            return ErrorCode::CorruptMessage;
        }
        tracing::warn!(%partition, %error, "read from the cold tier");
        ErrorCode::KafkaStorageError
    }
}
