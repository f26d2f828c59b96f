//! The rules of groups (SEMANTICS section 4), each against a shard with a log beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod commit;
mod groups;
mod harness;
mod join;
mod late;
mod leave;
mod loading;
mod model;
mod offsets;
mod rebalance;
mod static_members;
mod sync;
mod transactions;
