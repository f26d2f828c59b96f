//! Requests, bytes and durations by operation and outcome.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The kinds of request that a store bills and that we count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Reads of an object or a range of it.
    Get,
    /// Writes, conditional or not; the parts of a multipart upload count one each.
    Put,
    /// Listings.
    List,
    /// Deletions; a bulk request counts once.
    Delete,
    /// Metadata of an object.
    Head,
}

impl Op {
    /// The `op` label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::List => "list",
            Self::Delete => "delete",
            Self::Head => "head",
        }
    }

    pub(crate) fn is_write(self) -> bool {
        matches!(self, Self::Put | Self::Delete)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OpLabel {
    op: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    op: &'static str,
    outcome: &'static str,
}

type HistogramFamily = Family<OpLabel, Histogram, fn() -> Histogram>;

/// The bucket's metrics; cheap to clone.
#[derive(Debug, Clone)]
pub struct BucketMetrics {
    requests: Family<RequestLabels, Counter>,
    bytes: Family<OpLabel, Counter>,
    durations: HistogramFamily,
}

fn duration_histogram() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

impl BucketMetrics {
    /// Creates the metrics and registers them under their full names (`strandline_store_…`).
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            bytes: Family::default(),
            durations: Family::new_with_constructor(duration_histogram as fn() -> Histogram),
        };
        registry.register(
            "strandline_store_requests",
            "Requests to the object store by operation and outcome",
            metrics.requests.clone(),
        );
        registry.register(
            "strandline_store_bytes",
            "Bytes sent to (put) and received from (get) the object store",
            metrics.bytes.clone(),
        );
        registry.register_with_unit(
            "strandline_store_request_duration",
            "Time of one request to the object store, without the waits between retries",
            Unit::Seconds,
            metrics.durations.clone(),
        );
        metrics
    }

    pub(crate) fn observe(&self, op: Op, outcome: &'static str, bytes: u64, took: Duration) {
        let label = OpLabel { op: op.label() };
        self.requests
            .get_or_create(&RequestLabels {
                op: op.label(),
                outcome,
            })
            .inc();
        if bytes > 0 {
            self.bytes.get_or_create(&label).inc_by(bytes);
        }
        self.durations
            .get_or_create(&label)
            .observe(took.as_secs_f64());
    }

    /// Requests of an operation that ended with `outcome` (`ok`, `not_found`, `conflict`, …).
    pub fn requests(&self, op: Op, outcome: &'static str) -> u64 {
        self.requests
            .get_or_create(&RequestLabels {
                op: op.label(),
                outcome,
            })
            .get()
    }

    /// Payload bytes of an operation so far.
    pub fn bytes(&self, op: Op) -> u64 {
        self.bytes.get_or_create(&OpLabel { op: op.label() }).get()
    }
}
