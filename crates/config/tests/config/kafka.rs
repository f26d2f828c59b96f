//! Our tables against Kafka's own definitions and against SEMANTICS 12.2.

use std::collections::{BTreeMap, BTreeSet};

use strandline_config::{ConfigWarning, Scope, Setting, settings_of};

use crate::load;

/// Printed by Kafka 4.4: scope, name, type, default.
const KAFKA: &str = include_str!("kafka_4_4_settings.tsv");

/// SEMANTICS 12.2: every topic setting with its default.
const TOPIC_DEFAULTS: &str = "cleanup.policy delete; compression.type producer; \
    compression.gzip.level -1; compression.lz4.level 9; compression.zstd.level 3; \
    delete.retention.ms 86400000; file.delete.delay.ms 60000; \
    flush.messages 9223372036854775807; flush.ms 9223372036854775807; \
    follower.replication.throttled.replicas ; index.interval.bytes 4096; \
    leader.replication.throttled.replicas ; local.retention.bytes -2; local.retention.ms -2; \
    max.compaction.lag.ms 9223372036854775807; max.message.bytes 1048588; \
    message.timestamp.after.max.ms 3600000; \
    message.timestamp.before.max.ms 9223372036854775807; message.timestamp.type CreateTime; \
    min.cleanable.dirty.ratio 0.5; min.compaction.lag.ms 0; min.insync.replicas 1; \
    preallocate false; remote.log.copy.disable false; remote.log.delete.on.disable false; \
    remote.storage.enable false; retention.bytes -1; retention.ms 604800000; \
    segment.bytes 1073741824; segment.index.bytes 10485760; segment.jitter.ms 0; \
    segment.ms 604800000; unclean.leader.election.enable false";

struct KafkaSetting {
    name: &'static str,
    config_type: &'static str,
    default: Option<&'static str>,
}

fn kafka(scope: &str) -> Vec<KafkaSetting> {
    let lines = KAFKA.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let mut columns = line.split('\t');
            (columns.next()? == scope).then_some(())?;
            let (name, config_type) = (columns.next()?, columns.next()?);
            let default = columns
                .next()
                .filter(|text| !matches!(*text, "<null>" | "<required>"));
            Some(KafkaSetting {
                name,
                config_type,
                default,
            })
        })
        .collect()
}

fn kafka_default(setting: &Setting) -> Option<&'static str> {
    setting.kafka_default.or_else(|| setting.default_text())
}

// D-36
#[test]
fn every_topic_setting_of_the_list_is_there_with_its_default() {
    let rows: BTreeMap<_, _> = settings_of(Scope::Topic)
        .into_iter()
        .map(|s| (s.name, kafka_default(s)))
        .collect();
    let mut count = 0;
    for pair in TOPIC_DEFAULTS.split(';') {
        let (name, default) = pair.trim().split_once(' ').unwrap_or((pair.trim(), ""));
        assert_eq!(rows.get(name), Some(&Some(default)), "{name}");
        count += 1;
    }
    assert_eq!(count, 33);
}

// D-35, D-36
#[test]
fn topic_settings_are_those_of_kafka_and_ours() {
    let kafka: BTreeMap<_, _> = kafka("topic").into_iter().map(|k| (k.name, k)).collect();
    let ours: BTreeSet<_> = settings_of(Scope::Topic)
        .into_iter()
        .map(|s| s.name)
        .collect();
    for name in kafka.keys() {
        // Kafka's own for its tests.
        assert!(
            ours.contains(name) || *name == "internal.segment.bytes",
            "{name} is missing"
        );
    }
    for setting in settings_of(Scope::Topic) {
        match kafka.get(setting.name) {
            Some(kafka) => {
                assert_eq!(
                    setting.config_type.name(),
                    kafka.config_type,
                    "{}",
                    setting.name
                );
                assert_eq!(kafka_default(setting), kafka.default, "{}", setting.name);
            }
            None => assert!(setting.is_ours(), "{} is not Kafka's", setting.name),
        }
    }
}

#[test]
fn broker_settings_are_those_of_kafka_and_ours() {
    let kafka: BTreeMap<_, _> = kafka("broker").into_iter().map(|k| (k.name, k)).collect();
    for setting in settings_of(Scope::Broker) {
        match kafka.get(setting.name) {
            Some(kafka) => {
                assert_eq!(
                    setting.config_type.name(),
                    kafka.config_type,
                    "{}",
                    setting.name
                );
                assert_eq!(kafka_default(setting), kafka.default, "{}", setting.name);
            }
            None => assert!(setting.is_ours(), "{} is not Kafka's", setting.name),
        }
    }
}

/// A `server.properties` with every setting of Kafka at Kafka's default starts our broker, and
/// each setting that we do not serve is said.
#[test]
fn a_file_with_everything_of_kafka_starts() {
    let mut file = String::new();
    let mut set = BTreeSet::new();
    for kafka in kafka("broker") {
        if let Some(default) = kafka.default {
            file.push_str(&format!("{}={default}\n", kafka.name));
            set.insert(kafka.name.to_owned());
        }
    }
    let loaded = load(&file).unwrap();
    for setting in settings_of(Scope::Broker)
        .into_iter()
        .filter(|setting| setting.served)
    {
        set.remove(setting.name);
    }
    for warning in &loaded.warnings {
        match warning {
            ConfigWarning::NotServed { name, .. } => assert!(set.remove(name), "{name}"),
            other => panic!("{other}"),
        }
    }
    assert_eq!(set, BTreeSet::new(), "neither served nor said");
}

// D-34
#[test]
fn a_topic_and_the_broker_have_the_same_defaults() {
    let broker: BTreeMap<_, _> = settings_of(Scope::Broker)
        .into_iter()
        .map(|s| (s.name, s))
        .collect();
    for setting in settings_of(Scope::Topic) {
        let supplied = setting.synonyms.iter().find_map(|synonym| {
            let row = broker[synonym.name];
            assert!(
                !row.doc.is_empty() && row.served == setting.served,
                "{}",
                row.name
            );
            let text = row.default_text()?;
            match synonym.multiplier {
                1 => Some(text.to_owned()),
                multiplier => Some((text.parse::<i64>().unwrap() * multiplier).to_string()),
            }
        });
        if let Some(supplied) = supplied {
            assert_eq!(
                setting.default_text(),
                Some(supplied.as_str()),
                "{}",
                setting.name
            );
        }
    }
}

/// What the broker takes as a default for topics, a topic takes too: no file can make every topic
/// wrong.
#[test]
fn what_the_broker_supplies_is_allowed_for_the_topic() {
    let broker: BTreeMap<_, _> = settings_of(Scope::Broker)
        .into_iter()
        .map(|s| (s.name, s))
        .collect();
    for setting in settings_of(Scope::Topic) {
        for synonym in setting.synonyms {
            for number in [
                -131_073,
                -3,
                -2,
                -1,
                0,
                1,
                9,
                10,
                18,
                1 << 20,
                i64::from(i32::MAX),
                i64::MAX,
            ] {
                let factor = if number < 0 { 1 } else { synonym.multiplier };
                let supplied = number.saturating_mul(factor);
                let takes = broker[synonym.name].parse(&number.to_string()).is_ok();
                let allows = setting.parse(&supplied.to_string()).is_ok();
                assert!(!takes || allows, "{} = {number}", synonym.name);
            }
        }
    }
}

#[test]
fn every_default_is_allowed() {
    let all = settings_of(Scope::Broker)
        .into_iter()
        .chain(settings_of(Scope::Topic));
    for setting in all {
        assert!(!setting.doc.is_empty(), "{}", setting.name);
        if let Some(default) = setting.default_text() {
            assert!(
                setting.parse(default).is_ok(),
                "{} = {default}",
                setting.name
            );
        }
    }
}
