//! Topic settings: resolution, rules of the cold tier, describing.

use proptest::prelude::*;
use strandline_config::{
    CompressionType, ConfigEntry, DynamicConfigs, Overrides, TopicConfig, TopicKind,
    describe_topic, validate_topic_overrides,
};

use crate::{broker, errors, map};

fn resolve(file: &str, overrides: &[(&str, &str)]) -> TopicConfig {
    TopicConfig::resolve(&map(overrides), &broker(file), TopicKind::User).unwrap()
}

fn refused(file: &str, overrides: &[(&str, &str)]) -> Vec<String> {
    errors(TopicConfig::resolve(
        &map(overrides),
        &broker(file),
        TopicKind::User,
    ))
}

fn described(file: &str, overrides: &[(&str, &str)], name: &str) -> ConfigEntry {
    let keys = [name.to_owned()];
    let broker = broker(file);
    describe_topic(&map(overrides), &broker, TopicKind::User, Some(&keys)).remove(0)
}

#[test]
fn a_topic_without_overrides_has_kafkas_defaults_and_is_tiered() {
    let topic = resolve("", &[]);
    assert!(topic.cleanup_policy.delete && !topic.cleanup_policy.compact);
    assert_eq!(topic.retention_ms, 604_800_000);
    assert_eq!(
        (topic.local_retention_ms, topic.local_retention_bytes),
        (604_800_000, -1)
    );
    assert_eq!(
        (topic.segment_bytes, topic.segment_ms),
        (1 << 30, 604_800_000)
    );
    assert_eq!(topic.compression_type, CompressionType::Producer);
    assert_eq!(topic.max_message_bytes, 1_048_588);
    assert!(topic.remote_storage_enable);
    assert_eq!(topic.strandline_tier_max_delay_ms, 3_600_000);
    assert!(!resolve("strandline.remote.storage.enable=false", &[]).remote_storage_enable);
    assert!(!resolve("remote.log.storage.system.enable=false", &[]).remote_storage_enable);
}

// D-33, D-34
#[test]
fn the_broker_supplies_what_the_topic_does_not_set() {
    let all = "log.retention.hours=1\nlog.retention.minutes=2\nlog.retention.ms=3";
    let some = "log.retention.hours=1\nlog.retention.minutes=2";
    assert_eq!(resolve(all, &[]).retention_ms, 3);
    assert_eq!(resolve(some, &[]).retention_ms, 120_000);
    assert_eq!(
        resolve("log.retention.hours=1", &[]).retention_ms,
        3_600_000
    );
    assert_eq!(resolve("log.retention.hours=-1", &[]).retention_ms, -1);
    assert_eq!(resolve(all, &[("retention.ms", " 9 ")]).retention_ms, 9);
    assert_eq!(
        resolve("log.flush.scheduler.interval.ms=7", &[]).flush_ms,
        7
    );
    let dynamic = DynamicConfigs {
        cluster: map(&[("log.retention.ms", "4"), ("log.segment.bytes", "2000000")]),
        broker: map(&[("log.retention.ms", "5")]),
    };
    let (broker, _) = broker(all).with_dynamic(&dynamic);
    let topic = TopicConfig::resolve(&map(&[]), &broker, TopicKind::User).unwrap();
    assert_eq!((topic.retention_ms, topic.segment_bytes), (5, 2_000_000));
}

// D-4
#[test]
fn unknown_names_and_wrong_values_are_refused_together() {
    let said = refused(
        "",
        &[
            ("retention.msec", "1"),
            ("log.segment.bytes", "1"),
            ("segment.bytes", "100000"),
        ],
    );
    assert_eq!(
        said,
        [
            "request: segment.bytes = '100000' is not allowed: must be INT, 1048576 or more",
            "request: unknown setting 'log.segment.bytes'; did you mean 'segment.bytes'?",
            "request: unknown setting 'retention.msec'; did you mean 'retention.ms'?",
        ]
    );
    for (name, value) in [
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.zstd.level", "23"),
        ("cleanup.policy", "remove"),
        ("retention.ms", "-2"),
        ("local.retention.ms", "-3"),
        ("min.insync.replicas", "0"),
        ("message.timestamp.type", "createtime"),
        ("preallocate", "1"),
        ("max.message.bytes", "2147483648"),
        ("message.format.version", "2.8"),
    ] {
        assert_eq!(refused("", &[(name, value)]).len(), 1, "{name}={value}");
    }
}

/// Nothing is swallowed: what is not served takes its default only.
#[test]
fn settings_that_are_not_served_take_their_default_only() {
    assert_eq!(refused("", &[("remote.copy.lag.ms", "0")]), [""; 0]);
    assert_eq!(
        refused("", &[("remote.copy.lag.ms", "5")]),
        ["remote.copy.lag.ms = '5' is not served yet: only its default '0' is"]
    );
    assert_eq!(
        refused("", &[("unclean.leader.election.enable", "true")]).len(),
        1
    );
}

// 8.1, L-40, L-43
#[test]
fn a_compacted_topic_works_and_is_not_tiered() {
    let set = [
        ("cleanup.policy", "compact,delete"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("min.compaction.lag.ms", "5"),
        ("max.compaction.lag.ms", "6"),
        ("delete.retention.ms", "7"),
    ];
    let topic = resolve("", &set);
    assert!(topic.cleanup_policy.compact && topic.cleanup_policy.delete);
    assert!(!topic.remote_storage_enable);
    assert_eq!(topic.min_cleanable_dirty_ratio.to_string(), "0.1");
    let lags = (topic.min_compaction_lag_ms, topic.max_compaction_lag_ms);
    assert_eq!((lags, topic.delete_retention_ms), ((5, 6), 7));
    // Said explicitly, both are a contradiction; so is a topic that would leave the tier silently.
    let both = [
        ("cleanup.policy", "compact"),
        ("remote.storage.enable", "true"),
    ];
    assert_eq!(
        refused("", &both),
        [
            "remote.storage.enable = 'true', cleanup.policy = 'compact': a compacted topic cannot be \
          tiered"
        ]
    );
    let change = |wanted: &[(&'static str, &'static str)]| {
        let kind = TopicKind::User;
        validate_topic_overrides(Some(&map(&[])), &map(wanted), &broker(""), kind)
    };
    assert_eq!(errors(change(&[("cleanup.policy", "compact")])).len(), 1);
    let agreed = [
        ("cleanup.policy", "compact"),
        ("remote.log.delete.on.disable", "true"),
    ];
    assert!(change(&agreed).is_ok());
    let offsets = map(&[("cleanup.policy", "compact")]);
    let internal = TopicConfig::resolve(&offsets, &broker(""), TopicKind::Internal).unwrap();
    assert!(internal.cleanup_policy.compact && !internal.remote_storage_enable);
}

// The default policy would take all topics out of the tier at once.
#[test]
fn the_default_policy_is_compact_only_without_a_cold_tier() {
    let file = "log.cleanup.policy=compact\nremote.log.storage.system.enable=false";
    assert!(resolve(file, &[]).cleanup_policy.compact);
}

// L-34
#[test]
fn an_empty_policy_keeps_everything() {
    let keep = resolve("", &[("cleanup.policy", "")]);
    assert!(!keep.cleanup_policy.delete && !keep.cleanup_policy.compact);
}

// 8.1, D-44
#[test]
fn local_retention_stays_within_the_total() {
    let local = |overrides: &[(&str, &str)]| {
        let topic = resolve("", overrides);
        (topic.local_retention_ms, topic.local_retention_bytes)
    };
    assert_eq!(
        local(&[
            ("local.retention.ms", "1000"),
            ("local.retention.bytes", "5")
        ]),
        (1000, 5)
    );
    assert_eq!(
        local(&[("retention.ms", "-1"), ("local.retention.ms", "-1")]),
        (-1, -1)
    );
    assert_eq!(
        local(&[("retention.ms", "-1"), ("retention.bytes", "7")]),
        (-1, 7)
    );
    assert_eq!(refused("", &[("local.retention.ms", "604800001")]).len(), 1);
    assert_eq!(refused("", &[("local.retention.ms", "-1")]).len(), 1);
    assert_eq!(
        refused(
            "",
            &[("local.retention.bytes", "8"), ("retention.bytes", "7")]
        )
        .len(),
        1
    );
    // Not tiered: the total counts, whatever the local values are.
    let off = &[
        ("remote.storage.enable", "false"),
        ("local.retention.ms", "604800001"),
    ];
    assert_eq!(resolve("", off).local_retention_ms, 604_800_000);
    // Inherited from the broker: bounded, not refused.
    let file = "log.local.retention.ms=100000";
    assert_eq!(
        resolve(file, &[("retention.ms", "1000")]).local_retention_ms,
        1000
    );
    assert_eq!(resolve(file, &[]).local_retention_ms, 100_000);
}

// 8.1
#[test]
fn a_read_only_tier_keeps_everything_local() {
    let off = ("remote.log.copy.disable", "true");
    assert_eq!(resolve("", &[off]).local_retention_ms, 604_800_000);
    assert_eq!(refused("", &[off, ("local.retention.ms", "5")]).len(), 1);
    assert_eq!(
        refused("", &[off, ("local.retention.ms", "604800000")]),
        [""; 0]
    );
    let file = "log.local.retention.ms=5";
    assert_eq!(resolve(file, &[off]).local_retention_ms, 604_800_000);
}

// 8.1, KIP-950
#[test]
fn who_may_enter_and_leave_the_cold_tier() {
    let on = ("remote.storage.enable", "true");
    let off = ("remote.storage.enable", "false");
    assert_eq!(
        refused("remote.log.storage.system.enable=false", &[on]).len(),
        1
    );
    let offsets = map(&[on]);
    let internal = TopicConfig::resolve(&offsets, &broker(""), TopicKind::Internal);
    assert_eq!(errors(internal).len(), 1);
    let change = |before: &[(&str, &str)], after: &[(&str, &str)]| {
        let (before, after) = (map(before), map(after));
        errors(validate_topic_overrides(
            Some(&before),
            &after,
            &broker(""),
            TopicKind::User,
        ))
        .len()
    };
    assert_eq!(change(&[], &[off]), 1);
    assert_eq!(change(&[on], &[off]), 1);
    assert_eq!(
        change(&[], &[off, ("remote.log.delete.on.disable", "true")]),
        0
    );
    assert_eq!(change(&[], &[on]), 0);
    assert_eq!(change(&[off], &[off]), 0);
    assert_eq!(change(&[off], &[]), 0);
    let created = map(&[off]);
    assert!(validate_topic_overrides(None, &created, &broker(""), TopicKind::User).is_ok());
}

#[test]
fn a_stored_value_that_is_no_longer_allowed_falls_back_and_is_said() {
    let stored = map(&[
        ("segment.bytes", "12"),
        ("later.setting", "x"),
        ("retention.ms", "7"),
    ]);
    let (topic, problems) = TopicConfig::resolve_stored(&stored, &broker(""), TopicKind::User);
    assert_eq!(problems.0.len(), 2);
    assert_eq!((topic.segment_bytes, topic.retention_ms), (1 << 30, 7));
    let stored = map(&[("local.retention.ms", "1000")]);
    let file = broker("log.retention.ms=10\nremote.log.storage.system.enable=true");
    let (topic, problems) = TopicConfig::resolve_stored(&stored, &file, TopicKind::User);
    assert_eq!((topic.local_retention_ms, problems.0.len()), (10, 1));
}

// D-33, D-34, X-24
#[test]
fn sources_and_synonyms_of_a_topic() {
    let layers = |entry: &ConfigEntry| -> Vec<(String, i8)> {
        let shown = |s: &strandline_config::ConfigSynonym| {
            (
                format!("{}={}", s.name, s.value.as_deref().unwrap_or("")),
                s.source.wire(),
            )
        };
        entry.synonyms.iter().map(shown).collect()
    };
    let entry = described(
        "log.retention.hours=1",
        &[("retention.ms", "9")],
        "retention.ms",
    );
    assert_eq!(
        (entry.value.as_deref(), entry.source.wire()),
        (Some("9"), 1)
    );
    assert_eq!(
        layers(&entry),
        [
            ("retention.ms=9".into(), 1),
            ("log.retention.hours=1".into(), 4),
            ("log.retention.hours=168".into(), 5),
        ]
    );
    let entry = described("log.retention.hours=1", &[], "retention.ms");
    assert_eq!(
        (entry.value.as_deref(), entry.source.wire()),
        (Some("3600000"), 4)
    );
    let entry = described("", &[], "retention.ms");
    assert_eq!(
        (entry.value.as_deref(), entry.source.wire()),
        (Some("604800000"), 5)
    );
    let entry = described("", &[], "remote.storage.enable");
    assert_eq!(
        (entry.value.as_deref(), entry.source.wire()),
        (Some("true"), 5)
    );
    let entry = described(
        "remote.log.storage.system.enable=false",
        &[],
        "remote.storage.enable",
    );
    assert_eq!(
        (entry.value.as_deref(), entry.source.wire()),
        (Some("false"), 5)
    );
    let entry = described("", &[("cleanup.policy", " delete ")], "cleanup.policy");
    assert_eq!(entry.value.as_deref(), Some("delete"));
    assert!(!entry.read_only && !entry.is_sensitive && entry.config_type.wire() == 7);
}

// D-14, D-36
#[test]
fn all_settings_are_described_in_order() {
    let all = describe_topic(&map(&[]), &broker(""), TopicKind::User, None);
    assert!(all.is_sorted_by_key(|entry| entry.name));
    assert_eq!(all.len(), 38);
    assert!(
        all.iter()
            .all(|entry| entry.source.wire() == 5 && entry.value.is_some())
    );
    let keys = ["retention.ms".to_owned(), "no.such".to_owned()];
    assert_eq!(
        describe_topic(&map(&[]), &broker(""), TopicKind::User, Some(&keys)).len(),
        1
    );
}

fn some_overrides() -> impl Strategy<Value = Overrides> {
    let choices = prop::sample::subsequence(
        vec![
            ("cleanup.policy", "delete"),
            ("cleanup.policy", ""),
            ("remote.storage.enable", "false"),
            ("remote.storage.enable", "TRUE"),
            ("remote.log.copy.disable", "true"),
            ("local.retention.ms", "100"),
            ("local.retention.bytes", "100"),
            ("retention.ms", "1000"),
            ("retention.ms", "-1"),
            ("retention.bytes", "5"),
            ("segment.bytes", "2097152"),
            ("segment.ms", "10"),
            ("compression.type", "zstd"),
            ("cleanup.policy", "compact,delete"),
            ("min.insync.replicas", "2"),
            ("strandline.tier.max.delay.ms", "0"),
        ],
        0..10,
    );
    choices.prop_map(|pairs| map(&pairs))
}

fn some_file() -> impl Strategy<Value = String> {
    let lines = prop::sample::subsequence(
        vec![
            "log.local.retention.ms=50000",
            "log.local.retention.bytes=6",
            "log.retention.minutes=3",
            "log.retention.bytes=70",
            "strandline.remote.storage.enable=false",
            "remote.log.storage.system.enable=false",
            "log.cleaner.delete.retention.ms=4",
            "log.roll.hours=2",
        ],
        0..8,
    );
    lines.prop_map(|lines| lines.join("\n"))
}

proptest! {
    // D-42: a tool may write back all that it read, and nothing changes.
    #[test]
    fn what_is_described_can_be_written_back(file in some_file(), overrides in some_overrides()) {
        let broker = broker(&file);
        let Ok(before) = TopicConfig::resolve(&overrides, &broker, TopicKind::User) else {
            return Ok(());
        };
        let all = describe_topic(&overrides, &broker, TopicKind::User, None);
        let written: Overrides =
            all.into_iter().map(|entry| (entry.name.into(), entry.value.unwrap())).collect();
        let after =
            validate_topic_overrides(Some(&overrides), &written, &broker, TopicKind::User);
        prop_assert_eq!(after, Ok(before));
    }
}
