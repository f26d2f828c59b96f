//! What time it is: of the machine, or of a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A clock. Cheap to clone; clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System(Instant),
    Manual(Arc<Hands>),
}

#[derive(Debug)]
struct Hands {
    wall_ms: AtomicI64,
    monotonic_us: AtomicU64,
}

impl Clock {
    /// The machine's clock; its monotonic time begins now.
    pub fn system() -> Self {
        Self(Source::System(Instant::now()))
    }

    /// A clock that moves only when told, with its wall time at `start_ms`.
    pub fn manual(start_ms: i64) -> (Self, ManualClock) {
        let hands = Hands {
            wall_ms: AtomicI64::new(start_ms),
            monotonic_us: AtomicU64::new(0),
        };
        let hands = Arc::new(hands);
        (Self(Source::Manual(Arc::clone(&hands))), ManualClock(hands))
    }

    /// Wall time in ms since the Unix epoch: for timestamps. It may jump, also backwards.
    pub fn now_ms(&self) -> i64 {
        match &self.0 {
            Source::System(_) => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                Err(before) => {
                    i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms)
                }
            },
            Source::Manual(hands) => hands.wall_ms.load(Ordering::Acquire),
        }
    }

    /// Time since the clock was made: for durations and deadlines. It never goes backwards.
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            Source::System(start) => start.elapsed(),
            Source::Manual(hands) => {
                Duration::from_micros(hands.monotonic_us.load(Ordering::Acquire))
            }
        }
    }

    /// [`Clock::monotonic`] in whole ms, for logic that counts in ms as Kafka's does.
    pub fn monotonic_ms(&self) -> i64 {
        i64::try_from(self.monotonic().as_millis()).unwrap_or(i64::MAX)
    }
}

/// Moves a clock made by [`Clock::manual`].
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Hands>);

impl ManualClock {
    /// Moves both the wall time and the monotonic time on.
    pub fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.0.wall_ms.fetch_add(ms, Ordering::AcqRel);
        self.0.monotonic_us.fetch_add(us, Ordering::AcqRel);
    }

    /// Sets the wall time alone, as an operator or NTP does.
    pub fn set_wall_ms(&self, now_ms: i64) {
        self.0.wall_ms.store(now_ms, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_told() {
        let (clock, hands) = Clock::manual(1_000);
        let other = clock.clone();
        hands.advance(Duration::from_millis(250));
        assert_eq!((other.now_ms(), other.monotonic_ms()), (1_250, 250));
        hands.set_wall_ms(5);
        assert_eq!((clock.now_ms(), clock.monotonic_ms()), (5, 250));
    }

    #[test]
    fn the_system_clock_is_in_this_century() {
        let clock = Clock::system();
        assert!(clock.now_ms() > 1_700_000_000_000);
        let before = clock.monotonic();
        assert!(clock.monotonic() >= before);
    }
}
