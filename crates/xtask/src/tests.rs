//! All tests: those of the crates, then whole-system tests with real clients.

use std::process::Command;

use crate::run::{Failure, cargo, program, release_and_tools, root, step, target_dir};

/// Runs everything. `arguments` go to the runner of the whole-system tests.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    step("tests of the crates", || {
        cargo(&["test", "--workspace", "--locked"])
    })?;
    release_and_tools()?;
    step("whole-system tests", || {
        let binary = target_dir().join("release/strandline");
        program(
            Command::new("python3")
                .arg(root().join("tests/run.py"))
                .args(arguments)
                .env("STRANDLINE_BIN", binary),
        )
    })
}
