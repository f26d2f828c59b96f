//! The steps that end transactions: at the client's word, by a fence, by the time.

use crate::model::expected::Marker;
use crate::model::history::History;
use crate::model::plan::{TRANSACTION_TIMEOUT_MS, TRANSACTIONAL, Who};
use crate::model::producing::plain_spec;

/// The version of EndTxn that each generation speaks.
const END: [i16; 2] = [3, 5];

impl History {
    /// Number of the transaction that it ended, if one was open.
    pub(super) async fn end(&mut self, which: usize, commit: bool) -> Option<usize> {
        // Whoever has one open, beginning with this one.
        let mut all = (which..TRANSACTIONAL).chain(0..which);
        let which = all.find(|which| self.transactional[*which].open.is_some())?;
        let number = self.transactional[which].open?;
        let pid = self.transactional[which].pid.unwrap();
        let version = END[usize::from(which > 0)];
        let (code, next) = self.world.end(version, which, pid, commit).await;
        assert_eq!(code, 0, "EndTxn");
        self.note_end(number, commit);
        let producer = &mut self.transactional[which];
        producer.last_end = Some((pid, commit, next));
        if which > 0 {
            assert_eq!(next, (pid.0, pid.1 + 1), "T-33");
            producer.become_new(Some(next));
        }
        producer.last.clear();
        Some(number)
    }

    /// Whoever starts finds the end decided, and writes the markers that are there already.
    pub(super) async fn kill_before_complete(&mut self, number: usize) {
        self.settle().await;
        self.coverage.kills += 1;
        self.world.kill_before_complete().await;
        self.coverage.repeated_markers += self.expect_markers(number);
    }

    /// The markers of a transaction are due; how many.
    fn expect_markers(&mut self, number: usize) -> usize {
        let transaction = &self.transactions[number];
        for topic in &transaction.topics {
            self.model[*topic].due.push(Marker {
                transaction: number,
                producer_id: transaction.pid.0,
                committed: transaction.outcome == Some(true),
            });
        }
        transaction.topics.len()
    }

    /// The outcome is decided; markers are due.
    fn note_end(&mut self, number: usize, committed: bool) {
        self.transactions[number].outcome = Some(committed);
        self.expect_markers(number);
        let producer = &mut self.transactional[self.transactions[number].which];
        producer.open = None;
        producer.last_end = None;
        let count = match committed {
            true => &mut self.coverage.committed,
            false => &mut self.coverage.aborted,
        };
        *count += 1;
    }

    /// The table of 5.5, and T-33: the answer to the last end was lost.
    pub(super) async fn end_again(&mut self, which: usize, commit: bool) {
        let producer = &self.transactional[which];
        if producer.open.is_some() {
            return;
        }
        let Some((asked, was, told)) = producer.last_end else {
            return;
        };
        let version = END[usize::from(which > 0)];
        let answer = self.world.end(version, which, asked, commit).await;
        if commit == was {
            assert_eq!(answer, (0, told), "T-33");
        } else {
            assert_eq!(answer.0, 48, "5.5");
        }
    }

    /// T-3
    pub(super) async fn fence(&mut self, which: usize) {
        let Some(old) = self.transactional[which].pid else {
            return;
        };
        let new = self.world.init(which).await;
        assert!(
            new.0 == old.0 && new.1 > old.1,
            "T-3: {new:?} after {old:?}"
        );
        if let Some(number) = self.transactional[which].open {
            self.note_end(number, false);
        }
        let producer = &mut self.transactional[which];
        producer.become_new(Some(new));
        producer.last_end = None;
        producer.zombie = Some(old);
    }

    /// T-52
    pub(super) async fn zombie(&mut self, which: usize, to: usize) {
        let Some(zombie) = self.transactional[which].zombie else {
            return;
        };
        let pid = self.transactional[which].pid.replace(zombie);
        let who = Who::Transactional(which);
        let (bytes, _) = self.batch(who, to, &[plain_spec()], 0, 0);
        assert_eq!(self.send(who, to, bytes).await.0, 47, "T-52");
        let version = END[usize::from(which > 0)];
        let commit = self.world.end(version, which, zombie, true).await;
        let abort = self.world.end(version, which, zombie, false).await;
        self.transactional[which].pid = pid;
        if which > 0 && pid.is_none() {
            // The time fenced it, and nobody has taken its place: it may abort, and go on (T-33).
            let next = (zombie.0, zombie.1 + 1);
            assert_eq!((commit.0, abort), (48, (0, next)), "T-50");
            self.transactional[which].become_new(Some(next));
            self.transactional[which].zombie = None;
        } else {
            assert_eq!((commit.0, abort.0), (90, 90), "T-52");
        }
    }

    pub(super) async fn advance(&mut self, ms: u64) {
        self.world.advance(ms);
        self.world.settled().await;
        let now_ms = self.world.now_ms();
        for which in 0..TRANSACTIONAL {
            let Some(number) = self.transactional[which].open else {
                continue;
            };
            if !self.world.is_ongoing(which) {
                let age_ms = now_ms - self.transactions[number].start_ms;
                assert!(
                    age_ms > TRANSACTION_TIMEOUT_MS,
                    "T-50: aborted after {age_ms} ms"
                );
                self.note_timed_out(which, number);
            }
        }
    }

    /// T-50
    pub(super) async fn time_out(&mut self) {
        self.world.advance(TRANSACTION_TIMEOUT_MS as u64 + 1);
        self.world.settled().await;
        for which in 0..TRANSACTIONAL {
            if let Some(number) = self.transactional[which].open {
                assert!(!self.world.is_ongoing(which), "T-50");
                self.note_timed_out(which, number);
            }
        }
    }

    fn note_timed_out(&mut self, which: usize, number: usize) {
        self.coverage.timed_out += 1;
        self.note_end(number, false);
        let producer = &mut self.transactional[which];
        producer.zombie = producer.pid;
        producer.become_new(None);
    }
}
