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
    ("telemetry", &[]),
    ("wire", &["types"]),
    ("bucket", &["env"]),
    ("log", &["types", "records"]),
    ("coordinator", &["types"]),
    ("group-coordinator", &["types", "coordinator"]),
    ("transaction-coordinator", &["types", "coordinator"]),
    (
        "tiering",
        &["types", "env", "telemetry", "records", "bucket", "log"],
    ),
    ("metadata", &["types"]),
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
    // Measures the crates that it imports; nothing imports it.
    ("bench", &["types", "records", "wire", "log"]),
    ("xtask", &[]),
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
        if row(name).is_none() {
            let what = "has no row in the table of imports".to_owned();
            findings.push(finding(name, what));
        }
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

/// What one of our crates may import of ours.
fn row(name: &str) -> Option<&'static [&'static str]> {
    let row = OURS.iter().find(|(row, _)| *row == name)?;
    Some(row.1)
}

fn finding(name: &str, what: String) -> Finding {
    Finding {
        place: format!("crate {name}"),
        what,
    }
}

fn judge(name: &str, on: &str) -> Option<Finding> {
    let wrong = |what: String| Some(finding(name, what));
    if let Some(ours) = on.strip_prefix("strandline-") {
        let is_allowed = row(name).is_some_and(|allowed| allowed.contains(&ours));
        return if is_allowed {
            None
        } else {
            wrong(format!("must not import {ours}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, on: &str) -> Option<String> {
        judge(name, on).map(|finding| finding.what)
    }

    #[test]
    fn a_crate_imports_what_its_row_says() {
        assert_eq!(said("records", "strandline-types"), None);
        let not = |ours: &str| Some(format!("must not import {ours}"));
        assert_eq!(said("records", "strandline-log"), not("log"));
        assert_eq!(said("nobody-knows-it", "strandline-types"), not("types"));
        assert_eq!(said("records", "bytes"), None);
        assert!(said("records", "tokio").is_some());
        assert!(said("broker", "openraft").is_some());
        assert_eq!(said("metadata", "openraft"), None);
    }

    // Over the real manifests: the test lies in the workspace that it looks at.
    #[test]
    fn every_crate_has_a_row() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let findings = check(&root).unwrap();
        assert!(findings.is_empty(), "{findings:?}");
    }
}
