//! The cold tier as the broker uses it, on stores in memory and in a directory, whole and sick.

mod chain;
mod faults;
mod lookups;
mod read;
mod retention;
mod support;
