//! Which partition of its internal topic coordinates a group or a transactional id.
//!
//! Rules: A-30.

/// Java's `String.hashCode` over UTF-16 units, made positive (the smallest int becomes 0), modulo
/// the number of partitions. Answers 0 if `partition_count` is not positive.
pub fn partition_for_key(key: &str, partition_count: i32) -> i32 {
    let hash = key.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    // `checked_abs` fails for i32::MIN only, which Kafka maps to 0.
    hash.checked_abs()
        .unwrap_or(0)
        .checked_rem(partition_count.max(1))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // values of Java's hashCode, worked out apart from this code.
    #[test]
    fn keys_land_where_java_puts_them() {
        assert_eq!(partition_for_key("", 50), 0);
        assert_eq!(partition_for_key("a", 50), 97 % 50);
        assert_eq!(partition_for_key("ab", 50), (97 * 31 + 98) % 50);
        // "Aa" and "BB" are the textbook collision: 2112.
        assert_eq!(partition_for_key("Aa", i32::MAX), 2112);
        assert_eq!(partition_for_key("BB", i32::MAX), 2112);
        // hashCode("polygenelubricants") is Integer.MIN_VALUE, whose abs is defined as 0.
        assert_eq!(partition_for_key("polygenelubricants", 50), 0);
        // hashCode("hello") = 99162322.
        assert_eq!(partition_for_key("hello", 50), 22);
        // hashCode("test-group") = 627841412.
        assert_eq!(partition_for_key("test-group", 50), 12);
        // hashCode("my-group") = -1906497762: negated, not masked (which would give 36).
        assert_eq!(partition_for_key("my-group", 50), 12);
        assert_eq!(partition_for_key("connect-cluster", 50), 13);
    }

    // characters outside the basic plane count as two units.
    #[test]
    fn surrogates_are_hashed_one_by_one() {
        let expected = 0xD83D * 31 + 0xDE00;
        assert_eq!(partition_for_key("\u{1F600}", i32::MAX), expected);
    }

    #[test]
    fn nonsense_partition_counts_do_not_panic() {
        assert_eq!(partition_for_key("hello", 0), 0);
        assert_eq!(partition_for_key("hello", -3), 0);
    }
}
