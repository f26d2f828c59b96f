//! The project's own commands: `cargo xtask <command>`.

mod bench;
mod budgets;
mod checks;
mod fuzz;
mod run;
mod tests;
mod tidy;

use std::process::ExitCode;

use run::Failure;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--quick] [--only NAME]   installs what the tests need, and runs all of them
  ci                             what CI runs: formatting, lints, the checks of the house, tests, fuzzers, budgets
  checks                         formatting, the checks of the house, lints (the fuzz crates too)
  tidy                           the checks of the house alone
  fuzz [SECONDS]                 runs every fuzz target for so long (60)
  bench [scenario] [options]     measures a release build; see docs/benchmarks/README.md
  budgets [--update]             counts the instructions of hot functions against their budgets
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match arguments.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("", [].as_slice()),
    };
    let result = match command {
        "test" => tests::run(rest),
        "ci" => ci(),
        "checks" => checks::run(),
        "tidy" => tidy::run(),
        "fuzz" => fuzz::run(rest.first().and_then(|s| s.parse().ok()).unwrap_or(60)),
        "bench" => bench::run(rest),
        "budgets" => budgets::run(rest),
        _ => {
            run::say(USAGE);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(why)) => {
            run::say(&format!("xtask: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

/// What `.ci/run` calls. The cheap checks come first.
fn ci() -> Result<(), Failure> {
    checks::run()?;
    tests::run(&[])?;
    run::step("fuzzers", || fuzz::run(60))?;
    run::step("instruction budgets", || budgets::run(&[]))?;
    run::step("benchmark smoke", || bench::run(&["--smoke".to_owned()]))
}
