//! All tests: those of the crates, then whole-system tests with real clients.

use std::process::Command;

use crate::run::{Failure, cargo_command, program, release_and_tools, root, step, target_dir};

/// Runs everything. `arguments` go to the runner of the whole-system tests.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    step("tests of the crates", || {
        let mut tests = cargo_command(&["test", "--workspace", "--locked"]);
        program(tests.env("PROPTEST_RNG_SEED", histories_seed()))
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

/// Seed of the random histories: one and the same, so that a run can be repeated and what fails is
/// the change that it tests. `cargo test` alone draws others each time.
fn histories_seed() -> String {
    std::env::var("PROPTEST_RNG_SEED").unwrap_or_else(|_| "0".to_owned())
}
