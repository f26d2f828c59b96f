//! What follows from a request and the state of a transaction: pure functions, nothing is kept.
//!
//! A decision gives the next state of the transaction, which its caller writes before it becomes
//! true; that no other change is under way meanwhile is the caller's to see to.
//!
//! Rules: T-3, T-4, T-10…T-12, T-30…T-33, T-50.

mod end;
mod init;
mod partitions;

pub(crate) use end::{EndDecision, complete, end, fence};
pub(crate) use init::{InitDecision, init_producer_id, needs_producer_id};
pub(crate) use partitions::{add_partitions, verify_partitions};
