//! What the cold tier counts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Label of the per-topic metrics.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct TopicLabel {
    /// Name of the topic.
    pub topic: String,
}

impl TopicLabel {
    pub(crate) fn of(topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
        }
    }
}

#[derive(Debug, Default)]
struct Open {
    partitions: usize,
    bytes: i64,
}

/// The tier's metrics; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct TieringMetrics {
    /// Bytes that cold reads fetched from the bucket.
    pub cold_fetch_bytes: Counter,
    /// Chunks found in memory, on disk, or already on their way.
    pub cache_hits: Counter,
    /// Chunks that had to be fetched.
    pub cache_misses: Counter,
    /// Bytes of batches in the bucket.
    pub tiered_bytes: Family<TopicLabel, Gauge>,
    /// What is open of each topic that has metrics.
    open: Arc<Mutex<HashMap<String, Open>>>,
    /// Segments committed.
    pub uploaded_segments: Family<TopicLabel, Counter>,
    /// Bytes of batches committed.
    pub uploaded_bytes: Family<TopicLabel, Counter>,
    /// Uploads that failed.
    pub upload_errors: Family<TopicLabel, Counter>,
    /// Segments that retention removed.
    pub expired_segments: Family<TopicLabel, Counter>,
    /// Cold reads of partitions.
    pub cold_reads: Counter,
    /// Cold reads that failed.
    pub cold_read_errors: Counter,
}

impl TieringMetrics {
    /// Counts a partition of a topic, which has metrics from now on.
    pub(crate) fn opened(&self, topic: &str) {
        let mut open = self.open.lock();
        open.entry(topic.to_owned()).or_default().partitions += 1;
    }

    /// Counts bytes of a topic that came into the bucket, or left it.
    pub(crate) fn count_bytes(&self, topic: &str, change: i64) {
        if let Some(open) = self.open.lock().get_mut(topic) {
            open.bytes += change;
            let gauge = self.tiered_bytes.get_or_create(&TopicLabel::of(topic));
            gauge.set(open.bytes);
        }
    }

    /// Counts a partition less; with the last one the topic's metrics go.
    pub(crate) fn closed(&self, topic: &str) {
        let mut all = self.open.lock();
        let Some(open) = all.get_mut(topic) else {
            return;
        };
        open.partitions = open.partitions.saturating_sub(1);
        if open.partitions > 0 {
            return;
        }
        all.remove(topic);
        let label = TopicLabel::of(topic);
        self.tiered_bytes.remove(&label);
        self.uploaded_segments.remove(&label);
        self.uploaded_bytes.remove(&label);
        self.upload_errors.remove(&label);
        self.expired_segments.remove(&label);
    }

    /// Creates the metrics and registers them under their full names (`strandline_…`).
    pub fn register(registry: &mut Registry) -> Self {
        let m = Self::default();
        let counters = [
            (
                "cold_fetch_bytes",
                "Bytes that cold reads fetched from the bucket",
                &m.cold_fetch_bytes,
            ),
            (
                "cache_hits",
                "Chunks found in the chunk cache or already on their way",
                &m.cache_hits,
            ),
            (
                "cache_misses",
                "Chunks that had to be fetched from the bucket",
                &m.cache_misses,
            ),
            (
                "cold_reads",
                "Reads of a partition's cold tier",
                &m.cold_reads,
            ),
            (
                "cold_read_errors",
                "Reads of a partition's cold tier that failed",
                &m.cold_read_errors,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(format!("strandline_{name}"), help, counter.clone());
        }
        let families = [
            (
                "uploaded_segments",
                "Segments committed to the bucket",
                &m.uploaded_segments,
            ),
            (
                "uploaded_bytes",
                "Bytes of batches committed to the bucket",
                &m.uploaded_bytes,
            ),
            (
                "upload_errors",
                "Uploads of segments that failed",
                &m.upload_errors,
            ),
            (
                "expired_segments",
                "Segments that retention removed",
                &m.expired_segments,
            ),
        ];
        for (name, help, family) in families {
            registry.register(format!("strandline_{name}"), help, family.clone());
        }
        registry.register(
            "strandline_tiered_bytes",
            "Bytes of batches in the bucket, by topic",
            m.tiered_bytes.clone(),
        );
        m
    }
}
