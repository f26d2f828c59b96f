//! The cold tier as the broker uses it, on stores in memory and in a directory, whole and sick.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panic, as tests do"
)]

mod chain;
mod faults;
mod lookups;
mod read;
mod retention;
mod support;
