//! A list of broker ids that costs 24 bytes and no allocation up to five ids.
//!
//! A million partitions hold two of them each.

use std::fmt;
use std::ops::Deref;

use strandline_types::BrokerId;

const INLINE: usize = 5;

/// Replicas or in-sync replicas of a partition, in assignment order. Immutable.
#[derive(Clone)]
pub struct BrokerList(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, ids: [BrokerId; INLINE] },
    Heap(Box<[BrokerId]>),
}

impl BrokerList {
    /// The ids as a slice.
    pub fn as_slice(&self) -> &[BrokerId] {
        match &self.0 {
            Repr::Inline { len, ids } => ids.get(..usize::from(*len)).unwrap_or_default(),
            Repr::Heap(ids) => ids,
        }
    }

    /// True if all ids differ.
    pub fn is_distinct(&self) -> bool {
        let ids = self.as_slice();
        ids.iter()
            .enumerate()
            .all(|(at, id)| !ids.iter().take(at).any(|other| other == id))
    }
}

impl Deref for BrokerList {
    type Target = [BrokerId];
    fn deref(&self) -> &[BrokerId] {
        self.as_slice()
    }
}

impl From<&[BrokerId]> for BrokerList {
    fn from(list: &[BrokerId]) -> Self {
        match u8::try_from(list.len()) {
            Ok(len) if list.len() <= INLINE => {
                let mut ids = [BrokerId(-1); INLINE];
                for (slot, id) in ids.iter_mut().zip(list) {
                    *slot = *id;
                }
                Self(Repr::Inline { len, ids })
            }
            _ => Self(Repr::Heap(list.into())),
        }
    }
}

impl From<Vec<BrokerId>> for BrokerList {
    fn from(list: Vec<BrokerId>) -> Self {
        list.as_slice().into()
    }
}

impl FromIterator<BrokerId> for BrokerList {
    fn from_iter<I: IntoIterator<Item = BrokerId>>(iter: I) -> Self {
        iter.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for BrokerList {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for BrokerList {}

impl fmt::Debug for BrokerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|id| id.0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lists_are_inline_and_small() {
        assert_eq!(size_of::<BrokerList>(), 24);
        for count in 0..9 {
            let ids: Vec<_> = (0..count).map(BrokerId).collect();
            let list = BrokerList::from(ids.clone());
            assert_eq!(list.as_slice(), ids);
            assert_eq!(list, BrokerList::from_iter(ids));
            assert!(list.is_distinct());
        }
        assert!(!BrokerList::from(vec![BrokerId(1), BrokerId(2), BrokerId(1)]).is_distinct());
    }
}
