//! How fast all cleaners together read and write, and how they wait (`log.cleaner.io.max.bytes.per.second`).

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Waits shorter than this are saved up: a piece is a few hundred KiB.
const LEAST_WAIT: Duration = Duration::from_millis(20);

/// A rate for several threads, and the signal that ends their waits.
#[derive(Debug)]
pub(crate) struct Throttle {
    bytes_per_second: f64,
    inner: Mutex<Inner>,
    stopped: Condvar,
}

#[derive(Debug)]
struct Inner {
    /// When what was taken so far will have been paid for.
    paid_at: Instant,
    is_stopped: bool,
}

impl Throttle {
    pub(crate) fn new(bytes_per_second: f64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1.0),
            inner: Mutex::new(Inner {
                paid_at: Instant::now(),
                is_stopped: false,
            }),
            stopped: Condvar::new(),
        }
    }

    pub(crate) fn stop(&self) {
        self.inner.lock().is_stopped = true;
        self.stopped.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inner.lock().is_stopped
    }

    /// Accounts for bytes that were read or written; until when to wait for them, if for long enough.
    pub(crate) fn charge(&self, bytes: usize) -> Option<Instant> {
        let mut inner = self.inner.lock();
        let now = Instant::now();
        let cost = Duration::try_from_secs_f64(bytes as f64 / self.bytes_per_second);
        // What was not used is lost: a burst after a pause would be no limit.
        let from = inner.paid_at.max(now);
        let paid_at = from
            .checked_add(cost.unwrap_or(Duration::ZERO))
            .unwrap_or(from);
        inner.paid_at = paid_at;
        (paid_at.duration_since(now) >= LEAST_WAIT).then_some(paid_at)
    }

    /// Waits, unless stopped.
    pub(crate) fn wait(&self, time: Duration) {
        if let Some(until) = Instant::now().checked_add(time) {
            self.wait_until(until);
        }
    }

    /// Waits, unless stopped.
    pub(crate) fn wait_until(&self, until: Instant) {
        let mut inner = self.inner.lock();
        while !inner.is_stopped && !self.stopped.wait_until(&mut inner, until).timed_out() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_over_all_pieces() {
        let throttle = Throttle::new(1_000_000.0);
        let began = Instant::now();
        for _ in 0..30 {
            if let Some(until) = throttle.charge(10_000) {
                throttle.wait_until(until);
            }
        }
        let took = began.elapsed();
        // 300 ms are due; the last wait may be saved up.
        assert!(took >= Duration::from_millis(270), "{took:?}");
    }

    #[test]
    fn stopping_ends_every_wait() {
        let throttle = &Throttle::new(1.0);
        std::thread::scope(|scope| {
            let until = throttle.charge(1_000_000).unwrap();
            let waiting = scope.spawn(move || throttle.wait_until(until));
            let resting = scope.spawn(|| throttle.wait(Duration::from_secs(3600)));
            throttle.stop();
            waiting.join().unwrap();
            resting.join().unwrap();
        });
        assert!(throttle.is_stopped());
    }
}
