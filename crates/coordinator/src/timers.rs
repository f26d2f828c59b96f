//! Deadlines of a shard: one per key, kept in order of time, and the two times of a call into it.
//!
//! Rules: G-3, G-5, G-32, G-41, G-60, T-50, T-51.

use std::collections::{BTreeMap, BTreeSet};

/// What time it is for one call into a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Wall time in ms since the Unix epoch: for what is stored, and for what is compared with that. It may
    /// jump, also backwards.
    pub wall_ms: i64,
    /// Time in ms since some moment: for deadlines. It goes on as time does, whatever is done to the clock.
    pub monotonic_ms: i64,
}

/// All deadlines of a shard, in monotonic time.
#[derive(Debug)]
pub struct Timers<K> {
    now_ms: i64,
    by_time: BTreeSet<(i64, K)>,
    by_key: BTreeMap<K, i64>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self {
            now_ms: 0,
            by_time: BTreeSet::new(),
            by_key: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// A call into the shard begins. Those that wait for each other may come with times out of order.
    pub fn advance_to(&mut self, monotonic_ms: i64) {
        self.now_ms = self.now_ms.max(monotonic_ms);
    }

    /// Sets the key's only deadline to `delay_ms` from now, always in the future: so a tick that
    /// sets timers while it works through the due ones comes to an end.
    pub fn set(&mut self, key: K, delay_ms: i64) {
        let deadline = self.now_ms.saturating_add(delay_ms.max(1));
        if let Some(old) = self.by_key.insert(key.clone(), deadline) {
            if old == deadline {
                return;
            }
            self.by_time.remove(&(old, key.clone()));
        }
        self.by_time.insert((deadline, key));
    }

    /// Forgets the key's deadline.
    pub fn cancel(&mut self, key: &K) {
        if let Some(old) = self.by_key.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
    }

    /// Takes the earliest deadline that is due.
    pub fn pop_due(&mut self) -> Option<K> {
        if self.by_time.first()?.0 > self.now_ms {
            return None;
        }
        let (_, key) = self.by_time.pop_first()?;
        self.by_key.remove(&key);
        Some(key)
    }

    /// The earliest deadline.
    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.by_time.first().map(|(deadline, _)| *deadline)
    }

    /// True while the key has a deadline.
    pub fn is_set(&self, key: &K) -> bool {
        self.by_key.contains_key(key)
    }

    /// Every key with a deadline.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.by_key.keys()
    }

    /// Forgets all deadlines.
    pub fn clear(&mut self) {
        self.by_time.clear();
        self.by_key.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(group: &str) -> String {
        group.to_owned()
    }

    #[test]
    fn each_key_has_one_deadline() {
        let mut timers = Timers::default();
        timers.set(join("a"), 100);
        timers.set(join("a"), 50);
        timers.set(join("b"), 70);
        assert_eq!(timers.next_deadline_ms(), Some(50));
        timers.advance_to(49);
        assert_eq!(timers.pop_due(), None);
        timers.advance_to(100);
        timers.advance_to(49);
        assert_eq!(timers.pop_due(), Some(join("a")));
        assert_eq!(timers.pop_due(), Some(join("b")));
        assert_eq!(timers.pop_due(), None);
        assert_eq!(timers.next_deadline_ms(), None);
    }

    #[test]
    fn a_timer_set_while_ticking_waits_for_the_next_tick() {
        let mut timers = Timers::default();
        timers.advance_to(10);
        timers.set(join("a"), 0);
        assert_eq!(timers.pop_due(), None);
        timers.advance_to(11);
        assert_eq!(timers.pop_due(), Some(join("a")));
    }

    #[test]
    fn cancelled_deadlines_are_gone() {
        let mut timers = Timers::default();
        timers.set(join("a"), 100);
        timers.cancel(&join("a"));
        assert!(!timers.is_set(&join("a")));
        assert_eq!(timers.next_deadline_ms(), None);
    }
}
