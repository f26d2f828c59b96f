//! Memory for what is read from the store, used again.
//!
//! The pages of a fresh buffer cost more to get from the kernel than its bytes cost to copy, and a replay needs one
//! for each chunk. So a buffer comes back when the last reader of its bytes is done, and waits a short while for
//! the next read. What waits is bounded, and a broker without reads keeps nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use strandline_env::huge_pages;

/// Smaller reads are the allocator's business.
const LEAST_BYTES: usize = 256 << 10;
/// Sizes of buffers are multiples of this, so that they fit each other.
const STEP_BYTES: usize = 256 << 10;
/// Bytes that may wait.
const IDLE_BYTES: usize = 64 << 20;
/// How long they wait for another read.
const IDLE: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct BufferPool {
    shared: Arc<Mutex<Idle>>,
}

#[derive(Debug, Default)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    /// Nobody took or gave one since the last look.
    untouched: bool,
    watched: bool,
}

/// A buffer being filled.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    /// At least `len` bytes.
    bytes: Vec<u8>,
    len: usize,
    pool: Weak<Mutex<Idle>>,
}

impl BufferPool {
    /// A buffer of `len` bytes with any content. Must be called within a tokio runtime.
    pub(crate) fn take(&self, len: usize) -> ReadBuffer {
        if len < LEAST_BYTES {
            return ReadBuffer {
                bytes: vec![0; len],
                len,
                pool: Weak::new(),
            };
        }
        let size = len.next_multiple_of(STEP_BYTES);
        huge_pages::moved(size);
        let bytes = self.shared.lock().take(size);
        ReadBuffer {
            bytes: bytes.unwrap_or_else(|| vec![0; size]),
            len,
            pool: Arc::downgrade(&self.shared),
        }
    }

    /// Lets go of what waits, from the first buffer that came back until none is left.
    fn watch(shared: &Arc<Mutex<Idle>>) {
        let shared = Arc::downgrade(shared);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                if !shared.lock().keep_watching() {
                    return;
                }
            }
        });
    }
}

impl Idle {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        self.untouched = false;
        // A little larger will do; a lot larger would hold memory that nobody counts.
        let fits = |have: usize| have >= size && have - size <= size / 4;
        let at = self.buffers.iter().rposition(|buffer| fits(buffer.len()))?;
        let buffer = self.buffers.swap_remove(at);
        self.bytes -= buffer.len();
        Some(buffer)
    }

    /// False when there is no room for it; then it is freed.
    fn give(&mut self, buffer: Vec<u8>) -> bool {
        self.untouched = false;
        let fits = self.bytes + buffer.len() <= IDLE_BYTES;
        if fits {
            self.bytes += buffer.len();
            self.buffers.push(buffer);
        }
        fits
    }

    fn keep_watching(&mut self) -> bool {
        if self.untouched {
            *self = Self::default();
            return false;
        }
        self.untouched = true;
        true
    }
}

impl ReadBuffer {
    /// The bytes to fill.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// What was filled; the buffer comes back with the last reference to it.
    pub(crate) fn freeze(self) -> Bytes {
        if self.pool.strong_count() == 0 {
            let mut this = self;
            this.bytes.truncate(this.len);
            return std::mem::take(&mut this.bytes).into();
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ReadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let Some(shared) = self.pool.upgrade() else {
            return;
        };
        let mut idle = shared.lock();
        let kept = idle.give(std::mem::take(&mut self.bytes));
        // The last reader may be anywhere; without a runtime there, the next one watches.
        if kept && !idle.watched && tokio::runtime::Handle::try_current().is_ok() {
            idle.watched = true;
            drop(idle);
            BufferPool::watch(&shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn idle_bytes(pool: &BufferPool) -> usize {
        pool.shared.lock().bytes
    }

    #[tokio::test(start_paused = true)]
    async fn a_buffer_comes_back_with_its_last_reader_and_is_freed_when_nobody_reads() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(4 * MIB - 5);
        buffer.bytes_mut().fill(7);
        let place = buffer.as_ref().as_ptr();
        let bytes = buffer.freeze();
        let part = bytes.slice(10..20);
        drop(bytes);
        assert_eq!((idle_bytes(&pool), &part[..2]), (0, &[7, 7][..]));
        drop(part);
        assert_eq!(idle_bytes(&pool), 4 * MIB);

        // Far smaller reads do not take it, one of about its size does.
        drop(pool.take(2 * MIB));
        assert_eq!(idle_bytes(&pool), 6 * MIB);
        let again = pool.take(4 * MIB - 300_000);
        assert_eq!(again.as_ref().as_ptr(), place);
        assert_eq!(again.as_ref().len(), 4 * MIB - 300_000);
        drop(again);

        tokio::time::sleep(IDLE * 3).await;
        assert_eq!(idle_bytes(&pool), 0);
        // The watch begins anew.
        drop(pool.take(MIB));
        assert_eq!(idle_bytes(&pool), MIB);
        tokio::time::sleep(IDLE * 3).await;
        assert_eq!(idle_bytes(&pool), 0);
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let pool = BufferPool::default();
        let many: Vec<_> = (0..20).map(|_| pool.take(8 * MIB)).collect();
        drop(many);
        assert_eq!(idle_bytes(&pool), IDLE_BYTES);
    }

    #[tokio::test]
    async fn small_reads_and_lost_pools_are_plain_memory() {
        let pool = BufferPool::default();
        let small = pool.take(100);
        drop(small.freeze());
        assert_eq!(idle_bytes(&pool), 0);
        let buffer = pool.take(MIB + 1);
        drop(pool);
        assert_eq!(buffer.freeze().len(), MIB + 1);
    }
}
