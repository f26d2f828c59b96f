//! What compaction counts.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use strandline_log::{CleanReport, CleanerStatus};
use strandline_telemetry::MetricsRegistry;

type FloatGauge = Gauge<f64, AtomicU64>;

/// Compaction of the hot log, Kafka's `LogCleaner` and `LogCleanerManager`.
#[derive(Debug, Default)]
pub(crate) struct CleanerMetrics {
    runs: Counter,
    read_bytes: Counter,
    written_bytes: Counter,
    replaced_bytes: Counter,
    last_seconds: FloatGauge,
    map_utilization: FloatGauge,
    max_dirty_ratio: FloatGauge,
    max_delay_seconds: Gauge,
    uncleanable_partitions: Gauge,
    uncleanable_bytes: Gauge,
}

impl CleanerMetrics {
    pub(super) fn register(registry: &MetricsRegistry) -> Self {
        let this = Self::default();
        for (name, help, counter) in [
            (
                "strandline_log_cleaner_runs_total",
                "Logs that were cleaned to the end of a round",
                &this.runs,
            ),
            (
                "strandline_log_cleaner_read_bytes_total",
                "Bytes that cleaning read, the dirty part of a log twice",
                &this.read_bytes,
            ),
            (
                "strandline_log_cleaner_written_bytes_total",
                "Bytes of cleaned segments",
                &this.written_bytes,
            ),
            (
                "strandline_log_cleaner_replaced_bytes_total",
                "Bytes of the segments that they replace",
                &this.replaced_bytes,
            ),
        ] {
            registry.register(name, help, counter.clone());
        }
        for (name, help, gauge) in [
            (
                "strandline_log_cleaner_last_run_seconds",
                "How long the last round took",
                &this.last_seconds,
            ),
            (
                "strandline_log_cleaner_buffer_utilization_ratio",
                "How full the memory for keys was in the last round, 0 to 1",
                &this.map_utilization,
            ),
            (
                "strandline_log_cleaner_max_dirty_ratio",
                "Greatest share of a compacted log that waits for its cleaning, 0 to 1",
                &this.max_dirty_ratio,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        for (name, help, gauge) in [
            (
                "strandline_log_cleaner_max_compaction_delay_seconds",
                "Longest time that a record waits for compaction beyond max.compaction.lag.ms",
                &this.max_delay_seconds,
            ),
            (
                "strandline_log_cleaner_uncleanable_partitions",
                "Partitions whose cleaning failed",
                &this.uncleanable_partitions,
            ),
            (
                "strandline_log_cleaner_uncleanable_bytes",
                "Bytes of these partitions that wait for their cleaning",
                &this.uncleanable_bytes,
            ),
        ] {
            registry.register(name, help, gauge.clone());
        }
        this
    }

    pub(crate) fn cleaned(&self, report: &CleanReport, took_ms: i64) {
        self.runs.inc();
        self.read_bytes.inc_by(report.read_bytes);
        self.written_bytes.inc_by(report.written_bytes);
        self.replaced_bytes.inc_by(report.replaced_bytes);
        self.last_seconds.set(took_ms as f64 / 1000.0);
        self.map_utilization.set(report.map_utilization);
    }

    pub(crate) fn set_status(&self, status: &CleanerStatus) {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.max_dirty_ratio.set(status.max_dirty_ratio);
        self.max_delay_seconds
            .set(status.max_compaction_delay_ms / 1000);
        self.uncleanable_partitions
            .set(signed(status.uncleanable_partitions as u64));
        self.uncleanable_bytes.set(signed(status.uncleanable_bytes));
    }
}
