//! The newest batches in memory, as the bytes that arrived; one budget for the broker (DESIGN §3).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

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

    /// Lets the oldest written batches go until the budget holds. Call without a log's lock.
    pub(crate) fn enforce(&self) {
        while self.used_bytes() > self.capacity {
            let Some(arrival) = self.arrivals.lock().pop_front() else {
                return;
            };
            let (freed, done) = arrival.tail.evict(arrival.last);
            self.used.fetch_sub(freed, Ordering::Relaxed);
            if !done {
                self.arrivals.lock().push_front(arrival);
                return;
            }
        }
    }

    fn forget(&self, tail: &Arc<Tail>, freed: usize) {
        self.used.fetch_sub(freed, Ordering::Relaxed);
        self.arrivals.lock().retain(|a| !Arc::ptr_eq(&a.tail, tail));
    }
}

/// The newest batches of one log, without gaps up to its end.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    inner: Mutex<Inner>,
    /// Mirror of the log's written end.
    written_end: AtomicI64,
}

#[derive(Debug, Default)]
struct Inner {
    batches: VecDeque<Arc<Batch>>,
    /// Number of the first batch here; numbers count all batches that ever arrived.
    first: u64,
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

    pub(crate) fn set_written_end(&self, offset: Offset) {
        self.written_end.store(offset, Ordering::Release);
    }

    /// Lets batches up to number `last` go; freed bytes, and whether all of them went.
    fn evict(&self, last: u64) -> (usize, bool) {
        let written = self.written_end.load(Ordering::Acquire);
        let mut freed = 0;
        let mut inner = self.inner.lock();
        while inner.first <= last {
            let Some(batch) = inner.batches.front() else {
                break;
            };
            if batch.header().next_offset() > written {
                return (freed, false);
            }
            freed += cost(batch);
            inner.batches.pop_front();
            inner.first += 1;
        }
        if inner.batches.is_empty() {
            inner.batches = VecDeque::new();
        }
        (freed, true)
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
        drop(inner);
        // Arrivals whose turn never comes would gather where little arrives between two cleanings.
        let is_left =
            |arrival: &Arrival| !Arc::ptr_eq(&arrival.tail, self) || arrival.last >= first;
        budget.arrivals.lock().retain(is_left);
        budget.used.fetch_sub(freed, Ordering::Relaxed);
    }

    /// Lets everything go, as the log does.
    pub(crate) fn clear(self: &Arc<Self>, budget: &TailBudget) {
        let batches = {
            let mut inner = self.inner.lock();
            inner.first += inner.batches.len() as u64;
            std::mem::take(&mut inner.batches)
        };
        budget.forget(self, batches.iter().map(|b| cost(b)).sum());
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
        b.set_written_end(4);
        budget.enforce();
        assert_eq!(budget.used_bytes(), 4 * one); // a's first is the oldest
        a.set_written_end(2);
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
