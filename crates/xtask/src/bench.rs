//! Benchmarks of a release build.

use std::process::Command;

use crate::run::{Failure, program, release_and_tools, root, target_dir};

/// Builds the release and hands over to the harness in `tests/bench`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    release_and_tools()?;
    program(
        Command::new("bash")
            .arg(root().join("tests/bench/run.sh"))
            .args(arguments)
            .env("STRANDLINE_BIN", target_dir().join("release/strandline")),
    )
}
