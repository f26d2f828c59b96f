//! Settings from the outside: what Kafka has, what a file may hold, what clients may change.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod alter;
mod broker;
mod kafka;
mod reference;
mod topic;

use std::collections::BTreeMap;
use std::path::PathBuf;

use strandline_config::{BrokerConfig, ConfigErrors, Loaded, Machine, Overrides, Sources};

const GIB: u64 = 1 << 30;

/// Loads on a machine with 16 GiB of memory and 1,000 GiB of free disk.
fn load_from(sources: &Sources) -> Result<Loaded, ConfigErrors> {
    let machine = Machine {
        memory_bytes: 16 * GIB,
        disk_free_bytes: &|_| 1_000 * GIB,
        host_name: "box".into(),
        current_dir: PathBuf::from("/home/it"),
    };
    BrokerConfig::load(sources, &machine)
}

fn load(file: &str) -> Result<Loaded, ConfigErrors> {
    load_from(&Sources {
        file: Some(("server.properties".into(), file.into())),
        ..<_>::default()
    })
}

fn broker(file: &str) -> BrokerConfig {
    load(file).unwrap().config
}

fn map(pairs: &[(&str, &str)]) -> Overrides {
    pairs
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

fn errors(result: Result<impl Sized, ConfigErrors>) -> Vec<String> {
    result
        .err()
        .map(|errors| errors.iter().map(ToString::to_string).collect())
        .unwrap_or_default()
}

type Map = BTreeMap<String, String>;
