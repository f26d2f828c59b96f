//! What a request names more than once is answered once: an answer is in proportion to what there is,
//! however often it is asked for.

use std::collections::HashSet;
use std::hash::Hash;

/// The first of the items with each key, in order.
pub(super) fn once<T, K: Eq + Hash>(
    items: impl IntoIterator<Item = T>,
    key: impl Fn(&T) -> K,
) -> impl Iterator<Item = T> {
    let mut seen = HashSet::new();
    items.into_iter().filter(move |item| seen.insert(key(item)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_stays_in_order() {
        let items = [(2, 'a'), (1, 'b'), (2, 'c'), (3, 'd'), (1, 'e')];
        let left: Vec<_> = once(items, |item| item.0).collect();
        assert_eq!(left, [(2, 'a'), (1, 'b'), (3, 'd')]);
    }
}
