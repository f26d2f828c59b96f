//! Settings of one log, already resolved from topic and broker (SEMANTICS 6.2, 6.5, 8.1).

/// Settings of one log. Nothing is enforced here beyond what the rules need: small values are for
/// tests, the limits for users live in the config crate.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// Largest size of a segment (`segment.bytes`), L-1.
    pub segment_bytes: u64,
    /// Longest time span of a segment in ms (`segment.ms`), L-2.
    pub segment_ms: i64,
    /// Upper bound (exclusive) of what is randomly taken off `segment_ms` for each segment.
    pub segment_jitter_ms: i64,
    /// Log bytes between two index entries (`index.interval.bytes`).
    pub index_interval_bytes: u32,
    /// Largest size of an index file (`segment.index.bytes`), L-3.
    pub segment_index_bytes: u32,
    /// Total retention in ms, -1 = none (L-33).
    pub retention_ms: i64,
    /// Total retention in bytes, -1 = none.
    pub retention_bytes: i64,
    /// Local retention in ms, resolved (-2 is gone), -1 = none. Only with `remote`.
    pub local_retention_ms: i64,
    /// Local retention in bytes, resolved, -1 = none. Only with `remote`.
    pub local_retention_bytes: i64,
    /// Tiered: local deletion waits for the upload and moves only the local log start offset (S-20).
    pub remote: bool,
    /// `remote.log.copy.disable`: total retention applies locally, without waiting (S-23).
    pub remote_copy_disabled: bool,
    /// `cleanup.policy` contains delete.
    pub delete: bool,
    /// `cleanup.policy` contains compact.
    pub compact: bool,
    /// Share of a compacted log that must be dirty before it is cleaned, 0 to 1 (L-40).
    pub min_cleanable_dirty_ratio: f64,
    /// A record stays out of compaction for this long, in ms.
    pub min_compaction_lag_ms: i64,
    /// A record is compacted after this long, in ms, however clean the log is.
    pub max_compaction_lag_ms: i64,
    /// How long tombstones and the markers of transactions stay when nothing needs them, in ms.
    pub delete_retention_ms: i64,
    /// How long a deleted segment stays on the disk, in ms.
    pub file_delete_delay_ms: i64,
    /// Flush to the device after this many records (`flush.messages`), `i64::MAX` = never.
    pub flush_messages: i64,
    /// Flush to the device after this many ms (`flush.ms`), `i64::MAX` = never.
    pub flush_ms: i64,
    /// A producer without a batch for this long is forgotten (P-59).
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    /// Kafka's defaults, not tiered.
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 604_800_000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 * 1024 * 1024,
            retention_ms: 604_800_000,
            retention_bytes: -1,
            local_retention_ms: 604_800_000,
            local_retention_bytes: -1,
            remote: false,
            remote_copy_disabled: false,
            delete: true,
            compact: false,
            min_cleanable_dirty_ratio: 0.5,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            delete_retention_ms: 86_400_000,
            file_delete_delay_ms: 60_000,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            producer_id_expiration_ms: 86_400_000,
        }
    }
}

impl LogConfig {
    /// Longest time span of a segment in ms: a compacted log rolls early enough for
    /// `max.compaction.lag.ms` (L-40).
    pub fn effective_segment_ms(&self) -> i64 {
        if self.compact {
            self.segment_ms.min(self.max_compaction_lag_ms)
        } else {
            self.segment_ms
        }
    }

    /// True when local deletion depends on the upload (S-20, S-23).
    pub fn tiers_before_deletion(&self) -> bool {
        self.remote && !self.remote_copy_disabled
    }

    /// Retention in ms and bytes that applies to the local disk; -1 = none.
    pub fn effective_local_retention(&self) -> (i64, i64) {
        if self.tiers_before_deletion() {
            (self.local_retention_ms, self.local_retention_bytes)
        } else {
            (self.retention_ms, self.retention_bytes)
        }
    }
}
