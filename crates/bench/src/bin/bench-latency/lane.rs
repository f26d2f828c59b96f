//! What one connection has sent, and what it waits for: as a producer with `linger.ms=0` does, a
//! record goes out when it is due, and records that find all requests taken share the next one.

use std::collections::VecDeque;

use crate::schedule::{Nanos, Schedule};

/// A request without its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The first of its records, counted from 0 by connection.
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// One connection's place in the schedule.
#[derive(Debug)]
pub(crate) struct Lane {
    connection: u32,
    schedule: Schedule,
    in_flight: usize,
    most_records: u64,
    sent: u64,
    waiting: VecDeque<Sent>,
    /// Since when a request may be sent.
    open_since: Nanos,
}

impl Lane {
    /// At most `in_flight` requests without an answer, each of at most `most_records`.
    pub(crate) fn new(
        connection: u32,
        schedule: Schedule,
        in_flight: usize,
        most_records: u64,
    ) -> Self {
        Self {
            connection,
            schedule,
            in_flight,
            most_records: most_records.max(1),
            sent: 0,
            waiting: VecDeque::new(),
            open_since: 0,
        }
    }

    /// The request to send now, if there is one, and how late the driver is with it: by how much
    /// its first record could have gone earlier.
    pub(crate) fn next(&mut self, now: Nanos) -> Option<(Sent, Nanos)> {
        let due = self.schedule.due(self.connection, now);
        if self.waiting.len() >= self.in_flight || due <= self.sent {
            return None;
        }
        let first_due = self.schedule.due_at(self.connection, self.sent);
        let late = now.saturating_sub(first_due.max(self.open_since));
        let sent = Sent {
            first: self.sent,
            count: (due - self.sent).min(self.most_records),
        };
        self.sent += sent.count;
        self.waiting.push_back(sent);
        Some((sent, late))
    }

    /// The oldest request is answered; what came with it.
    pub(crate) fn answered(&mut self, now: Nanos) -> Option<Sent> {
        if self.waiting.len() == self.in_flight {
            self.open_since = now;
        }
        self.waiting.pop_front()
    }

    /// Times that the records of a request took, each from when it was due; without warming.
    pub(crate) fn latencies(&self, sent: Sent, now: Nanos) -> impl Iterator<Item = Nanos> {
        (sent.first..sent.first + sent.count)
            .map(|nth| self.schedule.due_at(self.connection, nth))
            .filter(|due_at| self.schedule.is_measured(*due_at))
            .map(move |due_at| now.saturating_sub(due_at))
    }

    /// When to come back without an answer; `None` when only an answer helps.
    pub(crate) fn wakes_at(&self) -> Option<Nanos> {
        let may_send = self.waiting.len() < self.in_flight && !self.is_all_sent();
        may_send.then(|| self.schedule.due_at(self.connection, self.sent))
    }

    /// Everything is sent and answered.
    pub(crate) fn is_done(&self) -> bool {
        self.is_all_sent() && self.waiting.is_empty()
    }

    fn is_all_sent(&self) -> bool {
        self.sent >= self.schedule.total(self.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One record each millisecond, for two seconds, the first one warming.
    fn lane(in_flight: usize) -> Lane {
        let schedule = Schedule::new(1_000_000, 1000, 1, (1, 1));
        Lane::new(0, schedule, in_flight, 1_000_000)
    }

    const MS: Nanos = 1_000_000;

    #[test]
    fn a_record_goes_when_it_is_due() {
        let mut lane = lane(5);
        assert_eq!(lane.next(0), Some((Sent { first: 0, count: 1 }, 0)));
        assert_eq!(lane.next(MS - 1), None);
        assert_eq!(lane.wakes_at(), Some(MS));
        let late = MS + 300;
        assert_eq!(lane.next(late), Some((Sent { first: 1, count: 1 }, 300)));
    }

    #[test]
    fn a_stall_is_counted_for_every_record_that_was_due_meanwhile() {
        let mut lane = lane(1);
        for nth in 0..1500 {
            assert!(lane.next(nth * MS).is_some());
            assert!(lane.answered(nth * MS + 1).is_some());
        }
        // The broker keeps the request of 1.500 s for 100 ms.
        assert!(lane.next(1500 * MS).is_some());
        assert_eq!(lane.next(1599 * MS), None);
        assert_eq!(lane.wakes_at(), None);
        let stalled = lane.answered(1600 * MS).expect("was sent");
        assert_eq!(
            lane.latencies(stalled, 1600 * MS).collect::<Vec<_>>(),
            [100 * MS]
        );
        let (rest, late) = lane.next(1600 * MS).expect("is due");
        assert_eq!((rest.count, late), (100, 0));
        let found: Vec<_> = lane.latencies(rest, 1601 * MS).collect();
        assert_eq!((found[0], found[99]), (100 * MS, MS));
    }

    #[test]
    fn warming_records_have_no_latency_and_the_end_is_known() {
        let mut lane = lane(5);
        let (first, _) = lane.next(0).expect("is due");
        assert_eq!(lane.latencies(first, MS).count(), 0);
        let (rest, _) = lane.next(Nanos::MAX).expect("is due");
        assert_eq!(rest.count, 2000);
        assert!(!lane.is_done());
        assert!(lane.answered(0).is_some() && lane.answered(0).is_some());
        assert!(lane.is_done());
    }
}
