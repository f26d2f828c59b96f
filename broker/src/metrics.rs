//! What the broker counts; names and meanings are in `docs/reference/metrics.md`.

mod cleaner;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::HashMap;
use strandline_env::huge_pages;
use strandline_telemetry::{LATENCY_BUCKETS, MetricsRegistry};
use strandline_wire::{ErrorCode, ServedApi, served_apis};

use cleaner::CleanerMetrics;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiLabel {
    api: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct TopicLabel {
    pub(crate) topic: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PartitionLabel {
    pub(crate) topic: String,
    pub(crate) partition: i32,
}

/// Everything that the broker counts.
#[derive(Debug)]
pub(crate) struct BrokerMetrics {
    pub(crate) requests: RequestMetrics,
    pub(crate) network: NetworkMetrics,
    pub(crate) topics: TopicMetrics,
    pub(crate) cold: ColdMetrics,
    pub(crate) sizes: SizeMetrics,
    pub(crate) cleaner: CleanerMetrics,
    pub(crate) transactions: TransactionMetrics,
}

impl BrokerMetrics {
    pub(crate) fn register(registry: &MetricsRegistry) -> Arc<Self> {
        Arc::new(Self {
            requests: RequestMetrics::register(registry),
            network: NetworkMetrics::register(registry),
            topics: TopicMetrics::register(registry),
            cold: ColdMetrics::register(registry),
            sizes: SizeMetrics::register(registry),
            cleaner: CleanerMetrics::register(registry),
            transactions: TransactionMetrics::register(registry),
        })
    }
}

/// Requests by API.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    /// By position in the table of APIs, so that a request takes no lock.
    durations: Vec<Histogram>,
}

impl RequestMetrics {
    fn register(registry: &MetricsRegistry) -> Self {
        let family =
            Family::<ApiLabel, Histogram>::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS));
        registry.register(
            "strandline_request_duration_seconds",
            "Time from a request's last byte until its response is ready",
            family.clone(),
        );
        let of = |api: &ServedApi| family.get_or_create(&ApiLabel { api: api.name }).clone();
        Self {
            durations: served_apis().iter().map(of).collect(),
        }
    }

    pub(crate) fn observe(&self, api: &ServedApi, took: Duration) {
        let at = served_apis().binary_search_by_key(&api.key, |row| row.key);
        if let Some(histogram) = at.ok().and_then(|at| self.durations.get(at)) {
            histogram.observe(took.as_secs_f64());
        }
    }
}

/// The network.
#[derive(Debug)]
pub(crate) struct NetworkMetrics {
    bytes_in: Counter,
    pub(crate) connections: Gauge,
    pub(crate) fetch_sessions: Gauge,
}

impl NetworkMetrics {
    fn register(registry: &MetricsRegistry) -> Self {
        let this = Self {
            bytes_in: Counter::default(),
            connections: Gauge::default(),
            fetch_sessions: Gauge::default(),
        };
        registry.register(
            "strandline_network_received_bytes_total",
            "Bytes of requests",
            this.bytes_in.clone(),
        );
        registry.register(
            "strandline_connections",
            "Client connections that are open",
            this.connections.clone(),
        );
        registry.register(
            "strandline_fetch_sessions",
            "Fetch sessions that are kept",
            this.fetch_sessions.clone(),
        );
        this
    }

    pub(crate) fn bytes_in(&self, bytes: usize) {
        self.bytes_in.inc_by(bytes as u64);
        huge_pages::moved(bytes);
    }
}

/// Bytes by topic.
#[derive(Debug)]
pub(crate) struct TopicMetrics {
    bytes_in: Family<TopicLabel, Counter>,
    bytes_out: Family<TopicLabel, Counter>,
    /// Counters by topic, to look one up without building a label.
    known: RwLock<HashMap<String, (Counter, Counter)>>,
}

impl TopicMetrics {
    fn register(registry: &MetricsRegistry) -> Self {
        let this = Self {
            bytes_in: Family::default(),
            bytes_out: Family::default(),
            known: RwLock::default(),
        };
        registry.register(
            "strandline_topic_bytes_in_total",
            "Bytes of batches that producers appended",
            this.bytes_in.clone(),
        );
        registry.register(
            "strandline_topic_bytes_out_total",
            "Bytes of batches that consumers were sent",
            this.bytes_out.clone(),
        );
        this
    }

    fn of(&self, topic: &str) -> (Counter, Counter) {
        if let Some(counters) = self.known.read().get(topic) {
            return counters.clone();
        }
        let label = TopicLabel {
            topic: topic.to_owned(),
        };
        let counters = (
            self.bytes_in.get_or_create(&label).clone(),
            self.bytes_out.get_or_create(&label).clone(),
        );
        self.known
            .write()
            .insert(topic.to_owned(), counters.clone());
        counters
    }

    pub(crate) fn produced(&self, topic: &str, bytes: usize) {
        self.of(topic).0.inc_by(bytes as u64);
    }

    pub(crate) fn consumed(&self, topic: &str, bytes: usize) {
        self.of(topic).1.inc_by(bytes as u64);
        huge_pages::moved(bytes);
    }

    /// Forgets a topic that is gone.
    pub(crate) fn forget(&self, topic: &str) {
        self.known.write().remove(topic);
        let label = TopicLabel {
            topic: topic.to_owned(),
        };
        self.bytes_in.remove(&label);
        self.bytes_out.remove(&label);
    }
}

/// Reads from the bucket by fetches.
#[derive(Debug)]
pub(crate) struct ColdMetrics {
    reads: Counter,
    timeouts: Counter,
    errors: Counter,
}

impl ColdMetrics {
    fn register(registry: &MetricsRegistry) -> Self {
        let this = Self {
            reads: Counter::default(),
            timeouts: Counter::default(),
            errors: Counter::default(),
        };
        registry.register(
            "strandline_cold_fetches_total",
            "Partitions of fetches that were answered from the bucket or its cache",
            this.reads.clone(),
        );
        registry.register(
            "strandline_cold_fetch_timeouts_total",
            "Partitions of fetches whose data was not there within remote.fetch.max.wait.ms",
            this.timeouts.clone(),
        );
        registry.register(
            "strandline_cold_fetch_errors_total",
            "Partitions of fetches that failed in the cold tier",
            this.errors.clone(),
        );
        this
    }

    pub(crate) fn observe<T>(&self, result: &Result<Option<T>, ErrorCode>) {
        match result {
            Ok(Some(_)) => self.reads.inc(),
            Ok(None) => self.timeouts.inc(),
            Err(_) => self.errors.inc(),
        };
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StateLabel {
    pub(crate) state: &'static str,
}

/// Transactions; refreshed when they are asked for.
#[derive(Debug)]
pub(crate) struct TransactionMetrics {
    pub(crate) ids: Family<StateLabel, Gauge>,
    pub(crate) longest_seconds: Gauge,
    pub(crate) open: Family<TopicLabel, Gauge>,
    pub(crate) late_partitions: Gauge,
    pub(crate) without_marker: Gauge,
}

impl TransactionMetrics {
    fn register(registry: &MetricsRegistry) -> Self {
        let this = Self {
            ids: Family::default(),
            longest_seconds: Gauge::default(),
            open: Family::default(),
            late_partitions: Gauge::default(),
            without_marker: Gauge::default(),
        };
        registry.register(
            "strandline_transactional_ids",
            "Transactional ids whose coordinator is here",
            this.ids.clone(),
        );
        registry.register(
            "strandline_transaction_longest_seconds",
            "Age of the oldest transaction that has not ended",
            this.longest_seconds.clone(),
        );
        registry.register(
            "strandline_open_transactions",
            "Transactions that are open on a topic's partitions",
            this.open.clone(),
        );
        registry.register(
            "strandline_partitions_with_late_transactions",
            "Partitions with an open transaction that has been silent for longer than any may be open",
            this.late_partitions.clone(),
        );
        registry.register(
            "strandline_partitions_without_marker",
            "Partitions to which the marker of an ended transaction could not be written yet",
            this.without_marker.clone(),
        );
        this
    }
}

/// Sizes and lags; refreshed when they are asked for.
#[derive(Debug)]
pub(crate) struct SizeMetrics {
    pub(crate) log_bytes: Family<TopicLabel, Gauge>,
    pub(crate) tier_lag_bytes: Family<PartitionLabel, Gauge>,
    pub(crate) tier_lag_seconds: Family<PartitionLabel, Gauge>,
    pub(crate) tail_bytes: Gauge,
    pub(crate) partitions: Gauge,
    pub(crate) offline_log_dirs: Gauge,
}

impl SizeMetrics {
    fn register(registry: &MetricsRegistry) -> Self {
        let this = Self {
            log_bytes: Family::default(),
            tier_lag_bytes: Family::default(),
            tier_lag_seconds: Family::default(),
            tail_bytes: Gauge::default(),
            partitions: Gauge::default(),
            offline_log_dirs: Gauge::default(),
        };
        registry.register(
            "strandline_log_bytes",
            "Bytes of segments on the local disk",
            this.log_bytes.clone(),
        );
        registry.register(
            "strandline_tier_lag_bytes",
            "Bytes of a partition that are not in the bucket yet",
            this.tier_lag_bytes.clone(),
        );
        registry.register(
            "strandline_tier_lag_seconds",
            "Age of the oldest record of a partition that is not in the bucket yet",
            this.tier_lag_seconds.clone(),
        );
        registry.register(
            "strandline_tail_bytes",
            "Bytes of batches in the in-memory tail",
            this.tail_bytes.clone(),
        );
        registry.register(
            "strandline_partitions",
            "Partitions that this broker leads",
            this.partitions.clone(),
        );
        registry.register(
            "strandline_offline_log_directories",
            "Log directories that failed; the partitions in them are offline",
            this.offline_log_dirs.clone(),
        );
        this
    }
}
