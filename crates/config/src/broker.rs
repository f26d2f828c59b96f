//! The broker's settings, resolved: typed values, listeners, directories, and all layers behind
//! them for DescribeConfigs and topic defaults.
//!
//! Rules: SEMANTICS 8.2, 12.1; D-33.

pub(crate) mod known;
pub(crate) mod settings;
pub(crate) mod topic_defaults;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::broker::settings::{BrokerSettings, KAFKA_SETTINGS};
use crate::broker::topic_defaults::TOPIC_DEFAULTS;
use crate::def::Setting;
use crate::error::{ConfigError, ConfigErrors, ConfigWarning, quote};
use crate::layers::{DynamicConfigs, Layers, Sources};
use crate::listeners::{HostPort, Listener, ListenerSettings};
use crate::rules::check_broker;
use crate::strandline::{STRANDLINE_SETTINGS, StrandlineSettings};
use crate::table::{Given, Reader};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What the defaults that are a share of the machine are computed from.
pub struct Machine<'a> {
    /// Memory that this process may use, in bytes.
    pub memory_bytes: u64,
    /// Free bytes of the file system that holds a path, which need not exist yet.
    pub disk_free_bytes: &'a dyn Fn(&Path) -> u64,
    /// What an advertised listener without a host is called.
    pub host_name: String,
    /// What relative directories are relative to.
    pub current_dir: PathBuf,
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}

/// The broker's settings. Cheap to clone but for the typed values; never changed in place:
/// [`BrokerConfig::with_dynamic`] makes the next one.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// Settings under Kafka's names, typed.
    pub settings: BrokerSettings,
    /// Our own settings, typed.
    pub strandline: StrandlineSettings,
    /// Where to listen for clients, at least one.
    pub listeners: Vec<Listener>,
    /// What clients are told: one for each of `listeners`, in the same order. Port 0 stands for the
    /// port that was bound.
    pub advertised_listeners: Vec<Listener>,
    /// Where to serve metrics and health; `None` = not at all.
    pub http_listener: Option<HostPort>,
    /// Root of the default directories, absolute like all directories here.
    pub data_dir: PathBuf,
    /// Directories of the hot log, at least one.
    pub log_dirs: Vec<PathBuf>,
    /// Directory of the cluster metadata.
    pub metadata_log_dir: PathBuf,
    /// Directory of the chunk cache.
    pub cache_dir: PathBuf,
    /// The bucket; a `file://` URL has an absolute path.
    pub store_url: String,
    pub(crate) layers: Arc<Layers>,
}

/// A configuration and what the user should know about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub config: BrokerConfig,
    /// To be logged once at start.
    pub warnings: Vec<ConfigWarning>,
}

/// Every broker setting that we serve, and those not served that supply topic settings.
pub(crate) fn broker_settings() -> impl Iterator<Item = &'static Setting> {
    KAFKA_SETTINGS
        .iter()
        .chain(TOPIC_DEFAULTS)
        .chain(STRANDLINE_SETTINGS)
}

/// Looks a broker setting up by its exact name.
pub(crate) fn broker_setting(name: &str) -> Option<&'static Setting> {
    broker_settings().find(|setting| setting.name == name)
}

impl BrokerConfig {
    /// Merges the sources and resolves everything; all that is wrong is reported at once.
    pub fn load(sources: &Sources, machine: &Machine<'_>) -> Result<Loaded, ConfigErrors> {
        let merged = sources.merge();
        let (mut layers, mut warnings, mut errors) =
            (merged.layers, merged.warnings, merged.errors);
        derive(&mut layers, machine);
        let (settings, strandline, read_errors) = read(&layers);
        errors.0.extend(read_errors.0);
        errors.0.extend(check_broker(&layers, &settings));
        let listeners = ListenerSettings {
            listeners: &settings.listeners,
            advertised: settings.advertised_listeners.as_deref(),
            protocol_map: &settings.listener_security_protocol_map,
            controller_names: settings
                .controller_listener_names
                .as_deref()
                .unwrap_or_default(),
            host_name: &machine.host_name,
        }
        .resolve();
        warnings.extend(listeners.warnings);
        errors.0.extend(listeners.errors.0);
        let absolute = |path: &str| absolute(&machine.current_dir, path);
        // An empty list was reported above.
        let log_dirs = settings.log_dirs.as_ref().unwrap_or(&settings.log_dir);
        let data_dir = absolute(&strandline.data_dir);
        let config = Self {
            listeners: listeners.listeners,
            advertised_listeners: listeners.advertised,
            http_listener: HostPort::parse(&strandline.http_listener),
            log_dirs: log_dirs.iter().map(|dir| absolute(dir)).collect(),
            metadata_log_dir: absolute(&settings.metadata_log_dir),
            cache_dir: data_dir.join("cache"),
            data_dir,
            store_url: absolute_url(&machine.current_dir, &strandline.store_url),
            settings,
            strandline,
            layers: Arc::new(layers),
        };
        errors.into_result(Loaded { config, warnings })
    }

    /// The same configuration under other dynamic settings. What is stored and no longer allowed
    /// is left out and reported, so that it cannot stop a broker.
    pub fn with_dynamic(&self, dynamic: &DynamicConfigs) -> (Self, ConfigErrors) {
        let mut errors = ConfigErrors::default();
        let mut layers = Layers::clone(&self.layers);
        layers.dynamic = DynamicConfigs {
            cluster: usable(self, &dynamic.cluster, &mut errors),
            broker: usable(self, &dynamic.broker, &mut errors),
        };
        let (settings, strandline, read_errors) = read(&layers);
        errors.0.extend(read_errors.0);
        let next = Self {
            settings,
            strandline,
            layers: Arc::new(layers),
            ..self.clone()
        };
        (next, errors)
    }

    /// The dynamic settings in effect.
    pub fn dynamic(&self) -> &DynamicConfigs {
        &self.layers.dynamic
    }
}

/// Those stored values that can be applied.
fn usable(
    broker: &BrokerConfig,
    stored: &BTreeMap<String, String>,
    errors: &mut ConfigErrors,
) -> BTreeMap<String, String> {
    let mut usable = BTreeMap::new();
    for (name, value) in stored {
        match crate::alter::check_dynamic(name, value, broker) {
            Ok(()) => {
                usable.insert(name.clone(), value.clone());
            }
            Err(error) => errors.0.push(error),
        }
    }
    usable
}

fn read(layers: &Layers) -> (BrokerSettings, StrandlineSettings, ConfigErrors) {
    let lookup = |setting: &Setting| -> Option<Given> { layers.value(setting.name) };
    let derived = |name: &str| layers.derived.get(name).cloned();
    let mut reader = Reader::new(&lookup, &derived);
    let settings = BrokerSettings::read(&mut reader);
    let strandline = StrandlineSettings::read(&mut reader);
    (settings, strandline, reader.errors)
}

/// Computes the defaults that depend on the machine or on other settings.
fn derive(layers: &mut Layers, machine: &Machine<'_>) {
    let data_dir = layers.static_text("strandline.data.dir");
    let below = |name: &str| {
        Path::new(&data_dir)
            .join(name)
            .to_string_lossy()
            .into_owned()
    };
    let node_id = match layers.static_text("broker.id") {
        id if id.starts_with('-') => "1".to_owned(),
        id => id,
    };
    let bucket = absolute(&machine.current_dir, &below("bucket"));
    let cache_dir = absolute(&machine.current_dir, &below("cache"));
    layers.derived = BTreeMap::from([
        ("node.id", node_id),
        ("log.dir", below("log")),
        ("metadata.log.dir", below("metadata")),
        (
            "strandline.store.url",
            format!("file://{}", bucket.to_string_lossy()),
        ),
    ]);
    let is_local = layers
        .static_text("strandline.store.url")
        .starts_with("file:");
    let disk = match is_local {
        true => 0,
        false => ((machine.disk_free_bytes)(&cache_dir) / 10).min(64 * GIB),
    };
    let memory = machine.memory_bytes;
    layers.derived.extend([
        (
            "strandline.cache.memory.bytes",
            (memory / 32).clamp(16 * MIB, 512 * MIB).to_string(),
        ),
        ("strandline.cache.disk.bytes", disk.to_string()),
        (
            "strandline.tail.memory.bytes",
            (memory / 128).clamp(16 * MIB, 64 * MIB).to_string(),
        ),
    ]);
}

/// Joins and drops the `.` parts; `..` stays, since it may cross a symbolic link.
fn absolute(current_dir: &Path, path: &str) -> PathBuf {
    current_dir
        .join(path)
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

fn absolute_url(current_dir: &Path, url: &str) -> String {
    match url.strip_prefix("file://") {
        Some(path) => format!("file://{}", absolute(current_dir, path).to_string_lossy()),
        None => url.to_owned(),
    }
}

/// Names that stand for the same thing, the winner first (D-34).
pub(crate) fn broker_synonyms(name: &'static str) -> Vec<&'static str> {
    const GROUPS: [&[&str]; 6] = [
        &[
            "log.retention.ms",
            "log.retention.minutes",
            "log.retention.hours",
        ],
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
        &["log.dirs", "log.dir"],
        &["node.id", "broker.id"],
    ];
    for group in GROUPS {
        if let Some(position) = group.iter().position(|other| *other == name) {
            return group[position..].to_vec();
        }
    }
    vec![name]
}

/// A value that Kafka would take and we do not yet.
pub(crate) fn not_served(name: &str, value: &str, allowed: &str) -> ConfigError {
    ConfigError::NotServed {
        name: name.to_owned(),
        value: quote(value),
        allowed: allowed.to_owned(),
    }
}
