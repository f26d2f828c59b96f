//! How long to wait before the next attempt: exponential, with jitter, repeatable by a seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Shape of the waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffOptions {
    /// First wait.
    pub base: Duration,
    /// Longest wait before jitter.
    pub max: Duration,
    /// Each wait is drawn from `wait * (1 - jitter) ..= wait * (1 + jitter)`; 0 to 1.
    pub jitter: f64,
}

/// The waits of one sequence of attempts.
#[derive(Debug)]
pub struct Backoff {
    options: BackoffOptions,
    attempt: u32,
    rng: StdRng,
}

impl Backoff {
    /// Waits that differ from run to run.
    pub fn new(options: BackoffOptions) -> Self {
        Self::with_seed(options, rand::random())
    }

    /// Waits that a seed repeats.
    pub fn with_seed(options: BackoffOptions, seed: u64) -> Self {
        Self {
            options,
            attempt: 0,
            rng: StdRng::seed_from_u64(seed),
        }
    }

    /// The next wait.
    pub fn next_delay(&mut self) -> Duration {
        let doublings = self.attempt.min(63);
        self.attempt = self.attempt.saturating_add(1);
        let delay = self.options.base.as_secs_f64() * (1_u64 << doublings) as f64;
        let delay = delay.min(self.options.max.as_secs_f64());
        let jitter = self.options.jitter.clamp(0.0, 1.0);
        let factor = 1.0 + jitter * self.rng.random_range(-1.0..=1.0);
        Duration::try_from_secs_f64(delay * factor).unwrap_or(self.options.max)
    }

    /// Waits that were handed out since the start or the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempt
    }

    /// Begins anew after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: BackoffOptions = BackoffOptions {
        base: Duration::from_millis(100),
        max: Duration::from_secs(2),
        jitter: 0.2,
    };

    #[test]
    fn waits_grow_to_the_maximum_within_the_jitter() {
        let mut backoff = Backoff::with_seed(OPTIONS, 1);
        for expected in [100.0, 200.0, 400.0, 800.0, 1600.0, 2000.0, 2000.0] {
            let ms = backoff.next_delay().as_secs_f64() * 1000.0;
            assert!(
                (expected * 0.799..=expected * 1.201).contains(&ms),
                "{ms} for {expected}"
            );
        }
        for _ in 0..100 {
            assert!(backoff.next_delay() <= Duration::from_millis(2400));
        }
        assert_eq!(backoff.attempts(), 107);
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(120));
    }

    #[test]
    fn a_seed_repeats_itself() {
        let waits = |seed| {
            let mut backoff = Backoff::with_seed(OPTIONS, seed);
            (0..10).map(|_| backoff.next_delay()).collect::<Vec<_>>()
        };
        assert_eq!(waits(7), waits(7));
        assert_ne!(waits(7), waits(8));
        let exact = BackoffOptions {
            jitter: 0.0,
            ..OPTIONS
        };
        assert_eq!(Backoff::new(exact).next_delay(), OPTIONS.base);
    }
}
