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

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use bytes::Bytes;
use strandline_bucket::{Bucket, Outcome, PutNew};
use strandline_types::{LeaderEpoch, NO_PARTITION_LEADER_EPOCH, TopicId};
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{Manifest, Superseded, encode_sealed};
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

/// Old manifests worth a request.
const PRUNE_AT_ONCE: usize = 8;

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

    async fn newest_number(&self) -> Result<Option<u64>, TieringError> {
        // Listing from what we know would miss a chain that was deleted and begun again.
        let listed = self.bucket.list(&self.keys.manifests(), None).await?;
        Ok(listed
            .iter()
            .filter_map(|object| self.keys.parse_manifest(&object.key))
            .max())
    }

    async fn reload(&self, head: &mut Head) -> Result<(), TieringError> {
        // The newest may be pruned between the listing and the read only if the chain went on.
        for _ in 0..3 {
            let started = now();
            let Some(number) = self.newest_number().await? else {
                self.publish(head, Arc::new(self.identity.empty()), started);
                return Ok(());
            };
            if head.certain && number == head.manifest.number {
                head.confirmed = started;
                return Ok(());
            }
            let key = self.keys.manifest(number);
            let manifest = match self.read(&key, number).await {
                Err(TieringError::Bucket(error)) if error.is_not_found() => continue,
                other => other?,
            };
            self.publish(head, Arc::new(manifest), started);
            return Ok(());
        }
        Err(TieringError::corrupt(
            &self.keys.manifests(),
            "its newest manifest keeps vanishing",
        ))
    }

    async fn read(&self, key: &str, number: u64) -> Result<Manifest, TieringError> {
        let bytes = self.bucket.get(key).await?;
        match self.decode(key, &bytes, number) {
            Err(error) if error.is_corruption() => {
                // Damage on the way here may be gone the second time.
                let again = self.bucket.get(key).await?;
                self.decode(key, &again, number)
            }
            other => other,
        }
    }

    fn decode(&self, key: &str, bytes: &Bytes, number: u64) -> Result<Manifest, TieringError> {
        let manifest = Manifest::decode(key, bytes)?;
        let ours = manifest.cluster_id == self.identity.cluster_id
            && manifest.topic_id == self.identity.topic_id
            && manifest.partition == self.identity.partition
            && manifest.number == number;
        if ours {
            Ok(manifest)
        } else {
            Err(TieringError::corrupt(
                key,
                "it is the manifest of another place",
            ))
        }
    }

    async fn seal_old_segments(&self, next: &mut Manifest) -> Result<(), TieringError> {
        if next.inline.len() < self.options.seal_segments.max(1) {
            return Ok(());
        }
        let sealed = encode_sealed(next.topic_id, next.partition, &next.inline);
        if let Some((pointer, bytes)) = sealed {
            self.bucket
                .put(&self.keys.absolute(&pointer.relative), bytes)
                .await?;
            next.sealed.push(pointer);
            next.inline.clear();
        }
        Ok(())
    }

    /// Deletes manifests that are old enough. Those that could not be deleted stay listed.
    async fn prune(&self, next: &mut Manifest, now_ms: i64) {
        let grace_ms = i64::try_from(self.options.manifest_grace.as_millis()).unwrap_or(i64::MAX);
        let newest_kept = next.number.saturating_sub(self.options.keep_manifests);
        let old =
            |s: &Superseded| s.number < newest_kept && s.at_ms.saturating_add(grace_ms) <= now_ms;
        let due: Vec<u64> = next
            .superseded
            .iter()
            .filter(|s| old(s))
            .map(|s| s.number)
            .collect();
        if due.len() < PRUNE_AT_ONCE {
            return;
        }
        let keys: Vec<String> = due
            .iter()
            .map(|number| self.keys.manifest(*number))
            .collect();
        match self.bucket.delete_many(&keys).await {
            Ok(()) => next.superseded.retain(|s| !due.contains(&s.number)),
            Err(error) => tracing::debug!(%error, "old manifests stay for now"),
        }
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

impl ChainIdentity {
    fn empty(&self) -> Manifest {
        Manifest {
            number: 0,
            writer_id: self.writer_id,
            broker_id: self.broker_id,
            leader_epoch: NO_PARTITION_LEADER_EPOCH,
            created_ms: 0,
            cluster_id: self.cluster_id.clone(),
            topic_id: self.topic_id,
            topic: self.topic.clone(),
            partition: self.partition,
            deleted: false,
            log_start_offset: 0,
            epochs: Vec::new(),
            sealed: Vec::new(),
            inline: Vec::new(),
            pending_deletes: Vec::new(),
            superseded: Vec::new(),
        }
    }
}
