//! A raft node: opened, elected, recovered, stopped.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{ClientWriteError, RaftError};
use openraft::{BasicNode, Config, Raft, ServerState, SnapshotPolicy};
use tokio::sync::watch;

use crate::error::{OpenError, RequestError};
use crate::image::Image;
use crate::raft::log_store::{LogStore, LogStoreOptions};
use crate::raft::network::NoNetwork;
use crate::raft::snapshot::SnapshotStore;
use crate::raft::state_machine::{Published, StateMachine};
use crate::raft::types::{RecordBatch, TypeConfig};
use crate::record::{Record, encode_records};

/// Longest time that a start may take.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of entries after which a snapshot is due, however few the entries are (Kafka:
/// `metadata.log.max.record.bytes.between.snapshots`).
const SNAPSHOT_BYTES: u64 = 20 * 1024 * 1024;

/// Longest entry, in bytes: far below what the log can hold, far above what a request needs.
const MAX_ENTRY_BYTES: usize = 64 * 1024 * 1024;

/// How to open a node.
#[derive(Debug, Clone)]
pub(crate) struct RaftNodeOptions {
    /// Its folder; `log/` and `snapshots/` are made in it.
    pub(crate) dir: PathBuf,
    /// Its id.
    pub(crate) id: u64,
    /// The cluster.
    pub(crate) cluster_id: String,
    /// Entries after which a snapshot is due.
    pub(crate) snapshot_entries: u64,
    /// Lock of the folder, held as long as the log is in use.
    pub(crate) lock: Option<Arc<fs::File>>,
}

/// A running raft node.
#[derive(Debug)]
pub(crate) struct RaftNode {
    raft: Raft<TypeConfig, StateMachine>,
    store: LogStore,
    published: Published,
    snapshotted_bytes: std::sync::atomic::AtomicU64,
}

impl RaftNode {
    /// Opens the node and waits until it leads and has applied everything that is committed.
    pub(crate) async fn open(options: RaftNodeOptions) -> Result<Self, OpenError> {
        let id = options.id;
        let snapshot_entries = options.snapshot_entries;
        let opened = tokio::task::spawn_blocking(move || open_files(&options)).await;
        let (store, state_machine) =
            opened.map_err(|error| OpenError::Raft(error.to_string()))??;
        let published = state_machine.published();
        let raft = Raft::new(
            id,
            config(snapshot_entries)?,
            NoNetwork,
            store.clone(),
            state_machine,
        )
        .await
        .map_err(failed)?;
        let node = Self {
            raft,
            store,
            published,
            snapshotted_bytes: std::sync::atomic::AtomicU64::new(0),
        };
        match node.elect(id).await {
            Ok(()) => Ok(node),
            Err(error) => {
                node.shutdown().await;
                Err(error)
            }
        }
    }

    async fn elect(&self, id: u64) -> Result<(), OpenError> {
        if self.raft.is_initialized().await.map_err(failed)? {
            // Nobody else can lead, so there is no timeout to wait for.
            self.raft.trigger().elect(false).await.map_err(failed)?;
        } else {
            // It elects itself at once.
            let members = BTreeMap::from([(id, BasicNode::default())]);
            self.raft.initialize(members).await.map_err(failed)?;
        }
        let wait = self.raft.wait(Some(START_TIMEOUT));
        let leads = wait
            .metrics(|m| m.state == ServerState::Leader, "this node leads")
            .await;
        leads.map_err(failed)?;
        // Nothing may be read before what was committed before the stop is applied again.
        self.raft
            .wait_for_recovery(Some(START_TIMEOUT))
            .await
            .map_err(failed)?;
        // A lone voter has nobody to send a heartbeat to and no timeout to watch; without ticks an
        // idle quorum costs nothing. To be switched on with the second voter.
        self.raft.runtime_config().tick(false);
        Ok(())
    }

    /// The newest applied image.
    pub(crate) fn image(&self) -> Arc<Image> {
        self.published.image()
    }

    /// Sees each newer image, though not every one between.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Image>> {
        self.published.subscribe()
    }

    /// Commits records, all or none, and waits until the published image has them.
    pub(crate) async fn commit(&self, records: Vec<Record>) -> Result<(), RequestError> {
        let len = encode_records(&records).len();
        if len > MAX_ENTRY_BYTES {
            return Err(RequestError::PolicyViolation(format!(
                "the request needs {len} bytes of metadata at once, more than {MAX_ENTRY_BYTES}"
            )));
        }
        let result = self.raft.client_write(RecordBatch(records)).await;
        result.map_err(|error| match error {
            RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => {
                RequestError::NotController
            }
            other => RequestError::Unavailable(other.to_string()),
        })?;
        self.snapshot_if_due().await;
        Ok(())
    }

    /// The policy of openraft counts entries; an entry of ours may have thousands of records.
    async fn snapshot_if_due(&self) {
        use std::sync::atomic::Ordering::Relaxed;
        let appended = self.store.appended_bytes();
        if appended - self.snapshotted_bytes.load(Relaxed) < SNAPSHOT_BYTES {
            return;
        }
        self.snapshotted_bytes.store(appended, Relaxed);
        if let Err(error) = self.raft.trigger().snapshot().await {
            tracing::warn!(%error, "ask for a metadata snapshot");
        }
    }

    /// Waits until the node no longer works, and says why.
    pub(crate) async fn stopped(&self) -> String {
        let stopped = |m: &openraft::RaftMetrics<TypeConfig>| m.running_state.is_err();
        match self
            .raft
            .wait(None)
            .metrics(stopped, "the node stopped")
            .await
        {
            Ok(metrics) => metrics
                .running_state
                .err()
                .map_or_else(String::new, |e| e.to_string()),
            Err(error) => error.to_string(),
        }
    }

    /// Stops raft, syncs and closes the log.
    pub(crate) async fn shutdown(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(%error, "stop the metadata quorum");
        }
        let store = self.store.clone();
        if let Err(error) = tokio::task::spawn_blocking(move || store.stop()).await {
            tracing::error!(%error, "close the metadata log");
        }
    }
}

fn open_files(options: &RaftNodeOptions) -> Result<(LogStore, StateMachine), OpenError> {
    let folder = |name: &str| {
        let path = options.dir.join(name);
        fs::create_dir_all(&path).map_err(OpenError::io("create", &path))?;
        Ok::<PathBuf, OpenError>(path)
    };
    let (log, snapshots) = (folder("log")?, folder("snapshots")?);
    crate::raft::wal::sync_dir(&options.dir).map_err(OpenError::io("sync", &options.dir))?;
    let (snapshots, found) = SnapshotStore::open(&snapshots, &options.cluster_id)?;
    let store = LogStore::open(&log, LogStoreOptions::default(), options.lock.clone())?;
    Ok((
        store,
        StateMachine::new(&options.cluster_id, snapshots, found),
    ))
}

fn config(snapshot_entries: u64) -> Result<Arc<Config>, OpenError> {
    let config = Config {
        cluster_name: "strandline".to_owned(),
        heartbeat_interval: 250,
        election_timeout_min: 1000,
        election_timeout_max: 2000,
        install_snapshot_timeout: 10_000,
        enable_pre_vote: Some(true),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(snapshot_entries),
        max_in_snapshot_log_to_keep: 1000.min(snapshot_entries),
        purge_batch_size: 256.min(snapshot_entries),
        ..Config::default()
    };
    Ok(Arc::new(config.validate().map_err(failed)?))
}

fn failed(error: impl std::fmt::Display) -> OpenError {
    OpenError::Raft(error.to_string())
}
