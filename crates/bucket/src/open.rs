//! From a URL to a store: `file:///path`, `s3://bucket/prefix`, `memory:`.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use prometheus_client::registry::Registry;

use crate::bucket::Bucket;
use crate::buffers::BufferPool;
use crate::direct::DirectConnector;
use crate::in_flight::InFlight;
use crate::metrics::BucketMetrics;
use crate::options::{BucketOptions, S3Options, ServerSideEncryption, StoreKind};
use crate::profile;

/// Why a bucket cannot even be opened; no request was sent.
#[derive(Debug, thiserror::Error)]
pub enum OpenBucketError {
    /// A scheme that may come.
    #[error("the store '{url}' is not supported yet: use file:///path or s3://bucket/prefix")]
    NotYet {
        /// The URL as given.
        url: String,
    },
    /// No URL of a store.
    #[error("'{url}' is not the URL of a store: {why}; use file:///path or s3://bucket/prefix")]
    Url {
        /// The URL as given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The directory is not there and cannot be made.
    #[error("cannot use the directory of the store '{url}'")]
    Directory {
        /// The URL as given.
        url: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The store's client refuses the settings.
    #[error("the settings of the store '{url}' are wrong: {source}")]
    Settings {
        /// The URL as given.
        url: String,
        /// The cause.
        #[source]
        source: object_store::Error,
    },
}

impl Bucket {
    /// Opens a bucket; sends no request (see [`Bucket::probe`]). The metrics go into `registry`
    /// under their full names.
    pub fn open(
        url: &str,
        options: BucketOptions,
        registry: &mut Registry,
    ) -> Result<Arc<Self>, OpenBucketError> {
        let buffers = BufferPool::default();
        let opened = open_store(url, &options, &buffers)?;
        Ok(Arc::new(Self::over(
            opened, buffers, url, options, registry,
        )))
    }

    /// A bucket over any store, for tests that put something between.
    #[cfg(any(test, feature = "testing"))]
    pub fn over_store(
        store: Arc<dyn ObjectStore>,
        options: BucketOptions,
        registry: &mut Registry,
    ) -> Arc<Self> {
        let opened = (store, Path::ROOT, StoreKind::Memory);
        let buffers = BufferPool::default();
        Arc::new(Self::over(opened, buffers, "memory:", options, registry))
    }

    fn over(
        (store, prefix, kind): Opened,
        buffers: BufferPool,
        url: &str,
        options: BucketOptions,
        registry: &mut Registry,
    ) -> Self {
        Self {
            store,
            prefix,
            kind,
            url: url.to_owned(),
            retry: options.retry,
            metrics: BucketMetrics::register(registry),
            reads: InFlight::new(options.max_concurrent_reads),
            writes: InFlight::new(options.max_concurrent_writes),
            multipart_concurrency: options.multipart_concurrency.max(1),
            buffers,
        }
    }
}

type Opened = (Arc<dyn ObjectStore>, Path, StoreKind);

fn open_store(
    url: &str,
    options: &BucketOptions,
    buffers: &BufferPool,
) -> Result<Opened, OpenBucketError> {
    let wrong = |why| OpenBucketError::Url {
        url: url.to_owned(),
        why,
    };
    if url == "memory:" {
        return Ok((Arc::new(InMemory::new()), Path::ROOT, StoreKind::Memory));
    }
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| wrong("it has no scheme"))?;
    match scheme {
        "file" => Ok((
            Arc::new(open_directory(url, rest)?),
            Path::ROOT,
            StoreKind::LocalDirectory,
        )),
        "s3" => {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if bucket.is_empty() {
                return Err(wrong("it names no bucket"));
            }
            let prefix = Path::parse(prefix.trim_end_matches('/'))
                .map_err(|_| wrong("its prefix is not a path"))?;
            let settings = |source| OpenBucketError::Settings {
                url: url.to_owned(),
                source,
            };
            let store = open_s3(bucket, &options.s3, buffers).map_err(settings)?;
            Ok((Arc::new(store), prefix, StoreKind::S3))
        }
        "gs" | "az" | "abfs" | "abfss" => Err(OpenBucketError::NotYet {
            url: url.to_owned(),
        }),
        _ => Err(wrong("its scheme is unknown")),
    }
}

fn open_directory(url: &str, path: &str) -> Result<LocalFileSystem, OpenBucketError> {
    if !path.starts_with('/') {
        let why = "its path is not absolute";
        return Err(OpenBucketError::Url {
            url: url.to_owned(),
            why,
        });
    }
    std::fs::create_dir_all(path).map_err(|source| OpenBucketError::Directory {
        url: url.to_owned(),
        source,
    })?;
    let store =
        LocalFileSystem::new_with_prefix(path).map_err(|source| OpenBucketError::Settings {
            url: url.to_owned(),
            source,
        })?;
    Ok(store.with_fsync(true).with_automatic_cleanup(true))
}

fn open_s3(
    bucket: &str,
    options: &S3Options,
    buffers: &BufferPool,
) -> object_store::Result<AmazonS3> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
    let profile = profile::load(env);
    if env("AWS_ACCESS_KEY_ID").is_none()
        && env("AWS_WEB_IDENTITY_TOKEN_FILE").is_none()
        && let (Some(id), Some(secret)) = (profile.access_key_id, profile.secret_access_key)
    {
        builder = builder
            .with_access_key_id(id)
            .with_secret_access_key(secret);
        if let Some(token) = profile.session_token {
            builder = builder.with_token(token);
        }
    }
    let from_env = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"));
    if let Some(region) = options.region.clone().or(from_env).or(profile.region) {
        builder = builder.with_region(region);
    }
    let endpoint = options
        .endpoint
        .clone()
        .or_else(|| env("AWS_ENDPOINT_URL_S3"))
        .or_else(|| env("AWS_ENDPOINT_URL"))
        .or_else(|| env("AWS_ENDPOINT"));
    let mut virtual_hosted = !options.path_style;
    if let Some(endpoint) = &endpoint {
        let (address, hosted) = address(endpoint, bucket, options.path_style);
        virtual_hosted = hosted;
        builder = builder
            .with_allow_http(address.starts_with("http://"))
            .with_endpoint(address);
    }
    builder = match &options.server_side_encryption {
        ServerSideEncryption::None => builder,
        ServerSideEncryption::Aes256 => encryption(builder, "AES256")?,
        ServerSideEncryption::Kms { key: None } => encryption(builder, "aws:kms")?,
        ServerSideEncryption::Kms { key: Some(key) } => builder.with_sse_kms_encryption(key),
    };
    let allow_http = endpoint.as_ref().is_some_and(|e| e.starts_with("http://"));
    if allow_http {
        builder = builder.with_http_connector(DirectConnector {
            pool: buffers.clone(),
        });
    }
    let client = ClientOptions::new()
        .with_allow_http(allow_http)
        .with_connect_timeout(Duration::from_secs(5))
        .with_timeout(Duration::from_secs(30));
    builder
        .with_virtual_hosted_style_request(virtual_hosted)
        .with_client_options(client)
        .with_retry(quick_retry())
        .build()
}

/// Repetition is ours to do ([`crate::RetryPolicies`]), but for the parts of a multipart upload
/// and for credentials, which only the client can repeat.
fn quick_retry() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(1),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_secs(15),
    }
}

fn encryption(builder: AmazonS3Builder, value: &str) -> object_store::Result<AmazonS3Builder> {
    let key: AmazonS3ConfigKey = "aws_server_side_encryption".parse()?;
    Ok(builder.with_config(key, value))
}

/// The address that the client wants: with the bucket in the host name for virtual-hosted requests,
/// which make no sense for an IP address or `localhost`.
fn address(endpoint: &str, bucket: &str, path_style: bool) -> (String, bool) {
    let endpoint = endpoint.trim_end_matches('/');
    let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", endpoint));
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let no_name =
        name == "localhost" || name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
    if path_style || no_name {
        (format!("{scheme}://{host}"), false)
    } else {
        (format!("{scheme}://{bucket}.{host}"), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(url: &str) -> Result<Arc<Bucket>, OpenBucketError> {
        Bucket::open(url, BucketOptions::default(), &mut Registry::default())
    }

    #[test]
    fn urls_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b c");
        let bucket = open(&format!("file://{}", path.display())).unwrap();
        assert_eq!(bucket.kind(), StoreKind::LocalDirectory);
        assert!(path.is_dir());
        assert_eq!(open("memory:").unwrap().kind(), StoreKind::Memory);
        assert!(matches!(
            open("gs://b/p"),
            Err(OpenBucketError::NotYet { .. })
        ));
        assert!(matches!(
            open("az://b/p"),
            Err(OpenBucketError::NotYet { .. })
        ));
        for wrong in ["/path", "file://relative", "s3:///x", "ftp://x"] {
            assert!(
                matches!(open(wrong), Err(OpenBucketError::Url { .. })),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_bucket_goes_into_the_host_only_where_there_is_a_host_name() {
        let at = |endpoint, path_style| address(endpoint, "b", path_style);
        assert_eq!(
            at("http://127.0.0.1:8333/", false),
            ("http://127.0.0.1:8333".into(), false)
        );
        assert_eq!(
            at("http://localhost:1", false),
            ("http://localhost:1".into(), false)
        );
        assert_eq!(
            at("http://[::1]:1", false),
            ("http://[::1]:1".into(), false)
        );
        assert_eq!(
            at("https://s3.x.org", false),
            ("https://b.s3.x.org".into(), true)
        );
        assert_eq!(
            at("https://s3.x.org:9000", true),
            ("https://s3.x.org:9000".into(), false)
        );
    }
}
