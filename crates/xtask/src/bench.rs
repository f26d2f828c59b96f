//! Benchmarks of a release build.

use std::process::Command;

use crate::run::{Failure, cargo, program, root, step, target_dir};

/// Builds the release and hands over to the harness in `tests/bench`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    step("release build", || {
        cargo(&[
            "build",
            "--release",
            "--locked",
            "--package",
            "strandline-broker",
        ])
    })?;
    step("install what the clients need", || {
        program(Command::new("bash").arg(root().join("tests/install.sh")))
    })?;
    program(
        Command::new("bash")
            .arg(root().join("tests/bench/run.sh"))
            .args(arguments)
            .env("STRANDLINE_BIN", target_dir().join("release/strandline")),
    )
}
