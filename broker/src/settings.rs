//! The broker's settings as they are now, in the units that the code works with.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use strandline_config::{BrokerConfig, CompressionType, DynamicConfigs, ProduceCheck, TopicConfig};
use strandline_group_coordinator::GroupConfig;
use strandline_log::LogConfig;
use strandline_records::{CheckDepth, Compression, TargetCompression, ValidateOptions};
use strandline_transaction_coordinator::TransactionConfig;

use crate::coordinators::Patience;

/// Settings that clients may change while the broker runs; readers take a snapshot.
#[derive(Debug)]
pub(crate) struct LiveConfig {
    current: ArcSwap<BrokerConfig>,
    /// The dynamic settings as they are stored; `current` leaves out what is not allowed.
    stored: Mutex<DynamicConfigs>,
}

fn size(n: i32) -> usize {
    usize::try_from(n).unwrap_or(0)
}

fn ms(n: i64) -> Duration {
    Duration::from_millis(u64::try_from(n).unwrap_or(0))
}

impl LiveConfig {
    pub(crate) fn new(config: BrokerConfig) -> Self {
        Self {
            stored: Mutex::new(config.dynamic().clone()),
            current: ArcSwap::from_pointee(config),
        }
    }

    /// The settings in force.
    pub(crate) fn get(&self) -> Arc<BrokerConfig> {
        self.current.load_full()
    }

    /// Puts dynamic settings in force; what is no longer allowed is left out and logged. False: they are
    /// stored as they were, and nothing was done.
    pub(crate) fn set_dynamic(&self, dynamic: DynamicConfigs) -> bool {
        let mut stored = self.stored.lock();
        if *stored == dynamic {
            return false;
        }
        let (next, errors) = self.current.load().with_dynamic(&dynamic);
        for error in errors.iter() {
            tracing::warn!(%error, "a stored broker setting is not applied");
        }
        self.current.store(Arc::new(next));
        *stored = dynamic;
        true
    }

    pub(crate) fn socket_request_max_bytes(&self) -> u32 {
        u32::try_from(self.current.load().settings.socket_request_max_bytes).unwrap_or(0)
    }

    /// `None`: connections may be idle for ever.
    pub(crate) fn connections_max_idle(&self) -> Option<Duration> {
        let idle = self.current.load().settings.connections_max_idle_ms;
        (idle >= 0).then(|| ms(idle))
    }

    /// Of the broker, and of one address.
    pub(crate) fn max_connections(&self) -> (usize, usize) {
        let settings = &self.current.load().settings;
        (
            size(settings.max_connections),
            size(settings.max_connections_per_ip),
        )
    }

    pub(crate) fn auto_create_topics_enable(&self) -> bool {
        self.current.load().settings.auto_create_topics_enable
    }

    pub(crate) fn delete_topic_enable(&self) -> bool {
        self.current.load().settings.delete_topic_enable
    }

    pub(crate) fn num_partitions(&self) -> i32 {
        self.current.load().settings.num_partitions
    }

    pub(crate) fn default_replication_factor(&self) -> i16 {
        i16::try_from(self.current.load().settings.default_replication_factor).unwrap_or(i16::MAX)
    }

    pub(crate) fn offsets_commit_timeout(&self) -> Duration {
        ms(i64::from(
            self.current.load().settings.offsets_commit_timeout_ms,
        ))
    }

    pub(crate) fn max_request_partition_size_limit(&self) -> usize {
        size(
            self.current
                .load()
                .settings
                .max_request_partition_size_limit,
        )
    }

    pub(crate) fn fetch_max_bytes(&self) -> usize {
        size(self.current.load().settings.fetch_max_bytes)
    }

    pub(crate) fn full_produce_check(&self) -> bool {
        self.current.load().strandline.produce_check == ProduceCheck::Full
    }

    pub(crate) fn remote_fetch_max_wait(&self) -> Duration {
        ms(i64::from(
            self.current.load().settings.remote_fetch_max_wait_ms,
        ))
    }

    pub(crate) fn remote_list_offsets_timeout(&self) -> Duration {
        ms(self
            .current
            .load()
            .settings
            .remote_list_offsets_request_timeout_ms)
    }

    pub(crate) fn producer_id_expiration_ms(&self) -> i64 {
        i64::from(self.current.load().settings.producer_id_expiration_ms)
    }

    pub(crate) fn transaction_partition_verification_enable(&self) -> bool {
        self.current
            .load()
            .settings
            .transaction_partition_verification_enable
    }

    /// Between attempts to add partitions while another end is under way, and for how long (P-71).
    pub(crate) fn add_partitions_to_txn_patience(&self) -> Patience {
        let settings = &self.current.load().settings;
        let of = |n: i32| ms(i64::from(n));
        Patience {
            backoff: of(settings.add_partitions_to_txn_retry_backoff_ms),
            max: of(settings.add_partitions_to_txn_retry_backoff_max_ms),
        }
    }

    /// What the transaction coordinators are bound by.
    pub(crate) fn transaction_config(&self) -> TransactionConfig {
        let s = &self.current.load().settings;
        let abort_ms = s.transaction_abort_timed_out_transaction_cleanup_interval_ms;
        let expiry_ms = s.transaction_remove_expired_transaction_cleanup_interval_ms;
        TransactionConfig {
            max_timeout_ms: s.transaction_max_timeout_ms,
            id_expiration_ms: i64::from(s.transactional_id_expiration_ms),
            abort_scan_interval_ms: i64::from(abort_ms),
            expiry_scan_interval_ms: i64::from(expiry_ms),
            ..TransactionConfig::default()
        }
    }

    /// What the group coordinators are bound by.
    pub(crate) fn group_config(&self) -> GroupConfig {
        let s = &self.current.load().settings;
        GroupConfig {
            min_session_timeout_ms: s.group_min_session_timeout_ms,
            max_session_timeout_ms: s.group_max_session_timeout_ms,
            initial_rebalance_delay_ms: i64::from(s.group_initial_rebalance_delay_ms),
            max_size: size(s.group_max_size),
            offset_metadata_max_bytes: size(s.offset_metadata_max_bytes),
            offsets_retention_ms: i64::from(s.offsets_retention_minutes) * 60_000,
            offsets_retention_check_interval_ms: s.offsets_retention_check_interval_ms,
            ..GroupConfig::default()
        }
    }
}

/// What the log needs to know of a topic's settings.
pub(crate) fn log_config(topic: &TopicConfig, producer_id_expiration_ms: i64) -> LogConfig {
    let unsigned = |n: i32| u32::try_from(n).unwrap_or(0);
    LogConfig {
        segment_bytes: u64::from(unsigned(topic.segment_bytes)),
        segment_ms: topic.segment_ms,
        segment_jitter_ms: topic.segment_jitter_ms,
        index_interval_bytes: unsigned(topic.index_interval_bytes),
        segment_index_bytes: unsigned(topic.segment_index_bytes),
        retention_ms: topic.retention_ms,
        retention_bytes: topic.retention_bytes,
        local_retention_ms: topic.local_retention_ms,
        local_retention_bytes: topic.local_retention_bytes,
        remote: topic.remote_storage_enable,
        remote_copy_disabled: topic.remote_log_copy_disable,
        delete: topic.cleanup_policy.delete,
        compact: topic.cleanup_policy.compact,
        min_cleanable_dirty_ratio: topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms: topic.min_compaction_lag_ms,
        max_compaction_lag_ms: topic.max_compaction_lag_ms,
        delete_retention_ms: topic.delete_retention_ms,
        file_delete_delay_ms: topic.file_delete_delay_ms,
        flush_messages: topic.flush_messages,
        flush_ms: topic.flush_ms,
        producer_id_expiration_ms,
    }
}

/// What a produced batch of a topic is checked against.
pub(crate) fn validate_options(topic: &TopicConfig, full_check: bool) -> ValidateOptions {
    let codec = |compression, level| TargetCompression::Codec { compression, level };
    ValidateOptions {
        max_message_bytes: size(topic.max_message_bytes),
        compacted: topic.cleanup_policy.compact,
        timestamp_type: topic.message_timestamp_type,
        before_max_ms: topic.message_timestamp_before_max_ms,
        after_max_ms: topic.message_timestamp_after_max_ms,
        compression: match topic.compression_type {
            CompressionType::Producer => TargetCompression::Producer,
            CompressionType::Uncompressed => codec(Compression::None, None),
            CompressionType::Gzip => codec(
                Compression::Gzip,
                Some(topic.compression_gzip_level).filter(|level| *level > 0),
            ),
            CompressionType::Snappy => codec(Compression::Snappy, None),
            CompressionType::Lz4 => codec(Compression::Lz4, Some(topic.compression_lz4_level)),
            CompressionType::Zstd => codec(Compression::Zstd, Some(topic.compression_zstd_level)),
        },
        max_decompressed_bytes: size(topic.max_decompressed_message_bytes),
        check: if full_check {
            CheckDepth::Full
        } else {
            CheckDepth::HeaderOnly
        },
        allow_control: false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use strandline_config::{Machine, Sources};

    use super::*;

    // D-42, D-43: a stored name that may no longer be set must not look like news in every image.
    #[test]
    fn dynamic_settings_are_put_in_force_when_they_change() {
        let machine = Machine {
            memory_bytes: 1 << 30,
            disk_free_bytes: &|_| 1 << 30,
            host_name: "localhost".to_owned(),
            current_dir: PathBuf::from("/"),
        };
        let loaded = BrokerConfig::load(&Sources::default(), &machine).unwrap();
        let live = LiveConfig::new(loaded.config);
        let stored = |partitions: &str| DynamicConfigs {
            cluster: BTreeMap::new(),
            broker: BTreeMap::from([
                ("max.connections".to_owned(), "9".to_owned()),
                ("num.partitions".to_owned(), partitions.to_owned()),
            ]),
        };
        assert!(!live.set_dynamic(DynamicConfigs::default()));
        assert!(live.set_dynamic(stored("7")));
        assert_eq!((live.max_connections().0, live.num_partitions()), (9, 1));
        assert!(!live.set_dynamic(stored("7")));
        assert!(live.set_dynamic(DynamicConfigs::default()));
        assert_eq!(live.max_connections().0, usize::try_from(i32::MAX).unwrap());
    }
}
