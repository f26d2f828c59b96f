//! What the read-only requests ask and get.
//!
//! Rules: section 5.1 (names), API 65 and 66.

use std::collections::HashSet;

use strandline_coordinator::Producer;

use crate::state::TransactionState;

/// Filters of ListTransactions; an empty list lets everything pass.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionFilter {
    /// States that pass. If none of the asked names exists, nothing passes: see `matches_nothing`.
    pub states: Vec<TransactionState>,
    /// The request names states, and all of them are unknown.
    pub matches_nothing: bool,
    /// Producer ids that pass.
    pub producer_ids: HashSet<i64>,
    /// v1+: only transactions that began longer ago than this pass, in ms; `None` for all.
    pub longer_than_ms: Option<i64>,
}

/// One entry of ListTransactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// Who uses it.
    pub producer: Producer,
    /// Where it stands.
    pub state: TransactionState,
}
