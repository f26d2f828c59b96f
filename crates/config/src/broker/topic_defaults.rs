//! Broker settings whose only use is to supply the value of a topic setting.
//!
//! Rules: D-34, SEMANTICS 12.1.

use crate::def::ConfigType::{Int, Long};
use crate::def::{Setting, boolean, fraction, int, list, long, one_of, optional};
use crate::value::CompressionType;

const MAX: &str = "9223372036854775807";

/// One row per setting, in the order of the names.
pub(crate) const TOPIC_DEFAULTS: &[Setting] = &[
    int("compression.gzip.level", "-1")
        .check("INT, 1 to 9, or -1", crate::topic::is_gzip_level)
        .dynamic()
        .doc("Level of gzip where the broker compresses; -1 = the codec's default."),
    int("compression.lz4.level", "9")
        .between(1, 17)
        .dynamic()
        .doc("Level of lz4 where the broker compresses; accepted, and without effect: lz4 has one level here."),
    one_of("compression.type", "producer", CompressionType::NAMES)
        .dynamic()
        .doc("How batches are stored: as the producer compressed them, or with this codec."),
    int("compression.zstd.level", "3")
        .between(-131_072, 22)
        .dynamic()
        .doc("Level of zstd where the broker compresses."),
    long("log.cleaner.delete.retention.ms", "86400000")
        .at_least(0)
        .dynamic()
        .doc("How long a compacted topic keeps tombstones, in ms."),
    long("log.cleaner.max.compaction.lag.ms", MAX)
        .at_least(1)
        .dynamic()
        .doc("Longest time that a record stays out of compaction, in ms."),
    fraction("log.cleaner.min.cleanable.ratio", "0.5", 0.0, 1.0)
        .dynamic()
        .doc("Share of a compacted log that must be dirty before it is cleaned."),
    long("log.cleaner.min.compaction.lag.ms", "0")
        .at_least(0)
        .dynamic()
        .doc("Shortest time that a record stays out of compaction, in ms."),
    list("log.cleanup.policy", "delete")
        .list_of(&["compact", "delete"])
        .dynamic()
        .doc("How old records go, see `cleanup.policy`. `compact` only where `remote.log.storage.system.enable` is false: compacted topics are not tiered."),
    long("log.flush.interval.messages", MAX)
        .at_least(1)
        .dynamic()
        .doc("Records after which a log is flushed to disk."),
    optional("log.flush.interval.ms", Long)
        .at_least(0)
        .dynamic()
        .doc("Time after which a log is flushed to disk, in ms."),
    int("log.index.interval.bytes", "4096")
        .at_least(0)
        .dynamic()
        .doc("Bytes of a segment between two index entries."),
    int("log.index.size.max.bytes", "10485760")
        .at_least(4)
        .dynamic()
        .doc("Largest index of a segment, in bytes; a full one rolls the segment."),
    long("log.local.retention.bytes", "-2")
        .at_least(-2)
        .dynamic()
        .doc("Bytes of a partition that stay on disk once tiered; -2 = as `log.retention.bytes`."),
    long("log.local.retention.ms", "-2")
        .at_least(-2)
        .dynamic()
        .doc("Time that segments stay on disk once tiered, in ms; -2 = as `log.retention.ms`."),
    long("log.message.timestamp.after.max.ms", "3600000")
        .at_least(0)
        .dynamic()
        .doc("How far in the future a record's timestamp may lie, in ms."),
    long("log.message.timestamp.before.max.ms", MAX)
        .at_least(0)
        .dynamic()
        .doc("How far in the past a record's timestamp may lie, in ms."),
    one_of(
        "log.message.timestamp.type",
        "CreateTime",
        &["CreateTime", "LogAppendTime"],
    )
    .dynamic()
    .doc("Who sets the timestamp of a record: the producer or the broker."),
    boolean("log.preallocate", "false")
        .dynamic()
        .doc("Accepted; disk space is reserved ahead of the writes either way."),
    long("log.remote.copy.lag.bytes", "-1")
        .at_least(-1)
        .not_served()
        .doc("Bytes that a segment must be behind before it is tiered."),
    long("log.remote.copy.lag.ms", "0")
        .at_least(-1)
        .not_served()
        .doc("Age that a segment must have before it is tiered, in ms."),
    long("log.retention.bytes", "-1")
        .at_least(-1)
        .dynamic()
        .doc("Bytes of a partition that are kept over both tiers; -1 = no limit."),
    int("log.retention.hours", "168")
        .at_least(-1)
        .doc("How long segments are kept over both tiers, in hours; -1 = for ever."),
    optional("log.retention.minutes", Int)
        .at_least(-1)
        .doc("Same in minutes, and wins over `log.retention.hours`."),
    optional("log.retention.ms", Long)
        .at_least(-1)
        .dynamic()
        .doc("Same in ms, and wins over `log.retention.minutes`."),
    int("log.roll.hours", "168")
        .at_least(1)
        .doc("Age at which a segment is rolled, in hours."),
    int("log.roll.jitter.hours", "0")
        .at_least(0)
        .doc("Random part taken off the age at which a segment is rolled, in hours."),
    optional("log.roll.jitter.ms", Long)
        .at_least(0)
        .dynamic()
        .doc("Same in ms, and wins over `log.roll.jitter.hours`."),
    optional("log.roll.ms", Long)
        .at_least(1)
        .dynamic()
        .doc("Age at which a segment is rolled, in ms; wins over `log.roll.hours`."),
    int("log.segment.bytes", "1073741824")
        .at_least(1_048_576)
        .dynamic()
        .doc("Size at which a segment is rolled, in bytes."),
    long("log.segment.delete.delay.ms", "60000")
        .at_least(0)
        .dynamic()
        .doc("How long the file of a deleted segment stays on disk, in ms."),
    int("max.decompressed.message.bytes", "2147483639")
        .between(1, 2_147_483_639)
        .dynamic()
        .doc("Largest batch after decompression, in bytes."),
    int("message.max.bytes", "1048588")
        .at_least(0)
        .dynamic()
        .doc("Largest batch as it arrives, in bytes."),
    int("min.insync.replicas", "1")
        .at_least(1)
        .dynamic()
        .doc("In-sync replicas without which acks=all is refused. More than a topic has replicas count as those: with one broker that is one, and nothing is refused."),
    boolean("unclean.leader.election.enable", "false")
        .not_served()
        .doc("A replica that is not in sync may lead when no other is left."),
];
