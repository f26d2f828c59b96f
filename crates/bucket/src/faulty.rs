//! A store for tests that fails before or after the request takes effect, or is slow.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with a 500 and has no effect.
    Before,
    /// It takes effect and then fails with a 500.
    After,
    /// A 503 SlowDown without effect.
    SlowDown,
    /// It takes effect after this time.
    Slow(Duration),
    /// A 403 without effect.
    Denied,
    /// A GET whose first byte comes with a bit flipped.
    Damage,
    /// A GET whose body breaks off in the middle.
    Cut,
}

/// Which requests a plan of faults is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// PUT of whole objects.
    Put,
    /// GET and HEAD.
    Get,
    /// LIST.
    List,
    /// DELETE.
    Delete,
}

#[derive(Debug)]
struct Plan {
    on: On,
    key_part: String,
    faults: VecDeque<Option<Fault>>,
}

/// The wrapper; clone the `Arc` to plan faults while a bucket uses it.
pub struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    plans: Mutex<Vec<Plan>>,
    ignore_conditions: bool,
    gets: AtomicU64,
}

impl FaultyStore {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            plans: Mutex::default(),
            ignore_conditions: false,
            gets: AtomicU64::new(0),
        })
    }

    /// A store in memory that treats put-if-absent as an ordinary put.
    pub fn ignoring_conditions() -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(object_store::memory::InMemory::new()),
            plans: Mutex::default(),
            ignore_conditions: true,
            gets: AtomicU64::new(0),
        })
    }

    /// Wraps a store in memory.
    pub fn in_memory() -> Arc<Self> {
        Self::new(Arc::new(object_store::memory::InMemory::new()))
    }

    /// The next requests of a kind whose key contains `key_part` meet these faults, one each;
    /// `None` lets one through.
    pub fn plan(&self, on: On, key_part: &str, faults: impl IntoIterator<Item = Option<Fault>>) {
        let plan = Plan {
            on,
            key_part: key_part.to_owned(),
            faults: faults.into_iter().collect(),
        };
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(plan);
    }

    /// Forgets all plans.
    pub fn heal(&self) {
        self.plans
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// GET requests so far that reached the store.
    pub fn gets(&self) -> u64 {
        self.gets.load(Ordering::Relaxed)
    }

    /// Replaces an object behind the bucket's back.
    pub async fn overwrite(&self, key: &str, bytes: impl Into<Bytes>) -> Result<()> {
        self.inner
            .put(&Path::from(key), PutPayload::from(bytes.into()))
            .await
            .map(|_| ())
    }

    fn next(&self, on: On, key: &str) -> Option<Fault> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans
            .iter_mut()
            .find(|plan| plan.on == on && !plan.faults.is_empty() && key.contains(&plan.key_part))
            .and_then(|plan| plan.faults.pop_front().flatten())
    }

    async fn before(fault: Option<Fault>, key: &str) -> Result<()> {
        match fault {
            Some(Fault::Before) => Err(status(500, "Internal Server Error")),
            Some(Fault::SlowDown) => Err(status(503, "SlowDown")),
            Some(Fault::Denied) => Err(Error::PermissionDenied {
                path: key.to_owned(),
                source: "planned".into(),
            }),
            Some(Fault::Slow(time)) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Some(Fault::After | Fault::Damage | Fault::Cut) | None => Ok(()),
        }
    }

    fn after<T>(fault: Option<Fault>, value: T) -> Result<T> {
        match fault {
            Some(Fault::After) => Err(status(500, "Internal Server Error")),
            _ => Ok(value),
        }
    }
}

async fn damaged(got: GetResult) -> Result<GetResult> {
    changed(got, |mut bytes| {
        if let Some(first) = bytes.first_mut() {
            *first ^= 1;
        }
        vec![Ok(bytes.into())]
    })
    .await
}

async fn cut(got: GetResult) -> Result<GetResult> {
    changed(got, |mut bytes| {
        bytes.truncate(bytes.len() / 2);
        vec![Ok(bytes.into()), Err(status(500, "the connection broke"))]
    })
    .await
}

/// The answer with what `change` makes of its body.
async fn changed(
    got: GetResult,
    change: impl FnOnce(Vec<u8>) -> Vec<Result<Bytes>>,
) -> Result<GetResult> {
    let (meta, range) = (got.meta.clone(), got.range.clone());
    let (attributes, extensions) = (got.attributes.clone(), got.extensions.clone());
    let body = change(got.bytes().await?.to_vec());
    let payload = object_store::GetResultPayload::Stream(futures::stream::iter(body).boxed());
    Ok(GetResult {
        payload,
        meta,
        range,
        attributes,
        extensions,
    })
}

fn status(code: u16, text: &str) -> Error {
    let source = format!("Server returned non-2xx status code: {code} {text}: planned");
    Error::Generic {
        store: "Faulty",
        source: source.into(),
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").finish_non_exhaustive()
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

// The trait's methods in the form that `async_trait` gives them.
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for FaultyStore {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Pending<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            let fault = self.next(On::Put, location.as_ref());
            Self::before(fault, location.as_ref()).await?;
            if self.ignore_conditions {
                opts.mode = PutMode::Overwrite;
            }
            let put = self.inner.put_opts(location, payload, opts).await?;
            Self::after(fault, put)
        })
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        opts: PutMultipartOptions,
    ) -> Pending<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            let fault = self.next(On::Put, location.as_ref());
            Self::before(fault, location.as_ref()).await?;
            let upload = self.inner.put_multipart_opts(location, opts).await?;
            Self::after(fault, upload)
        })
    }

    fn get_opts<'a, 'b, 'c>(
        &'a self,
        location: &'b Path,
        options: GetOptions,
    ) -> Pending<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        Box::pin(async move {
            let fault = self.next(On::Get, location.as_ref());
            Self::before(fault, location.as_ref()).await?;
            self.gets.fetch_add(1, Ordering::Relaxed);
            let got = self.inner.get_opts(location, options).await?;
            match fault {
                Some(Fault::Damage) => return damaged(got).await,
                Some(Fault::Cut) => return cut(got).await,
                _ => {}
            }
            Self::after(fault, got)
        })
    }

    fn get_ranges<'a, 'b, 'd, 'c>(
        &'a self,
        location: &'b Path,
        ranges: &'d [std::ops::Range<u64>],
    ) -> Pending<'c, Vec<Bytes>>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        self.inner.get_ranges(location, ranges)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        match self.next(On::Delete, "") {
            Some(fault) => {
                let error = match fault {
                    Fault::Denied => Error::PermissionDenied {
                        path: String::new(),
                        source: "planned".into(),
                    },
                    _ => status(500, "Internal Server Error"),
                };
                futures::stream::once(async move { Err(error) }).boxed()
            }
            None => self.inner.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.next(On::List, prefix.map_or("", |p| p.as_ref())) {
            Some(_) => futures::stream::once(async { Err(status(500, "Internal")) }).boxed(),
            None => self.inner.list(prefix),
        }
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.next(On::List, prefix.map_or("", |p| p.as_ref())) {
            Some(_) => futures::stream::once(async { Err(status(500, "Internal")) }).boxed(),
            None => self.inner.list_with_offset(prefix, offset),
        }
    }

    fn list_with_delimiter<'a, 'b, 'c>(
        &'a self,
        prefix: Option<&'b Path>,
    ) -> Pending<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: CopyOptions,
    ) -> Pending<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        self.inner.copy_opts(from, to, options)
    }

    fn rename_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: object_store::RenameOptions,
    ) -> Pending<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
        Self: 'c,
    {
        self.inner.rename_opts(from, to, options)
    }
}
