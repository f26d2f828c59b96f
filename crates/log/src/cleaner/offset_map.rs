//! The newest offset of each key of a dirty range, in a memory that is set beforehand (L-41).
//!
//! A key is known by 128 bits of two keyed hashes, so that nobody can make two keys meet; an offset
//! takes 32 bits, relative to where the range begins. That is 20 bytes a slot, 22.2 a key when full.

use std::hash::{BuildHasher, RandomState};

use strandline_types::Offset;

/// 128 bits of hash, then the relative offset plus one; 0 there is an empty slot. As an array of
/// integers, so that the system's zeroed memory serves and a large map costs what it is filled with.
type Slot = [u32; 5];

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

/// Most offsets that one map can tell apart.
const MAX_SPAN: i64 = u32::MAX as i64 - 1;

#[derive(Debug)]
pub(crate) struct OffsetMap {
    slots: Vec<Slot>,
    /// Keys that may be in it.
    capacity: usize,
    len: usize,
    base: Offset,
    /// Up to here (inclusive) the range was looked at.
    latest: Offset,
    hashers: [RandomState; 2],
}

impl OffsetMap {
    /// A map for a range from `base` on, of at most `max_bytes`, and no larger than `keys` need.
    pub(crate) fn new(base: Offset, keys: u64, max_bytes: usize, load_factor: f64) -> Self {
        let load_factor = load_factor.clamp(0.1, 0.99);
        let wanted = (keys as f64 / load_factor).ceil() + 1.0;
        let slots = (wanted as usize).min(max_bytes / SLOT_BYTES).max(2);
        // At least one slot stays empty: a search ends there.
        let capacity = ((slots as f64 * load_factor) as usize).clamp(1, slots - 1);
        Self {
            slots: vec![[0; 5]; slots],
            capacity,
            len: 0,
            base,
            latest: base - 1,
            hashers: [RandomState::new(), RandomState::new()],
        }
    }

    /// Up to here (inclusive) keys are known; base minus one at first.
    pub(crate) fn latest(&self) -> Offset {
        self.latest
    }

    /// Notes that everything up to `offset` was looked at.
    pub(crate) fn pass(&mut self, offset: Offset) {
        self.latest = self.latest.max(offset);
    }

    /// Share of its room that is used.
    pub(crate) fn utilization(&self) -> f64 {
        self.len as f64 / self.capacity as f64
    }

    /// Notes a key at an offset; false if there is no room for it: the range ends before it.
    /// Offsets must come in ascending order, none below the base.
    pub(crate) fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        let relative = offset - self.base;
        if !(0..=MAX_SPAN).contains(&relative) {
            return false;
        }
        let hash = self.hash(key);
        let at = self.find(&hash);
        let Some(slot) = self.slots.get_mut(at) else {
            return false;
        };
        if slot[4] == 0 {
            if self.len == self.capacity {
                return false;
            }
            self.len += 1;
            slot[..4].copy_from_slice(&hash);
        }
        slot[4] = relative as u32 + 1;
        self.latest = self.latest.max(offset);
        true
    }

    /// The newest offset of a key in the range.
    pub(crate) fn get(&self, key: &[u8]) -> Option<Offset> {
        let slot = self.slots.get(self.find(&self.hash(key)))?;
        (slot[4] > 0).then(|| self.base + i64::from(slot[4]) - 1)
    }

    fn hash(&self, key: &[u8]) -> [u32; 4] {
        let [a, b] = [0, 1].map(|i| self.hashers[i].hash_one(key));
        [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
    }

    /// The slot of this hash, or the empty one where it belongs.
    fn find(&self, hash: &[u32; 4]) -> usize {
        let count = self.slots.len();
        let spread = u64::from(hash[0]) << 32 | u64::from(hash[1]);
        let mut at = ((u128::from(spread) * count as u128) >> 64) as usize;
        while let Some(slot) = self.slots.get(at) {
            if slot[4] == 0 || slot[..4] == *hash {
                return at;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_up_to_its_room(
            keys in prop::collection::vec(0..40_u8, 0..200),
            room in 0..1000_usize,
            base in 0..i64::MAX / 2,
        ) {
            let mut map = OffsetMap::new(base, keys.len() as u64, room, 0.9);
            prop_assert!(map.slots.len() * SLOT_BYTES <= room.max(2 * SLOT_BYTES));
            let mut model: HashMap<u8, Offset> = HashMap::new();
            for (key, offset) in keys.iter().zip(base..) {
                let had_room = model.contains_key(key) || model.len() < map.capacity;
                prop_assert_eq!(map.put(&[*key], offset), had_room);
                if !had_room {
                    break;
                }
                model.insert(*key, offset);
                prop_assert_eq!(map.latest(), offset);
            }
            prop_assert_eq!(map.len, model.len());
            for key in 0..41_u8 {
                prop_assert_eq!(map.get(&[key]), model.get(&key).copied());
            }
        }
    }

    // The goal: at most 24 bytes a key, when it is as full as it may be.
    #[test]
    fn a_full_map_takes_at_most_24_bytes_a_key() {
        let bytes = 1 << 20;
        let mut map = OffsetMap::new(0, u64::MAX, bytes, 0.9);
        let mut keys = 0_i64;
        while map.put(&keys.to_be_bytes(), keys) {
            keys += 1;
        }
        let per_key = bytes as f64 / keys as f64;
        assert!(per_key <= 24.0, "{per_key}");
        assert!((0..keys).all(|k| map.get(&k.to_be_bytes()) == Some(k)));
        assert!((keys..keys + 1000).all(|k| map.get(&k.to_be_bytes()).is_none()));
        assert!(map.utilization() > 0.999);
        // A known key still finds its place, an offset beyond the span does not.
        assert!(map.put(&0_i64.to_be_bytes(), keys));
        assert!(!map.put(&0_i64.to_be_bytes(), 1 << 33));
    }
}
