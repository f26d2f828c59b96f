//! Which offsets have outlived their retention.
//!
//! Rules: G-60, X-18.

use std::sync::Arc;

use super::GroupOffsets;
use crate::classic::ClassicGroup;
use crate::query::GroupState;
use crate::records::CommittedOffset;

/// Partitions whose offsets may go. None while the group rebalances, nor while a commit of the
/// partition is under way or waits for the end of a transaction.
pub(crate) fn expired(
    group: &ClassicGroup,
    offsets: &GroupOffsets,
    retention_ms: i64,
    now_ms: i64,
) -> Vec<(Arc<str>, i32)> {
    let is_simple = group.protocol_type.is_none();
    let is_empty = group.state() == GroupState::Empty;
    let is_watched = group.state() == GroupState::Stable && group.subscribed().is_some();
    if !(is_simple || is_empty || is_watched) {
        return Vec::new();
    }
    // Since a consumer group is empty nobody can have committed as its member.
    let since_ms = group.state_since_ms.filter(|_| is_empty && !is_simple);
    let is_expired = |offset: &CommittedOffset| match offset.expire_timestamp_ms {
        Some(expire_timestamp_ms) => now_ms >= expire_timestamp_ms,
        None => {
            let since_ms = since_ms.unwrap_or(offset.commit_timestamp_ms);
            now_ms.saturating_sub(since_ms) >= retention_ms
        }
    };
    let keys = offsets.committed().filter(|(topic, partition, offset)| {
        is_expired(offset)
            && !(is_watched && group.is_subscribed_to(topic))
            && !offsets.is_undecided(topic, *partition)
    });
    keys.map(|(topic, partition, _)| (Arc::clone(topic), partition))
        .collect()
}
