//! The only door to openraft: a replicated log of record batches, and the image that they build.

mod encoding;
mod log_store;
mod network;
mod node;
mod snapshot;
mod state_machine;
mod types;
mod wal;

pub(crate) use node::{RaftNode, RaftNodeOptions};
