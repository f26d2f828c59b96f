//! Requests to the store without meaning: whole objects, ranges, listings, deletions.
//!
//! **Consistency**: what the store promises after a write (all supported ones: read your writes and
//! listings). **Crash safety**: an object is there whole or not at all; the local-directory store
//! syncs file and folder before it answers. **Retries**: [`RetryPolicies`], here and nowhere above.
//! **Cancellation**: a dropped write may still happen.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use crate::body;
use crate::buffers::BufferPool;
use crate::error::{BucketError, BucketErrorKind, Outcome};
use crate::in_flight::InFlight;
use crate::metrics::{BucketMetrics, Op};
use crate::options::StoreKind;
use crate::retry::{RetryPolicies, RetryPolicy};

/// What a listing tells about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Key without the bucket's prefix.
    pub key: String,
    /// Size in bytes.
    pub size: u64,
    /// Last change in ms since the Unix epoch, by the store's clock.
    pub last_modified_ms: i64,
}

/// What one request of a listing answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPage {
    /// In the order of their keys.
    pub objects: Vec<ObjectInfo>,
    /// False when more may follow the last of them.
    pub is_last: bool,
}

/// Objects of one request of a listing, which is what S3 answers at most.
const PAGE_OBJECTS: usize = 1000;

/// A range of an object, with the size of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRead {
    /// The bytes of the range; shorter than asked for only at the end of the object.
    pub bytes: Bytes,
    /// Size of the whole object in bytes.
    pub object_size: u64,
}

/// The one door to the object store. All keys are relative to the prefix of its URL.
pub struct Bucket {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    pub(crate) kind: StoreKind,
    pub(crate) url: String,
    pub(crate) retry: RetryPolicies,
    pub(crate) metrics: BucketMetrics,
    pub(crate) reads: InFlight,
    pub(crate) writes: InFlight,
    pub(crate) multipart_concurrency: usize,
    pub(crate) buffers: BufferPool,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// The URL that the bucket was opened with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What is behind the URL.
    pub fn kind(&self) -> StoreKind {
        self.kind
    }

    /// The bucket's counters.
    pub fn metrics(&self) -> &BucketMetrics {
        &self.metrics
    }

    pub(crate) fn path(&self, key: &str) -> Path {
        let mut path = self.prefix.clone();
        for part in key.split('/').filter(|part| !part.is_empty()) {
            path = path.join(part);
        }
        path
    }

    fn key_of(&self, path: &Path) -> String {
        match path.prefix_match(&self.prefix) {
            Some(parts) => parts
                .map(|p| p.as_ref().to_owned())
                .collect::<Vec<_>>()
                .join("/"),
            None => path.to_string(),
        }
    }

    /// Writes an object, replacing what was there. Errors: see [`BucketError::outcome`].
    pub async fn put(&self, key: &str, body: impl Into<PutBody>) -> Result<(), BucketError> {
        let body: PutBody = body.into();
        let path = self.path(key);
        let bytes = body.len() as u64;
        self.retrying(Op::Put, key, self.retry.write, || {
            let payload: PutPayload = body.0.iter().cloned().collect();
            let path = &path;
            async move { Ok((self.store.put(path, payload).await.map(|_| ())?, bytes)) }
        })
        .await
    }

    /// Reads a whole object.
    pub async fn get(&self, key: &str) -> Result<Bytes, BucketError> {
        let path = self.path(key);
        self.retrying(Op::Get, key, self.retry.read, || {
            let path = &path;
            async move {
                let bytes = self.store.get(path).await?.bytes().await?;
                let len = bytes.len() as u64;
                Ok((bytes, len))
            }
        })
        .await
    }

    /// Reads the bytes of `range`, which must begin inside the object; it is cut at its end.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<RangeRead, BucketError> {
        self.get_part(key, GetRange::Bounded(range)).await
    }

    /// Reads the bytes of `range`, which must lie inside the object, in one request, and hands out each
    /// `piece_bytes` of them as soon as they are there. Not repeated: what was not handed out when this fails
    /// is for [`Bucket::get_range`]. Each piece has as much time as a read.
    pub async fn get_pieces(
        &self,
        key: &str,
        range: Range<u64>,
        piece_bytes: u64,
        deliver: &(dyn Fn(RangeRead) + Sync),
    ) -> Result<(), BucketError> {
        let path = self.path(key);
        let len = range.end.saturating_sub(range.start);
        let pieces = u32::try_from(len.div_ceil(piece_bytes.max(1))).unwrap_or(u32::MAX);
        let policy = RetryPolicy {
            attempts: 1,
            request_timeout: self
                .retry
                .read
                .request_timeout
                .saturating_mul(pieces.max(1)),
            ..self.retry.read
        };
        self.retrying(Op::Get, key, policy, || {
            let options = GetOptions {
                range: Some(GetRange::Bounded(range.clone())),
                ..GetOptions::default()
            };
            let path = &path;
            async move {
                let result = self.store.get_opts(path, options).await?;
                let object_size = result.meta.size;
                let deliver = |bytes| deliver(RangeRead { bytes, object_size });
                body::collect_pieces(result, &self.buffers, piece_bytes, deliver).await?;
                Ok(((), len))
            }
        })
        .await
    }

    /// Reads the last `len` bytes of an object, or all of it if it is smaller.
    pub async fn get_suffix(&self, key: &str, len: u64) -> Result<RangeRead, BucketError> {
        self.get_part(key, GetRange::Suffix(len)).await
    }

    async fn get_part(&self, key: &str, range: GetRange) -> Result<RangeRead, BucketError> {
        let path = self.path(key);
        self.retrying(Op::Get, key, self.retry.read, || {
            let (path, range) = (&path, range.clone());
            async move {
                let options = GetOptions {
                    range: Some(range),
                    ..GetOptions::default()
                };
                let result = self.store.get_opts(path, options).await?;
                let object_size = result.meta.size;
                let bytes = body::collect(result, &self.buffers).await?;
                let len = bytes.len() as u64;
                Ok((RangeRead { bytes, object_size }, len))
            }
        })
        .await
    }

    /// Reads several ranges of one object at the same time, in order.
    pub async fn get_ranges(
        &self,
        key: &str,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        let parts: Vec<RangeRead> = stream::iter(ranges.iter().cloned())
            .map(|range| self.get_range(key, range))
            .buffered(8)
            .try_collect()
            .await?;
        Ok(parts.into_iter().map(|part| part.bytes).collect())
    }

    /// Size and time of an object.
    pub async fn head(&self, key: &str) -> Result<ObjectInfo, BucketError> {
        let path = self.path(key);
        self.retrying(Op::Head, key, self.retry.read, || {
            let path = &path;
            async move { Ok((self.info(self.store.head(path).await?), 0)) }
        })
        .await
    }

    fn info(&self, meta: object_store::ObjectMeta) -> ObjectInfo {
        ObjectInfo {
            key: self.key_of(&meta.location),
            size: meta.size,
            last_modified_ms: meta.last_modified.timestamp_millis(),
        }
    }

    /// All objects whose key begins with the path `prefix` (whole path segments) and is greater
    /// than `start_after`, in the order of their keys.
    pub async fn list(
        &self,
        prefix: &str,
        start_after: Option<&str>,
    ) -> Result<Vec<ObjectInfo>, BucketError> {
        let mut found = Vec::new();
        let mut after = start_after.map(str::to_owned);
        loop {
            let page = self.list_page(prefix, after.as_deref()).await?;
            found.extend(page.objects);
            if page.is_last {
                return Ok(found);
            }
            after = found.last().map(|info: &ObjectInfo| info.key.clone());
        }
    }

    /// The first objects of what [`Bucket::list`] answers: one request, which has its time limit and is repeated for
    /// itself, however many there are in all. A store that lists in no order answers all at once.
    pub async fn list_page(
        &self,
        prefix: &str,
        start_after: Option<&str>,
    ) -> Result<ObjectPage, BucketError> {
        let path = self.path(prefix);
        let offset = start_after.map(|key| self.path(key));
        let most = match self.kind {
            StoreKind::S3 => PAGE_OBJECTS,
            StoreKind::LocalDirectory | StoreKind::Memory => usize::MAX,
        };
        let mut found = self
            .retrying(Op::List, prefix, self.retry.list, || {
                let (path, offset) = (&path, &offset);
                async move {
                    let listing = match offset {
                        Some(offset) => self.store.list_with_offset(Some(path), offset),
                        None => self.store.list(Some(path)),
                    };
                    let found: Vec<_> = listing.take(most).try_collect().await?;
                    Ok((found, 0))
                }
            })
            .await?;
        let is_last = found.len() < most;
        found.sort_by(|a, b| a.location.cmp(&b.location));
        let objects = found.into_iter().map(|meta| self.info(meta)).collect();
        Ok(ObjectPage { objects, is_last })
    }

    /// Deletes objects; those that are not there count as deleted. Errors: the first one; the
    /// others may be deleted or not, so call again with the same keys.
    pub async fn delete_many(&self, keys: &[String]) -> Result<(), BucketError> {
        if self.kind == StoreKind::S3 {
            for some in keys.chunks(1000) {
                self.delete_bulk(some).await?;
            }
            return Ok(());
        }
        stream::iter(keys.to_vec())
            .map(|key| async move { self.delete(&key).await })
            .buffer_unordered(8)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    async fn delete(&self, key: &str) -> Result<(), BucketError> {
        let path = self.path(key);
        let deleted = self
            .retrying(Op::Delete, key, self.retry.delete, || {
                let path = &path;
                async move { Ok((self.store.delete(path).await?, 0)) }
            })
            .await;
        match deleted {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    async fn delete_bulk(&self, keys: &[String]) -> Result<(), BucketError> {
        let Some(first) = keys.first() else {
            return Ok(());
        };
        let paths: Vec<Path> = keys.iter().map(|key| self.path(key)).collect();
        self.retrying(Op::Delete, first, self.retry.delete, || {
            let paths = paths.clone();
            async move {
                let paths = stream::iter(paths).map(Ok).boxed();
                let mut outcomes = self.store.delete_stream(paths);
                let mut failed = None;
                while let Some(outcome) = outcomes.next().await {
                    match outcome {
                        Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                failed.map_or(Ok(((), 0)), Err)
            }
        })
        .await
    }

    /// One conditional PUT without repetition; `put_new` builds on it.
    pub(crate) async fn try_create(&self, key: &str, body: &Bytes) -> Result<(), BucketError> {
        let path = self.path(key);
        let policy = RetryPolicy {
            attempts: 1,
            ..self.retry.conditional
        };
        self.retrying(Op::Put, key, policy, || {
            let payload = PutPayload::from_bytes(body.clone());
            let path = &path;
            async move {
                self.store
                    .put_opts(path, payload, PutMode::Create.into())
                    .await?;
                Ok(((), body.len() as u64))
            }
        })
        .await
    }

    /// Runs one class of request under its policy, limit and metrics. `attempt` answers the value
    /// and the number of payload bytes.
    pub(crate) async fn retrying<T, F, Fut>(
        &self,
        op: Op,
        key: &str,
        policy: RetryPolicy,
        mut attempt: F,
    ) -> Result<T, BucketError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<(T, u64), object_store::Error>>,
    {
        let mut maybe_done = false;
        for number in 1.. {
            let all = if op.is_write() {
                &self.writes
            } else {
                &self.reads
            };
            let place = all.place().await;
            let started = Instant::now();
            let answer = tokio::time::timeout(policy.request_timeout, attempt()).await;
            let took = started.elapsed();
            let error = match answer {
                Ok(Ok((value, bytes))) => {
                    place.succeeded(bytes, policy.request_timeout);
                    self.metrics.observe(op, "ok", bytes, took);
                    return Ok(value);
                }
                Ok(Err(error)) => BucketError::from_store(op, key, error),
                Err(_) => {
                    let text = format!("no answer within {:?}", policy.request_timeout);
                    BucketError::new(op, key, BucketErrorKind::Timeout, text)
                }
            };
            match error.kind() {
                BucketErrorKind::Timeout | BucketErrorKind::Throttled => place.was_too_much(),
                _ => drop(place),
            }
            self.metrics.observe(op, error.kind().label(), 0, took);
            maybe_done |= error.outcome() == Outcome::MaybeDone;
            // Putting the same bytes again is harmless, deleting again as well.
            if !error.is_retriable() || number >= policy.attempts {
                let outcome = if maybe_done {
                    Outcome::MaybeDone
                } else {
                    error.outcome()
                };
                return Err(error.with_outcome(outcome));
            }
            tracing::debug!(%error, attempt = number, "request to the store failed, trying again");
            tokio::time::sleep(policy.backoff(number)).await;
        }
        unreachable!("the loop above ends by return")
    }
}

/// The bytes of an object to write, in one or more pieces that are not copied together.
#[derive(Debug, Clone, Default)]
pub struct PutBody(pub(crate) Vec<Bytes>);

impl PutBody {
    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// True without any byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for PutBody {
    fn from(bytes: Bytes) -> Self {
        Self(vec![bytes])
    }
}

impl From<Vec<Bytes>> for PutBody {
    fn from(pieces: Vec<Bytes>) -> Self {
        Self(pieces)
    }
}
