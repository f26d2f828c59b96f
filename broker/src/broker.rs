//! What all requests share: the parts of a running broker.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strandline_env::{Clock, Pool};
use strandline_log::{LogCleaner, TailBudget};
use strandline_metadata::{
    AlterConfigs, CreateTopics, CreatedTopic, DeletedTopic, Metadata, NewPartitions, NewTopic,
    ProducerIdBlock, RequestError, TopicRef,
};
use strandline_telemetry::Throttle;
use strandline_types::{BrokerId, TopicPartition};
use tokio::sync::watch;

use crate::coordinators::{GroupCoordinators, MarkerWriter, TransactionCoordinators};
use crate::fetch_session::FetchSessions;
use crate::log_dirs::LogDirs;
use crate::metrics::BrokerMetrics;
use crate::net::listener::ConnectionCount;
use crate::replica_manager::ReplicaManager;
use crate::settings::LiveConfig;

/// A topic that the broker itself creates exists after this time, or the client asks again.
const INTERNAL_TIMEOUT: Duration = Duration::from_secs(10);

type PerTopic<T> = Vec<Result<T, RequestError>>;

/// A running broker.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) node_id: BrokerId,
    pub(crate) cluster_id: String,
    pub(crate) config: Arc<LiveConfig>,
    pub(crate) clock: Clock,
    pub(crate) metadata: Metadata,
    pub(crate) log_dirs: Arc<LogDirs>,
    pub(crate) tail: Arc<TailBudget>,
    pub(crate) cleaner: LogCleaner,
    pub(crate) replicas: Arc<ReplicaManager>,
    pub(crate) groups: Arc<GroupCoordinators>,
    pub(crate) transactions: Arc<TransactionCoordinators>,
    pub(crate) markers: Arc<MarkerWriter>,
    pub(crate) producer_ids: Arc<ProducerIds>,
    pub(crate) sessions: FetchSessions,
    pub(crate) connections: Arc<ConnectionCount>,
    pub(crate) metrics: Arc<BrokerMetrics>,
    /// Files: reads that may touch the disk.
    pub(crate) io: Pool,
    /// Computation: decompression.
    pub(crate) cpu: Pool,
    /// Offset of the newest image that the partitions of this broker follow.
    pub(crate) applied: watch::Receiver<i64>,
    /// Bounds the log lines about cold reads that take long.
    pub(crate) slow_bucket: Throttle,
}

impl Broker {
    /// A cold read was not done in time: said now and then, since clients only see nothing.
    pub(crate) fn note_slow_bucket(&self, partition: &TopicPartition, wait: Duration) {
        if let Some(unsaid) = self.slow_bucket.pass(self.clock.monotonic_ms()) {
            tracing::warn!(%partition, ?wait, unsaid, "the bucket is slow, or does not answer: a fetch got nothing");
        }
    }

    /// Where fetch sessions get their ids from.
    pub(crate) fn random_id(&self) -> impl FnMut() -> i32 {
        || rand::random::<i32>() & i32::MAX
    }

    /// Creates one topic with the broker's defaults.
    pub(crate) async fn create_topic(&self, topic: NewTopic) -> Result<CreatedTopic, RequestError> {
        let request = CreateTopics {
            topics: vec![topic],
            validate_only: false,
            default_num_partitions: self.config.num_partitions(),
            default_replication_factor: self.config.default_replication_factor(),
        };
        let mut results = self.create_topics(request, INTERNAL_TIMEOUT).await?;
        results.pop().unwrap_or(Err(RequestError::NotController))
    }

    pub(crate) async fn create_topics(
        &self,
        request: CreateTopics,
        timeout: Duration,
    ) -> Result<PerTopic<CreatedTopic>, RequestError> {
        self.follow(timeout, self.metadata.create_topics(request))
            .await
    }

    pub(crate) async fn delete_topics(
        &self,
        topics: Vec<TopicRef>,
        timeout: Duration,
    ) -> Result<PerTopic<DeletedTopic>, RequestError> {
        self.follow(timeout, self.metadata.delete_topics(topics))
            .await
    }

    pub(crate) async fn create_partitions(
        &self,
        topics: Vec<NewPartitions>,
        validate_only: bool,
        timeout: Duration,
    ) -> Result<PerTopic<()>, RequestError> {
        self.follow(
            timeout,
            self.metadata.create_partitions(topics, validate_only),
        )
        .await
    }

    pub(crate) async fn alter_configs(
        &self,
        request: AlterConfigs,
    ) -> Result<PerTopic<()>, RequestError> {
        self.follow(INTERNAL_TIMEOUT, self.metadata.alter_configs(request))
            .await
    }

    /// Waits for a change of the metadata, and until the partitions here follow it: the client's
    /// next request finds what this one made (D-15). After `timeout` the change goes on alone.
    async fn follow<T>(
        &self,
        timeout: Duration,
        change: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        let followed = async {
            let value = change.await?;
            let target = self.metadata.image().offset();
            let mut applied = self.applied.clone();
            // An error means that the broker stops.
            let _ = applied.wait_for(|offset| *offset >= target).await;
            Ok(value)
        };
        // A timeout of 0 is "do not wait"; what is needed to start the change is waited for.
        let timeout = timeout.max(Duration::from_millis(1));
        tokio::time::timeout(timeout, followed)
            .await
            .unwrap_or(Err(RequestError::Timeout))
    }
}

/// Producer ids of the block that this broker was given (T-5).
#[derive(Debug)]
pub(crate) struct ProducerIds {
    broker_epoch: i64,
    node_id: BrokerId,
    block: Mutex<Option<ProducerIdBlock>>,
    fetching: tokio::sync::Mutex<()>,
}

/// Longest wait for a block of ids, those who wait before included.
const BLOCK_PATIENCE: Duration = Duration::from_secs(30);

impl ProducerIds {
    pub(crate) fn new(node_id: BrokerId, broker_epoch: i64) -> Self {
        Self {
            broker_epoch,
            node_id,
            block: Mutex::new(None),
            fetching: tokio::sync::Mutex::default(),
        }
    }

    /// An id that was never given before, in the whole cluster.
    ///
    /// # Errors
    /// Those of the allocation of a block; nobody waits longer than one allocation may take.
    pub(crate) async fn next(&self, metadata: &Metadata) -> Result<i64, RequestError> {
        let next = self.wait_for_next(metadata);
        let next = tokio::time::timeout(BLOCK_PATIENCE, next).await;
        next.unwrap_or(Err(RequestError::Timeout))
    }

    async fn wait_for_next(&self, metadata: &Metadata) -> Result<i64, RequestError> {
        loop {
            if let Some(id) = self.take() {
                return Ok(id);
            }
            // One block is fetched for all who wait.
            let _fetching = self.fetching.lock().await;
            if let Some(id) = self.take() {
                return Ok(id);
            }
            let block = metadata
                .allocate_producer_ids(self.node_id, self.broker_epoch)
                .await?;
            *self.block.lock() = Some(block);
        }
    }

    fn take(&self) -> Option<i64> {
        let mut block = self.block.lock();
        let block = block.as_mut().filter(|b| b.count > 0)?;
        let id = block.first;
        block.first += 1;
        block.count -= 1;
        Some(id)
    }
}
