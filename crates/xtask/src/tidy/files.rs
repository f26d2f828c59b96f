//! Sizes, first lines and places of source files.

use std::path::{Path, PathBuf};

use crate::run::Failure;
use crate::tidy::Finding;

/// Lines of code, tests excluded, that a file may have.
const MAX_CODE_LINES: usize = 500;
/// Lines that a `lib.rs` may have: it holds docs, modules and re-exports.
const MAX_LIB_LINES: usize = 100;
const SKIPPED: [&str; 5] = ["target", ".git", ".tools", "node_modules", "data"];

/// A text file of ours: code, documentation, a manifest.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// The part in front of the inline tests.
    pub(crate) fn code(&self) -> &str {
        self.text.split("#[cfg(test)]\nmod ").next().unwrap_or("")
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|e| e == "rs")
    }

    pub(crate) fn is_test(&self) -> bool {
        let path = self.path.to_string_lossy();
        path.starts_with("tests/")
            || path.contains("/tests/")
            || path.contains("/fuzz/")
            || path.ends_with("tests.rs")
            || path.contains("/examples/")
    }
}

/// All text files below the root, in order.
pub(crate) fn all(root: &Path) -> Result<Vec<Source>, Failure> {
    let mut found = Vec::new();
    collect(root, root, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<Source>) -> Result<(), Failure> {
    let fault = |e: std::io::Error| Failure(format!("read {}: {e}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if SKIPPED.contains(&name.as_ref()) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if let Ok(text) = String::from_utf8(std::fs::read(&path).map_err(fault)?) {
            let path = path.strip_prefix(root).unwrap_or(&path).to_path_buf();
            found.push(Source { path, text });
        }
    }
    Ok(())
}

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let place = source.path.display().to_string();
        let mut report = |what: String| {
            findings.push(Finding {
                place: place.clone(),
                what,
            })
        };
        let is_helper = source.is_test();
        if !is_helper && !source.text.starts_with("//!") && !source.text.starts_with("#![doc") {
            report("does not begin with `//!`: what does this file own?".to_owned());
        }
        if place.ends_with("/mod.rs") {
            report("is a mod.rs: name the file after its module".to_owned());
        }
        let lines = source.code().lines().count();
        if !is_helper && lines > MAX_CODE_LINES {
            report(format!(
                "has {lines} lines of code, more than {MAX_CODE_LINES}"
            ));
        }
        // The patch of a foreign crate is one file on purpose.
        let is_patch = place.starts_with("metadata/base2histogram/");
        if !is_patch && place.ends_with("/lib.rs") && source.text.lines().count() > MAX_LIB_LINES {
            report(format!(
                "is longer than {MAX_LIB_LINES} lines: a lib.rs holds no logic"
            ));
        }
    }
    findings
}
