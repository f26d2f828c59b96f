//! The only door to foyer: chunks of segment objects in memory and on disk.
//!
//! One fill per chunk however many wait; a fill is a task of its own, so it outlives the request
//! that started it. The cache opens on the first cold read, so a broker without one pays nothing.
//! **Crash safety**: foyer checks what it finds on disk; keys are never reused, so nothing stale can
//! be found. What is cached was checked against the object's checksums when it was fetched.

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, PsyncIoEngineConfig, RecoverMode, S3FifoConfig, Source, StorageFilter,
};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::task::unconstrained;

use super::admission::SecondFetch;
use super::plan::ChunkKey;
use crate::error::TieringError;
use crate::metrics::TieringMetrics;

/// Sizes of the cache; 0 turns a part off.
#[derive(Debug, Clone)]
pub(crate) struct ChunkCacheOptions {
    pub(crate) dir: PathBuf,
    pub(crate) memory_bytes: u64,
    pub(crate) disk_bytes: u64,
}

type Hybrid = HybridCache<ChunkKey, Bytes>;
type Fill = Shared<BoxFuture<'static, Result<Bytes, Arc<TieringError>>>>;

/// A chunk that is there, or on its way; clones share it.
#[derive(Clone, Debug)]
pub(crate) enum ChunkHandle {
    Ready(Bytes),
    Pending(Fill),
}

impl ChunkHandle {
    /// True when [`ChunkHandle::get`] does not wait.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Ready(_) => true,
            // One that nobody has asked yet does not know that its task is done.
            Self::Pending(fill) => {
                fill.peek().is_some() || unconstrained(fill.clone()).now_or_never().is_some()
            }
        }
    }

    pub(crate) async fn get(self) -> Result<Bytes, TieringError> {
        match self {
            Self::Ready(bytes) => Ok(bytes),
            Self::Pending(fill) => fill.await.map_err(TieringError::Shared),
        }
    }
}

struct Inner {
    options: ChunkCacheOptions,
    hybrid: OnceCell<Option<Hybrid>>,
    in_flight: Mutex<HashMap<ChunkKey, Fill>>,
    metrics: TieringMetrics,
}

/// See the module.
#[derive(Clone)]
pub(crate) struct ChunkCache {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for ChunkCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkCache")
            .field("options", &self.inner.options)
            .finish_non_exhaustive()
    }
}

/// Entries must fit into a block; larger blocks also mean fewer files.
const DISK_BLOCK_BYTES: usize = 64 << 20;
/// foyer drops what exceeds its queue or its buffers without a word.
const SUBMIT_QUEUE_BYTES: usize = 256 << 20;
const BUFFER_POOL_BYTES: usize = 64 << 20;

impl ChunkCache {
    pub(crate) fn new(options: ChunkCacheOptions, metrics: TieringMetrics) -> Self {
        let inner = Inner {
            options,
            hybrid: OnceCell::new(),
            in_flight: Mutex::default(),
            metrics,
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// False when a read of the chunk would have to fetch it from the bucket, as far as can be told at once.
    pub(crate) fn is_near(&self, key: &ChunkKey) -> bool {
        let cached = |hybrid: &Hybrid| hybrid.contains(key);
        self.inner.in_flight.lock().contains_key(key)
            || matches!(self.inner.hybrid.get(), Some(Some(hybrid)) if cached(hybrid))
    }

    /// The chunk under `key`; `fetch` gets it from the bucket, checked, if it is nowhere. Must be
    /// called within a tokio runtime.
    pub(crate) fn get<F, Fut>(&self, key: ChunkKey, fetch: F) -> ChunkHandle
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Bytes, TieringError>> + Send + 'static,
    {
        if let Some(Some(hybrid)) = self.inner.hybrid.get()
            && let Some(entry) = hybrid.memory().get(&key)
        {
            self.inner.metrics.cache_hits.inc();
            return ChunkHandle::Ready(entry.value().clone());
        }
        let mut in_flight = self.inner.in_flight.lock();
        if let Some(fill) = in_flight.get(&key) {
            self.inner.metrics.cache_hits.inc();
            return ChunkHandle::Pending(fill.clone());
        }
        let fill = Self::fill(Arc::clone(&self.inner), key, fetch());
        // A panic in there ends the task; the waiters learn that it was cancelled.
        let task = tokio::spawn(fill);
        let fill = async move {
            task.await
                .unwrap_or_else(|_| Err(Arc::new(TieringError::Cancelled)))
        };
        let fill = fill.boxed().shared();
        in_flight.insert(key, fill.clone());
        ChunkHandle::Pending(fill)
    }

    async fn fill(
        inner: Arc<Inner>,
        key: ChunkKey,
        fetch: impl Future<Output = Result<Bytes, TieringError>> + Send + 'static,
    ) -> Result<Bytes, Arc<TieringError>> {
        let _done = InFlight { inner: &inner, key };
        let Some(hybrid) = inner.hybrid.get_or_init(|| open(&inner.options)).await else {
            inner.metrics.cache_misses.inc();
            return fetch.await.map_err(Arc::new);
        };
        // Once per fill and not per waiter, as foyer writes an entry to disk for each of them.
        let fetched = hybrid
            .get_or_fetch(&key, || async move {
                fetch.await.map_err(|e| Failed(Arc::new(e)))
            })
            .await;
        match fetched {
            Ok(entry) => {
                match entry.source() {
                    Source::Outer => inner.metrics.cache_misses.inc(),
                    _ => inner.metrics.cache_hits.inc(),
                };
                Ok(entry.value().clone())
            }
            Err(error) => {
                inner.metrics.cache_misses.inc();
                Err(match error.downcast_ref::<Failed>() {
                    Some(Failed(cause)) => Arc::clone(cause),
                    None => {
                        tracing::warn!(%error, "the chunk cache failed");
                        Arc::new(TieringError::Cancelled)
                    }
                })
            }
        }
    }

    /// Flushes the disk part and closes it.
    pub(crate) async fn close(&self) {
        if let Some(Some(hybrid)) = self.inner.hybrid.get()
            && let Err(error) = hybrid.close().await
        {
            tracing::warn!(%error, "the chunk cache did not close cleanly");
        }
    }
}

/// The fetch's own error on its way through foyer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
struct Failed(Arc<TieringError>);

/// Takes a finished fill, or one that panicked, from the table.
struct InFlight<'a> {
    inner: &'a Inner,
    key: ChunkKey,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.inner.in_flight.lock().remove(&self.key);
    }
}

/// foyer panics where it cannot make its folder.
async fn build_on_disk(options: &ChunkCacheOptions) -> Result<Hybrid, String> {
    let dir = options.dir.clone();
    let made = tokio::task::spawn_blocking(move || std::fs::create_dir_all(dir)).await;
    made.map_err(|error| error.to_string())?
        .map_err(|error| error.to_string())?;
    build(options, true)
        .await
        .map_err(|error| error.to_string())
}

/// `None`: no cache, by choice or because it cannot be opened, which must not stop reading.
async fn open(options: &ChunkCacheOptions) -> Option<Hybrid> {
    if options.memory_bytes == 0 && options.disk_bytes == 0 {
        return None;
    }
    if options.disk_bytes == 0 {
        return build(options, false).await.ok();
    }
    match build_on_disk(options).await {
        Ok(hybrid) => Some(hybrid),
        Err(error) => {
            let dir = options.dir.display();
            tracing::warn!(%error, %dir, "cannot open the disk cache, going on without it");
            build(options, false).await.ok()
        }
    }
}

async fn build(options: &ChunkCacheOptions, on_disk: bool) -> foyer::Result<Hybrid> {
    let memory = usize::try_from(options.memory_bytes).unwrap_or(usize::MAX);
    let builder = HybridCacheBuilder::new()
        .with_name("strandline-chunks")
        .with_policy(HybridCachePolicy::WriteOnInsertion)
        .with_flush_on_close(true)
        .memory(memory)
        .with_shards(1)
        // A scan passes through a small queue and does not throw out what others read again.
        .with_eviction_config(S3FifoConfig {
            // Wide enough that a second reader close behind the first finds its chunks.
            small_queue_capacity_ratio: 0.25,
            ..S3FifoConfig::default()
        })
        .with_weighter(|_: &ChunkKey, chunk: &Bytes| chunk.len())
        .storage();
    if !on_disk {
        return builder.build().await;
    }
    let disk = usize::try_from(options.disk_bytes).unwrap_or(usize::MAX);
    let block = DISK_BLOCK_BYTES.min((disk / 4).max(1 << 20));
    let device = FsDeviceBuilder::new(&options.dir)
        .with_capacity(disk.max(block))
        .build()?;
    let engine = BlockEngineConfig::new(device)
        .with_block_size(block)
        .with_buffer_pool_size(BUFFER_POOL_BYTES.min(disk.max(block)))
        .with_admission_filter(StorageFilter::new().with_condition(SecondFetch::default()))
        .with_submit_queue_size_threshold(SUBMIT_QUEUE_BYTES.min(disk.max(block)))
        .with_indexer_shards(4);
    builder
        // The other engine spins on an idle core.
        .with_io_engine_config(PsyncIoEngineConfig::new())
        .with_engine_config(engine)
        .with_recover_mode(RecoverMode::Quiet)
        .build()
        .await
}
