//! The coordinator of transactions: the transactional ids of one partition of
//! `__transaction_state`, as a state machine without I/O, clock or randomness.
//!
//! A [`TransactionShard`] takes requests and the time, and returns [`Effects`]: answers that may
//! leave, records to append, and when to come back; and beside them [`Order`]s: [`Markers`] that must be
//! written to the partitions of transactions that have ended. Its caller appends the records, waits
//! until they are committed and reports that with [`TransactionShard::on_append_result`]; it writes
//! the markers, again and again until they are written, and reports that with
//! [`TransactionShard::on_marker_written`]. After a failover a [`Loader`] rebuilds the state from
//! the partition, and the markers of undone ends are asked for once more.
//!
//! Both generations of the protocol are served at once: in the first the client names partitions
//! before it writes to them and keeps its epoch, in the second (KIP-890) the broker adds them and
//! each end raises the epoch.
//!
//! Rules: T-1…T-6, T-10…T-12, T-30…T-33, T-50…T-52.

mod config;
mod decide;
mod error;
mod invariants;
mod load;
mod marker;
mod query;
mod records;
mod reply;
mod request;
mod shard;
mod state;
mod transaction;

pub use config::TransactionConfig;
pub use error::TransactionError;
pub use invariants::BrokenInvariant;
pub use load::Loader;
pub use marker::{Markers, Order};
pub use query::{ListedTransaction, TransactionFilter};
pub use records::{RecordKey, decode_value, encode_key, encode_value};
pub use reply::{Effects, Reply};
pub use request::{AddPartitionsRequest, EndTxnRequest, InitProducerIdRequest, Request};
pub use shard::TransactionShard;
pub use state::TransactionState;
pub use transaction::{Transaction, TransactionVersion};
