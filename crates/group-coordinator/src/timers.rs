//! Deadlines of a shard: one per key, kept in order of time.
//!
//! Rules: G-3, G-5, G-32, G-41, G-60.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// All deadlines of a shard.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    by_time: BTreeSet<(i64, TimerKey)>,
    by_key: BTreeMap<TimerKey, i64>,
}

impl Timers {
    /// Sets the key's only deadline to `now_ms + delay_ms`, always in the future: so a tick that
    /// sets timers while it works through the due ones comes to an end.
    pub(crate) fn set(&mut self, key: TimerKey, now_ms: i64, delay_ms: i64) {
        let deadline = now_ms.saturating_add(delay_ms.max(1));
        if let Some(old) = self.by_key.insert(key.clone(), deadline) {
            if old == deadline {
                return;
            }
            self.by_time.remove(&(old, key.clone()));
        }
        self.by_time.insert((deadline, key));
    }

    pub(crate) fn cancel(&mut self, key: &TimerKey) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
    }

    /// Takes the earliest deadline that is due.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<TimerKey> {
        if self.by_time.first()?.0 > now_ms {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    pub(crate) fn next_deadline_ms(&self) -> Option<i64> {
        self.by_time.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn is_set(&self, key: &TimerKey) -> bool {
        self.by_key.contains_key(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &TimerKey> {
        self.by_key.keys()
    }

    pub(crate) fn clear(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(group: &str) -> TimerKey {
        TimerKey::Join(group.into())
    }

    #[test]
    fn each_key_has_one_deadline() {
        let mut timers = Timers::default();
        timers.set(join("a"), 0, 100);
        timers.set(join("a"), 0, 50);
        timers.set(join("b"), 0, 70);
        assert_eq!(timers.next_deadline_ms(), Some(50));
        assert_eq!(timers.pop_due(49), None);
        assert_eq!(timers.pop_due(100), Some(join("a")));
        assert_eq!(timers.pop_due(100), Some(join("b")));
        assert_eq!(timers.pop_due(100), None);
        assert_eq!(timers.next_deadline_ms(), None);
    }

    #[test]
    fn a_timer_set_while_ticking_waits_for_the_next_tick() {
        let mut timers = Timers::default();
        timers.set(join("a"), 10, 0);
        assert_eq!(timers.pop_due(10), None);
        assert_eq!(timers.pop_due(11), Some(join("a")));
    }

    #[test]
    fn cancelled_deadlines_are_gone() {
        let mut timers = Timers::default();
        timers.set(join("a"), 0, 100);
        timers.cancel(&join("a"));
        assert!(!timers.is_set(&join("a")));
        assert_eq!(timers.next_deadline_ms(), None);
    }
}
