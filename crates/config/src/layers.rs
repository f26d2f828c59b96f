//! Where settings come from: built-in default < file < environment < `--set`, and above these what
//! clients change while the broker runs (cluster-wide < this broker).
//!
//! Rules: D-33, D-34 (precedence).

use std::collections::BTreeMap;
use std::fmt;

use crate::broker::known::{KNOWN_TO_KAFKA, REMOVED_FROM_KAFKA, Standing, standing};
use crate::broker::{broker_setting, broker_settings};
use crate::error::{ConfigError, ConfigErrors, ConfigWarning, Origin, quote};
use crate::nearest::nearest;
use crate::properties::parse_properties;
use crate::table::{Given, parse};
use crate::topic::topic_setting;

const ENVIRONMENT_PREFIX: &str = "STRANDLINE_";

/// What the user gave at start, unread.
#[derive(Clone, Default)]
pub struct Sources {
    /// The properties file: its name, for messages, and its text.
    pub file: Option<(String, String)>,
    /// All environment variables; those that do not begin with `STRANDLINE_` are passed over.
    pub environment: Vec<(String, String)>,
    /// The arguments of `--set`, each `name=value`, in their order.
    pub flags: Vec<String>,
}

impl fmt::Debug for Sources {
    /// Neither environment nor file: both may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|(name, _)| name);
        f.debug_struct("Sources")
            .field("file", &file)
            .finish_non_exhaustive()
    }
}

/// Broker settings that clients changed while the broker ran, as the metadata keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DynamicConfigs {
    /// For all brokers (resource name empty); source 3.
    pub cluster: BTreeMap<String, String>,
    /// For this broker; source 2.
    pub broker: BTreeMap<String, String>,
}

/// Which layer a value comes from, with Kafka's numbers (D-33).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Changed on this broker while it runs.
    DynamicBroker,
    /// Changed for all brokers while they run.
    DynamicDefaultBroker,
    /// File, environment or flag.
    StaticBroker,
    /// Built in.
    Default,
}

impl ConfigSource {
    /// The number on the wire.
    pub fn wire(self) -> i8 {
        match self {
            Self::Topic => 1,
            Self::DynamicBroker => 2,
            Self::DynamicDefaultBroker => 3,
            Self::StaticBroker => 4,
            Self::Default => 5,
        }
    }
}

/// All layers of the broker's settings. Only names of our tables that we serve are in it, and the
/// static values are valid.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    pub(crate) given: BTreeMap<&'static str, Given>,
    pub(crate) derived: BTreeMap<&'static str, String>,
    pub(crate) dynamic: DynamicConfigs,
}

impl fmt::Debug for Layers {
    /// Names only: a value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.given.keys())
            .finish_non_exhaustive()
    }
}

impl Layers {
    /// The value of one layer.
    pub(crate) fn layer(&self, source: ConfigSource, name: &str) -> Option<Given> {
        let request = |text: &String| Given {
            text: text.clone(),
            origin: Origin::Request,
        };
        match source {
            ConfigSource::Topic => None,
            ConfigSource::DynamicBroker => self.dynamic.broker.get(name).map(request),
            ConfigSource::DynamicDefaultBroker => self.dynamic.cluster.get(name).map(request),
            ConfigSource::StaticBroker => self.given.get(name).cloned(),
            ConfigSource::Default => {
                let derived = self.derived.get(name).cloned();
                let text = derived.or_else(|| broker_setting(name)?.default_text().map(Into::into));
                text.map(|text| Given {
                    text,
                    origin: Origin::Table,
                })
            }
        }
    }

    /// The value that wins, if any layer but the default has one.
    pub(crate) fn value(&self, name: &str) -> Option<Given> {
        [
            ConfigSource::DynamicBroker,
            ConfigSource::DynamicDefaultBroker,
            ConfigSource::StaticBroker,
        ]
        .into_iter()
        .find_map(|source| self.layer(source, name))
    }

    /// Text of a static value or of the built-in default; empty if there is neither.
    pub(crate) fn static_text(&self, name: &str) -> String {
        let given = self.layer(ConfigSource::StaticBroker, name);
        let given = given.or_else(|| self.layer(ConfigSource::Default, name));
        given.map_or_else(String::new, |given| given.text.trim().to_owned())
    }
}

/// The static layers merged, with everything that was wrong on the way.
#[derive(Default)]
pub(crate) struct Merged {
    pub(crate) layers: Layers,
    pub(crate) warnings: Vec<ConfigWarning>,
    pub(crate) errors: ConfigErrors,
}

impl Sources {
    /// Merges file, environment and flags; every value is checked, also one that is overridden.
    pub(crate) fn merge(&self) -> Merged {
        let mut merged = Merged::default();
        if let Some((name, text)) = &self.file {
            merged.file(name, text);
        }
        merged.environment(&self.environment);
        for flag in &self.flags {
            match flag.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() => {
                    merged.set(name.trim(), value.to_owned(), Origin::Flag);
                }
                _ => merged.errors.0.push(ConfigError::Malformed {
                    origin: Origin::Flag,
                    reason: "must be name=value",
                }),
            }
        }
        merged
    }
}

impl Merged {
    fn file(&mut self, file: &str, text: &str) {
        let origin = |line| Origin::File {
            name: file.to_owned(),
            line,
        };
        match parse_properties(text) {
            Ok(properties) => {
                for property in properties {
                    self.set(&property.name, property.value, origin(property.line));
                }
            }
            Err(error) => self.errors.0.push(ConfigError::Malformed {
                origin: origin(error.line),
                reason: "\\u must be followed by four hexadecimal digits of a character",
            }),
        }
    }

    fn environment(&mut self, variables: &[(String, String)]) {
        let names: BTreeMap<String, &'static str> = known_names()
            .map(|name| (environment_name(name), name))
            .collect();
        let mut ours: Vec<_> = variables
            .iter()
            .filter(|(key, _)| key.starts_with(ENVIRONMENT_PREFIX))
            .collect();
        ours.sort();
        for (variable, value) in ours {
            match names.get(variable) {
                Some(name) => {
                    self.set(name, value.clone(), Origin::Environment(variable.clone()));
                }
                None => self.unknown_variable(variable, nearest_variable(variable, names.keys())),
            }
        }
    }

    fn unknown_variable(&mut self, variable: &str, nearest: Option<String>) {
        let name = variable[ENVIRONMENT_PREFIX.len()..].to_ascii_lowercase();
        let origin = Origin::Environment(variable.to_owned());
        match standing(&name.replace('_', ".")) {
            Standing::Known => self.not_served(&name, origin),
            Standing::Removed => self.warnings.push(ConfigWarning::Removed { name, origin }),
            Standing::Unknown if is_of_a_platform(variable) => {
                let variable = variable.to_owned();
                self.warnings
                    .push(ConfigWarning::VariableOfAPlatform { variable });
            }
            Standing::Unknown => self.errors.0.push(ConfigError::UnknownVariable {
                variable: quote(variable),
                nearest,
            }),
        }
    }

    /// Takes one value into the layers, or says why not.
    fn set(&mut self, name: &str, text: String, origin: Origin) {
        let given = Given { text, origin };
        match broker_setting(name) {
            Some(setting) if setting.served => match parse(setting, &given) {
                Ok(_) => {
                    self.layers.given.insert(setting.name, given);
                }
                Err(error) => self.errors.0.push(error),
            },
            Some(_) => self.not_served(name, given.origin),
            None => match standing(name) {
                Standing::Known if name == "authorizer.class.name" && !given.text.is_empty() => {
                    self.warnings.push(ConfigWarning::NoAuthorizer {
                        origin: given.origin,
                    });
                }
                Standing::Known => self.not_served(name, given.origin),
                Standing::Removed => self.warnings.push(ConfigWarning::Removed {
                    name: name.to_owned(),
                    origin: given.origin,
                }),
                Standing::Unknown => self.errors.0.push(unknown_broker_name(name, given.origin)),
            },
        }
    }

    fn not_served(&mut self, name: &str, origin: Origin) {
        self.warnings.push(ConfigWarning::NotServed {
            name: name.to_owned(),
            origin,
        });
    }
}

/// A name that neither Kafka nor we have; a topic's name is answered with the broker's.
pub(crate) fn unknown_broker_name(name: &str, origin: Origin) -> ConfigError {
    let of_topic = topic_setting(name).and_then(|setting| setting.synonyms.first());
    let nearest = of_topic
        .map(|synonym| synonym.name)
        .or_else(|| nearest(name, known_names()));
    ConfigError::UnknownName {
        name: quote(name),
        origin,
        nearest: nearest.map(Into::into),
    }
}

/// Every name that a file may carry without being wrong, those with prefixes left out.
pub(crate) fn known_names() -> impl Iterator<Item = &'static str> {
    broker_settings()
        .map(|setting| setting.name)
        .chain(KNOWN_TO_KAFKA.iter().copied())
        .chain(REMOVED_FROM_KAFKA.iter().copied())
}

/// The environment variable of a setting: upper case, `_` for `.`, and `STRANDLINE_` in front,
/// which names of ours have already.
pub fn environment_name(setting: &str) -> String {
    let bare = setting.strip_prefix("strandline.").unwrap_or(setting);
    format!(
        "{ENVIRONMENT_PREFIX}{}",
        bare.to_ascii_uppercase().replace('.', "_")
    )
}

/// True for what Kubernetes and Docker's links put into a container for a service of our name or of
/// one that begins with it, `STRANDLINE_SERVICE_HOST` and `STRANDLINE_HTTP_PORT_9644_TCP_ADDR`:
/// nobody wrote them, so nobody could take them away.
fn is_of_a_platform(variable: &str) -> bool {
    let words: Vec<&str> = variable.split('_').collect();
    let is_port = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let is_link = |at: usize| match &words[at..] {
        ["SERVICE", "HOST"] | ["PORT"] | ["SERVICE", "PORT", ..] => true,
        // Of our name only: others end like this, too.
        ["ENV", _, ..] | ["NAME"] => at == 1,
        ["PORT", port, "TCP" | "UDP" | "SCTP", rest @ ..] => {
            is_port(port) && matches!(rest, [] | ["PROTO" | "PORT" | "ADDR"])
        }
        _ => false,
    };
    (1..words.len()).any(is_link)
}

fn nearest_variable<'a>(variable: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    let bare = |text: &str| {
        text.to_ascii_lowercase()
            .split_off(ENVIRONMENT_PREFIX.len())
    };
    let known: Vec<String> = known.map(|name| bare(name)).collect();
    nearest(&bare(variable), known.iter().map(String::as_str))
        .map(|name| format!("{ENVIRONMENT_PREFIX}{}", name.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_environment_name_means_one_setting() {
        let mut seen = BTreeSet::new();
        for name in known_names() {
            assert!(seen.insert(environment_name(name)), "{name}");
            assert!(!name.contains('_'), "{name}");
        }
        assert!(seen.len() > 400);
    }

    #[test]
    fn variables_of_a_platform_are_told_from_slips_of_the_pen() {
        for of_a_platform in [
            "STRANDLINE_SERVICE_HOST",
            "STRANDLINE_SERVICE_PORT",
            "STRANDLINE_SERVICE_PORT_KAFKA",
            "STRANDLINE_PORT",
            "STRANDLINE_PORT_9092_TCP",
            "STRANDLINE_PORT_9092_TCP_PROTO",
            "STRANDLINE_PORT_9092_TCP_PORT",
            "STRANDLINE_0_PORT_9092_TCP_ADDR",
            "STRANDLINE_HEADLESS_SERVICE_HOST",
            "STRANDLINE_NAME",
            "STRANDLINE_ENV_VERSION",
        ] {
            assert!(is_of_a_platform(of_a_platform), "{of_a_platform}");
        }
        for not in [
            "STRANDLINE_",
            "STRANDLINE_HOST",
            "STRANDLINE_SERVICE",
            "STRANDLINE_ENV",
            "STRANDLINE_NO_SUCH_NAME",
            "STRANDLINE_X_ENV_Y",
            "STRANDLINE_PORT_9092",
            "STRANDLINE_PORT__TCP",
            "STRANDLINE_PORT_X_TCP",
            "STRANDLINE_PORT_9092_TCP_HOST",
            "STRANDLINE_NUM_PARTITION",
        ] {
            assert!(!is_of_a_platform(not), "{not}");
        }
    }

    #[test]
    fn secrets_are_not_in_debug_text() {
        let sources = Sources {
            file: Some(("f".into(), "node.id=31337".into())),
            environment: vec![("AWS_SECRET_ACCESS_KEY".into(), "31337".into())],
            flags: vec![],
        };
        let layers = sources.merge().layers;
        assert!(!format!("{sources:?} {layers:?}").contains("31337"));
        assert!(format!("{layers:?}").contains("node.id"));
    }
}
