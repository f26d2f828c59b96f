//! The hot functions that neither wait nor talk to anyone, each with a fixed input, to be counted
//! under callgrind: `cargo xtask budgets`. Instructions do not depend on who else uses the machine.
//! They allocate from the C library: how often the broker's own allocator leaves its fast path
//! depends on what was allocated before, the length of the program's path included.
//!
//! Without an argument it names its cases; `bench-instructions CASE` calls that function
//! [`counted::CALLS`] times, each time through [`counted::count_only_this`].
#![forbid(unsafe_code)]

mod batches;
mod counted;
mod fetching;
mod log;
mod requests;

use std::io::{self, Write};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Prepares its input and calls what is counted.
type Case = fn() -> Outcome<()>;

const CASES: [(&str, Case); 14] = [
    ("request-header", requests::header),
    ("produce-decode", requests::produce),
    ("fetch-decode-1-partition", requests::fetch_one),
    ("fetch-decode-100-partitions", requests::fetch_many),
    ("batch-header", batches::header),
    ("validate-1-record-of-1k", batches::validate_one),
    ("validate-64-records-of-1k", batches::validate_plain),
    ("validate-640-records-of-100b", batches::validate_small),
    ("validate-64-records-lz4", batches::validate_lz4),
    ("append", log::append),
    ("fetch-plan-in-memory", fetching::from_memory),
    ("index-lookup-in-file", fetching::from_file),
    ("offsets-view", fetching::offsets),
    ("fetch-response-6-partitions", requests::fetch_response),
];

fn main() -> Outcome<()> {
    let Some(asked) = std::env::args().nth(1) else {
        for (name, _) in CASES {
            writeln!(io::stdout(), "{name} {}", counted::CALLS)?;
        }
        return Ok(());
    };
    let (_, case) = CASES
        .iter()
        .find(|(name, _)| *name == asked)
        .ok_or_else(|| format!("{asked} is no case"))?;
    case()
}
