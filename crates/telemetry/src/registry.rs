//! The set of all metrics of a process, and its text for Prometheus.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Content type of [`MetricsRegistry::encode`]. Prometheus asks for it and takes it.
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds, in seconds, of the buckets of a histogram of latencies: from what a produce into
/// memory takes to what a cold read may wait.
pub const LATENCY_BUCKETS: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 30.0,
];

/// The metrics of a process. Cheap to clone; clones are the same set. Registering is for the start
/// of a component, not for a hot path.
#[derive(Clone, Default)]
pub struct MetricsRegistry(Arc<Mutex<Registry>>);

impl fmt::Debug for MetricsRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsRegistry").finish_non_exhaustive()
    }
}

impl MetricsRegistry {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metric and gives it back. `name` is the name that dashboards see, units and `_total`
    /// of a counter included; `help` is a phrase without a full stop.
    pub fn register<M: Metric + Clone>(&self, name: &str, help: &str, metric: M) -> M {
        // The encoder adds `_total` to a counter by itself.
        let is_counter = matches!(EncodeMetric::metric_type(&metric), MetricType::Counter);
        let name = if is_counter {
            name.strip_suffix("_total").unwrap_or(name)
        } else {
            name
        };
        self.0.lock().register(name, help, metric.clone());
        metric
    }

    /// Adds a source of metrics whose values are computed when they are read.
    pub fn register_collector(&self, collector: Box<dyn Collector>) {
        self.0.lock().register_collector(collector);
    }

    /// The registry itself, for crates that bring their own metrics.
    pub fn raw(&self) -> Arc<Mutex<Registry>> {
        Arc::clone(&self.0)
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::with_capacity(16 << 10);
        encode(&mut text, &self.0.lock())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;

    use super::*;

    #[test]
    fn counters_end_in_total_exactly_once() {
        let registry = MetricsRegistry::new();
        let named: Counter = registry.register("a_total", "A", Counter::default());
        let bare: Counter = registry.register("b", "B", Counter::default());
        let family = Family::<Vec<(String, String)>, Counter>::default();
        let family = registry.register("c_total", "C", family);
        let gauge: Gauge = registry.register("d_total", "D", Gauge::default());
        named.inc();
        bare.inc_by(2);
        family
            .get_or_create(&vec![("op".into(), "get".into())])
            .inc();
        gauge.set(4);
        let text = registry.encode().unwrap();
        for line in [
            "a_total 1",
            "b_total 2",
            "c_total{op=\"get\"} 1",
            "d_total 4",
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in\n{text}");
        }
        assert!(!text.contains("_total_total"), "{text}");
        assert!(text.contains("# TYPE a counter"));
    }

    #[test]
    fn latencies_are_a_histogram_in_seconds() {
        let registry = MetricsRegistry::new();
        let histogram = Histogram::new(LATENCY_BUCKETS);
        let histogram = registry.register("strandline_request_duration_seconds", "T", histogram);
        histogram.observe(0.003);
        let text = registry.encode().unwrap();
        assert!(text.contains("strandline_request_duration_seconds_bucket{le=\"0.005\"} 1"));
        assert!(text.contains("strandline_request_duration_seconds_count 1"));
        assert!(LATENCY_BUCKETS.is_sorted());
    }
}
