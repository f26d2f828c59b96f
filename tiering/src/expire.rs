//! Retention over both tiers: what leaves the cold one (pure). Rules: S-21, S-22.

use strandline_types::Offset;

use crate::manifest::SegmentEntry;

/// What retention is asked.
#[derive(Debug, Clone, Copy)]
pub struct ExpireRequest {
    /// The partition's log start offset; DeleteRecords moves it.
    pub log_start_offset: Offset,
    /// `retention.ms`, -1 for none.
    pub retention_ms: i64,
    /// `retention.bytes` over both tiers, -1 for none.
    pub retention_bytes: i64,
    /// Bytes of the local log that are not in the cold tier yet.
    pub local_unuploaded_bytes: u64,
}

/// What retention did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// The partition's log start offset from now on; the local log must follow.
    pub log_start_offset: Offset,
    /// Segments removed.
    pub segments: u64,
    /// Bytes of batches removed.
    pub bytes: u64,
    /// More would leave; the next call goes on.
    pub is_cut: bool,
}

/// Decides segment by segment, from the oldest on.
#[derive(Debug)]
pub(crate) struct ExpirePlan {
    cutoff_ms: Option<i64>,
    excess_bytes: u64,
    pub(crate) log_start_offset: Offset,
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    /// Segments that may leave now.
    room: u64,
    pub(crate) is_cut: bool,
}

impl ExpirePlan {
    pub(crate) fn new(
        request: &ExpireRequest,
        manifest_log_start: Offset,
        tiered_bytes: u64,
        room: u64,
        now_ms: i64,
    ) -> Self {
        let cutoff_ms =
            (request.retention_ms >= 0).then(|| now_ms.saturating_sub(request.retention_ms));
        let total = tiered_bytes.saturating_add(request.local_unuploaded_bytes);
        let excess_bytes =
            u64::try_from(request.retention_bytes).map_or(0, |limit| total.saturating_sub(limit));
        Self {
            cutoff_ms,
            excess_bytes,
            log_start_offset: manifest_log_start.max(request.log_start_offset),
            segments: 0,
            bytes: 0,
            room,
            is_cut: false,
        }
    }

    /// True when the segment leaves; the first that stays ends the walk.
    pub(crate) fn removes(&mut self, entry: &SegmentEntry) -> bool {
        let below_start = entry.last_offset < self.log_start_offset;
        let too_old = self
            .cutoff_ms
            .is_some_and(|cutoff| entry.retention_timestamp() <= cutoff);
        let too_much = entry.log_bytes > 0 && self.excess_bytes >= entry.log_bytes;
        if !(below_start || too_old || too_much) {
            return false;
        }
        if self.segments >= self.room {
            self.is_cut = true;
            return false;
        }
        self.excess_bytes = self.excess_bytes.saturating_sub(entry.log_bytes);
        self.log_start_offset = self.log_start_offset.max(entry.next_offset());
        self.segments += 1;
        self.bytes += entry.log_bytes;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests_support::entry;

    fn run(request: ExpireRequest, now_ms: i64) -> (u64, Offset) {
        // Ten segments of ten offsets and 1000 bytes; the greatest timestamp is the last offset.
        let entries: Vec<_> = (0..10).map(|i| entry(i * 10, i * 10 + 9)).collect();
        let mut plan = ExpirePlan::new(&request, 0, 10_000, u64::MAX, now_ms);
        let removed = entries.iter().take_while(|e| plan.removes(e)).count() as u64;
        assert_eq!(removed, plan.segments);
        (removed, plan.log_start_offset)
    }

    const KEEP: ExpireRequest = ExpireRequest {
        log_start_offset: 0,
        retention_ms: -1,
        retention_bytes: -1,
        local_unuploaded_bytes: 0,
    };

    // S-21
    #[test]
    fn time_size_and_log_start_remove_whole_segments_from_the_front() {
        assert_eq!(run(KEEP, i64::MAX), (0, 0));
        assert_eq!(
            run(
                ExpireRequest {
                    retention_ms: 5,
                    ..KEEP
                },
                24
            ),
            (2, 20)
        );
        assert_eq!(
            run(
                ExpireRequest {
                    retention_ms: 5,
                    ..KEEP
                },
                23
            ),
            (1, 10)
        );
        assert_eq!(
            run(
                ExpireRequest {
                    retention_bytes: 8_000,
                    ..KEEP
                },
                0
            ),
            (2, 20)
        );
        assert_eq!(
            run(
                ExpireRequest {
                    retention_bytes: 8_001,
                    ..KEEP
                },
                0
            ),
            (1, 10)
        );
        let local = ExpireRequest {
            retention_bytes: 8_001,
            local_unuploaded_bytes: 1,
            ..KEEP
        };
        assert_eq!(run(local, 0), (2, 20));
        assert_eq!(
            run(
                ExpireRequest {
                    retention_bytes: 0,
                    ..KEEP
                },
                0
            ),
            (10, 100)
        );
        assert_eq!(
            run(
                ExpireRequest {
                    log_start_offset: 25,
                    ..KEEP
                },
                0
            ),
            (2, 25)
        );
    }
}
