//! Which segments may leave the local disk (L-30…L-33, L-5, S-20, S-23); pure.

use strandline_types::Offset;

use crate::config::LogConfig;

/// What retention needs to know of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentFacts {
    /// Offset after the segment: base of the next one, or the log's end for the active one.
    pub(crate) next_offset: Offset,
    pub(crate) size: u64,
    /// Greatest timestamp, or the time of the last change (L-30).
    pub(crate) largest_timestamp: i64,
    pub(crate) is_active: bool,
}

/// What retention needs to know of a log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogFacts {
    pub(crate) log_start: Offset,
    /// Nothing at or above it may go (L-31).
    pub(crate) high_watermark: Offset,
    /// Last offset in the remote tier, inclusive (S-20).
    pub(crate) highest_offset_in_remote_storage: Option<Offset>,
}

/// How many of the oldest segments may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RetentionPlan {
    /// Number of segments from the oldest; the active one may be among them.
    pub(crate) delete: usize,
    /// The active segment is due but must be rolled first, for its upload (L-5).
    pub(crate) roll_active: bool,
}

/// Walks from the oldest segment and stops at the first that must stay.
pub(crate) fn plan(
    segments: impl Iterator<Item = SegmentFacts> + Clone,
    log: &LogFacts,
    config: &LogConfig,
    now_ms: i64,
) -> RetentionPlan {
    let total: u64 = segments.clone().map(|s| s.size).sum();
    let (retention_ms, retention_bytes) = config.effective_local_retention();
    let mut excess = match u64::try_from(retention_bytes) {
        Ok(limit) => total.checked_sub(limit),
        Err(_) => None,
    };
    let mut plan = RetentionPlan::default();
    for segment in segments {
        if segment.is_active && segment.size == 0 {
            break;
        }
        let below_start = segment.next_offset <= log.log_start; // L-30 (c)
        let too_old = config.delete
            && retention_ms >= 0
            && now_ms.saturating_sub(segment.largest_timestamp) > retention_ms;
        let too_much = config.delete && excess.is_some_and(|excess| excess >= segment.size);
        let uploaded = !config.tiers_before_deletion()
            || log
                .highest_offset_in_remote_storage
                .is_some_and(|h| segment.next_offset - 1 <= h);
        let due = below_start || too_old || too_much;
        if due && segment.is_active && config.remote && segment.next_offset <= log.high_watermark {
            plan.roll_active = true;
            break;
        }
        let free = below_start || uploaded;
        if !due || !free || segment.next_offset > log.high_watermark {
            break;
        }
        plan.delete += 1;
        excess = excess.map(|e| e.saturating_sub(segment.size));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(sizes: &[u64]) -> Vec<SegmentFacts> {
        let count = sizes.len();
        let segment = |(i, size): (usize, &u64)| SegmentFacts {
            next_offset: (i as i64 + 1) * 10,
            size: *size,
            largest_timestamp: (i as i64 + 1) * 100,
            is_active: i + 1 == count,
        };
        sizes.iter().enumerate().map(segment).collect()
    }

    fn log() -> LogFacts {
        LogFacts {
            log_start: 0,
            high_watermark: 1000,
            highest_offset_in_remote_storage: None,
        }
    }

    fn none() -> LogConfig {
        LogConfig {
            retention_ms: -1,
            retention_bytes: -1,
            ..LogConfig::default()
        }
    }

    fn deleted(sizes: &[u64], log: LogFacts, config: &LogConfig, now: i64) -> usize {
        plan(facts(sizes).into_iter(), &log, config, now).delete
    }

    // L-30 (a), L-33
    #[test]
    fn by_time() {
        let config = LogConfig {
            retention_ms: 50,
            ..none()
        };
        assert_eq!(deleted(&[5, 5, 5], log(), &config, 150), 0);
        assert_eq!(deleted(&[5, 5, 5], log(), &config, 151), 1);
        assert_eq!(deleted(&[5, 5, 5], log(), &config, 1000), 3);
        assert_eq!(deleted(&[5, 5, 0], log(), &config, 1000), 2); // the empty active one stays
        assert_eq!(deleted(&[5, 5, 5], log(), &none(), 1 << 50), 0);
        let zero = LogConfig {
            retention_ms: 0,
            ..none()
        };
        assert_eq!(deleted(&[5, 5, 5], log(), &zero, 101), 1);
    }

    // L-30 (b)
    #[test]
    fn by_size_only_what_exceeds_as_a_whole() {
        let config = |bytes| LogConfig {
            retention_bytes: bytes,
            ..none()
        };
        assert_eq!(deleted(&[5, 5, 5], log(), &config(11), 0), 0);
        assert_eq!(deleted(&[5, 5, 5], log(), &config(10), 0), 1);
        assert_eq!(deleted(&[5, 5, 5], log(), &config(6), 0), 1);
        assert_eq!(deleted(&[5, 5, 5], log(), &config(5), 0), 2);
        assert_eq!(deleted(&[5, 5, 5], log(), &config(0), 0), 3);
    }

    // L-30 (c), L-31
    #[test]
    fn below_the_log_start_and_never_above_the_high_watermark() {
        let at = |start, hw| LogFacts {
            log_start: start,
            high_watermark: hw,
            ..log()
        };
        assert_eq!(deleted(&[5, 5, 5], at(19, 1000), &none(), 0), 1);
        assert_eq!(deleted(&[5, 5, 5], at(20, 1000), &none(), 0), 2);
        let all = LogConfig {
            retention_bytes: 0,
            ..none()
        };
        assert_eq!(deleted(&[5, 5, 5], at(0, 19), &all, 0), 1);
        let compacted = LogConfig {
            delete: false,
            compact: true,
            ..all
        };
        assert_eq!(deleted(&[5, 5, 5], at(0, 1000), &compacted, 0), 0);
        assert_eq!(deleted(&[5, 5, 5], at(10, 1000), &compacted, 0), 1);
    }

    // S-20, S-23, L-5
    #[test]
    fn tiered_logs_wait_for_the_upload() {
        let config = LogConfig {
            remote: true,
            local_retention_ms: 0,
            local_retention_bytes: -1,
            ..none()
        };
        let up_to = |h| LogFacts {
            highest_offset_in_remote_storage: h,
            ..log()
        };
        assert_eq!(deleted(&[5, 5, 5], up_to(None), &config, 1000), 0);
        assert_eq!(deleted(&[5, 5, 5], up_to(Some(18)), &config, 1000), 1);
        assert_eq!(deleted(&[5, 5, 5], up_to(Some(19)), &config, 1000), 2);
        let all = plan(
            facts(&[5, 5, 5]).into_iter(),
            &up_to(Some(29)),
            &config,
            1000,
        );
        assert_eq!(
            all,
            RetentionPlan {
                delete: 2,
                roll_active: true
            }
        );
        let below = LogFacts {
            log_start: 10,
            ..up_to(None)
        };
        assert_eq!(deleted(&[5, 5, 5], below, &config, 0), 1);
        let no_copy = LogConfig {
            remote_copy_disabled: true,
            retention_ms: 0,
            ..config
        };
        assert_eq!(deleted(&[5, 5, 5], up_to(None), &no_copy, 1000), 2);
    }
}
