//! Running other programs, and saying what happens.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Why a command of ours failed.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Prints to standard error; there may be nobody to read it.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Runs a part, and says how long it took.
pub(crate) fn step(name: &str, part: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    say(&format!("== {name}\n"));
    let started = Instant::now();
    let result = part();
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    say(&format!(
        "== {name}: {verdict} in {:.0} s\n",
        started.elapsed().as_secs_f64()
    ));
    result
}

/// Runs a program in the root; its output goes where ours goes.
pub(crate) fn program(command: &mut Command) -> Result<(), Failure> {
    let shown = format!("{command:?}");
    let status = command
        .current_dir(root())
        .status()
        .map_err(|e| Failure(format!("{shown} cannot be started: {e}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure(format!("{shown} failed: {status}")))
    }
}

/// Runs cargo in the root.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), Failure> {
    program(&mut cargo_command(arguments))
}

/// Cargo, to be run by [`program`].
pub(crate) fn cargo_command(arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments);
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the broker and the programs of the benchmarks in release, and installs what the whole-system tests and benchmarks run against it.
pub(crate) fn release_and_tools() -> Result<(), Failure> {
    step("release build", || {
        cargo(&[
            "build",
            "--release",
            "--locked",
            "--package",
            "strandline-broker",
            "--package",
            "strandline-bench",
        ])
    })?;
    step("install what the clients need", || {
        program(Command::new("bash").arg(root().join("tests/install.sh")))
    })?;
    Ok(())
}
