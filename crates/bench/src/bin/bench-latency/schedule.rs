//! When each record is due. The times come from the rate alone, never from an answer: a broker that
//! stands still for a second owes a second to every record that was due meanwhile (no coordinated
//! omission).

/// Nanoseconds since the start of the schedule.
pub(crate) type Nanos = u64;

const SECOND: u128 = 1_000_000_000;

/// The records of all connections, in the order in which they are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    rate: u64,
    size: u32,
    connections: u32,
    warm_seconds: u64,
    seconds: u64,
}

impl Schedule {
    /// `rate` in bytes per second, `size` in bytes of a record.
    pub(crate) fn new(
        rate: u64,
        size: u32,
        connections: u32,
        (warm_seconds, seconds): (u64, u64),
    ) -> Self {
        Self {
            rate,
            size,
            connections,
            warm_seconds,
            seconds,
        }
    }

    /// When the record `nth` of a connection is due; both count from 0.
    pub(crate) fn due_at(&self, connection: u32, nth: u64) -> Nanos {
        let index = u128::from(nth) * u128::from(self.connections) + u128::from(connection);
        (index * u128::from(self.size) * SECOND / u128::from(self.rate)) as Nanos
    }

    /// How many records of a connection are due at `now`, the warming ones included.
    pub(crate) fn due(&self, connection: u32, now: Nanos) -> u64 {
        let now = now.min(self.end());
        // The first index of all connections that is due after `now`.
        let next = (u128::from(now) + 1) * u128::from(self.rate);
        let next = next.div_ceil(u128::from(self.size) * SECOND) as u64;
        let behind = next.saturating_sub(u64::from(connection));
        behind.div_ceil(u64::from(self.connections))
    }

    /// All records of a connection.
    pub(crate) fn total(&self, connection: u32) -> u64 {
        self.due(connection, self.end())
    }

    /// Whether a record due at this time counts.
    pub(crate) fn is_measured(&self, due_at: Nanos) -> bool {
        due_at >= self.warm_seconds * SECOND as Nanos
    }

    /// When the last record is due at the latest.
    pub(crate) fn end(&self) -> Nanos {
        (self.warm_seconds + self.seconds) * SECOND as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_counts_as_due_from_its_time_on_and_not_before() {
        let schedule = Schedule::new(10_000_000, 1000, 7, (1, 2));
        for connection in [0, 3, 6] {
            for nth in [0, 1, 2, 99, 2000] {
                let at = schedule.due_at(connection, nth);
                assert_eq!(schedule.due(connection, at), nth + 1);
                if at > 0 {
                    assert_eq!(schedule.due(connection, at - 1), nth);
                }
            }
        }
    }

    #[test]
    fn the_rate_is_kept_over_all_connections() {
        let schedule = Schedule::new(10_000_000, 1024, 8, (0, 3));
        let sent: u64 = (0..8).map(|c| schedule.total(c)).sum();
        assert_eq!(sent, 30_000_000 / 1024 + 1);
        assert_eq!(schedule.due(3, Nanos::MAX), schedule.total(3));
    }

    #[test]
    fn warming_does_not_count() {
        let schedule = Schedule::new(1_000_000, 1000, 1, (2, 2));
        assert!(!schedule.is_measured(schedule.due_at(0, 1999)));
        assert!(schedule.is_measured(schedule.due_at(0, 2000)));
    }
}
