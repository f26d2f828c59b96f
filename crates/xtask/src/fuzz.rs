//! Runs the fuzz targets: everything that takes bytes from outside.

use std::process::Command;

use crate::run::{Failure, program, root, say};

/// Folder of a fuzz crate, and its target.
const TARGETS: [(&str, &str); 2] = [
    ("crates/records/fuzz", "batch"),
    ("crates/wire/fuzz", "frame"),
];

/// The manifests of the fuzz crates, for the checks that do not run them.
pub(crate) fn manifests() -> impl Iterator<Item = String> {
    TARGETS
        .iter()
        .map(|(folder, _)| format!("{folder}/Cargo.toml"))
}

/// Runs every target for so many seconds. A finding fails the run; the input that shows it is in
/// the `artifacts` folder beside the target.
pub(crate) fn run(seconds: u32) -> Result<(), Failure> {
    install()?;
    for (folder, target) in TARGETS {
        say(&format!("-- fuzz {folder} {target} for {seconds} s\n"));
        let folder = root().join(folder);
        // What the fuzzer finds worth keeping; the seeds are only read.
        let corpus = folder.join("corpus").join(target);
        std::fs::create_dir_all(&corpus)
            .map_err(|e| Failure(format!("create {}: {e}", corpus.display())))?;
        program(
            Command::new("cargo")
                .args(["fuzz", "run", "--fuzz-dir"])
                .arg(&folder)
                .args(["--sanitizer", "none", target])
                .arg(&corpus)
                .arg(folder.join("seeds").join(target))
                .arg("--")
                .arg(format!("-max_total_time={seconds}"))
                .args(["-rss_limit_mb=4096", "-timeout=20", "-print_final_stats=1"])
                .env("RUSTC_BOOTSTRAP", "1"),
        )?;
    }
    Ok(())
}

/// Builds cargo-fuzz unless it is there.
fn install() -> Result<(), Failure> {
    let there = Command::new("cargo").args(["fuzz", "--version"]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    program(Command::new("cargo").args(["install", "--locked", "cargo-fuzz"]))
}
