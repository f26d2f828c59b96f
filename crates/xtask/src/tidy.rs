//! The cheap checks of the house; see docs/STYLE.md.

mod files;
mod imports;
mod merges;
mod words;

use crate::run::{Failure, root, say};

/// A place that breaks a rule.
#[derive(Debug)]
pub(crate) struct Finding {
    /// File, from the root, with a line where there is one.
    place: String,
    /// What is wrong.
    what: String,
}

/// Runs every check and reports all findings.
pub(crate) fn run() -> Result<(), Failure> {
    let all = files::all(&root())?;
    let mut findings = merges::check(&all);
    let sources: Vec<_> = all.into_iter().filter(|f| f.is_rust()).collect();
    findings.extend(files::check(&sources));
    findings.extend(words::check(&sources));
    findings.extend(imports::check(&root())?);
    for finding in &findings {
        say(&format!("{}: {}\n", finding.place, finding.what));
    }
    if findings.is_empty() {
        return Ok(());
    }
    Err(Failure(format!("{} findings of tidy", findings.len())))
}
