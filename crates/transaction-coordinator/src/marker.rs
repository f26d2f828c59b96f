//! What a shard wants done besides appends and answers: above all the markers of ended transactions.
//!
//! Rules: T-31, T-32, T-40…T-42.

use std::sync::Arc;

use strandline_coordinator::TransactionEnd;
use strandline_types::TopicPartition;

/// An order to the caller of a shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Each partition must get its marker, however long that takes.
    Write(Markers),
    /// Nothing is under way for this transactional id any more: who was told CONCURRENT_TRANSACTIONS
    /// may ask again.
    Free(Arc<str>),
}

/// A transaction has ended: each of its partitions must get its marker. A partition that does not
/// exist any more counts as done (T-40).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    /// Given back with each result.
    pub transactional_id: Arc<str>,
    /// What the markers say.
    pub end: TransactionEnd,
    /// Where they must go; never empty.
    pub partitions: Vec<TopicPartition>,
}
