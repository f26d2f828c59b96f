//! Applies committed records to the image and publishes it.
//!
//! The image lives in memory; it is durable as snapshot plus log. A responder hears of an entry only
//! after the image with it is published (M-8).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{Stream, TryStreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use tokio::sync::watch;

use crate::delta::Delta;
use crate::image::Image;
use crate::invariants;
use crate::raft::snapshot::{self, SnapshotFile, SnapshotStore};
use crate::raft::types::{LogId, SnapshotMeta, StoredMembership, TypeConfig};

type Snapshot = openraft::type_config::alias::SnapshotOf<TypeConfig, SnapshotFile>;

/// Where the newest image is published.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    current: Arc<ArcSwap<Image>>,
    watch: watch::Sender<Arc<Image>>,
}

impl Published {
    pub(crate) fn new(image: Arc<Image>) -> Self {
        let watch = watch::Sender::new(Arc::clone(&image));
        Self {
            current: Arc::new(ArcSwap::new(image)),
            watch,
        }
    }

    pub(crate) fn image(&self) -> Arc<Image> {
        self.current.load_full()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Image>> {
        self.watch.subscribe()
    }

    fn publish(&self, image: Arc<Image>) {
        self.current.store(Arc::clone(&image));
        self.watch.send_replace(image);
    }
}

/// The state machine of openraft.
#[derive(Debug)]
pub(crate) struct StateMachine {
    image: Arc<Image>,
    last_applied: Option<LogId>,
    membership: StoredMembership,
    published: Published,
    snapshots: Arc<SnapshotStore>,
}

impl StateMachine {
    /// Continues from a snapshot, or from the empty image.
    pub(crate) fn new(
        cluster_id: &str,
        snapshots: SnapshotStore,
        found: Option<(SnapshotMeta, Image)>,
    ) -> Self {
        let (meta, image) =
            found.unwrap_or_else(|| (SnapshotMeta::default(), Image::empty(cluster_id)));
        let image = Arc::new(image);
        Self {
            published: Published::new(Arc::clone(&image)),
            image,
            last_applied: meta.last_log_id,
            membership: meta.last_membership,
            snapshots: Arc::new(snapshots),
        }
    }

    pub(crate) fn published(&self) -> Published {
        self.published.clone()
    }

    fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.last_applied,
            last_membership: self.membership.clone(),
        }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotFile;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.last_applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<TypeConfig>>> + Unpin + OptionalSend,
    {
        let mut delta = Delta::new(&self.image);
        let mut responders = Vec::new();
        while let Some((entry, responder)) = entries.try_next().await? {
            let log_id = entry.log_id;
            match &entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(batch) => {
                    for record in &batch.0 {
                        delta.replay(record).map_err(|error| {
                            io::Error::other(format!("apply entry {log_id}: {error}"))
                        })?;
                    }
                }
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(log_id), membership.clone());
                }
            }
            self.last_applied = Some(log_id);
            responders.extend(responder);
        }
        if let Some(last) = self.last_applied {
            let offset = i64::try_from(last.index).unwrap_or(i64::MAX);
            self.image = Arc::new(delta.finish(offset, last.leader_id.term));
            self.published.publish(Arc::clone(&self.image));
        }
        for responder in responders {
            responder.send(());
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        SnapshotBuilder {
            meta: self.meta(),
            image: Arc::clone(&self.image),
            snapshots: Arc::clone(&self.snapshots),
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        data: SnapshotFile,
    ) -> io::Result<()> {
        let snapshots = Arc::clone(&self.snapshots);
        let cluster_id = Arc::clone(&self.image.cluster_id);
        let expected = meta.clone();
        let image = blocking(move || {
            let bytes = data.read()?;
            let (found, image) =
                snapshot::decode(&bytes, data.path(), &cluster_id).map_err(io::Error::other)?;
            if found != expected {
                return Err(io::Error::other(
                    "the snapshot is not the one that was announced",
                ));
            }
            snapshots.put(&found, &bytes)?;
            Ok(image)
        })
        .await?;
        self.image = Arc::new(image);
        self.last_applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.published.publish(Arc::clone(&self.image));
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        let found = self.snapshots.current()?;
        Ok(found.map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}

/// Writes a snapshot of an image that no longer changes, beside the state machine.
#[derive(Debug)]
pub(crate) struct SnapshotBuilder {
    meta: SnapshotMeta,
    image: Arc<Image>,
    snapshots: Arc<SnapshotStore>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotFile;

    /// Tries until it is written: an error would end the node, whose log can go on without.
    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        let mut wait = FIRST_SNAPSHOT_WAIT;
        loop {
            match self.try_build().await {
                Ok(snapshot) => return Ok(snapshot),
                Err(error) => {
                    tracing::error!(%error, ?wait, "the metadata snapshot could not be written, will try again");
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_SNAPSHOT_WAIT);
        }
    }
}

/// Waits after a snapshot that could not be written; doubled each time.
const FIRST_SNAPSHOT_WAIT: Duration = Duration::from_secs(1);
const LONGEST_SNAPSHOT_WAIT: Duration = Duration::from_secs(60);

impl SnapshotBuilder {
    async fn try_build(&self) -> io::Result<Snapshot> {
        let meta = self.meta.clone();
        let image = Arc::clone(&self.image);
        let snapshots = Arc::clone(&self.snapshots);
        blocking(move || {
            // Better no snapshot than one that loses what the log still has.
            invariants::check(&image).map_err(io::Error::other)?;
            let bytes = snapshot::encode(&meta, &image);
            let snapshot = snapshots.put(&meta, &bytes)?;
            tracing::info!(
                offset = image.offset(),
                bytes = bytes.len(),
                "wrote a metadata snapshot"
            );
            Ok(Snapshot { meta, snapshot })
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

#[cfg(test)]
mod tests;
