//! The order in which a broker starts and stops, on one screen.

mod logs;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strandline_bucket::{
    Bucket, BucketError, BucketOptions, OpenBucketError, S3Options, ServerSideEncryption,
};
use strandline_config::{BrokerConfig, Listener, SecurityProtocol};
use strandline_env::{Clock, Pool, PoolOptions, Shutdown, open_file_limit};
use strandline_log::LogCleaner;
use strandline_metadata::{
    BrokerRegistration, Listener as RegisteredListener, Metadata, MetadataOptions, OpenError,
    RequestError, SecurityProtocol as RegisteredProtocol,
};
use strandline_telemetry::{MetricsRegistry, Throttle};
use strandline_tiering::{RemoteTier, RemoteTierOptions, TieringError};
use strandline_types::BrokerId;
use tokio::net::TcpListener;
use tokio::sync::watch;
use uuid::Uuid;

use crate::broker::{Broker, ProducerIds};
use crate::configs::{self, Validator};
use crate::coordinators::{GroupCoordinators, MarkerWriter, Surroundings, TransactionCoordinators};
use crate::features;
use crate::fetch_session::FetchSessions;
use crate::housekeeping;
use crate::http::{self, HttpState};
use crate::log_cleaner;
use crate::log_dirs::LogDirsError;
use crate::metrics::BrokerMetrics;
use crate::net::listener::{self, ConnectionCount};
use crate::replica_manager::ReplicaManager;
use crate::restore;
use crate::settings::LiveConfig;
use crate::tier_scheduler;
use logs::{open_logs, refuse_orphaned_logs};

/// A start that waits longer for the object store says so.
const STORE_PATIENCE: Duration = Duration::from_secs(3);
/// Tasks that do not end by themselves get this long when the broker stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A state of a transaction that is not committed after this long has not been written.
const TRANSACTION_COMMIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Between two log lines about a slow bucket, in ms.
const SLOW_BUCKET_INTERVAL_MS: i64 = 10_000;

/// Why a broker did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error("start the runtime")]
    Runtime(#[source] std::io::Error),
    #[error("listen on {address}")]
    Listen {
        address: String,
        source: std::io::Error,
    },
    #[error("open the metadata")]
    Metadata(#[from] OpenError),
    #[error("open the log directories")]
    Log(#[from] LogDirsError),
    #[error("open the object store {url}")]
    OpenBucket {
        url: String,
        source: OpenBucketError,
    },
    #[error("use the object store {url}")]
    Bucket { url: String, source: BucketError },
    #[error("open the cold tier")]
    Tier(#[from] TieringError),
    #[error(
        "log directory {} belongs to a cluster, but metadata directory {} is empty: bring the \
         metadata back, or move the log directory away",
        log_dir.display(),
        metadata_dir.display()
    )]
    MetadataGone {
        log_dir: PathBuf,
        metadata_dir: PathBuf,
    },
    #[error("the metadata log failed: {0}")]
    MetadataLost(String),
    #[error("register with the controller")]
    Register(#[from] RequestError),
}

/// Runs a broker until it is told to stop.
pub(crate) fn run(config: BrokerConfig) -> Result<(), ServerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("strandline")
        .build()
        .map_err(ServerError::Runtime)?;
    let result = runtime.block_on(serve(config));
    runtime.shutdown_timeout(STOP_TIMEOUT);
    result
}

async fn serve(config: BrokerConfig) -> Result<(), ServerError> {
    let started = Instant::now();
    let stop = stop_signal();
    let shutdown = Shutdown::new();
    let registry = MetricsRegistry::new();
    // Sockets first: an address that is taken is the commonest reason not to start.
    let sockets = bind(&config).await?;
    let http_state = HttpState::new(registry.clone());
    let http_address = serve_http(&config, &http_state, &shutdown).await?;
    let mut stop = std::pin::pin!(stop);
    // A store that does not answer takes its time; who stops the start leaves what a kill would leave.
    let broker = tokio::select! {
        broker = open(config, &sockets, &registry, Clock::system(), &shutdown) => broker?,
        () = &mut stop => {
            tracing::info!("stopped before it was ready");
            return Ok(());
        }
    };
    tier_scheduler::start(&broker, &shutdown);
    housekeeping::start(&broker, &shutdown);
    restore::start(&broker, &shutdown);
    let cleaning = log_cleaner::start(&broker).map_err(ServerError::Runtime)?;
    announce(&broker, &sockets, http_address, started.elapsed());
    for socket in sockets {
        let accept = listener::accept(
            socket.listener,
            socket.name,
            Arc::clone(&broker),
            shutdown.clone(),
        );
        tokio::spawn(accept);
    }
    http_state.set_ready(&broker);
    let lost = tokio::select! {
        () = &mut stop => None,
        why = broker.metadata.stopped() => Some(why),
    };
    tracing::info!("stopping");
    http_state.set_stopping();
    shutdown.cancel();
    close(&broker, cleaning).await;
    tracing::info!("stopped");
    // Without its metadata a broker would act on what is no longer true.
    lost.map_or(Ok(()), |why| Err(ServerError::MetadataLost(why)))
}

/// Completes at SIGTERM or SIGINT; listening starts at once, so that no signal is missed.
fn stop_signal() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let terminate = signal(SignalKind::terminate());
    let interrupt = signal(SignalKind::interrupt());
    async move {
        match (terminate, interrupt) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            _ => {
                tracing::warn!("signals cannot be caught; only SIGKILL ends this process");
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A socket that listens for clients.
pub(crate) struct BoundListener {
    name: Arc<str>,
    bound: SocketAddr,
    listener: TcpListener,
}

async fn bind_to(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), ServerError> {
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let fault = |source| ServerError::Listen {
        address: format!("{host}:{port}"),
        source,
    };
    let listener = TcpListener::bind((host, port)).await.map_err(fault)?;
    let bound = listener.local_addr().map_err(fault)?;
    Ok((listener, bound))
}

async fn bind(config: &BrokerConfig) -> Result<Vec<BoundListener>, ServerError> {
    let mut out = Vec::new();
    for Listener { name, address, .. } in &config.listeners {
        let (listener, bound) = bind_to(&address.host, address.port).await?;
        out.push(BoundListener {
            name: name.as_str().into(),
            bound,
            listener,
        });
    }
    Ok(out)
}

async fn serve_http(
    config: &BrokerConfig,
    state: &HttpState,
    shutdown: &Shutdown,
) -> Result<Option<SocketAddr>, ServerError> {
    let Some(address) = &config.http_listener else {
        return Ok(None);
    };
    let (listener, bound) = bind_to(&address.host, address.port).await?;
    tokio::spawn(http::serve(listener, state.clone(), shutdown.clone()));
    Ok(Some(bound))
}

/// Opens everything that lies on disks and in the bucket, and registers the broker.
pub(crate) async fn open(
    config: BrokerConfig,
    sockets: &[BoundListener],
    registry: &MetricsRegistry,
    clock: Clock,
    shutdown: &Shutdown,
) -> Result<Arc<Broker>, ServerError> {
    let node_id = BrokerId(config.settings.node_id);
    let live = Arc::new(LiveConfig::new(config));
    let config = live.get();
    let metrics = BrokerMetrics::register(registry);
    let validator = Arc::new(Validator::new(Arc::clone(&live)));
    let mut options = MetadataOptions::new(config.metadata_log_dir.clone(), node_id, validator);
    options.cluster_id.clone_from(&config.strandline.cluster_id);
    options.bootstrap_features = features::bootstrap();
    refuse_orphaned_logs(&config)?;
    let metadata = Metadata::open(options).await?;
    let cluster_id = metadata.cluster_id().to_owned();
    live.set_dynamic(configs::dynamic(&metadata.image(), node_id));
    let io = pool("io", 4, 0)?;
    let cpu = pool("cpu", 2, 0)?;
    let (tier, (log_dirs, tail, broken)) = tokio::try_join!(
        open_tier(&config, &cluster_id, registry),
        open_logs(&live, &metadata, node_id, &io)
    )?;
    let broker_epoch = register(&metadata, node_id, &config, sockets).await?;
    let replicas = Arc::new(ReplicaManager::new(
        node_id,
        Arc::clone(&live),
        Arc::clone(&log_dirs),
        tier,
        broken,
        restore::power_was_lost(&log_dirs),
    ));
    let producer_ids = Arc::new(ProducerIds::new(node_id, broker_epoch));
    let surroundings = Surroundings {
        clock: clock.clone(),
        io: io.clone(),
        shutdown: shutdown.clone(),
        commit_timeout: live.offsets_commit_timeout(),
    };
    let groups = Arc::new(GroupCoordinators::new(
        live.group_config(),
        surroundings.clone(),
        metadata.clone(),
    ));
    let markers = Arc::new(MarkerWriter {
        replicas: Arc::clone(&replicas),
        groups: Arc::clone(&groups),
        metadata: metadata.clone(),
        clock: clock.clone(),
        late: Arc::default(),
    });
    let transactions = Arc::new(TransactionCoordinators::new(
        live.transaction_config(),
        Surroundings {
            commit_timeout: TRANSACTION_COMMIT_TIMEOUT,
            ..surroundings
        },
        metadata.clone(),
        Arc::clone(&producer_ids),
        Arc::clone(&markers),
    ));
    let (applied_sender, applied) = watch::channel(-1);
    let slots = usize::try_from(config.settings.max_incremental_fetch_session_cache_slots);
    let broker = Arc::new(Broker {
        node_id,
        cluster_id,
        config: live,
        clock,
        metadata,
        log_dirs,
        tail,
        cleaner: LogCleaner::new(log_cleaner::options(&config.settings)),
        replicas,
        groups,
        transactions,
        markers,
        producer_ids,
        sessions: FetchSessions::new(slots.unwrap_or(0)),
        connections: Arc::new(ConnectionCount::new(open_file_limit())),
        metrics,
        io,
        cpu,
        applied,
        slow_bucket: Throttle::new(SLOW_BUCKET_INTERVAL_MS),
    });
    // The partitions are there before the first client is.
    housekeeping::apply_image(&broker, &applied_sender).await;
    housekeeping::follow(&broker, applied_sender, shutdown);
    Ok(broker)
}

fn pool(name: &'static str, threads: usize, niceness: i32) -> Result<Pool, ServerError> {
    let options = PoolOptions {
        name,
        threads,
        queue: 1024,
        niceness,
    };
    Pool::start(&options).map_err(ServerError::Runtime)
}

async fn open_tier(
    config: &BrokerConfig,
    cluster_id: &str,
    registry: &MetricsRegistry,
) -> Result<Option<Arc<RemoteTier>>, ServerError> {
    if !config.settings.remote_log_storage_system_enable {
        return Ok(None);
    }
    let raw = registry.raw();
    let ours = &config.strandline;
    let options = BucketOptions {
        s3: S3Options {
            endpoint: ours.store_s3_endpoint.clone(),
            region: ours.store_s3_region.clone(),
            path_style: ours.store_s3_path_style_access,
            // The settings check it by the same words.
            server_side_encryption: ours
                .store_s3_server_side_encryption
                .parse()
                .unwrap_or(ServerSideEncryption::None),
        },
        ..BucketOptions::default()
    };
    let url = config.store_url.clone();
    let bucket =
        Bucket::open(&url, options, &mut raw.lock()).map_err(|source| ServerError::OpenBucket {
            url: url.clone(),
            source,
        })?;
    let probed = {
        let mut probe = std::pin::pin!(bucket.probe());
        match tokio::time::timeout(STORE_PATIENCE, &mut probe).await {
            Ok(probed) => probed,
            Err(_) => {
                tracing::warn!(%url, "the object store has not answered yet, the start waits for it");
                probe.await
            }
        }
    };
    probed.map_err(|source| ServerError::Bucket { url, source })?;
    let node_id = BrokerId(config.settings.node_id);
    let mut options = RemoteTierOptions::new(bucket, cluster_id, node_id, config.cache_dir.clone());
    options.cache_memory_bytes = ours.cache_memory_bytes;
    options.cache_disk_bytes = Some(ours.cache_disk_bytes);
    let tier = RemoteTier::open(options, &mut raw.lock())?;
    Ok(Some(Arc::new(tier)))
}

async fn register(
    metadata: &Metadata,
    node_id: BrokerId,
    config: &BrokerConfig,
    sockets: &[BoundListener],
) -> Result<i64, ServerError> {
    let listeners = config.advertised_listeners.iter().map(|l| {
        let bound = sockets
            .iter()
            .find(|s| *s.name == *l.name)
            .map(|s| s.bound.port());
        let SecurityProtocol::Plaintext = l.security_protocol;
        RegisteredListener {
            name: l.name.clone(),
            host: l.address.host.clone(),
            // Port 0 is whatever the system gave.
            port: if l.address.port == 0 {
                bound.unwrap_or(0)
            } else {
                l.address.port
            },
            security_protocol: RegisteredProtocol::Plaintext,
        }
    });
    let registration = BrokerRegistration {
        broker_id: node_id,
        incarnation_id: Uuid::new_v4(),
        listeners: listeners.collect(),
        rack: config.settings.broker_rack.clone(),
        log_dirs: Vec::new(),
        features: features::registered(),
        fenced: false,
    };
    Ok(metadata.register_broker(registration).await?)
}

/// Says where the broker listens and what the bucket is.
fn announce(broker: &Broker, sockets: &[BoundListener], http: Option<SocketAddr>, took: Duration) {
    let config = broker.config.get();
    let kafka: Vec<String> = sockets.iter().map(|s| s.bound.to_string()).collect();
    let http = http.map_or_else(|| "off".to_owned(), |a| format!("http://{a}"));
    let bucket = if config.settings.remote_log_storage_system_enable {
        config.store_url.as_str()
    } else {
        "none (remote.log.storage.system.enable=false)"
    };
    let kafka = kafka.join(", ");
    tracing::info!(
        cluster = %broker.cluster_id,
        node = %broker.node_id,
        kafka,
        http,
        bucket,
        data = %config.data_dir.display(),
        took_ms = took.as_millis() as u64,
        "ready"
    );
    let text = format!(
        "strandline is ready: Kafka on {kafka}, HTTP on {http}, bucket {bucket}, data in {}\n",
        config.data_dir.display()
    );
    // Nobody may be reading.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Leaves everything on the disk as a clean stop leaves it.
pub(crate) async fn close(broker: &Arc<Broker>, cleaning: Option<Pool>) {
    for partition in broker.replicas.all() {
        partition.resign();
    }
    let of = Arc::clone(broker);
    let closed = broker.io.run(move || {
        log_cleaner::stop(&of.cleaner, cleaning);
        of.log_dirs.close();
    });
    if let Err(e) = closed.await {
        tracing::error!(error = %e, "close the log directories");
    }
    if let Some(tier) = broker.replicas.tier()
        && tokio::time::timeout(STOP_TIMEOUT, tier.close())
            .await
            .is_err()
    {
        tracing::warn!("the chunk cache is not written out: the next start begins without it");
    }
    broker.metadata.shutdown().await;
}
