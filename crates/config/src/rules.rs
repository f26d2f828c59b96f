//! Relations between settings, as checks that are all reported at once.
//!
//! Rules: SEMANTICS 8.1, D-42, D-43, D-44.

use crate::broker::settings::BrokerSettings;
use crate::broker::{BrokerConfig, not_served};
use crate::error::{ConfigError, Conflict};
use crate::layers::Layers;
use crate::table::Given;
use crate::topic::{Overrides, TOPIC_SETTINGS, TopicConfig, TopicKind, inherited, topic_setting};

/// What is wrong with the broker's static settings taken together.
pub(crate) fn check_broker(layers: &Layers, settings: &BrokerSettings) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if layers.given.contains_key("node.id")
        && settings.broker_id >= 0
        && settings.broker_id != settings.node_id
    {
        errors.push(conflict(
            &[
                ("node.id", &settings.node_id),
                ("broker.id", &settings.broker_id),
            ],
            "both name the id of this broker and must be equal",
        ));
    }
    for (name, dirs) in [
        ("log.dirs", settings.log_dirs.clone().unwrap_or_default()),
        ("log.dir", settings.log_dir.clone()),
    ] {
        let is_empty = dirs.is_empty() || dirs.iter().any(|dir| dir.trim().is_empty());
        if layers.given.contains_key(name) && is_empty {
            errors.push(conflict(
                &[(name, &dirs.join(","))],
                "must name a directory",
            ));
        }
        let mut sorted = dirs.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() < dirs.len() {
            errors.push(conflict(
                &[(name, &dirs.join(","))],
                "names a directory twice",
            ));
        }
    }
    if settings.group_min_session_timeout_ms > settings.group_max_session_timeout_ms {
        errors.push(conflict(
            &[
                (
                    "group.min.session.timeout.ms",
                    &settings.group_min_session_timeout_ms,
                ),
                (
                    "group.max.session.timeout.ms",
                    &settings.group_max_session_timeout_ms,
                ),
            ],
            "the least must not be above the greatest",
        ));
    }
    let policy = layers.static_text("log.cleanup.policy");
    errors.extend(check_default_policy(
        &policy,
        settings.remote_log_storage_system_enable,
    ));
    if settings.remote_log_storage_system_enable {
        errors.extend(check_local_retention_of_broker(layers));
    }
    errors
}

/// `log.local.retention.*` within `log.retention.*` (8.1), for what the topics inherit.
fn check_local_retention_of_broker(layers: &Layers) -> Vec<ConfigError> {
    let value = |name: &str| -> Option<i64> {
        let setting = topic_setting(name)?;
        match inherited(setting, layers) {
            Some(given) => given.text.trim().parse().ok(),
            None => setting.default_text()?.parse().ok(),
        }
    };
    let pairs = [
        (
            ("local.retention.ms", "log.local.retention.ms"),
            ("retention.ms", "log.retention.ms"),
        ),
        (
            ("local.retention.bytes", "log.local.retention.bytes"),
            ("retention.bytes", "log.retention.bytes"),
        ),
    ];
    let wrong = pairs
        .into_iter()
        .filter_map(|((local, local_name), (total, total_name))| {
            let (local, total) = (value(local)?, value(total)?);
            exceeds_total(local, total).then(|| {
                conflict(
                    &[(local_name, &local), (total_name, &total)],
                    LOCAL_ABOVE_TOTAL,
                )
            })
        });
    wrong.collect()
}

const LOCAL_ABOVE_TOTAL: &str = "the local retention must not exceed the total one";

/// -2 of `local` is "as the total one", -1 of either is "no limit".
fn exceeds_total(local: i64, total: i64) -> bool {
    local != -2 && total != -1 && (local == -1 || local > total)
}

/// With a cold tier the default policy must not be to compact: topics that follow it would leave the
/// tier all at once, and what they have there would be out of reach. A topic of its own may be
/// compacted.
pub(crate) fn check_default_policy(policy: &str, has_cold_tier: bool) -> Option<ConfigError> {
    let is_compact = policy.split(',').any(|word| word.trim() == "compact");
    (is_compact && has_cold_tier).then(|| {
        conflict(
            &[
                ("log.cleanup.policy", &policy),
                ("remote.log.storage.system.enable", &true),
            ],
            "a compacted topic cannot be tiered: set cleanup.policy on the topics that are to be \
             compacted",
        )
    })
}

/// What is wrong with a topic's settings taken together. `config` holds what was set, not yet what
/// takes effect.
pub(crate) fn check_topic(
    config: &TopicConfig,
    overrides: &Overrides,
    broker: &BrokerConfig,
    kind: TopicKind,
) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if kind == TopicKind::User {
        errors.extend(check_served(overrides));
    }
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms {
        errors.push(conflict(
            &[
                ("min.compaction.lag.ms", &config.min_compaction_lag_ms),
                ("max.compaction.lag.ms", &config.max_compaction_lag_ms),
            ],
            "the least must not be above the greatest",
        ));
    }
    if config.remote_storage_enable && overrides.contains_key("remote.storage.enable") {
        errors.extend(check_may_be_tiered(config, broker, kind));
    }
    let is_tiered = config.remote_storage_enable && may_be_tiered(config, broker, kind);
    if is_tiered {
        errors.extend(check_local_retention(config, overrides, broker));
    }
    errors
}

/// Settings that we do not serve take their default only, so that nothing is swallowed and a tool
/// that writes back what it read still works (D-42).
fn check_served(overrides: &Overrides) -> impl Iterator<Item = ConfigError> {
    TOPIC_SETTINGS
        .iter()
        .filter(|setting| !setting.served)
        .filter_map(|setting| {
            let text = overrides.get(setting.name)?;
            let default = setting.default_text().unwrap_or_default();
            // A value that cannot be read was reported by the reader.
            let differs = setting.parse(text).ok()? != setting.parse(default).ok()?;
            let allowed = format!("only its default '{default}' is");
            differs.then(|| not_served(setting.name, text, &allowed))
        })
}

fn may_be_tiered(config: &TopicConfig, broker: &BrokerConfig, kind: TopicKind) -> bool {
    check_may_be_tiered(config, broker, kind).is_empty()
}

/// Reasons why `remote.storage.enable=true` cannot be (8.1).
fn check_may_be_tiered(
    config: &TopicConfig,
    broker: &BrokerConfig,
    kind: TopicKind,
) -> Vec<ConfigError> {
    const ENABLE: (&str, &dyn std::fmt::Display) = ("remote.storage.enable", &true);
    let mut errors = Vec::new();
    if !broker.settings.remote_log_storage_system_enable {
        let system = (
            "remote.log.storage.system.enable",
            &false as &dyn std::fmt::Display,
        );
        errors.push(conflict(&[ENABLE, system], "the broker has no cold tier"));
    }
    if config.cleanup_policy.compact {
        errors.push(conflict(
            &[ENABLE, ("cleanup.policy", &"compact")],
            "a compacted topic cannot be tiered",
        ));
    }
    if kind == TopicKind::Internal {
        errors.push(conflict(&[ENABLE], "an internal topic cannot be tiered"));
    }
    errors
}

/// `local.retention.*` within `retention.*` (8.1). What the topic only inherits is bounded when it
/// takes effect instead of refused: the user who lowers `retention.ms` did not set it.
fn check_local_retention(
    config: &TopicConfig,
    overrides: &Overrides,
    broker: &BrokerConfig,
) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    for (local_name, local, total_name, total) in [
        (
            "local.retention.ms",
            config.local_retention_ms,
            "retention.ms",
            config.retention_ms,
        ),
        (
            "local.retention.bytes",
            config.local_retention_bytes,
            "retention.bytes",
            config.retention_bytes,
        ),
    ] {
        if local == -2 || !is_own(local_name, overrides, broker) {
            continue;
        }
        let both: [(&'static str, &dyn std::fmt::Display); 2] =
            [(local_name, &local), (total_name, &total)];
        if config.remote_log_copy_disable && local != total {
            let reason = "with remote.log.copy.disable=true the local retention must be -2 or \
                          equal to the total one";
            errors.push(conflict(&both, reason));
        } else if exceeds_total(local, total) {
            errors.push(conflict(&both, LOCAL_ABOVE_TOTAL));
        }
    }
    errors
}

/// True if the topic sets the value itself, and not only repeats what it would inherit (a tool that
/// writes back all that it read does that, D-42).
fn is_own(name: &'static str, overrides: &Overrides, broker: &BrokerConfig) -> bool {
    let Some(own) = overrides.get(name) else {
        return false;
    };
    let inherited = topic_setting(name).and_then(|setting| inherited(setting, &broker.layers));
    inherited.is_none_or(|Given { text, .. }| text.trim() != own.trim())
}

/// What a change of a topic must not do: leave the cold tier without saying that its data goes
/// (KIP-950). Both are as they take effect.
pub(crate) fn check_transition(before: &TopicConfig, after: &TopicConfig) -> Option<ConfigError> {
    let leaves = before.remote_storage_enable && !after.remote_storage_enable;
    (leaves && !after.remote_log_delete_on_disable).then(|| {
        conflict(
            &[("remote.storage.enable", &false), ("remote.log.delete.on.disable", &false)],
            "leaving the cold tier deletes what is in the bucket: set \
             remote.log.delete.on.disable=true to agree, or remote.log.copy.disable=true to keep it",
        )
    })
}

fn conflict(
    settings: &[(&'static str, &dyn std::fmt::Display)],
    reason: &'static str,
) -> ConfigError {
    let settings = settings
        .iter()
        .map(|(name, value)| (*name, value.to_string()))
        .collect();
    ConfigError::Conflict(Conflict { settings, reason })
}
