//! A sorted map whose clone is one pointer and whose update copies about √n entries.
//!
//! Entries lie in chunks behind `Arc`s. A clone shares all chunks; the first change after a clone
//! copies the list of chunks and one chunk. Two versions are compared by skipping the chunks that
//! they share, so that a difference costs what changed, not what exists.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::sync::Arc;

/// Chunks split at this many entries.
const MAX_CHUNK: usize = 128;

type Chunk<K, V> = Arc<Vec<(K, V)>>;

/// See the module. No chunk is empty.
#[derive(Debug, Clone)]
pub(crate) struct SortedMap<K, V> {
    chunks: Arc<Vec<Chunk<K, V>>>,
    len: usize,
}

/// One difference between two versions of a map.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change<'a, K, V> {
    Added(&'a K, &'a V),
    Removed(&'a K, &'a V),
    /// Old value, new value. They may be equal: the chunk was copied, the entry need not have changed.
    Touched(&'a K, &'a V, &'a V),
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> SortedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let chunk = self.chunks.get(self.chunk_of(key))?;
        let at = chunk.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        chunk.get(at).map(|(_, value)| value)
    }

    /// A value to change in place; copies what is shared.
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get(at)?;
        let entry = chunk.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let chunk = Arc::make_mut(&mut self.chunks).get_mut(at)?;
        Arc::make_mut(chunk).get_mut(entry).map(|(_, value)| value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at = self.chunk_of(&key).min(self.chunks.len().saturating_sub(1));
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(slot) = chunks.get_mut(at) else {
            chunks.push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let chunk = Arc::make_mut(slot);
        match chunk.binary_search_by(|(k, _)| k.cmp(&key)) {
            Ok(found) => chunk
                .get_mut(found)
                .map(|(_, old)| std::mem::replace(old, value)),
            Err(place) => {
                chunk.insert(place, (key, value));
                self.len += 1;
                if chunk.len() > MAX_CHUNK {
                    let upper = chunk.split_off(MAX_CHUNK / 2);
                    chunks.insert(at + 1, Arc::new(upper));
                }
                None
            }
        }
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.chunk_of(key);
        let chunk = self.chunks.get(at)?;
        let entry = chunk.binary_search_by(|(k, _)| k.borrow().cmp(key)).ok()?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let chunk = Arc::make_mut(chunks.get_mut(at)?);
        let (_, value) = chunk.remove(entry);
        if chunk.is_empty() {
            chunks.remove(at);
        }
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter().map(|(k, v)| (k, v)))
    }

    /// Entries from `key` on, inclusive.
    pub(crate) fn iter_from<'a, Q: Ord + ?Sized>(
        &'a self,
        key: &'a Q,
    ) -> impl Iterator<Item = (&'a K, &'a V)>
    where
        K: Borrow<Q>,
    {
        let first = self.chunk_of(key);
        self.chunks
            .iter()
            .skip(first)
            .flat_map(|chunk| chunk.iter().map(|(k, v)| (k, v)))
            .skip_while(move |(k, _)| (*k).borrow() < key)
    }

    /// Changes every value, in order. Copies everything that is shared.
    pub(crate) fn for_each_mut(&mut self, mut change: impl FnMut(&K, &mut V)) {
        for chunk in Arc::make_mut(&mut self.chunks) {
            for (key, value) in Arc::make_mut(chunk) {
                change(key, value);
            }
        }
    }

    /// What differs from an `old` version, sorted by key.
    pub(crate) fn changes_since<'a>(&'a self, old: &'a Self) -> Vec<Change<'a, K, V>> {
        if Arc::ptr_eq(&self.chunks, &old.chunks) {
            return Vec::new();
        }
        let mut was = own_entries(old, self).peekable();
        let mut is = own_entries(self, old).peekable();
        let mut changes = Vec::new();
        loop {
            let order = match (was.peek(), is.peek()) {
                (None, None) => return changes,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(b),
            };
            let old = if order.is_le() { was.next() } else { None };
            let new = if order.is_ge() { is.next() } else { None };
            match (old, new) {
                (Some((_, old)), Some((key, new))) => changes.push(Change::Touched(key, old, new)),
                (Some((key, old)), None) => changes.push(Change::Removed(key, old)),
                (None, Some((key, new))) => changes.push(Change::Added(key, new)),
                (None, None) => return changes,
            }
        }
    }

    /// Index of the first chunk whose last key is not below `key`.
    fn chunk_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.chunks
            .partition_point(|chunk| chunk.last().is_some_and(|(k, _)| k.borrow() < key))
    }
}

/// Entries of the chunks of `map` that `other` does not share. An entry of such a chunk cannot be in
/// a shared one, since keys are unique within a map.
fn own_entries<'a, K, V>(
    map: &'a SortedMap<K, V>,
    other: &SortedMap<K, V>,
) -> impl Iterator<Item = (&'a K, &'a V)> {
    let shared: HashSet<_> = other.chunks.iter().map(Arc::as_ptr).collect();
    map.chunks
        .iter()
        .filter(move |chunk| !shared.contains(&Arc::as_ptr(chunk)))
        .flat_map(|chunk| chunk.iter().map(|(k, v)| (k, v)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_like_a_btree_map(ops in prop::collection::vec((0_u8..3, 0_u16..600, 0_u8..9), 0..2000)) {
            let mut map = SortedMap::default();
            let mut model = BTreeMap::new();
            let mut versions = vec![(map.clone(), model.clone())];
            for (op, key, value) in ops {
                match op {
                    0 | 1 => prop_assert_eq!(map.insert(key, value), model.insert(key, value)),
                    _ => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                }
                if value == 0 && versions.len() < 20 {
                    versions.push((map.clone(), model.clone()));
                }
            }
            versions.push((map.clone(), model.clone()));
            for (version, expected) in &versions {
                prop_assert_eq!(version.len(), expected.len());
                prop_assert!(version.iter().eq(expected.iter()));
                prop_assert!(version.iter_from(&300).eq(expected.range(300..)));
                // The difference to the newest, applied to the old version, gives the newest.
                let mut rebuilt = expected.clone();
                for change in map.changes_since(version) {
                    match change {
                        Change::Added(key, value) => prop_assert_eq!(rebuilt.insert(*key, *value), None),
                        Change::Removed(key, value) => prop_assert_eq!(rebuilt.remove(key), Some(*value)),
                        Change::Touched(key, old, new) => prop_assert_eq!(rebuilt.insert(*key, *new), Some(*old)),
                    }
                }
                prop_assert_eq!(&rebuilt, &model);
            }
        }
    }

    #[test]
    fn a_small_change_touches_one_chunk() {
        let mut map = SortedMap::default();
        for key in 0..10_000 {
            map.insert(key, key);
        }
        let old = map.clone();
        *map.get_mut(&5_000).unwrap() = 1;
        let changes = map.changes_since(&old);
        assert!(changes.len() <= MAX_CHUNK);
        assert!(changes.contains(&Change::Touched(&5_000, &5_000, &1)));
        assert_eq!(old.get(&5_000), Some(&5_000));
    }
}
