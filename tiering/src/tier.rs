//! What the cold tiers of all partitions share: bucket, caches, budgets, metrics.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use strandline_bucket::{Bucket, StoreKind};
use strandline_types::{BrokerId, LeaderEpoch};
use uuid::Uuid;

use crate::error::TieringError;
use crate::key::PartitionKeys;
use crate::manifest::SealedLists;
use crate::manifest::chain::{ChainIdentity, ChainOptions};
use crate::metrics::TieringMetrics;
use crate::partition::{RemotePartition, RemotePartitionId};
use crate::read::budget::ByteBudget;
use crate::read::chunk_cache::{ChunkCache, ChunkCacheOptions};
use crate::read::fill::{Fetcher, Tails};
use crate::segment_object::{BLOCK_BYTES, WriterOptions};

/// Settings of the cold tier. [`RemoteTierOptions::new`] fills in the defaults.
#[derive(Debug, Clone)]
pub struct RemoteTierOptions {
    /// Where everything lies.
    pub bucket: Arc<Bucket>,
    /// Cluster of this broker; a part of every key.
    pub cluster_id: String,
    /// This broker.
    pub node_id: BrokerId,
    /// Folder of the disk cache; made when the cache opens.
    pub cache_dir: PathBuf,
    /// Memory of the chunk cache in bytes; 0 = none. Used from the first cold read on.
    pub cache_memory_bytes: u64,
    /// Disk of the chunk cache in bytes; 0 = none. `None` decides by the store: none for a local
    /// directory, 1 GiB otherwise.
    pub cache_disk_bytes: Option<u64>,
    /// Size of the pieces that are fetched and cached, in bytes.
    pub chunk_bytes: u64,
    /// Bytes that one request brings at most when a reader is fetched ahead; less than two chunks turns this off.
    /// `None` decides by the store: 16 MiB for one that is asked over a network, off for a local directory.
    pub run_bytes: Option<u64>,
    /// Memory of parsed indexes in bytes.
    pub index_cache_bytes: usize,
    /// Bytes that one sequential reader may be fetched ahead; 0 = no read-ahead.
    pub read_ahead_max_bytes: u64,
    /// Bytes that all readers of this broker may be fetched ahead.
    pub read_ahead_budget_bytes: u64,
    /// Bytes of fetches in flight.
    pub fill_budget_bytes: u64,
    /// Bytes of chunks that answers on their way keep besides their own; 0 = such answers are copies.
    pub answer_budget_bytes: u64,
    /// Time between the manifest without an object and the deletion of the object, in ms.
    pub delete_grace_ms: i64,
    /// Objects of a partition that wait for their deletion; beyond these retention goes on when some are gone, as each
    /// commit carries their names.
    pub max_pending_deletes: usize,
    /// Time that old manifests stay at least. Must be far longer than any pause of a broker.
    pub manifest_grace: Duration,
    /// Old manifests that stay at least.
    pub keep_manifests: u64,
    /// Segments in a manifest before they move into a sealed list.
    pub seal_segments: usize,
    /// Size of the blocks with a checksum in segment objects, in bytes.
    pub block_bytes: u32,
    /// Bytes of batches between two index entries of segment objects.
    pub index_interval_bytes: u64,
}

/// Memory of lists of older segments, in bytes.
const MAX_LIST_BYTES: u64 = 32 << 20;

impl RemoteTierOptions {
    /// The defaults.
    pub fn new(
        bucket: Arc<Bucket>,
        cluster_id: &str,
        node_id: BrokerId,
        cache_dir: PathBuf,
    ) -> Self {
        Self {
            bucket,
            cluster_id: cluster_id.to_owned(),
            node_id,
            cache_dir,
            cache_memory_bytes: 64 << 20,
            cache_disk_bytes: None,
            chunk_bytes: 4 << 20,
            run_bytes: None,
            index_cache_bytes: 32 << 20,
            read_ahead_max_bytes: 32 << 20,
            read_ahead_budget_bytes: 128 << 20,
            fill_budget_bytes: 128 << 20,
            answer_budget_bytes: 128 << 20,
            delete_grace_ms: 600_000,
            max_pending_deletes: 20_000,
            manifest_grace: Duration::from_secs(900),
            keep_manifests: 10,
            seal_segments: 1000,
            block_bytes: BLOCK_BYTES,
            index_interval_bytes: 32 << 10,
        }
    }

    fn run_bytes(&self) -> u64 {
        let default = match self.bucket.kind() {
            StoreKind::S3 => 16 << 20,
            // A request costs nothing there.
            StoreKind::LocalDirectory | StoreKind::Memory => 0,
        };
        self.run_bytes.unwrap_or(default)
    }

    fn disk_bytes(&self) -> u64 {
        let default = match self.bucket.kind() {
            StoreKind::S3 => 1 << 30,
            // The page cache does it better.
            StoreKind::LocalDirectory | StoreKind::Memory => 0,
        };
        self.cache_disk_bytes.unwrap_or(default)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) fetcher: Fetcher,
    pub(crate) lists: Arc<SealedLists>,
    pub(crate) read_ahead_budget: ByteBudget,
    pub(crate) read_ahead_max_bytes: u64,
    pub(crate) chain_options: ChainOptions,
    pub(crate) writer_options: WriterOptions,
    pub(crate) delete_grace_ms: i64,
    pub(crate) max_pending_deletes: usize,
    cluster_id: String,
    node_id: BrokerId,
    writer_id: Uuid,
}

impl Shared {
    pub(crate) fn keys(&self, id: &RemotePartitionId) -> Result<PartitionKeys, TieringError> {
        PartitionKeys::new(&self.cluster_id, id.topic_id, id.partition)
    }

    pub(crate) fn identity(&self, id: &RemotePartitionId) -> ChainIdentity {
        ChainIdentity {
            cluster_id: self.cluster_id.clone(),
            topic_id: id.topic_id,
            topic: id.topic.clone(),
            partition: id.partition,
            broker_id: self.node_id.0,
            writer_id: self.writer_id,
        }
    }
}

/// The cold tier of a broker; cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteTier {
    shared: Arc<Shared>,
}

impl RemoteTier {
    /// Opens the tier; sends no request and allocates next to nothing. The metrics go into
    /// `registry` under their full names. Errors: a cluster id that cannot be part of a key.
    pub fn open(options: RemoteTierOptions, registry: &mut Registry) -> Result<Self, TieringError> {
        PartitionKeys::new(&options.cluster_id, strandline_types::TopicId::ZERO, 0)?;
        let metrics = TieringMetrics::register(registry);
        let cache = ChunkCacheOptions {
            dir: options.cache_dir.clone(),
            memory_bytes: options.cache_memory_bytes,
            disk_bytes: options.disk_bytes(),
        };
        // Beside the chunks, as those are a share of the machine.
        let list_bytes = (options.cache_memory_bytes / 2).min(MAX_LIST_BYTES);
        let list_bytes = usize::try_from(list_bytes).unwrap_or(usize::MAX);
        let fetcher = Fetcher {
            bucket: Arc::clone(&options.bucket),
            cache: ChunkCache::new(cache, metrics.clone()),
            tails: Arc::new(Tails::new(options.index_cache_bytes)),
            fill_budget: ByteBudget::new(options.fill_budget_bytes.max(options.chunk_bytes)),
            answer_budget: ByteBudget::new(options.answer_budget_bytes),
            chunk_bytes: options.chunk_bytes.max(1),
            run_bytes: options.run_bytes(),
            metrics,
        };
        let shared = Shared {
            fetcher,
            lists: Arc::new(SealedLists::new(options.bucket, list_bytes)),
            read_ahead_budget: ByteBudget::new(options.read_ahead_budget_bytes),
            read_ahead_max_bytes: options.read_ahead_max_bytes,
            chain_options: ChainOptions {
                seal_segments: options.seal_segments,
                keep_manifests: options.keep_manifests,
                manifest_grace: options.manifest_grace,
            },
            writer_options: WriterOptions {
                block_bytes: options.block_bytes.max(1),
                index_interval_bytes: options.index_interval_bytes,
            },
            delete_grace_ms: options.delete_grace_ms,
            max_pending_deletes: options.max_pending_deletes,
            cluster_id: options.cluster_id,
            node_id: options.node_id,
            writer_id: Uuid::new_v4(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Reads a partition's chain (one LIST, and one GET if there is one). The epoch takes the chain
    /// over with the first write.
    pub async fn open_partition(
        &self,
        id: RemotePartitionId,
        leader_epoch: LeaderEpoch,
    ) -> Result<Arc<RemotePartition>, TieringError> {
        RemotePartition::open(Arc::clone(&self.shared), id, leader_epoch).await
    }

    /// The tier's counters.
    pub fn metrics(&self) -> &TieringMetrics {
        &self.shared.fetcher.metrics
    }

    /// The bucket behind it.
    pub fn bucket(&self) -> &Arc<Bucket> {
        &self.shared.fetcher.bucket
    }

    /// Writes the disk cache out, for a clean stop.
    pub async fn close(&self) {
        self.shared.fetcher.cache.close().await;
    }
}
