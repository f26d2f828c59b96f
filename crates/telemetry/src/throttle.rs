//! At most one log line per interval for what may happen thousands of times a second.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Lets one event through per interval and counts the others. For a `static` or a field.
///
/// ```
/// # use strandline_telemetry::Throttle;
/// let throttle = Throttle::new(10_000);
/// if let Some(suppressed) = throttle.pass(42) {
///     tracing::warn!(suppressed, "the store is slow");
/// }
/// ```
#[derive(Debug)]
pub struct Throttle {
    interval_ms: i64,
    next_ms: AtomicI64,
    suppressed: AtomicU64,
}

impl Throttle {
    /// One event per `interval_ms`; the first passes.
    pub const fn new(interval_ms: i64) -> Self {
        Self {
            interval_ms,
            next_ms: AtomicI64::new(i64::MIN),
            suppressed: AtomicU64::new(0),
        }
    }

    /// `Some` if the event at `now_ms` (monotonic) passes, with the number of events held back
    /// since the last one that did.
    pub fn pass(&self, now_ms: i64) -> Option<u64> {
        let next_ms = self.next_ms.load(Ordering::Relaxed);
        let after = now_ms.saturating_add(self.interval_ms);
        let passes = now_ms >= next_ms
            && self
                .next_ms
                .compare_exchange(next_ms, after, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if passes {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_per_interval_passes_and_tells_of_the_others() {
        let throttle = Throttle::new(100);
        assert_eq!(throttle.pass(0), Some(0));
        assert_eq!(throttle.pass(1), None);
        assert_eq!(throttle.pass(99), None);
        assert_eq!(throttle.pass(100), Some(2));
        assert_eq!(throttle.pass(250), Some(0));
    }

    #[test]
    fn of_many_threads_one_passes() {
        let throttle = Throttle::new(1_000);
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..100).filter_map(|t| throttle.pass(t)).count()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(passed, 1);
        assert_eq!(throttle.pass(2_000), Some(399));
    }
}
