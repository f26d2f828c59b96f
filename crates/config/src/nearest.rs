//! The known name that a misspelt one resembles most.

/// The closest of `names`, or `None` if nothing comes near (more than a third of it would change).
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A name in upper case or with dashes is most likely the same name.
    let name = name.to_ascii_lowercase();
    names
        .map(|candidate| (distance(&name, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| distance * 3 <= candidate.len().max(name.len()))
        .map(|(_, candidate)| candidate)
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
        assert_eq!(nearest("completely.else", names()), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
