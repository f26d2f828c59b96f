//! Who waits for a partition: producers for the high watermark, fetches for any change.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use strandline_types::Offset;
use tokio::sync::{Notify, oneshot};

use crate::partition::CommitError;

type Committed = Result<(), CommitError>;

/// What happens when an offset is reached.
enum Wait {
    Tell(oneshot::Sender<Committed>),
    /// Done by whoever advances: it must not block.
    Call(Box<dyn FnOnce(Committed) + Send>),
}

impl Wait {
    fn end(self, how: Committed) {
        match self {
            // The receiver may be gone.
            Self::Tell(sender) => drop(sender.send(how)),
            Self::Call(call) => call(how),
        }
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}

#[derive(Debug, Default)]
struct Lists {
    /// Ordered by offset: appends enter in order, so this is a push to the end.
    commits: VecDeque<(Offset, Wait)>,
    fetches: Vec<Weak<Notify>>,
}

/// The parked requests of one partition; costs nothing while nobody waits.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    lists: Mutex<Lists>,
}

impl Waiters {
    /// Completes when the high watermark reaches `end_offset` (exclusive).
    pub(super) fn wait_for(&self, end_offset: Offset) -> oneshot::Receiver<Committed> {
        let (sender, receiver) = oneshot::channel();
        self.enter(end_offset, Wait::Tell(sender));
        receiver
    }

    /// Calls when the high watermark reaches `end_offset` (exclusive), or never will.
    pub(super) fn call_at(
        &self,
        end_offset: Offset,
        call: impl FnOnce(Committed) + Send + 'static,
    ) {
        self.enter(end_offset, Wait::Call(Box::new(call)));
    }

    fn enter(&self, end_offset: Offset, wait: Wait) {
        let mut lists = self.lists.lock();
        let at = lists
            .commits
            .iter()
            .rposition(|(o, _)| *o <= end_offset)
            .map_or(0, |i| i + 1);
        lists.commits.insert(at, (end_offset, wait));
    }

    /// Wakes `notify` once, at the next change.
    pub(super) fn watch(&self, notify: &Arc<Notify>) {
        let mut lists = self.lists.lock();
        if lists.fetches.len() >= 16 && lists.fetches.len().is_power_of_two() {
            lists.fetches.retain(|w| w.strong_count() > 0);
        }
        // A fetch that was woken by another of its partitions is on the list still.
        let is_there = lists
            .fetches
            .iter()
            .any(|w| std::ptr::eq(w.as_ptr(), Arc::as_ptr(notify)));
        if !is_there {
            lists.fetches.push(Arc::downgrade(notify));
        }
    }

    /// The high watermark is at `high_watermark` now, or something else that readers see changed.
    pub(super) fn advance(&self, high_watermark: Offset) {
        let (done, fetches) = {
            let mut lists = self.lists.lock();
            let n = lists
                .commits
                .iter()
                .take_while(|(o, _)| *o <= high_watermark)
                .count();
            let done: Vec<_> = lists.commits.drain(..n).collect();
            (done, std::mem::take(&mut lists.fetches))
        };
        // Outside the lock.
        for (_, wait) in done {
            wait.end(Ok(()));
        }
        wake(&fetches);
    }

    /// Ends every wait.
    pub(super) fn fail(&self, why: CommitError) {
        let lists = std::mem::take(&mut *self.lists.lock());
        for (_, wait) in lists.commits {
            wait.end(Err(why));
        }
        wake(&lists.fetches);
    }
}

fn wake(fetches: &[Weak<Notify>]) {
    for notify in fetches.iter().filter_map(Weak::upgrade) {
        notify.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commits_complete_in_order_of_offsets_and_only_when_reached() {
        let waiters = Waiters::default();
        let mut late = waiters.wait_for(20);
        let mut early = waiters.wait_for(10);
        waiters.advance(9);
        assert!(early.try_recv().is_err());
        waiters.advance(10);
        assert_eq!(early.try_recv(), Ok(Ok(())));
        assert!(late.try_recv().is_err());
        waiters.fail(CommitError::Storage);
        assert_eq!(late.await, Ok(Err(CommitError::Storage)));
    }

    #[tokio::test]
    async fn a_watcher_is_woken_by_a_change_that_comes_before_it_waits() {
        let waiters = Waiters::default();
        let notify = Arc::new(Notify::new());
        waiters.watch(&notify);
        waiters.advance(1);
        notify.notified().await;
    }
}
