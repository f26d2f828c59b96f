//! Settings between the metadata, which keeps them, and the config crate, which knows them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use strandline_config::{
    ConfigEntry, ConfigErrors, ConfigType, DynamicConfigs, Overrides, Scope, TopicKind,
    settings_of, validate_broker_dynamic, validate_topic_overrides,
};
use strandline_metadata::{
    ConfigMap, ConfigResource, ConfigResourceType, ConfigValidator, ConfigsImage, Image,
    RequestError,
};
use strandline_types::{BrokerId, TopicName};

use crate::broker::Broker;
use crate::settings::LiveConfig;

/// Judges settings for the controller (D-4, D-43, D-44).
pub(crate) struct Validator {
    config: Arc<LiveConfig>,
}

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Validator")
    }
}

impl Validator {
    pub(crate) fn new(config: Arc<LiveConfig>) -> Self {
        Self { config }
    }
}

fn texts(errors: &ConfigErrors) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn kind(name: &str) -> TopicKind {
    TopicName::new(name).map_or(TopicKind::User, |name| TopicKind::of(&name))
}

impl ConfigValidator for Validator {
    fn validate(
        &self,
        resource: &ConfigResource,
        overrides: &ConfigMap,
        configs: &ConfigsImage,
    ) -> Result<ConfigMap, RequestError> {
        let broker = self.config.get();
        match resource.kind {
            ConfigResourceType::Topic => {
                let previous = configs.get(resource).map(|map| &**map);
                validate_topic_overrides(previous, overrides, &broker, kind(&resource.name))
                    .map(|_| overrides.clone())
                    .map_err(|e| RequestError::InvalidConfig(texts(&e)))
            }
            _ => validate_broker_dynamic(overrides, &broker)
                .map_err(|e| RequestError::InvalidRequest(texts(&e))),
        }
    }

    fn list_default(&self, resource: &ConfigResource, name: &str) -> Option<String> {
        let scope = match resource.kind {
            ConfigResourceType::Topic => Scope::Topic,
            _ => Scope::Broker,
        };
        let setting = settings_of(scope).into_iter().find(|s| s.name == name)?;
        if setting.config_type != ConfigType::List {
            return None;
        }
        let broker = self.config.get();
        let keys = [name.to_owned()];
        let none = Overrides::new();
        let entries = match scope {
            Scope::Topic => {
                strandline_config::describe_topic(&none, &broker, kind(&resource.name), Some(&keys))
            }
            Scope::Broker => strandline_config::describe_broker(&broker, Some(&keys)),
        };
        Some(
            entries
                .into_iter()
                .next()
                .and_then(|e| e.value)
                .unwrap_or_default(),
        )
    }
}

/// Settings of a topic as clients see them; `None` for all keys.
pub(crate) fn describe_topic(
    broker: &Broker,
    name: &str,
    overrides: &BTreeMap<String, String>,
    keys: Option<&[String]>,
) -> Vec<ConfigEntry> {
    strandline_config::describe_topic(overrides, &broker.config.get(), kind(name), keys)
}

/// Settings of this broker.
pub(crate) fn describe_broker(broker: &Broker, keys: Option<&[String]>) -> Vec<ConfigEntry> {
    strandline_config::describe_broker(&broker.config.get(), keys)
}

/// Dynamic settings that all brokers share (D-31).
pub(crate) fn describe_default_broker(
    broker: &Broker,
    keys: Option<&[String]>,
) -> Vec<ConfigEntry> {
    strandline_config::describe_broker_defaults(&broker.config.get(), keys)
}

/// The dynamic settings that an image holds for a broker.
pub(crate) fn dynamic(image: &Image, id: BrokerId) -> DynamicConfigs {
    let map = |m: Option<&Arc<ConfigMap>>| m.map(|m| (**m).clone()).unwrap_or_default();
    DynamicConfigs {
        cluster: map(image.configs().default_broker()),
        broker: map(image.configs().broker(id)),
    }
}
