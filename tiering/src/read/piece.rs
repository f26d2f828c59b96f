//! A part of a chunk on its way to a reader: shared where memory allows, copied where it does not.
//!
//! A slice keeps its whole chunk until its answer is sent. Of a large slice that is little more than its own bytes.
//! For a middling one, as consumers with their usual limit per partition get, a copy would cost more than all else
//! that is done with its bytes, so it is a slice as long as a budget has room for what it keeps besides. A small one
//! is copied.

use std::ops::Range;

use bytes::Bytes;

use super::budget::{ByteBudget, BytePermit};

/// A slice of at least this part of its chunk is free.
const FREE_SHARE: usize = 4;
/// One below this part of its chunk is copied.
const LEAST_SHARE: usize = 64;

/// A slice, with its share of the budget for what it keeps besides its own bytes.
struct Kept {
    bytes: Bytes,
    _permit: BytePermit,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes of `chunk` in `range`, which must lie in it.
pub(crate) fn piece(chunk: &Bytes, range: Range<usize>, budget: &ByteBudget) -> Bytes {
    let len = range.len();
    if len >= chunk.len() / FREE_SHARE {
        return chunk.slice(range);
    }
    let besides = (chunk.len() - len) as u64;
    let is_small = len < chunk.len() / LEAST_SHARE;
    match (!is_small).then(|| budget.try_acquire(besides)).flatten() {
        Some(permit) => Bytes::from_owner(Kept {
            bytes: chunk.slice(range),
            _permit: permit,
        }),
        None => Bytes::copy_from_slice(&chunk[range]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 1 << 20;

    fn is_shared(chunk: &Bytes, piece: &Bytes) -> bool {
        chunk.as_ptr_range().contains(&piece.as_ptr())
    }

    #[test]
    fn middling_pieces_are_shared_while_the_budget_has_room() {
        let chunk = Bytes::from(vec![7; CHUNK]);
        let budget = ByteBudget::new(CHUNK as u64);
        let (middling, small) = (5..5 + CHUNK / 8, 5..5 + CHUNK / 100);
        let first = piece(&chunk, middling.clone(), &budget);
        let second = piece(&chunk, middling.clone(), &budget);
        assert!(is_shared(&chunk, &first) && !is_shared(&chunk, &second));
        assert_eq!((first.len(), &first), (CHUNK / 8, &second));
        // Large ones need no room.
        assert!(is_shared(&chunk, &piece(&chunk, 0..CHUNK / 4, &budget)));

        // The room comes back with the last reader.
        let rest = first.slice(1..);
        drop(first);
        assert!(!is_shared(
            &chunk,
            &piece(&chunk, middling.clone(), &budget)
        ));
        drop(rest);
        assert!(!is_shared(&chunk, &piece(&chunk, small, &budget)));
        assert!(is_shared(&chunk, &piece(&chunk, middling, &budget)));
    }
}
