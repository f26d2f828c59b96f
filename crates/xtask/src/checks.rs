//! The cheap checks: what can be said of the code without running it.

use crate::run::{Failure, cargo, step};
use crate::{fuzz, tidy};

/// Formatting, the checks of the house, and lints. The fuzz crates are workspaces of their own,
/// which `--workspace` does not reach: they are named.
pub(crate) fn run() -> Result<(), Failure> {
    step("formatting", || {
        cargo(&["fmt", "--all", "--check"])?;
        for manifest in fuzz::manifests() {
            cargo(&["fmt", "--manifest-path", &manifest, "--check"])?;
        }
        Ok(())
    })?;
    step("tidy", tidy::run)?;
    step("lints", || {
        lint(&["--workspace", "--locked"])?;
        for manifest in fuzz::manifests() {
            lint(&["--manifest-path", &manifest])?;
        }
        Ok(())
    })
}

/// Clippy on what the arguments choose; warnings are errors.
fn lint(what: &[&str]) -> Result<(), Failure> {
    let mut arguments = vec!["clippy", "--all-targets"];
    arguments.extend(what);
    arguments.extend(["--", "-D", "warnings"]);
    cargo(&arguments)
}
