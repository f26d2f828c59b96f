//! What goes to the disk cache: chunks that had to be fetched from the bucket before.
//!
//! A replay reads each chunk once. Writing all of it to the disk costs the broker more CPU than everything else
//! that a cold read does, wears the disk, and pushes out what several readers share. So the first fetch of a chunk
//! only leaves a mark; whoever makes it necessary a second time pays for the copy.

use std::collections::HashSet;
use std::sync::Arc;

use foyer::{Statistics, StorageFilterCondition, StorageFilterResult};
use parking_lot::Mutex;

/// Marks of one generation; two are kept. At 4 MiB a chunk that is 128 to 256 GiB of fetches, in 1 MiB of memory.
const MARKS: usize = 32_768;

/// Admits an entry when its hash was seen before.
#[derive(Debug, Default)]
pub(crate) struct SecondFetch {
    seen: Mutex<Generations>,
}

/// A set that forgets the oldest half.
#[derive(Debug, Default)]
struct Generations {
    now: HashSet<u64>,
    before: HashSet<u64>,
}

impl Generations {
    /// Marks a hash; true if it was marked already.
    fn mark(&mut self, hash: u64, limit: usize) -> bool {
        let known = self.before.contains(&hash);
        let known = !self.now.insert(hash) || known;
        if self.now.len() >= limit {
            self.before = std::mem::take(&mut self.now);
        }
        known
    }
}

impl StorageFilterCondition for SecondFetch {
    fn filter(&self, _: &Arc<Statistics>, hash: u64, _: usize) -> StorageFilterResult {
        if self.seen.lock().mark(hash, MARKS) {
            StorageFilterResult::Admit
        } else {
            StorageFilterResult::Reject
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Generations;

    #[test]
    fn the_second_time_counts_and_the_oldest_are_forgotten() {
        let mut seen = Generations::default();
        assert!(!seen.mark(1, 4));
        assert!(seen.mark(1, 4));
        // Three more fill the generation of 1, which still counts.
        assert!((2..5).all(|hash| !seen.mark(hash, 4)));
        assert!(seen.mark(1, 4));
        // It is marked in the new generation now: two more until that is full as well.
        assert!((5..8).all(|hash| !seen.mark(hash, 4)));
        assert!(seen.mark(1, 4));
        assert!(!seen.mark(2, 4), "forgotten with the first generation");
    }
}
