//! Random histories of a whole broker against a simple model: producers of every kind, transactions
//! of both generations, fences, time-outs, stops and kills, cleaning, retention and tiering. After
//! each step every reader must see what the model says, from wherever the records lie.
//!
//! A history is driven through the handlers of the APIs, without sockets; time is the test's.
//! `PROPTEST_CASES` asks for more histories, `PROPTEST_RNG_SEED` for others: a failure names its
//! own, and prints the shortest history that fails.
//!
//! Rules: P-50 … P-57, P-70, F-4, F-10, F-20, F-30 … F-34, O-2, O-5, O-9, T-3, T-11, T-33, T-50,
//! T-52, L-30, L-40 … L-47, S-1.

mod check;
mod client;
mod clock_jumps;
mod coverage;
mod deleted_topics;
mod ends;
mod expected;
mod history;
mod late_commits;
mod plan;
mod producer_ids;
mod producing;
mod situations;
mod tiering_situations;
mod upkeep;
mod world;

use parking_lot::Mutex;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};

use coverage::Coverage;
use history::History;
use plan::{Setup, Step};

/// Histories of one test, unless the environment says otherwise.
const HISTORIES: u32 = 60;

fn run(setup: &Setup, steps: &[Step]) -> Coverage {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut history = History::new(setup.clone()).await;
        for step in steps {
            history.take(step).await;
        }
        history.finish().await;
        history.coverage
    })
}

/// Why, and the history, a line for each step.
fn told(failure: &TestError<(Setup, Vec<Step>)>) -> String {
    let TestError::Fail(why, (setup, steps)) = failure else {
        return failure.to_string();
    };
    let steps = steps.iter().map(|step| format!("  {step:?}\n"));
    format!("{why}\n{setup:?}\n{}", steps.collect::<String>())
}

/// Runs the histories of a seed; what happened in them.
fn run_all(default_seed: u64) -> Coverage {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    let is_given = |name: &str| std::env::var_os(name).is_some();
    if !is_given("PROPTEST_CASES") {
        config.cases = HISTORIES;
    }
    if !is_given("PROPTEST_MAX_SHRINK_ITERS") {
        config.max_shrink_iters = 400;
    }
    let seed = match config.rng_seed {
        RngSeed::Random => default_seed,
        RngSeed::Fixed(given) => given.wrapping_add(default_seed),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    let all = Mutex::new(Coverage::default());
    let ran = TestRunner::new(config).run(&plan::history(), |(setup, steps)| {
        let coverage = run(&setup, &steps);
        all.lock().add(&coverage);
        Ok(())
    });
    if let Err(failure) = ran {
        let seed = seed.wrapping_sub(default_seed);
        panic!("PROPTEST_RNG_SEED={seed} {}", told(&failure));
    }
    all.into_inner()
}

#[test]
fn every_reader_agrees_with_the_model() {
    let coverage = run_all(1);
    coverage.check();
}

#[test]
fn every_reader_agrees_with_the_model_in_other_histories() {
    let coverage = run_all(1_000_000);
    coverage.check();
}
