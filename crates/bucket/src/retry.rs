//! One retry policy per class of request: time limit per attempt, jittered exponential back-off.
//!
//! Retries: only causes that may pass by themselves, see [`crate::BucketErrorKind::is_retriable`].
//! Cancellation: dropping the future drops the request in flight; a write may then still happen.

use std::time::Duration;

use rand::RngExt;

/// How one class of request is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, at least 1.
    pub attempts: u32,
    /// Time limit of one try.
    pub request_timeout: Duration,
    /// Mean wait before the second try; doubles with each further one.
    pub first_backoff: Duration,
    /// Longest mean wait.
    pub max_backoff: Duration,
}

impl RetryPolicy {
    /// Wait after the failed try number `attempt` (from 1), drawn from 50 % to 150 % of the mean so
    /// that brokers do not come back in step.
    pub(crate) fn backoff(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1).min(16));
        let mean = self
            .first_backoff
            .saturating_mul(factor)
            .min(self.max_backoff);
        mean.mul_f64(rand::rng().random_range(0.5..1.5))
    }
}

/// The policies of all classes of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicies {
    /// GET and HEAD: a reader waits.
    pub read: RetryPolicy,
    /// PUT of data objects: nobody waits, large bodies.
    pub write: RetryPolicy,
    /// Conditional PUT of small objects.
    pub conditional: RetryPolicy,
    /// LIST.
    pub list: RetryPolicy,
    /// DELETE.
    pub delete: RetryPolicy,
}

impl Default for RetryPolicies {
    fn default() -> Self {
        let base = RetryPolicy {
            attempts: 5,
            request_timeout: Duration::from_secs(10),
            first_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(3),
        };
        Self {
            read: RetryPolicy {
                first_backoff: Duration::from_millis(50),
                ..base
            },
            write: RetryPolicy {
                request_timeout: Duration::from_secs(30),
                ..base
            },
            conditional: base,
            list: RetryPolicy {
                request_timeout: Duration::from_secs(30),
                ..base
            },
            delete: RetryPolicy {
                request_timeout: Duration::from_secs(15),
                ..base
            },
        }
    }
}

impl RetryPolicies {
    /// The same limits with no repetition: for probes, where the first answer counts, and tests.
    pub fn once() -> Self {
        let mut all = Self::default();
        for policy in [
            &mut all.read,
            &mut all.write,
            &mut all.conditional,
            &mut all.list,
            &mut all.delete,
        ] {
            policy.attempts = 1;
        }
        all
    }

    /// Quick repetition without long waits, for tests.
    pub fn eager() -> Self {
        let mut all = Self::default();
        for policy in [
            &mut all.read,
            &mut all.write,
            &mut all.conditional,
            &mut all.list,
            &mut all.delete,
        ] {
            policy.first_backoff = Duration::from_micros(100);
            policy.max_backoff = Duration::from_millis(1);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_stay_bounded() {
        let policy = RetryPolicies::default().write;
        for attempt in 1..100 {
            let wait = policy.backoff(attempt);
            assert!(wait <= policy.max_backoff.mul_f64(1.5));
            assert!(wait >= policy.first_backoff.mul_f64(0.5));
        }
        assert!(policy.backoff(6) > policy.backoff(1));
    }
}
