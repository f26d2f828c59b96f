//! What the deadlines of a shard are for.
//!
//! Rules: G-3, G-5, G-32, G-41, G-60.

use std::sync::Arc;

/// All deadlines of a shard.
pub(crate) type Timers = strandline_coordinator::Timers<TimerKey>;

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// End of the join phase of a group.
    Join(Arc<str>),
    /// Members of a group that have not synced.
    Sync(Arc<str>),
    /// Session of a member, or the wait for a pending one.
    Member(Arc<str>, Arc<str>),
    /// Next scan for expired offsets.
    OffsetExpiry,
}
