//! The rules of the transaction coordinator, against the public interface of the shard.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod ends;
mod harness;
mod init;
mod loading;
mod model;

mod partitions;
mod queries;
mod second_generation;
mod time;
