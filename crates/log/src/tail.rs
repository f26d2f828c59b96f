//! The newest batches in memory, as the bytes that arrived; one budget for the broker (DESIGN §3).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use strandline_records::Batch;
use strandline_types::Offset;

/// What a batch costs besides its bytes: its struct, its places in the two queues.
const OVERHEAD_BYTES: usize = 192;
/// Arrivals of one log in a row are evicted together up to this size.
const GROUP_BYTES: usize = 64 * 1024;

fn cost(batch: &Batch) -> usize {
    batch.size_in_bytes() + OVERHEAD_BYTES
}

/// The memory that all tails of a broker share. When it is used up, the oldest arrivals leave
/// first, whichever log they belong to; what is not written yet never leaves.
#[derive(Debug)]
pub struct TailBudget {
    capacity: usize,
    used: AtomicUsize,
    arrivals: Mutex<VecDeque<Arrival>>,
}

#[derive(Debug)]
struct Arrival {
    tail: Arc<Tail>,
    /// Number of the last batch of the group in its tail.
    last: u64,
    bytes: usize,
}

impl TailBudget {
    /// A budget of `capacity` bytes.
    pub fn new(capacity: usize) -> Arc<Self> {
        let (used, arrivals) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self {
            capacity,
            used,
            arrivals,
        })
    }

    /// Bytes in use. Above the capacity only by what is not written yet.
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn arrived(&self, tail: &Arc<Tail>, number: u64, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        let mut arrivals = self.arrivals.lock();
        match arrivals.back_mut() {
            Some(last) if last.bytes < GROUP_BYTES && Arc::ptr_eq(&last.tail, tail) => {
                last.last = number;
                last.bytes += bytes;
            }
            _ => arrivals.push_back(Arrival {
                tail: Arc::clone(tail),
                last: number,
                bytes,
            }),
        }
    }

    /// Lets the oldest written batches go until the budget holds. Those whose turn comes before they are
    /// written are left to [`Tail::set_written_end`]: a directory that hangs holds up no other, and what
    /// waits in it is not gone through again. Call without a log's lock.
    pub(crate) fn enforce(&self) {
        loop {
            let excess = self.used_bytes().saturating_sub(self.capacity);
            if excess == 0 {
                return;
            }
            let Some(arrival) = self.arrivals.lock().pop_front() else {
                return;
            };
            let (freed, has_more) = arrival.tail.evict(arrival.last, excess.max(GROUP_BYTES));
            self.used.fetch_sub(freed, Ordering::Relaxed);
            if has_more {
                self.arrivals.lock().push_front(arrival);
            }
        }
    }

    /// Forgets the arrivals that are gone: to be called when tails were emptied.
    pub(crate) fn sweep(&self) {
        let mut arrivals = self.arrivals.lock();
        arrivals.retain(|arrival| arrival.last >= arrival.tail.inner.lock().first);
    }

    fn forget(&self, tail: &Arc<Tail>) {
        self.arrivals.lock().retain(|a| !Arc::ptr_eq(&a.tail, tail));
    }
}

/// The newest batches of one log, without gaps up to its end.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    batches: VecDeque<Arc<Batch>>,
    /// Number of the first batch here; numbers count all batches that ever arrived.
    first: u64,
    /// Mirror of the log's written end.
    written_end: Offset,
    /// Up to this number it was the batches' turn to leave, and they were not written.
    due: Option<u64>,
}

/// What a read of the tail gives.
#[derive(Debug)]
pub(crate) struct TailRead {
    pub(crate) batches: Vec<Arc<Batch>>,
    pub(crate) size: usize,
    pub(crate) end_offset: Offset,
}

impl Tail {
    /// Adds a batch. Called under the log's lock, so batches come in order.
    pub(crate) fn push(self: &Arc<Self>, batch: Arc<Batch>, budget: &TailBudget) {
        let bytes = cost(&batch);
        let number = {
            let mut inner = self.inner.lock();
            inner.batches.push_back(batch);
            inner.first + inner.batches.len() as u64 - 1
        };
        budget.arrived(self, number, bytes);
    }

    /// Notes what is written. What was to leave before it was is the first to leave now.
    pub(crate) fn set_written_end(self: &Arc<Self>, offset: Offset, budget: &TailBudget) {
        let due = {
            let mut inner = self.inner.lock();
            inner.written_end = offset;
            inner.due.take()
        };
        if let Some(last) = due {
            budget.arrivals.lock().push_front(Arrival {
                tail: Arc::clone(self),
                last,
                bytes: GROUP_BYTES, // nothing is added to it
            });
        }
    }

    /// Lets batches up to number `last` go, of about `enough` bytes: the bytes that went, and whether
    /// there are more that can.
    fn evict(&self, last: u64, enough: usize) -> (usize, bool) {
        let mut freed = 0;
        let mut inner = self.inner.lock();
        while inner.first <= last {
            let Some(batch) = inner.batches.front() else {
                break;
            };
            if batch.header().next_offset() > inner.written_end {
                inner.due = inner.due.max(Some(last));
                return (freed, false);
            }
            if freed >= enough {
                return (freed, true);
            }
            freed += cost(batch);
            inner.batches.pop_front();
            inner.first += 1;
        }
        if inner.batches.is_empty() {
            inner.batches = VecDeque::new();
        }
        (freed, false)
    }

    /// Lets the batches below `end` go: cleaning has changed what is in the file.
    pub(crate) fn drop_below(self: &Arc<Self>, end: Offset, budget: &TailBudget) {
        let mut freed = 0;
        let mut inner = self.inner.lock();
        while let Some(batch) = inner
            .batches
            .pop_front_if(|batch| batch.header().next_offset() <= end)
        {
            freed += cost(&batch);
            inner.first += 1;
        }
        let first = inner.first;
        inner.due = inner.due.filter(|due| *due >= first);
        drop(inner);
        // Arrivals whose turn never comes would gather where little arrives between two cleanings.
        let is_left =
            |arrival: &Arrival| !Arc::ptr_eq(&arrival.tail, self) || arrival.last >= first;
        budget.arrivals.lock().retain(is_left);
        budget.used.fetch_sub(freed, Ordering::Relaxed);
    }

    /// Lets everything go, as the log does.
    pub(crate) fn clear(self: &Arc<Self>, budget: &TailBudget) {
        self.empty(budget);
        budget.forget(self);
    }

    /// Lets everything go, but for the arrivals: see [`TailBudget::sweep`].
    pub(crate) fn empty(&self, budget: &TailBudget) {
        let batches = {
            let mut inner = self.inner.lock();
            inner.first += inner.batches.len() as u64;
            inner.due = None;
            std::mem::take(&mut inner.batches)
        };
        let freed = batches.iter().map(|b| cost(b)).sum();
        budget.used.fetch_sub(freed, Ordering::Relaxed);
    }

    /// Whole batches from the one that holds `start`, that end at or below `upper` (exclusive),
    /// of at most `max_bytes` (the first one of any size if `min_one`). `None` when the tail begins
    /// after `start`.
    pub(crate) fn read(
        &self,
        start: Offset,
        max_bytes: usize,
        upper: Offset,
        min_one: bool,
    ) -> Option<TailRead> {
        let inner = self.inner.lock();
        if inner.batches.front()?.header().base_offset > start {
            return None;
        }
        let mut read = TailRead {
            batches: Vec::new(),
            size: 0,
            end_offset: start,
        };
        let from = inner
            .batches
            .partition_point(|b| b.header().last_offset() < start);
        for batch in inner.batches.range(from..) {
            let next = batch.header().next_offset();
            let size = batch.size_in_bytes();
            let fits = read.size + size <= max_bytes || (min_one && read.batches.is_empty());
            if next > upper || !fits {
                break;
            }
            read.size += size;
            read.end_offset = next;
            read.batches.push(Arc::clone(batch));
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::BatchSpec;

    fn batch(base: Offset, size: usize) -> Arc<Batch> {
        let mut batch = BatchSpec {
            size,
            count: 2,
            ..BatchSpec::default()
        }
        .build();
        batch.set_offset_and_epoch(base, 0);
        Arc::new(batch)
    }

    #[test]
    fn the_oldest_arrival_leaves_first_over_all_logs_but_never_unwritten() {
        let one = cost(&batch(0, GROUP_BYTES));
        let budget = TailBudget::new(3 * one);
        let (a, b) = (Arc::new(Tail::default()), Arc::new(Tail::default()));
        for (tail, base) in [(&a, 0), (&b, 0), (&a, 2), (&b, 2)] {
            tail.push(batch(base, GROUP_BYTES), &budget);
        }
        budget.enforce();
        assert_eq!(budget.used_bytes(), 4 * one); // nothing is written
        a.set_written_end(2, &budget);
        budget.enforce();
        assert_eq!(budget.used_bytes(), 3 * one);
        assert!(a.read(0, 1, 10, true).is_none());
        assert_eq!(a.read(3, 1, 10, true).unwrap().end_offset, 4);
        assert_eq!(b.read(0, 1, 10, true).unwrap().end_offset, 2);
        a.clear(&budget);
        assert_eq!(budget.used_bytes(), 2 * one);
        b.clear(&budget);
        assert_eq!((budget.used_bytes(), budget.arrivals.lock().len()), (0, 0));
    }

    // L-27: the budget is shared by all directories
    #[test]
    fn what_a_hanging_directory_does_not_write_holds_up_no_other() {
        let one = cost(&batch(0, GROUP_BYTES));
        let budget = TailBudget::new(12 * one);
        let (hung, other) = (Arc::new(Tail::default()), Arc::new(Tail::default()));
        for base in (0..20).step_by(2) {
            hung.push(batch(base, GROUP_BYTES), &budget);
        }
        for base in (0..100).step_by(2) {
            other.push(batch(base, GROUP_BYTES), &budget);
            other.set_written_end(base + 2, &budget);
            budget.enforce();
            assert!(budget.used_bytes() <= 12 * one, "{base}");
            // Each of the other's costs the same, however much waits.
            assert!(budget.arrivals.lock().len() <= 12, "{base}");
        }
        assert_eq!(hung.read(0, 1, 100, true).unwrap().end_offset, 2);
        assert_eq!(budget.arrivals.lock().len(), 2);
        // It goes on, and its own are the oldest; no more of them leave than must.
        hung.set_written_end(20, &budget);
        other.push(batch(100, GROUP_BYTES), &budget);
        budget.enforce();
        assert_eq!(budget.used_bytes(), 12 * one);
        assert!(hung.read(0, 1, 100, true).is_none());
        assert_eq!(hung.read(2, 1, 100, true).unwrap().end_offset, 4);
        assert_eq!(other.read(96, 1, 200, true).unwrap().end_offset, 98);
    }

    #[test]
    fn a_batch_that_is_written_while_its_turn_comes_is_not_forgotten() {
        let one = cost(&batch(0, GROUP_BYTES));
        let budget = TailBudget::new(0);
        let tail = Arc::new(Tail::default());
        for base in [0, 2] {
            tail.push(batch(base, GROUP_BYTES), &budget);
            budget.enforce();
        }
        assert_eq!(
            (budget.used_bytes(), budget.arrivals.lock().len()),
            (2 * one, 0)
        );
        for (end, left) in [(2, 1), (4, 0)] {
            tail.set_written_end(end, &budget);
            budget.enforce();
            assert_eq!(budget.used_bytes(), left * one);
        }
        assert_eq!(budget.arrivals.lock().len(), 0);
    }

    #[test]
    fn what_cleaning_takes_leaves_no_trace() {
        let budget = TailBudget::new(1 << 30);
        let tail = Arc::new(Tail::default());
        for base in (0..100).step_by(2) {
            tail.push(batch(base, GROUP_BYTES), &budget);
        }
        tail.drop_below(60, &budget);
        let one = cost(&batch(0, GROUP_BYTES));
        assert_eq!(budget.used_bytes(), 20 * one);
        assert_eq!(budget.arrivals.lock().len(), 20);
        tail.drop_below(100, &budget);
        assert_eq!((budget.used_bytes(), budget.arrivals.lock().len()), (0, 0));
        tail.push(batch(100, 10), &budget);
        tail.empty(&budget);
        budget.sweep();
        assert_eq!((budget.used_bytes(), budget.arrivals.lock().len()), (0, 0));
    }

    #[test]
    fn reads_end_at_whole_batches_below_the_upper_bound() {
        let budget = TailBudget::new(1 << 20);
        let tail = Arc::new(Tail::default());
        for base in 0..5 {
            tail.push(batch(base * 2, 100), &budget);
        }
        let size = batch(0, 100).size_in_bytes();
        let read = |start, max, upper, one| {
            let r = tail.read(start, max, upper, one).unwrap();
            (r.batches.len(), r.end_offset)
        };
        assert_eq!(read(3, 10 * size, 100, false), (4, 10));
        assert_eq!(read(3, 10 * size, 7, false), (2, 6));
        assert_eq!(read(3, 2 * size - 1, 100, false), (1, 4));
        assert_eq!(read(3, 1, 100, true), (1, 4));
        assert_eq!(read(3, 1, 100, false), (0, 3));
        assert_eq!(read(10, 1, 100, true), (0, 10));
    }
}
