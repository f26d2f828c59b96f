//! Changes of settings while the broker runs: what the operations do, and what is accepted.
//!
//! Rules: D-40, D-41, D-42, D-43.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::known::{Standing, standing};
use crate::broker::{BrokerConfig, broker_setting, not_served};
use crate::def::{ConfigType, Setting};
use crate::describe::{ConfigEntry, describe_broker, describe_topic};
use crate::error::{ConfigError, ConfigErrors, Origin, quote};
use crate::layers::unknown_broker_name;
use crate::rules::check_default_policy;
use crate::table::{Given, parse};
use crate::topic::{Overrides, TopicConfig, TopicKind, topic_setting, unknown_topic_name};

/// What IncrementalAlterConfigs does with one setting (D-41).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlterOp {
    /// Takes the value.
    Set,
    /// Goes back to the default.
    Delete,
    /// Adds to a list what it does not hold yet.
    Append,
    /// Takes from a list.
    Subtract,
}

impl AlterOp {
    /// Reads the wire value.
    pub fn from_wire(value: i8) -> Option<Self> {
        Some(match value {
            0 => Self::Set,
            1 => Self::Delete,
            2 => Self::Append,
            3 => Self::Subtract,
            _ => return None,
        })
    }
}

/// One operation of IncrementalAlterConfigs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterEntry {
    /// Name of the setting.
    pub name: String,
    /// What to do.
    pub op: AlterOp,
    /// The value; may be `None` for DELETE only.
    pub value: Option<String>,
}

/// The overrides of a topic after some operations; lists start from the value in effect. Whether
/// the result is allowed is up to [`TopicConfig::resolve_change`].
pub fn apply_to_topic(
    current: &Overrides,
    entries: &[AlterEntry],
    broker: &BrokerConfig,
    kind: TopicKind,
) -> Result<Overrides, ConfigErrors> {
    apply(
        current,
        entries,
        topic_setting,
        unknown_topic_name,
        &|name| describe_topic(current, broker, kind, Some(&[name.to_owned()])),
    )
}

/// The dynamic settings of a broker (or of all brokers) after some operations. Whether the result
/// is allowed is up to [`validate_broker_dynamic`].
pub fn apply_to_broker(
    current: &BTreeMap<String, String>,
    entries: &[AlterEntry],
    broker: &BrokerConfig,
) -> Result<BTreeMap<String, String>, ConfigErrors> {
    let unknown = |name: &str| unknown_broker_name(name, Origin::Request);
    apply(current, entries, broker_setting, unknown, &|name| {
        describe_broker(broker, Some(&[name.to_owned()]))
    })
}

fn apply(
    current: &BTreeMap<String, String>,
    entries: &[AlterEntry],
    setting_of: impl Fn(&str) -> Option<&'static Setting>,
    unknown: impl Fn(&str) -> ConfigError,
    described: &dyn Fn(&str) -> Vec<ConfigEntry>,
) -> Result<BTreeMap<String, String>, ConfigErrors> {
    let mut result = current.clone();
    let mut errors = ConfigErrors::default();
    for entry in entries {
        let name = &entry.name;
        let value = match (entry.op, &entry.value) {
            (AlterOp::Delete, _) => {
                result.remove(name);
                continue;
            }
            (_, Some(value)) => value,
            (_, None) => {
                errors.0.push(ConfigError::NullValue { name: quote(name) });
                continue;
            }
        };
        let value = match (entry.op, setting_of(name)) {
            (AlterOp::Set, _) => value.clone(),
            (_, None) => {
                errors.0.push(unknown(name));
                continue;
            }
            (_, Some(setting)) if setting.config_type != ConfigType::List => {
                errors.0.push(ConfigError::NotAList { name: quote(name) });
                continue;
            }
            (op, Some(_)) => {
                let inherited = described(name)
                    .into_iter()
                    .next()
                    .and_then(|entry| entry.value);
                let before = result.get(name).cloned().or(inherited).unwrap_or_default();
                changed_list(&before, op, value)
            }
        };
        result.insert(name.clone(), value);
    }
    errors.into_result(result)
}

fn changed_list(before: &str, op: AlterOp, value: &str) -> String {
    fn items(text: &str) -> impl Iterator<Item = &str> {
        text.split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
    }
    if op == AlterOp::Subtract {
        let gone: BTreeSet<&str> = items(value).collect();
        return items(before)
            .filter(|item| !gone.contains(item))
            .collect::<Vec<_>>()
            .join(",");
    }
    let mut seen: BTreeSet<&str> = items(before).collect();
    let mut list: Vec<&str> = items(before).collect();
    list.extend(items(value).filter(|item| seen.insert(item)));
    list.join(",")
}

/// Checks the overrides that a topic shall have: at creation (`previous` = `None`) or after a
/// change. The errors are INVALID_CONFIG to the client (D-4, D-43).
pub fn validate_topic_overrides(
    previous: Option<&Overrides>,
    overrides: &Overrides,
    broker: &BrokerConfig,
    kind: TopicKind,
) -> Result<TopicConfig, ConfigErrors> {
    TopicConfig::resolve_change(previous, overrides, broker, kind)
}

/// Checks the dynamic settings that a broker (or all brokers) shall have and returns what to
/// store. A read-only setting is refused, unless it repeats the value in effect: tools write back
/// all that they read (D-42). The errors are INVALID_REQUEST to the client (D-43).
pub fn validate_broker_dynamic(
    wanted: &BTreeMap<String, String>,
    broker: &BrokerConfig,
) -> Result<BTreeMap<String, String>, ConfigErrors> {
    let mut to_store = BTreeMap::new();
    let mut errors = ConfigErrors::default();
    for (name, value) in wanted {
        match check_dynamic(name, value, broker) {
            Ok(()) => {
                to_store.insert(name.clone(), value.clone());
            }
            Err(ConfigError::ReadOnly { .. }) if is_in_effect(name, value, broker) => {}
            Err(error) => errors.0.push(error),
        }
    }
    errors.into_result(to_store)
}

/// Whether one broker setting may be changed while the broker runs, to this value.
pub(crate) fn check_dynamic(
    name: &str,
    value: &str,
    broker: &BrokerConfig,
) -> Result<(), ConfigError> {
    let cannot_be_set = || not_served(name, value, "it cannot be set");
    let Some(setting) = broker_setting(name) else {
        return Err(match standing(name) {
            Standing::Known => cannot_be_set(),
            Standing::Removed | Standing::Unknown => unknown_broker_name(name, Origin::Request),
        });
    };
    if !setting.served {
        return Err(cannot_be_set());
    }
    if !setting.dynamic {
        return Err(ConfigError::ReadOnly {
            name: name.to_owned(),
        });
    }
    let given = Given {
        text: value.to_owned(),
        origin: Origin::Request,
    };
    parse(setting, &given)?;
    let has_cold_tier = broker.settings.remote_log_storage_system_enable;
    match check_default_policy(value, has_cold_tier) {
        Some(error) if name == "log.cleanup.policy" => Err(error),
        _ => Ok(()),
    }
}

fn is_in_effect(name: &str, value: &str, broker: &BrokerConfig) -> bool {
    let entries = describe_broker(broker, Some(&[name.to_owned()]));
    entries
        .first()
        .is_some_and(|entry| entry.value.as_deref().unwrap_or_default() == value.trim())
}
