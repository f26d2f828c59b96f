//! Instruction counts of the pure hot functions, held against budgets that only go down.
//!
//! Callgrind counts what a function executes, so the figures do not depend on who else uses the
//! machine. They do depend on the compiler, and a little on the processor (which copy routine the
//! C library picks): after a change of either, `--update` writes new budgets, and the commit says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Failure, cargo, program, root, say, target_dir};

/// What differs by no more than this many percent is as it was.
const TOLERANCE_PERCENT: f64 = 3.0;
/// The file of budgets, from the root.
const FILE: &str = "crates/bench/budgets.txt";
const HEAD: &str = "\
# Instructions of one call, by case of crates/bench/src/bin/bench-instructions.
# Checked and written by `cargo xtask budgets [--update]`; see docs/benchmarks/README.md.
";

/// A case and its instructions per call.
type Count = (String, f64);

/// Counts every case. With `--update` the counts become the budgets; otherwise a case that is above
/// its budget fails the run, and one that is below is named.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let update = match arguments {
        [] => false,
        [only] if only == "--update" => true,
        _ => return Err(Failure("usage: cargo xtask budgets [--update]".to_owned())),
    };
    install()?;
    let package = "strandline-bench";
    cargo(&["build", "--release", "--locked", "--package", package])?;
    let counts = count_all(&target_dir().join("release/bench-instructions"))?;
    let file = root().join(FILE);
    if update {
        let lines = counts
            .iter()
            .map(|(name, count)| format!("{name:<32} {count:>10.0}\n"));
        let text = HEAD.to_owned() + &lines.collect::<String>();
        return std::fs::write(&file, text).map_err(|e| Failure(format!("write {FILE}: {e}")));
    }
    let text = std::fs::read_to_string(&file).map_err(|e| Failure(format!("read {FILE}: {e}")))?;
    judge(&counts, &pairs(&text)?)
}

/// Valgrind comes with what the whole-system tests need.
fn install() -> Result<(), Failure> {
    let there = Command::new("valgrind").arg("--version").output();
    if there.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    program(Command::new("bash").arg(root().join("tests/install.sh")))
}

fn count_all(binary: &Path) -> Result<Vec<Count>, Failure> {
    let names = Command::new(binary).output();
    let names = names.map_err(|e| Failure(format!("{}: {e}", binary.display())))?;
    // Each name comes with the number of calls.
    pairs(&String::from_utf8_lossy(&names.stdout))?
        .into_iter()
        .map(|(name, calls)| Ok((name.clone(), count(binary, &name)? / calls)))
        .collect()
}

/// Instructions of all calls of a case.
fn count(binary: &Path, name: &str) -> Result<f64, Failure> {
    let out: PathBuf = target_dir().join(format!("callgrind.{name}"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*count_only_this*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(binary)
        .arg(name)
        .output()
        .map_err(|e| Failure(format!("valgrind: {e}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure(format!("{name} under valgrind: {said}")));
    }
    let text =
        std::fs::read_to_string(&out).map_err(|e| Failure(format!("{}: {e}", out.display())))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals:"));
    match total.and_then(|total| total.trim().parse().ok()) {
        Some(total) if total > 0.0 => Ok(total),
        _ => Err(Failure(format!("{name}: callgrind counted nothing"))),
    }
}

/// Lines of a name and a number; `#` begins a comment.
fn pairs(text: &str) -> Result<Vec<Count>, Failure> {
    let lines = text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let (name, number) = line.split_once(' ').unwrap_or((line, ""));
            let number = number.trim().parse();
            let number = number.map_err(|_| Failure(format!("`{line}`: no name and number")))?;
            Ok((name.to_owned(), number))
        })
        .collect()
}

/// Says how every case stands. Errors: one is above its budget, or has none, or is gone.
fn judge(counts: &[Count], budgets: &[Count]) -> Result<(), Failure> {
    let budget_of = |name: &str| budgets.iter().find(|(n, _)| n == name).map(|(_, b)| *b);
    let mut wrong = 0;
    for (name, count) in counts {
        let (verdict, is_wrong) = verdict(*count, budget_of(name));
        wrong += usize::from(is_wrong);
        let budget = budget_of(name).map_or("-".to_owned(), |b| format!("{b:.0}"));
        say(&format!(
            "{name:<32} {count:>10.0} of {budget:>8}  {verdict}\n"
        ));
    }
    for (name, _) in budgets {
        if !counts.iter().any(|(n, _)| n == name) {
            wrong += 1;
            say(&format!("{name:<32} has a budget, and no case\n"));
        }
    }
    if wrong == 0 {
        return Ok(());
    }
    Err(Failure(format!(
        "{wrong} instruction budgets do not hold: make it cheaper, or argue in the commit and run \
         `cargo xtask budgets --update`"
    )))
}

fn verdict(count: f64, budget: Option<f64>) -> (String, bool) {
    let Some(budget) = budget else {
        return ("NO BUDGET: run with --update".to_owned(), true);
    };
    let percent = (count / budget - 1.0) * 100.0;
    if percent > TOLERANCE_PERCENT {
        (format!("{percent:+.1} % TOO MUCH"), true)
    } else if percent < -TOLERANCE_PERCENT {
        let text = format!("{percent:+.1} %: lower the budget, `cargo xtask budgets --update`");
        (text, false)
    } else {
        (format!("{percent:+.1} %"), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, f64)]) -> Vec<Count> {
        pairs.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect()
    }

    #[test]
    fn a_case_fails_above_its_budget_and_not_within_the_tolerance() {
        let budgets = counts(&[("append", 1000.0)]);
        assert!(judge(&counts(&[("append", 1031.0)]), &budgets).is_err());
        assert!(judge(&counts(&[("append", 1029.0)]), &budgets).is_ok());
        assert!(judge(&counts(&[("append", 500.0)]), &budgets).is_ok());
        assert!(verdict(969.0, Some(1000.0)).0.contains("lower the budget"));
        assert!(!verdict(971.0, Some(1000.0)).0.contains("lower the budget"));
    }

    #[test]
    fn cases_and_budgets_must_be_the_same_ones() {
        let one = counts(&[("append", 1000.0)]);
        let two = counts(&[("append", 1000.0), ("lookup", 1.0)]);
        assert!(judge(&two, &one).is_err());
        assert!(judge(&one, &two).is_err());
        assert!(judge(&two, &two).is_ok());
    }

    #[test]
    fn lines_are_names_and_numbers() {
        let found = pairs("# head\nappend    12\n\nlookup 3\n").expect("is sound");
        assert_eq!(found, counts(&[("append", 12.0), ("lookup", 3.0)]));
        assert!(pairs("append twelve\n").is_err());
    }
}
