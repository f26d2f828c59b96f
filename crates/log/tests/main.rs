//! Tests of the hot log through its public interface, on real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

mod compaction;
mod damage;
mod model;
mod recovery;
mod rules;
mod support;
mod times;
mod transactions;
mod upkeep;
