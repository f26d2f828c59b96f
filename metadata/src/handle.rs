//! The handle that the rest of the broker holds: image, subscription, requests.
//!
//! **Consistency.** Decisions are taken one at a time, each on an image that has every earlier one
//! (M-7), and are committed as one entry each.
//! **Cancellation.** A request whose caller goes away, or whose time is over, is still decided and
//! committed, and nothing overtakes it (D-15).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strandline_types::{BrokerId, TopicId};
use tokio::sync::{Mutex, watch};

use crate::controller::cluster::{self, BrokerRegistration};
use crate::controller::configs::{self, AlterConfigs};
use crate::controller::features::{self, FeatureUpdate};
use crate::controller::producer_ids::{self, ProducerIdBlock};
use crate::controller::topics::{
    self, CreateTopics, CreatedTopic, DeletedTopic, NewPartitions, PerTopic, TopicRef,
};
use crate::controller::{ConfigValidator, Decision};
use crate::directory::Directory;
use crate::error::{OpenError, RequestError};
use crate::image::Image;
use crate::raft::{RaftNode, RaftNodeOptions};
use crate::record::{FeatureLevelRecord, Record};

/// How to open the metadata of a node.
#[derive(Debug, Clone)]
pub struct MetadataOptions {
    /// `metadata.log.dir`; made if it does not exist.
    pub dir: PathBuf,
    /// `node.id`, not negative. A directory of another node is refused.
    pub node_id: BrokerId,
    /// The cluster that the directory must belong to, or shall belong to if it is new; `None` for
    /// whatever it belongs to, or a new id.
    pub cluster_id: Option<String>,
    /// Checks configs before they are committed.
    pub validator: Arc<dyn ConfigValidator>,
    /// Features that a new cluster finalizes, with their levels.
    pub bootstrap_features: Vec<(String, i16)>,
    /// Longest time that a request waits for its commit.
    pub request_timeout: Duration,
    /// Log entries after which a snapshot is written.
    pub snapshot_entries: u64,
}

impl MetadataOptions {
    /// Options with defaults: no wanted cluster id, no features, 30 s, 5000 entries.
    pub fn new(dir: PathBuf, node_id: BrokerId, validator: Arc<dyn ConfigValidator>) -> Self {
        Self {
            dir,
            node_id,
            cluster_id: None,
            validator,
            bootstrap_features: Vec::new(),
            request_timeout: Duration::from_secs(30),
            snapshot_entries: 5000,
        }
    }
}

/// The metadata of the cluster. Clones are one handle.
#[derive(Debug, Clone)]
pub struct Metadata {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: Directory,
    node: RaftNode,
    validator: Arc<dyn ConfigValidator>,
    request_timeout: Duration,
    /// Held from a decision to its commit.
    deciding: Arc<Mutex<()>>,
}

impl Metadata {
    /// Opens the directory, takes its lock, and waits until this node leads the quorum and has
    /// applied everything that was committed. To be called within a tokio runtime, which then also
    /// runs the quorum.
    pub async fn open(options: MetadataOptions) -> Result<Self, OpenError> {
        let MetadataOptions {
            dir,
            node_id,
            cluster_id,
            ..
        } = options.clone();
        let directory =
            tokio::task::spawn_blocking(move || Directory::open(&dir, node_id, cluster_id))
                .await
                .map_err(|error| OpenError::Raft(error.to_string()))??;
        let node = RaftNode::open(RaftNodeOptions {
            dir: options.dir.clone(),
            // `Directory::open` refuses a negative id.
            id: u64::try_from(node_id.0).unwrap_or_default(),
            cluster_id: directory.cluster_id().to_owned(),
            snapshot_entries: options.snapshot_entries,
            lock: Some(directory.lock()),
        })
        .await?;
        let metadata = Self {
            inner: Arc::new(Inner {
                directory,
                node,
                validator: options.validator,
                request_timeout: options.request_timeout,
                deciding: Arc::default(),
            }),
        };
        match metadata.bootstrap(options.bootstrap_features).await {
            Ok(()) => Ok(metadata),
            Err(error) => {
                metadata.shutdown().await;
                Err(error)
            }
        }
    }

    /// A new cluster finalizes the features that it was opened with. One that has removed all of its
    /// features stays without: it has had a broker (D-61).
    async fn bootstrap(&self, features: Vec<(String, i16)>) -> Result<(), OpenError> {
        let decide = move |image: &Image| {
            let is_new = image.features().is_empty() && image.cluster().brokers().next().is_none();
            let features = if is_new { features } else { Vec::new() };
            let record = |(name, level)| Record::FeatureLevel(FeatureLevelRecord { name, level });
            Ok((features.into_iter().map(record).collect(), ()))
        };
        let result = self.decide(decide).await;
        result.map_err(|error| OpenError::Raft(error.to_string()))
    }

    /// Stable id of the cluster.
    pub fn cluster_id(&self) -> &str {
        self.inner.directory.cluster_id()
    }

    /// `directory.id` of the metadata directory.
    pub fn directory_id(&self) -> &str {
        self.inner.directory.directory_id()
    }

    /// The newest image: a pointer, no lock.
    pub fn image(&self) -> Arc<Image> {
        self.inner.node.image()
    }

    /// Sees each newer image; images in quick succession may be skipped. Compare two of them with
    /// [`ImageChanges::between`](crate::ImageChanges::between).
    pub fn subscribe(&self) -> watch::Receiver<Arc<Image>> {
        self.inner.node.subscribe()
    }

    /// Registers a broker and returns its epoch. A new incarnation fences the previous one and
    /// begins a new leadership of every partition that the broker leads.
    pub async fn register_broker(&self, request: BrokerRegistration) -> Result<i64, RequestError> {
        self.decide(move |image| cluster::register(image, &request))
            .await
    }

    /// Makes a broker that registered as fenced part of the cluster.
    pub async fn unfence_broker(&self, id: BrokerId, epoch: i64) -> Result<(), RequestError> {
        self.decide(move |image| cluster::unfence(image, id, epoch))
            .await
    }

    /// Creates topics; one result per topic, in the order of the request. An error as a whole
    /// (D-11) stands for every topic.
    pub async fn create_topics(
        &self,
        request: CreateTopics,
    ) -> Result<PerTopic<CreatedTopic>, RequestError> {
        let validator = Arc::clone(&self.inner.validator);
        self.decide(move |image| {
            topics::create_topics(image, &request, &*validator, TopicId::random)
        })
        .await
    }

    /// Deletes topics with their configs; one result per topic, in the order of the request.
    pub async fn delete_topics(
        &self,
        topics: Vec<TopicRef>,
    ) -> Result<PerTopic<DeletedTopic>, RequestError> {
        self.decide(move |image| topics::delete_topics(image, &topics))
            .await
    }

    /// Adds partitions; one result per topic, in the order of the request.
    pub async fn create_partitions(
        &self,
        topics: Vec<NewPartitions>,
        validate_only: bool,
    ) -> Result<PerTopic<()>, RequestError> {
        self.decide(move |image| topics::create_partitions(image, &topics, validate_only))
            .await
    }

    /// Changes configs; one result per resource, in the order of the request.
    pub async fn alter_configs(
        &self,
        request: AlterConfigs,
    ) -> Result<Vec<Result<(), RequestError>>, RequestError> {
        let validator = Arc::clone(&self.inner.validator);
        self.decide(move |image| configs::alter_configs(image, &request, &*validator))
            .await
    }

    /// Gives a block of producer ids to a registered broker (T-5).
    pub async fn allocate_producer_ids(
        &self,
        broker_id: BrokerId,
        broker_epoch: i64,
    ) -> Result<ProducerIdBlock, RequestError> {
        self.decide(move |image| producer_ids::allocate(image, broker_id, broker_epoch))
            .await
    }

    /// Finalizes features, all or none (D-61).
    pub async fn update_features(
        &self,
        updates: Vec<FeatureUpdate>,
        validate_only: bool,
    ) -> Result<(), RequestError> {
        self.decide(move |image| features::update(image, &updates, validate_only))
            .await
    }

    /// Waits until the metadata no longer work on this node, and says why: a write to the log
    /// failed, a record did not fit, or [`Self::shutdown`]. Images can still be read, but nothing
    /// will change any more; only a restart helps.
    pub async fn stopped(&self) -> String {
        self.inner.node.stopped().await
    }

    /// Waits for the decision under way, then stops the quorum, syncs and closes the log, and gives
    /// the directory free. Later requests fail with `Unavailable`.
    pub async fn shutdown(&self) {
        let _deciding = self.inner.deciding.lock().await;
        self.inner.node.shutdown().await;
        self.inner.directory.unlock();
    }

    /// Takes one decision and commits it.
    async fn decide<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&Image) -> Decision<T> + Send + 'static,
    ) -> Result<T, RequestError> {
        let inner = Arc::clone(&self.inner);
        let deciding = Arc::clone(&inner.deciding);
        // A task of its own: if the caller goes away, the lock must stay until the commit.
        let task = tokio::spawn(async move {
            let _deciding = deciding.lock_owned().await;
            let (records, reply) = decide(&inner.node.image())?;
            if !records.is_empty() {
                inner.node.commit(records).await?;
            }
            Ok(reply)
        });
        match tokio::time::timeout(self.inner.request_timeout, task).await {
            Err(_) => Err(RequestError::Timeout),
            Ok(Err(error)) => Err(RequestError::Unavailable(error.to_string())),
            Ok(Ok(result)) => result,
        }
    }
}
