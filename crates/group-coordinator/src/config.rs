//! The settings of a shard, already typed.
//!
//! Rules: section 12.1 (group.*, offsets.*), G-4, G-5, G-60.

/// Settings; durations in ms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`, inclusive.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`, inclusive.
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i64,
    /// `group.max.size`.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`; more than 32767 cannot be stored.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
    /// How long a member may wait in its first join (G-4); no setting in Kafka.
    pub new_member_join_timeout_ms: i64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: usize::MAX,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
            new_member_join_timeout_ms: 300_000,
        }
    }
}
