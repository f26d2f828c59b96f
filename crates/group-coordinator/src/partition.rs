//! Which partition of `__consumer_offsets` coordinates a group.
//!
//! Rules: A-30.

/// Java's `String.hashCode` over UTF-16 units, made positive (the smallest int becomes 0), modulo
/// the number of partitions. Answers 0 if `partition_count` is not positive.
pub fn partition_for_group(group_id: &str, partition_count: i32) -> i32 {
    let hash = group_id.encode_utf16().fold(0_i32, |hash, unit| {
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
    fn groups_land_where_java_puts_them() {
        assert_eq!(partition_for_group("", 50), 0);
        assert_eq!(partition_for_group("a", 50), 97 % 50);
        assert_eq!(partition_for_group("ab", 50), (97 * 31 + 98) % 50);
        // "Aa" and "BB" are the textbook collision: 2112.
        assert_eq!(partition_for_group("Aa", i32::MAX), 2112);
        assert_eq!(partition_for_group("BB", i32::MAX), 2112);
        // hashCode("polygenelubricants") is Integer.MIN_VALUE, whose abs is defined as 0.
        assert_eq!(partition_for_group("polygenelubricants", 50), 0);
        // hashCode("hello") = 99162322.
        assert_eq!(partition_for_group("hello", 50), 22);
        // hashCode("test-group") = 627841412.
        assert_eq!(partition_for_group("test-group", 50), 12);
        // hashCode("my-group") = -1906497762: negated, not masked (which would give 36).
        assert_eq!(partition_for_group("my-group", 50), 12);
        assert_eq!(partition_for_group("connect-cluster", 50), 13);
    }

    // characters outside the basic plane count as two units.
    #[test]
    fn surrogates_are_hashed_one_by_one() {
        let expected = 0xD83D * 31 + 0xDE00;
        assert_eq!(partition_for_group("\u{1F600}", i32::MAX), expected);
    }

    #[test]
    fn nonsense_partition_counts_do_not_panic() {
        assert_eq!(partition_for_group("hello", 0), 0);
        assert_eq!(partition_for_group("hello", -3), 0);
    }
}
