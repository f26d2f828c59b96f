//! What DescribeConfigs and CreateTopics answer about settings.
//!
//! Rules: D-14, D-31, D-33, D-34, D-35, D-36.

use crate::broker::{BrokerConfig, broker_setting, broker_settings, broker_synonyms};
use crate::def::{ConfigType, Setting};
use crate::layers::ConfigSource;
use crate::topic::{Overrides, TOPIC_SETTINGS, TopicConfig, TopicKind, given};

/// The layers of the broker, first wins.
const BROKER_SOURCES: [ConfigSource; 4] = [
    ConfigSource::DynamicBroker,
    ConfigSource::DynamicDefaultBroker,
    ConfigSource::StaticBroker,
    ConfigSource::Default,
];

/// One place that a value could come from (D-34).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// Name in that layer.
    pub name: &'static str,
    /// Its value there; `None` if it is a secret.
    pub value: Option<String>,
    /// The layer.
    pub source: ConfigSource,
}

/// One setting as it is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Name of the setting.
    pub name: &'static str,
    /// Value in effect; `None` if there is none or it is a secret.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// A broker setting that cannot be changed while it runs (D-35).
    pub read_only: bool,
    /// The value is never shown.
    pub is_sensitive: bool,
    /// Type of the value.
    pub config_type: ConfigType,
    /// What it does.
    pub documentation: &'static str,
    /// All places that the value could come from, the winner first.
    pub synonyms: Vec<ConfigSynonym>,
}

/// Describes a topic, by name; `keys` = `None` means all (D-30). Keys that do not exist are left
/// out, as Kafka does.
pub fn describe_topic(
    overrides: &Overrides,
    broker: &BrokerConfig,
    kind: TopicKind,
    keys: Option<&[String]>,
) -> Vec<ConfigEntry> {
    let (effective, _) = TopicConfig::resolve_stored(overrides, broker, kind);
    let entry = |setting: &'static Setting| {
        let value = given(setting, overrides, &broker.layers).map(|given| given.text);
        let mut synonyms = Vec::new();
        if overrides.contains_key(setting.name) {
            let value = shown(setting, value.clone());
            synonyms.push(ConfigSynonym {
                name: setting.name,
                value,
                source: ConfigSource::Topic,
            });
        }
        let names: Vec<_> = setting
            .synonyms
            .iter()
            .map(|synonym| synonym.name)
            .collect();
        synonyms.extend(broker_layers(&names, broker));
        let mut entry = ConfigEntry {
            name: setting.name,
            value: shown(
                setting,
                value.or_else(|| setting.default_text().map(Into::into)),
            ),
            source: first_source(&synonyms),
            read_only: false,
            is_sensitive: setting.config_type.is_sensitive(),
            config_type: setting.config_type,
            documentation: setting.doc,
            synonyms,
        };
        // A topic that cannot be tiered says so, and does not claim that the broker's default
        // holds.
        let is_inherited = entry.source != ConfigSource::Topic;
        if setting.name == "remote.storage.enable" && is_inherited {
            let inherited = entry.value.as_deref() == Some("true");
            if inherited && !effective.remote_storage_enable {
                entry.value = Some("false".to_owned());
                entry.source = ConfigSource::Default;
                entry.synonyms.clear();
            }
        }
        entry
    };
    sorted(
        TOPIC_SETTINGS
            .iter()
            .filter(|setting| is_asked(keys, setting.name))
            .map(entry),
    )
}

/// Describes this broker, by name; `keys` = `None` means all.
pub fn describe_broker(broker: &BrokerConfig, keys: Option<&[String]>) -> Vec<ConfigEntry> {
    let asked = broker_settings().filter(|setting| setting.served && is_asked(keys, setting.name));
    sorted(asked.map(|setting| {
        let synonyms = broker_layers(&broker_synonyms(setting.name), broker);
        let own = BROKER_SOURCES
            .into_iter()
            .find_map(|source| broker.layers.layer(source, setting.name));
        broker_entry(setting, own.map(|given| given.text), synonyms)
    }))
}

/// Describes what was changed for all brokers at once, and nothing else (D-31).
pub fn describe_broker_defaults(
    broker: &BrokerConfig,
    keys: Option<&[String]>,
) -> Vec<ConfigEntry> {
    let changed = broker.layers.dynamic.cluster.iter();
    sorted(
        changed
            .filter(|(name, _)| is_asked(keys, name))
            .filter_map(|(name, value)| {
                let setting = broker_setting(name)?;
                let synonym = ConfigSynonym {
                    name: setting.name,
                    value: shown(setting, Some(value.clone())),
                    source: ConfigSource::DynamicDefaultBroker,
                };
                Some(broker_entry(setting, Some(value.clone()), vec![synonym]))
            }),
    )
}

fn broker_entry(
    setting: &'static Setting,
    value: Option<String>,
    synonyms: Vec<ConfigSynonym>,
) -> ConfigEntry {
    ConfigEntry {
        name: setting.name,
        value: shown(setting, value),
        source: first_source(&synonyms),
        read_only: !setting.dynamic,
        is_sensitive: setting.config_type.is_sensitive(),
        config_type: setting.config_type,
        documentation: setting.doc,
        synonyms,
    }
}

/// Every layer of every name, layers first (D-34).
fn broker_layers(names: &[&'static str], broker: &BrokerConfig) -> Vec<ConfigSynonym> {
    let mut found = Vec::new();
    for source in BROKER_SOURCES {
        for &name in names {
            let Some(setting) = broker_setting(name) else {
                continue;
            };
            if let Some(given) = broker.layers.layer(source, name) {
                let value = shown(setting, Some(given.text));
                found.push(ConfigSynonym {
                    name,
                    value,
                    source,
                });
            }
        }
    }
    found
}

fn first_source(synonyms: &[ConfigSynonym]) -> ConfigSource {
    synonyms
        .first()
        .map_or(ConfigSource::Default, |synonym| synonym.source)
}

/// Kafka's way to write the value; a secret is not shown.
fn shown(setting: &Setting, text: Option<String>) -> Option<String> {
    if setting.config_type.is_sensitive() {
        return None;
    }
    text.map(|text| setting.parse(&text).map_or(text, |value| value.to_string()))
}

fn is_asked(keys: Option<&[String]>, name: &str) -> bool {
    keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key == name))
}

fn sorted(entries: impl Iterator<Item = ConfigEntry>) -> Vec<ConfigEntry> {
    let mut entries: Vec<_> = entries.collect();
    entries.sort_by_key(|entry| entry.name);
    entries
}
