//! When the active segment ends (L-1…L-4); pure.

use strandline_records::BatchHeader;

use crate::config::LogConfig;
use crate::segment::Segment;

/// Why a new segment begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RollReason {
    /// L-1.
    Size,
    /// L-2.
    Time,
    /// L-3.
    IndexFull,
    /// L-4.
    OffsetSpan,
}

/// Decides whether `incoming` (with its offsets set) needs a new segment.
pub(crate) fn should_roll(
    active: &Segment,
    incoming: &BatchHeader,
    config: &LogConfig,
    now_ms: i64,
) -> Option<RollReason> {
    if active.size == 0 {
        return None; // a fresh segment takes whatever the size check let through
    }
    if active.size.saturating_add(incoming.size_in_bytes() as u64) > config.segment_bytes {
        return Some(RollReason::Size);
    }
    let waited = if active.first_timestamp >= 0 {
        incoming
            .max_timestamp
            .saturating_sub(active.first_timestamp)
    } else {
        now_ms.saturating_sub(active.created_ms)
    };
    if waited
        > config
            .effective_segment_ms()
            .saturating_sub(active.jitter_ms)
    {
        return Some(RollReason::Time);
    }
    if active.is_index_full(config) {
        return Some(RollReason::IndexFull);
    }
    let span = incoming.last_offset().saturating_sub(active.base_offset);
    (span > i64::from(i32::MAX)).then_some(RollReason::OffsetSpan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::BatchSpec;

    fn config() -> LogConfig {
        LogConfig {
            segment_bytes: 1000,
            segment_ms: 500,
            ..LogConfig::default()
        }
    }

    fn header(base: i64, timestamp: i64) -> BatchHeader {
        let mut batch = BatchSpec {
            timestamp,
            size: 100,
            ..BatchSpec::default()
        }
        .build();
        batch.set_offset_and_epoch(base, 0);
        batch.header()
    }

    fn active(timestamp: i64) -> Segment {
        let mut segment = Segment::new(10, 7_000, 0);
        segment.append(&header(10, timestamp), 4096, 7_000);
        segment
    }

    // L-1
    #[test]
    fn by_size() {
        let mut segment = active(0);
        let h = header(11, 0);
        segment.size = 1000 - h.size_in_bytes() as u64;
        assert_eq!(should_roll(&segment, &h, &config(), 0), None);
        segment.size += 1;
        assert_eq!(
            should_roll(&segment, &h, &config(), 0),
            Some(RollReason::Size)
        );
    }

    // L-2
    #[test]
    fn by_the_time_of_the_records_less_the_jitter() {
        let mut segment = active(2_000);
        let at = |s: &Segment, t| should_roll(s, &header(11, t), &config(), 0);
        assert_eq!(at(&segment, 2_500), None);
        assert_eq!(at(&segment, 2_501), Some(RollReason::Time));
        segment.jitter_ms = 100;
        assert_eq!(at(&segment, 2_401), Some(RollReason::Time));
    }

    // L-2
    #[test]
    fn by_the_clock_when_records_have_no_time() {
        let segment = active(-1);
        let at = |now| should_roll(&segment, &header(11, -1), &config(), now);
        assert_eq!(at(7_500), None);
        assert_eq!(at(7_501), Some(RollReason::Time));
        let empty = Segment::new(0, 0, 0);
        assert_eq!(
            should_roll(&empty, &header(0, -1), &config(), 1 << 40),
            None
        );
    }

    // L-3, L-4
    #[test]
    fn by_full_indexes_and_by_the_span_of_offsets() {
        let mut config = config();
        config.segment_index_bytes = 24;
        let mut segment = active(0);
        assert_eq!(should_roll(&segment, &header(11, 0), &config, 0), None);
        segment.index_time(); // 1 of 2 entries, one is kept free for the last
        assert_eq!(
            should_roll(&segment, &header(11, 0), &config, 0),
            Some(RollReason::IndexFull)
        );
        let far = 10 + i64::from(i32::MAX);
        assert_eq!(
            should_roll(&active(0), &header(far, 0), &LogConfig::default(), 0),
            None
        );
        let farther = should_roll(&active(0), &header(far + 1, 0), &LogConfig::default(), 0);
        assert_eq!(farther, Some(RollReason::OffsetSpan));
    }
}
