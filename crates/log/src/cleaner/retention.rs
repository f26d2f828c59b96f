//! What stays of a batch and of a record (L-41…L-44); pure.

use strandline_records::{BatchHeader, KeyedRecord};
use strandline_types::Offset;

/// What is to be known of a batch besides its header.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BatchFacts {
    /// Aborted data, or a marker whose transaction is gone.
    pub(crate) is_discardable: bool,
    /// It holds the last sequence (or only the epoch) of a producer that is still remembered.
    pub(crate) is_last_of_producer: bool,
    /// It ends where the round ends.
    pub(crate) is_last_of_round: bool,
    /// A batch before it could not be looked into: it may hold any key.
    pub(crate) is_behind_unread: bool,
}

/// What becomes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchFate {
    /// None of its records stays.
    pub(crate) drops_all: bool,
    /// Without records it stays all the same (L-42).
    pub(crate) stays_empty: bool,
    /// It is a marker that nothing needs: it gets its delete horizon now, if it has none (L-43).
    pub(crate) is_orphan_marker: bool,
    /// The horizon of its tombstones is not reached, or something that they hide may be left before them.
    pub(crate) keeps_tombstones: bool,
}

pub(crate) fn batch_fate(header: &BatchHeader, facts: BatchFacts, now_ms: i64) -> BatchFate {
    let is_control = header.attributes.is_control();
    let is_past_horizon = header.delete_horizon_ms().is_some_and(|h| h <= now_ms);
    BatchFate {
        drops_all: facts.is_discardable && (!is_control || is_past_horizon),
        stays_empty: facts.is_last_of_producer || facts.is_last_of_round,
        is_orphan_marker: facts.is_discardable && is_control,
        keeps_tombstones: !is_past_horizon || facts.is_behind_unread,
    }
}

/// Whether a record with data stays. `newest` is the newest offset of its key in the range that
/// was looked at, which ends at `latest` (inclusive).
pub(crate) fn record_stays(
    fate: BatchFate,
    record: &KeyedRecord<'_>,
    newest: impl FnOnce(&[u8]) -> Option<Offset>,
    latest: Offset,
) -> bool {
    if record.offset > latest {
        return true;
    }
    // Without a key it can never be replaced, so it never belongs here.
    let Some(key) = record.key else { return false };
    (record.has_value || fate.keeps_tombstones) && newest(key).is_none_or(|n| record.offset >= n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BatchSpec, marker_batch};
    use strandline_records::{Compacted, DeleteHorizon, OpenBatch};

    fn data() -> BatchHeader {
        BatchSpec::default().build().header()
    }

    /// A marker that got its horizon before.
    fn old_marker(at_ms: i64) -> BatchHeader {
        let open = OpenBatch::new(marker_batch(1, 0, true, 1), 1000).unwrap();
        let horizon = DeleteHorizon {
            at_ms,
            is_for_marker: true,
        };
        match open.compact(|_| true, Some(horizon)).unwrap() {
            Compacted::Rewritten(batch) => batch.header(),
            other => panic!("{other:?}"),
        }
    }

    fn facts(is_discardable: bool) -> BatchFacts {
        BatchFacts {
            is_discardable,
            ..BatchFacts::default()
        }
    }

    // L-43, L-44
    #[test]
    fn aborted_data_goes_at_once_and_markers_behind_their_horizon() {
        assert!(batch_fate(&data(), facts(true), 0).drops_all);
        assert!(!batch_fate(&data(), facts(false), 0).drops_all);
        let fresh = marker_batch(1, 0, true, 1).header();
        let fate = batch_fate(&fresh, facts(true), i64::MAX);
        assert!(!fate.drops_all && fate.is_orphan_marker);
        let fate = batch_fate(&fresh, facts(false), i64::MAX);
        assert!(!fate.drops_all && !fate.is_orphan_marker);
        assert!(!batch_fate(&old_marker(100), facts(true), 99).drops_all);
        assert!(batch_fate(&old_marker(100), facts(true), 100).drops_all);
        assert!(!batch_fate(&old_marker(100), facts(false), 100).drops_all);
    }

    // L-42
    #[test]
    fn the_last_of_a_producer_and_of_the_round_stay_empty() {
        for (is_last_of_producer, is_last_of_round) in
            [(true, false), (false, true), (false, false)]
        {
            let facts = BatchFacts {
                is_last_of_producer,
                is_last_of_round,
                ..facts(true)
            };
            let expected = is_last_of_producer || is_last_of_round;
            assert_eq!(batch_fate(&data(), facts, 0).stays_empty, expected);
        }
    }

    // L-41, L-43
    #[test]
    fn the_newest_of_a_key_stays_and_its_tombstone_until_the_horizon() {
        let record = |offset, key, has_value| KeyedRecord {
            offset,
            key,
            has_value,
        };
        let stays = |header: &BatchHeader, record, newest, now| {
            let fate = batch_fate(header, BatchFacts::default(), now);
            record_stays(fate, &record, |_| newest, 50)
        };
        let key = Some(&b"k"[..]);
        assert!(stays(&data(), record(7, key, true), None, 0)); // not in the dirty part
        assert!(stays(&data(), record(7, key, true), Some(7), 0));
        assert!(!stays(&data(), record(7, key, true), Some(8), 0));
        assert!(stays(&data(), record(51, key, true), Some(52), 0)); // beyond what was looked at
        assert!(!stays(&data(), record(7, None, true), None, 0));
        assert!(stays(&data(), record(7, key, false), Some(7), i64::MAX)); // first time
        assert!(!stays(&data(), record(7, key, false), Some(8), 0));
        let dead = old_marker(100);
        assert!(stays(&dead, record(7, key, false), Some(7), 99));
        assert!(!stays(&dead, record(7, key, false), Some(7), 100));
        assert!(stays(&dead, record(7, key, true), Some(7), 100));
        assert!(stays(&dead, record(51, key, false), None, 100));
    }
}
