//! Who may import whom. Think before you change this table: every row keeps an answer to "where
//! does this belong" from becoming "anywhere".

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::Failure;
use crate::tidy::Finding;

/// Our crates, from the bottom to the top, with those of ours that each may import.
const OURS: [(&str, &[&str]); 16] = [
    ("types", &[]),
    ("env", &[]),
    ("records", &["types"]),
    ("config", &["types"]),
    ("telemetry", &["env"]),
    ("wire", &["types", "config"]),
    ("bucket", &["types", "env", "telemetry"]),
    ("log", &["types", "env", "telemetry", "config", "records"]),
    ("coordinator", &["types"]),
    ("group-coordinator", &["types", "coordinator"]),
    ("transaction-coordinator", &["types", "coordinator"]),
    (
        "tiering",
        &[
            "types",
            "env",
            "telemetry",
            "config",
            "records",
            "bucket",
            "log",
        ],
    ),
    (
        "metadata",
        &["types", "env", "telemetry", "config", "bucket"],
    ),
    (
        "broker",
        &[
            "types",
            "env",
            "records",
            "config",
            "telemetry",
            "wire",
            "bucket",
            "log",
            "coordinator",
            "group-coordinator",
            "transaction-coordinator",
            "tiering",
            "metadata",
        ],
    ),
    ("testkit", &["types", "env", "records", "bucket"]),
    // Measures the crates that it imports; nothing imports it.
    ("bench", &["types", "records", "wire", "log"]),
];
/// Foreign crates that only one of ours may know.
const DOORS: [(&str, &[&str]); 5] = [
    ("kafka-protocol", &["wire"]),
    ("object_store", &["bucket"]),
    ("foyer", &["tiering"]),
    ("openraft", &["metadata"]),
    ("axum", &["broker"]),
];
/// Crates that decide and never wait.
const PURE: [&str; 6] = [
    "types",
    "config",
    "records",
    "coordinator",
    "group-coordinator",
    "transaction-coordinator",
];

pub(crate) fn check(root: &Path) -> Result<Vec<Finding>, Failure> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .current_dir(root)
        .output()
        .map_err(|e| Failure(format!("cargo metadata: {e}")))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| Failure(format!("cargo metadata: {e}")))?;
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(name) = name.strip_prefix("strandline-") else {
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Tests may reach further.
            if dependency["kind"].is_null() {
                let on = dependency["name"].as_str().unwrap_or_default();
                findings.extend(judge(name, on));
            }
        }
    }
    Ok(findings)
}

fn judge(name: &str, on: &str) -> Option<Finding> {
    let wrong = |what: String| {
        Some(Finding {
            place: format!("crate {name}"),
            what,
        })
    };
    if let Some(ours) = on.strip_prefix("strandline-") {
        let allowed = OURS
            .iter()
            .find(|(row, _)| *row == name)
            .map(|(_, allowed)| *allowed);
        return match allowed {
            Some(allowed) if !allowed.contains(&ours) => wrong(format!("must not import {ours}")),
            _ => None,
        };
    }
    if PURE.contains(&name) && on == "tokio" {
        return wrong("is pure: it must not know tokio".to_owned());
    }
    let door = DOORS.iter().find(|(foreign, _)| *foreign == on)?;
    if door.1.contains(&name) {
        return None;
    }
    wrong(format!(
        "must not know {on}: its door is {}",
        door.1.join(", ")
    ))
}
