//! What a decoder writes to and a walk reads from. Each thread keeps one for the next batch, so
//! that its pages are neither asked for nor zeroed again.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::cell::Cell;

/// Most bytes that a thread keeps: enough for blocks of 64 KiB, which is what Kafka's clients write,
/// and a large record that lies across them.
const KEPT_BYTES: usize = 256 * 1024;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Output of a decoder that was not looked at yet, behind output that was.
pub(crate) struct Buffer {
    /// All of it may be written to; what is in it may be of another batch.
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

impl Buffer {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self {
            bytes: KEPT.take(),
            begin: 0,
            end: 0,
        }
    }

    /// One that no other batch had.
    #[cfg(test)]
    pub(crate) fn fresh() -> Self {
        Self {
            bytes: Vec::new(),
            begin: 0,
            end: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The output that was not passed yet.
    #[inline]
    pub(crate) fn ahead(&self) -> &[u8] {
        self.bytes.get(self.begin..self.end).unwrap_or_default()
    }

    /// Passes `count` bytes, or all that are there.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.begin = self.end.min(self.begin.saturating_add(count));
    }

    /// Room for `size` bytes behind the output; [`Self::grow`] says how many were written.
    pub(super) fn room(&mut self, size: usize) -> &mut [u8] {
        self.bytes.copy_within(self.begin..self.end, 0);
        self.end -= self.begin;
        self.begin = 0;
        let all = self.end + size;
        if self.bytes.len() < all {
            self.bytes.resize(all, 0);
        }
        self.bytes.get_mut(self.end..all).unwrap_or_default()
    }

    /// Takes `count` bytes of the room, or all of it, as output.
    pub(super) fn grow(&mut self, count: usize) {
        self.end = self.bytes.len().min(self.end + count);
    }

    /// Appends bytes.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.grow(bytes.len());
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEPT_BYTES {
            KEPT.set(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ahead_survives_every_move_and_nothing_else_is_shown() {
        let mut buffer = Buffer::fresh();
        buffer.extend(b"abcdef");
        buffer.advance(4);
        buffer.extend(b"gh");
        assert_eq!(buffer.ahead(), b"efgh");
        buffer.advance(9);
        assert_eq!(buffer.ahead(), b"");
        buffer.room(4).copy_from_slice(b"ijkl");
        assert_eq!(buffer.ahead(), b"", "room is not output");
        buffer.grow(2);
        assert_eq!(buffer.ahead(), b"ij");
        buffer.grow(100);
        assert!(
            buffer.ahead().starts_with(b"ij"),
            "as much as there is room for"
        );
    }

    #[test]
    fn a_thread_keeps_a_small_one_and_no_large_one() {
        KEPT.set(Vec::new());
        Buffer::fresh().room(KEPT_BYTES + 1);
        assert_eq!(Buffer::new().capacity(), 0);
        let mut buffer = Buffer::fresh();
        buffer.extend(&[1; 1000]);
        drop(buffer);
        let mut buffer = Buffer::new();
        assert!(buffer.ahead().is_empty());
        assert_eq!(buffer.room(1000), [1; 1000]);
    }
}
