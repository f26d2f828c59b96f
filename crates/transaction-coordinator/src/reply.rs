//! The answers of a shard; the broker writes them in the version of the request.

use strandline_coordinator::Producer;

use crate::error::TransactionError;

/// The outcome of one call into a shard; the caller must carry out all of it, and then take the
/// orders ([`crate::TransactionShard::take_orders`]).
pub type Effects = strandline_coordinator::Effects<Reply>;

/// Answer to a [`crate::Request`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The producer id and epoch to use from now on.
    InitProducerId(Result<Producer, TransactionError>),
    /// All partitions are in the transaction, or none was added.
    AddPartitions(Result<(), TransactionError>),
    /// The end is decided. For clients of the second generation, who they are from now on (T-33).
    EndTxn(Result<Option<Producer>, TransactionError>),
}
