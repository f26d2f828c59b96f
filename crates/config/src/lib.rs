//! Settings under Kafka's names, each defined once.
//!
//! One row per setting ([`Setting`]) gives parsing, validation, typed values, DescribeConfigs with
//! sources and synonyms, and `docs/reference/configs.md`. [`BrokerConfig::load`] merges defaults,
//! file, environment and flags; [`TopicConfig::resolve`] lays a topic's overrides over them.
//! No I/O and no clock: texts and the machine's figures come in as parameters.

mod alter;
mod broker;
mod def;
mod describe;
mod error;
mod layers;
mod listeners;
mod nearest;
mod properties;
mod reference;
mod rules;
mod strandline;
mod table;
mod topic;
mod value;

pub use alter::{
    AlterEntry, AlterOp, apply_to_broker, apply_to_topic, validate_broker_dynamic,
    validate_topic_overrides,
};
pub use broker::settings::BrokerSettings;
pub use broker::{BrokerConfig, Loaded, Machine};
pub use def::{Allowed, ConfigType, DefaultValue, Scope, Setting, Synonym};
pub use describe::{
    ConfigEntry, ConfigSynonym, describe_broker, describe_broker_defaults, describe_topic,
};
pub use error::{ConfigError, ConfigErrors, ConfigWarning, Conflict, Origin};
pub use layers::{ConfigSource, DynamicConfigs, Sources, environment_name};
pub use listeners::{HostPort, Listener, SecurityProtocol};
pub use properties::{PropertiesError, Property, parse_properties};
pub use reference::reference_markdown;
pub use strandline::StrandlineSettings;
pub use topic::{Overrides, TopicConfig, TopicKind};
pub use value::{CleanupPolicy, CompressionType, LogLineFormat, ProduceCheck, Value};

/// Every setting of a scope that has a row, served or not, in the order of the tables.
pub fn settings_of(scope: Scope) -> Vec<&'static Setting> {
    match scope {
        Scope::Broker => broker::broker_settings().collect(),
        Scope::Topic => topic::TOPIC_SETTINGS.iter().collect(),
    }
}
