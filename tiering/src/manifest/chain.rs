//! The chain of manifests of one partition: the only writer of truth in the bucket.
//!
//! **Consistency**: manifest n+1 is written by put-if-absent only, so of all writers one wins; who
//! loses reads the winner's and decides again. **Fencing**: a manifest of a greater leader epoch
//! ends a writer for good. **Crash safety**: a commit is one object; before it the old truth holds.
//! **Retries**: after an error with an unknown outcome the chain is read again before the next
//! write. **Cancellation**: as after a crash; the next call reads the chain again.
//!
//! Numbers are pruned after a grace period, so a writer that slept longer could find a number free
//! again that was taken long ago. Hence a head that was not confirmed for a quarter of the grace is
//! read again before the write, and a write that took long is checked against a listing after it.

mod load;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use strandline_bucket::{Bucket, Outcome, PutNew};
use strandline_types::{LeaderEpoch, TopicId};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{Manifest, Superseded};
use crate::error::TieringError;
use crate::invariants;
use crate::key::PartitionKeys;

/// Whose chain it is, and who writes.
#[derive(Debug, Clone)]
pub(crate) struct ChainIdentity {
    pub(crate) cluster_id: String,
    pub(crate) topic_id: TopicId,
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) broker_id: i32,
    /// Of this process: it tells our writes from those of others.
    pub(crate) writer_id: Uuid,
}

/// How the chain is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainOptions {
    /// Segments in the manifest before they move into a sealed list.
    pub(crate) seal_segments: usize,
    /// Old manifests that stay at least.
    pub(crate) keep_manifests: u64,
    /// Time that an old manifest stays at least.
    pub(crate) manifest_grace: Duration,
}

/// What an edit wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Write the edited manifest.
    Write,
    /// Nothing changed, write nothing.
    Keep,
}

struct Head {
    /// The newest manifest known; number 0 when there is none.
    manifest: Arc<Manifest>,
    /// False after a write with an unknown outcome.
    certain: bool,
    /// When the head was last known to be the newest: two clocks, as one stands still in a
    /// suspended machine and the other can be set.
    confirmed: (Instant, SystemTime),
}

pub(crate) struct Chain {
    bucket: Arc<Bucket>,
    keys: Arc<PartitionKeys>,
    identity: ChainIdentity,
    options: ChainOptions,
    leader_epoch: AtomicI32,
    head: Mutex<Head>,
    published: ArcSwap<Manifest>,
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chain")
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl Chain {
    /// Reads the newest manifest. The epoch takes effect with the first write.
    pub(crate) async fn open(
        bucket: Arc<Bucket>,
        keys: Arc<PartitionKeys>,
        identity: ChainIdentity,
        options: ChainOptions,
        leader_epoch: LeaderEpoch,
    ) -> Result<Self, TieringError> {
        let confirmed = now();
        let empty = Arc::new(identity.empty());
        let chain = Self {
            bucket,
            keys,
            identity,
            options,
            leader_epoch: AtomicI32::new(leader_epoch),
            head: Mutex::new(Head {
                manifest: Arc::clone(&empty),
                certain: false,
                confirmed,
            }),
            published: ArcSwap::new(empty),
        };
        chain.reload(&mut *chain.head.lock().await).await?;
        Ok(chain)
    }

    /// The newest manifest known.
    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        self.published.load_full()
    }

    pub(crate) fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch.load(Ordering::Acquire)
    }

    /// Leads with this epoch from now on; never falls.
    pub(crate) fn set_leader_epoch(&self, epoch: LeaderEpoch) {
        self.leader_epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Fenced, as far as we know?
    pub(crate) fn check_fence(&self) -> Result<(), TieringError> {
        fence(&self.manifest(), self.leader_epoch())
    }

    /// Reads the newest manifest again, as a follower does.
    pub(crate) async fn refresh(&self) -> Result<(), TieringError> {
        self.reload(&mut *self.head.lock().await).await
    }

    /// Reads the newest manifest again if the one known is not certain or was not confirmed lately.
    pub(crate) async fn refresh_if_stale(&self) -> Result<(), TieringError> {
        let mut head = self.head.lock().await;
        if !head.certain || self.stale(&head, 4) {
            self.reload(&mut head).await?;
        }
        Ok(())
    }

    /// Changes the truth. `edit` gets the newest manifest and may run several times, each time on
    /// what another writer left. Errors: those of `edit`; fenced; the store's. After an error
    /// nothing of the edit is true, unless its outcome says maybe: then the next call knows.
    pub(crate) async fn commit(
        &self,
        now_ms: i64,
        mut edit: impl FnMut(&mut Manifest) -> Result<Verdict, TieringError>,
    ) -> Result<Arc<Manifest>, TieringError> {
        let mut head = self.head.lock().await;
        if !head.certain || self.stale(&head, 4) {
            self.reload(&mut head).await?;
        }
        loop {
            let epoch = self.leader_epoch();
            fence(&head.manifest, epoch)?;
            if head.manifest.deleted {
                return Err(TieringError::Deleted);
            }
            let mut next = Manifest::clone(&head.manifest);
            if edit(&mut next)? == Verdict::Keep {
                return Ok(Arc::clone(&head.manifest));
            }
            self.seal_old_segments(&mut next).await?;
            self.prune(&mut next, now_ms).await;
            next.number = head.manifest.number + 1;
            next.writer_id = self.identity.writer_id;
            next.broker_id = self.identity.broker_id;
            next.leader_epoch = epoch;
            next.created_ms = now_ms;
            if head.manifest.number > 0 {
                next.superseded.push(Superseded {
                    number: head.manifest.number,
                    at_ms: now_ms,
                });
            }
            invariants::check(&next)?;
            invariants::check_successor(&head.manifest, &next)?;
            if self.write(&mut head, Arc::new(next)).await? {
                return Ok(Arc::clone(&head.manifest));
            }
        }
    }

    /// True when the manifest is written and the newest; false when the head is another writer's.
    async fn write(&self, head: &mut Head, next: Arc<Manifest>) -> Result<bool, TieringError> {
        let key = self.keys.manifest(next.number);
        let started = now();
        // Cancelled or failed half-way: the chain must be read before the next write.
        head.certain = false;
        let put = match self.bucket.put_new(&key, next.encode()).await {
            Ok(put) => put,
            Err(error) => {
                head.certain = error.outcome() == Outcome::NotDone;
                return Err(error.into());
            }
        };
        match put {
            PutNew::Created | PutNew::Ours => {
                if self.stale(head, 2) && self.newest_number().await? != Some(next.number) {
                    tracing::warn!(key, "slept while the chain went on: the write is void");
                    if let Err(error) = self.bucket.delete_many(std::slice::from_ref(&key)).await {
                        tracing::debug!(%error, key, "a void manifest stays");
                    }
                    self.reload(head).await?;
                    return Ok(false);
                }
                self.publish(head, next, started);
                Ok(true)
            }
            PutNew::Theirs(bytes) => {
                let theirs = self.decode(&key, &bytes, next.number)?;
                tracing::info!(
                    key,
                    writer = %theirs.writer_id,
                    epoch = theirs.leader_epoch,
                    "another writer took the next manifest"
                );
                self.publish(head, Arc::new(theirs), started);
                // There may be more behind it.
                self.reload(head).await?;
                Ok(false)
            }
        }
    }

    fn publish(&self, head: &mut Head, manifest: Arc<Manifest>, confirmed: (Instant, SystemTime)) {
        self.published.store(Arc::clone(&manifest));
        *head = Head {
            manifest,
            certain: true,
            confirmed,
        };
    }

    fn stale(&self, head: &Head, share: u32) -> bool {
        let limit = self.options.manifest_grace / share;
        let wall = head.confirmed.1.elapsed().unwrap_or(Duration::MAX);
        head.confirmed.0.elapsed() > limit || wall > limit
    }
}

fn fence(manifest: &Manifest, epoch: LeaderEpoch) -> Result<(), TieringError> {
    if manifest.leader_epoch > epoch {
        return Err(TieringError::Fenced {
            epoch,
            by_epoch: manifest.leader_epoch,
            by_writer: manifest.writer_id,
        });
    }
    Ok(())
}

fn now() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}
