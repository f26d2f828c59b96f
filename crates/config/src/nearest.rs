//! The known name that a misspelt one resembles most.

/// Longest name that is compared, in bytes.
const LONGEST_NAME: usize = 100;

/// The closest of `names`: one or two slips of the pen away, or with all its words and some more,
/// or at least two thirds the same. `None` if nothing comes that near.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody means a setting by something so long, and comparing it would cost.
    if name.len() > LONGEST_NAME {
        return None;
    }
    // A name in upper case is most likely the same name.
    let name = name.to_ascii_lowercase();
    let names: Vec<&str> = names.collect();
    let closest = names
        .iter()
        .map(|other| (distance(&name, other), *other))
        .min();
    let (edits, closest) = closest?;
    if edits <= 2 {
        return Some(closest);
    }
    let longer = names.into_iter().filter(|other| has_words(other, &name));
    let near = (edits * 3 <= closest.len().max(name.len())).then_some(closest);
    longer.min_by_key(|other| other.len()).or(near)
}

/// True if `long` has the words of `short`, at least two, in their order.
fn has_words(long: &str, short: &str) -> bool {
    let mut words = long.split('.');
    short.contains('.')
        && short
            .split('.')
            .all(|word| words.any(|other| other == word))
}

/// Edits (insert, delete, replace a byte, swap two neighbours) that turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, &y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && x == b[j - 1] && y == a[i - 1] {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_found() {
        let names = || ["num.partitions", "log.retention.ms", "log.retention.bytes"].into_iter();
        assert_eq!(nearest("num.partition", names()), Some("num.partitions"));
        assert_eq!(nearest("NUM.PARTITIONS", names()), Some("num.partitions"));
        assert_eq!(
            nearest("log.retnetion.ms", names()),
            Some("log.retention.ms")
        );
        assert_eq!(nearest("log.bytes", names()), Some("log.retention.bytes"));
        assert_eq!(nearest("completely.else", names()), None);
        assert_eq!(nearest("log", names()), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
