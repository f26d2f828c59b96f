//! The settings of a topic, one row each with Kafka's default, and their resolution over topic,
//! broker and built-in values.
//!
//! Rules: SEMANTICS 8.1, 12.2; D-4, D-33, D-34, D-36, D-42, D-43, D-44, L-33, L-34.

use std::collections::BTreeMap;

use strandline_types::{TimestampType, TopicName};

use crate::broker::BrokerConfig;
use crate::def::{Setting, Synonym, boolean, fraction, int, list, long, one_of};
use crate::error::{ConfigError, ConfigErrors, Origin, quote};
use crate::layers::Layers;
use crate::nearest::nearest;
use crate::rules::{check_topic, check_transition};
use crate::table::{Given, Reader, settings};
use crate::value::{CleanupPolicy, CompressionType};

/// Unknown names of one topic that are reported.
const MOST_UNKNOWN: usize = 20;
const MAX: &str = "9223372036854775807";

const fn same(name: &'static str) -> Synonym {
    Synonym {
        name,
        multiplier: 1,
    }
}

const fn minutes(name: &'static str) -> Synonym {
    Synonym {
        name,
        multiplier: 60_000,
    }
}

const fn hours(name: &'static str) -> Synonym {
    Synonym {
        name,
        multiplier: 3_600_000,
    }
}

settings! {
    /// Typed settings of one topic, resolved; the field is the name with `_` for `.`.
    ///
    /// Three are not as they were set but as they work: `remote_storage_enable` is false where the
    /// topic cannot be tiered, `local_retention_ms` and `local_retention_bytes` are what the disk
    /// keeps (-1 = no limit, never -2, never more than the total).
    pub struct TopicConfig from TOPIC_SETTINGS;

    "How old records go: `delete` by age and size, `compact` keeps the newest of each key; an empty list keeps everything. A compacted topic is not tiered."
    cleanup_policy: CleanupPolicy = list("cleanup.policy", "delete").list_of(&["compact", "delete"]).inherits(&[same("log.cleanup.policy")]);
    "Level of gzip where the broker compresses; -1 = the codec's default."
    compression_gzip_level: i32 = int("compression.gzip.level", "-1").check("INT, 1 to 9, or -1", is_gzip_level).inherits(&[same("compression.gzip.level")]);
    "Level of lz4 where the broker compresses; accepted, and without effect: lz4 has one level here."
    compression_lz4_level: i32 = int("compression.lz4.level", "9").between(1, 17).inherits(&[same("compression.lz4.level")]);
    "How batches are stored: as the producer compressed them, or with this codec."
    compression_type: CompressionType = one_of("compression.type", "producer", CompressionType::NAMES).inherits(&[same("compression.type")]);
    "Level of zstd where the broker compresses."
    compression_zstd_level: i32 = int("compression.zstd.level", "3").between(-131_072, 22).inherits(&[same("compression.zstd.level")]);
    "How long a compacted topic keeps tombstones, and the markers of transactions of which nothing else is left, in ms from the first cleaning that meets them."
    delete_retention_ms: i64 = long("delete.retention.ms", "86400000").at_least(0).inherits(&[same("log.cleaner.delete.retention.ms")]);
    "Records of share groups that cannot be delivered go to the topic as a dead letter queue."
    errors_deadletterqueue_group_enable: bool = boolean("errors.deadletterqueue.group.enable", "false").not_served();
    "How long the file of a deleted segment stays on disk, in ms."
    file_delete_delay_ms: i64 = long("file.delete.delay.ms", "60000").at_least(0).inherits(&[same("log.segment.delete.delay.ms")]);
    "Records after which the log is flushed to disk."
    flush_messages: i64 = long("flush.messages", MAX).at_least(1).inherits(&[same("log.flush.interval.messages")]);
    "Time after which the log is flushed to disk, in ms."
    flush_ms: i64 = long("flush.ms", MAX).at_least(0).inherits(&[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")]);
    "Replicas whose fetching is throttled, `partition:broker`."
    follower_replication_throttled_replicas: Vec<String> = list("follower.replication.throttled.replicas", "").not_served();
    "Bytes of a segment between two index entries."
    index_interval_bytes: i32 = int("index.interval.bytes", "4096").at_least(0).inherits(&[same("log.index.interval.bytes")]);
    "Replicas whose serving is throttled, `partition:broker`."
    leader_replication_throttled_replicas: Vec<String> = list("leader.replication.throttled.replicas", "").not_served();
    "Bytes of a partition that stay on disk once tiered; -2 = as `retention.bytes`, -1 = no limit."
    local_retention_bytes: i64 = long("local.retention.bytes", "-2").at_least(-2).inherits(&[same("log.local.retention.bytes")]);
    "Time that segments stay on disk once tiered, in ms; -2 = as `retention.ms`, -1 = no limit."
    local_retention_ms: i64 = long("local.retention.ms", "-2").at_least(-2).inherits(&[same("log.local.retention.ms")]);
    "Longest time that a record stays out of compaction, in ms."
    max_compaction_lag_ms: i64 = long("max.compaction.lag.ms", MAX).at_least(1).inherits(&[same("log.cleaner.max.compaction.lag.ms")]);
    "Largest batch after decompression, in bytes."
    max_decompressed_message_bytes: i32 = int("max.decompressed.message.bytes", "2147483639").between(1, 2_147_483_639).inherits(&[same("max.decompressed.message.bytes")]);
    "Largest batch as it arrives, in bytes."
    max_message_bytes: i32 = int("max.message.bytes", "1048588").at_least(0).inherits(&[same("message.max.bytes")]);
    "How far in the future a record's timestamp may lie, in ms."
    message_timestamp_after_max_ms: i64 = long("message.timestamp.after.max.ms", "3600000").at_least(0).inherits(&[same("log.message.timestamp.after.max.ms")]);
    "How far in the past a record's timestamp may lie, in ms."
    message_timestamp_before_max_ms: i64 = long("message.timestamp.before.max.ms", MAX).at_least(0).inherits(&[same("log.message.timestamp.before.max.ms")]);
    "Who sets the timestamp of a record: the producer or the broker."
    message_timestamp_type: TimestampType = one_of("message.timestamp.type", "CreateTime", &["CreateTime", "LogAppendTime"]).inherits(&[same("log.message.timestamp.type")]);
    "Share of a compacted log that must be dirty before it is cleaned."
    min_cleanable_dirty_ratio: f64 = fraction("min.cleanable.dirty.ratio", "0.5", 0.0, 1.0).inherits(&[same("log.cleaner.min.cleanable.ratio")]);
    "Shortest time that a record stays out of compaction, in ms."
    min_compaction_lag_ms: i64 = long("min.compaction.lag.ms", "0").at_least(0).inherits(&[same("log.cleaner.min.compaction.lag.ms")]);
    "In-sync replicas without which acks=all is refused. More than a topic has replicas count as those: with one broker that is one, and nothing is refused."
    min_insync_replicas: i32 = int("min.insync.replicas", "1").at_least(1).inherits(&[same("min.insync.replicas")]);
    "Accepted; disk space is reserved ahead of the writes either way."
    preallocate: bool = boolean("preallocate", "false").inherits(&[same("log.preallocate")]);
    "Bytes that a segment must be behind before it is tiered."
    remote_copy_lag_bytes: i64 = long("remote.copy.lag.bytes", "-1").at_least(-1).inherits(&[same("log.remote.copy.lag.bytes")]).not_served();
    "Age that a segment must have before it is tiered, in ms."
    remote_copy_lag_ms: i64 = long("remote.copy.lag.ms", "0").at_least(-1).inherits(&[same("log.remote.copy.lag.ms")]).not_served();
    "Nothing more is tiered; what is in the bucket stays readable."
    remote_log_copy_disable: bool = boolean("remote.log.copy.disable", "false");
    "Switching `remote.storage.enable` off deletes what is in the bucket; must be true to do so."
    remote_log_delete_on_disable: bool = boolean("remote.log.delete.on.disable", "false");
    "The topic is tiered. Never in effect for a compacted or internal topic."
    remote_storage_enable: bool = boolean("remote.storage.enable", "true").unlike_kafka("false").inherits(&[same("strandline.remote.storage.enable")]);
    "Bytes of a partition that are kept over both tiers; -1 = no limit."
    retention_bytes: i64 = long("retention.bytes", "-1").at_least(-1).inherits(&[same("log.retention.bytes")]);
    "How long segments are kept over both tiers, in ms; -1 = for ever."
    retention_ms: i64 = long("retention.ms", "604800000").at_least(-1).inherits(&[same("log.retention.ms"), minutes("log.retention.minutes"), hours("log.retention.hours")]);
    "Size at which a segment is rolled, in bytes."
    segment_bytes: i32 = int("segment.bytes", "1073741824").at_least(1_048_576).inherits(&[same("log.segment.bytes")]);
    "Largest index of a segment, in bytes; a full one rolls the segment."
    segment_index_bytes: i32 = int("segment.index.bytes", "10485760").at_least(4).inherits(&[same("log.index.size.max.bytes")]);
    "Random part taken off the age at which a segment is rolled, in ms."
    segment_jitter_ms: i64 = long("segment.jitter.ms", "0").at_least(0).inherits(&[same("log.roll.jitter.ms"), hours("log.roll.jitter.hours")]);
    "Age at which a segment is rolled, in ms."
    segment_ms: i64 = long("segment.ms", "604800000").at_least(1).inherits(&[same("log.roll.ms"), hours("log.roll.hours")]);
    "Longest time that a record stays un-tiered, in ms; 0 = until its segment is rolled."
    strandline_tier_max_delay_ms: i64 = long("strandline.tier.max.delay.ms", "3600000").at_least(0).inherits(&[same("strandline.tier.max.delay.ms")]);
    "A replica that is not in sync may lead when no other is left."
    unclean_leader_election_enable: bool = boolean("unclean.leader.election.enable", "false").inherits(&[same("unclean.leader.election.enable")]).not_served();
}

pub(crate) fn is_gzip_level(text: &str) -> bool {
    text.parse::<i32>()
        .is_ok_and(|level| level == -1 || (1..=9).contains(&level))
}

/// Looks a topic setting up by its exact name.
pub(crate) fn topic_setting(name: &str) -> Option<&'static Setting> {
    TOPIC_SETTINGS.iter().find(|setting| setting.name == name)
}

/// Whose topic it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TopicKind {
    /// A topic of a client.
    User,
    /// A topic of the broker, such as `__consumer_offsets`: may be compacted, is never tiered.
    Internal,
}

impl TopicKind {
    /// The kind of the topic of this name.
    pub fn of(name: &TopicName) -> Self {
        if name.is_internal() {
            Self::Internal
        } else {
            Self::User
        }
    }
}

/// Overrides of a topic: exactly what was set on it, by name.
pub type Overrides = BTreeMap<String, String>;

impl TopicConfig {
    /// Resolves what a client wants to set, strictly: everything that is wrong is an error.
    ///
    /// Precedence (D-33): topic override, dynamic broker, dynamic default, static broker, default.
    pub fn resolve(
        overrides: &Overrides,
        broker: &BrokerConfig,
        kind: TopicKind,
    ) -> Result<Self, ConfigErrors> {
        let (config, errors) = Self::resolve_stored(overrides, broker, kind);
        errors.into_result(config)
    }

    /// Resolves what the metadata holds. A value that is no longer allowed (the broker's file
    /// changed, or a later version wrote it) falls back to what the topic would have without it and
    /// is reported: it cannot keep a log from opening.
    pub fn resolve_stored(
        overrides: &Overrides,
        broker: &BrokerConfig,
        kind: TopicKind,
    ) -> (Self, ConfigErrors) {
        let layers = &broker.layers;
        let lookup = |setting: &Setting| given(setting, overrides, layers);
        let mut reader = Reader::new(&lookup, &|_| None);
        let mut config = Self::read(&mut reader);
        let mut errors = reader.errors;
        errors.0.extend(unknown_names(overrides));
        errors
            .0
            .extend(check_topic(&config, overrides, broker, kind));
        config.take_effect(broker, kind);
        (config, errors)
    }

    /// Resolves a change of a topic's overrides: as [`TopicConfig::resolve`], and what the change
    /// itself must not do (KIP-950). `previous` is `None` when the topic is created.
    pub fn resolve_change(
        previous: Option<&Overrides>,
        overrides: &Overrides,
        broker: &BrokerConfig,
        kind: TopicKind,
    ) -> Result<Self, ConfigErrors> {
        let (config, mut errors) = Self::resolve_stored(overrides, broker, kind);
        if let Some(previous) = previous {
            let (before, _) = Self::resolve_stored(previous, broker, kind);
            errors.0.extend(check_transition(&before, &config));
        }
        errors.into_result(config)
    }

    /// Turns what was set into what works.
    fn take_effect(&mut self, broker: &BrokerConfig, kind: TopicKind) {
        self.remote_storage_enable &= broker.settings.remote_log_storage_system_enable
            && kind == TopicKind::User
            && !self.cleanup_policy.compact;
        let follows_total = !self.remote_storage_enable || self.remote_log_copy_disable;
        let local = |local: i64, total: i64| match (local, total) {
            (-2, _) => total,
            _ if follows_total => total,
            (local, -1) => local,
            (-1, total) => total,
            (local, total) => local.min(total),
        };
        self.local_retention_ms = local(self.local_retention_ms, self.retention_ms);
        self.local_retention_bytes = local(self.local_retention_bytes, self.retention_bytes);
    }
}

/// What a topic setting is before the default: the override, or what the broker supplies.
pub(crate) fn given(setting: &Setting, overrides: &Overrides, layers: &Layers) -> Option<Given> {
    match overrides.get(setting.name) {
        Some(text) => Some(Given {
            text: text.clone(),
            origin: Origin::Request,
        }),
        None => inherited(setting, layers),
    }
}

/// What the broker supplies, if anything but a default.
pub(crate) fn inherited(setting: &Setting, layers: &Layers) -> Option<Given> {
    setting.synonyms.iter().find_map(|synonym| {
        let given = layers.value(synonym.name)?;
        Some(Given {
            text: multiplied(&given.text, synonym.multiplier),
            origin: given.origin,
        })
    })
}

/// Converts minutes and hours; "no limit" stays -1.
fn multiplied(text: &str, multiplier: i64) -> String {
    match text.trim().parse::<i64>() {
        Ok(number) if multiplier != 1 && number >= 0 => {
            number.saturating_mul(multiplier).to_string()
        }
        _ => text.to_owned(),
    }
}

fn unknown_names(overrides: &Overrides) -> impl Iterator<Item = ConfigError> {
    let unknown = overrides
        .keys()
        .filter(|name| topic_setting(name).is_none());
    // A request may hold millions of them.
    unknown
        .take(MOST_UNKNOWN)
        .map(|name| unknown_topic_name(name))
}

/// A name that no topic has; a broker's name is answered with the topic's.
pub(crate) fn unknown_topic_name(name: &str) -> ConfigError {
    let of_broker = TOPIC_SETTINGS
        .iter()
        .find(|setting| setting.synonyms.iter().any(|synonym| synonym.name == name));
    let names = TOPIC_SETTINGS.iter().map(|setting| setting.name);
    let nearest = of_broker
        .map(|setting| setting.name)
        .or_else(|| nearest(name, names));
    ConfigError::UnknownName {
        name: quote(name),
        origin: Origin::Request,
        nearest: nearest.map(Into::into),
    }
}
