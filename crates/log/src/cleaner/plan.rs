//! What of a log may be cleaned, how dirty it is, which segments become one (L-40, L-45, L-49); pure.

use strandline_types::Offset;

use crate::config::LogConfig;

/// What the cleaner needs to know of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentFacts {
    pub(crate) base_offset: Offset,
    pub(crate) size: u64,
    /// Greatest timestamp, or the time of the last change, in ms.
    pub(crate) largest_timestamp: i64,
    /// Greatest timestamp of its first batch in ms, -1 for none.
    pub(crate) first_timestamp: i64,
}

/// What the cleaner needs to know of a log.
#[derive(Debug, Clone)]
pub(crate) struct LogFacts {
    /// All but the active one, oldest first.
    pub(crate) sealed: Vec<SegmentFacts>,
    pub(crate) active_base: Offset,
    /// End of the last cleaning, `None` before the first.
    pub(crate) cleaned_to: Option<Offset>,
    pub(crate) log_start: Offset,
    pub(crate) log_end: Offset,
    pub(crate) last_stable: Offset,
}

/// What a round of cleaning would do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CleanPlan {
    /// Here the part begins that was never cleaned.
    pub(crate) first_dirty: Offset,
    /// From here on nothing may be cleaned; the base of a segment.
    pub(crate) end: Offset,
    /// Bytes before the dirty part, and of the dirty part.
    pub(crate) clean_bytes: u64,
    pub(crate) dirty_bytes: u64,
    /// For how long, in ms, the oldest dirty record has been longer in the log than
    /// `max.compaction.lag.ms`; 0 if it has not.
    pub(crate) overdue_ms: i64,
}

impl CleanPlan {
    /// Share of the cleanable part that is dirty, 0 to 1.
    pub(crate) fn dirty_ratio(&self) -> f64 {
        match self.clean_bytes + self.dirty_bytes {
            0 => 0.0,
            all => self.dirty_bytes as f64 / all as f64,
        }
    }

    /// L-40
    pub(crate) fn is_due(&self, min_cleanable_dirty_ratio: f64) -> bool {
        self.dirty_bytes > 0
            && (self.overdue_ms > 0 || self.dirty_ratio() > min_cleanable_dirty_ratio)
    }
}

/// What may be cleaned of a log.
pub(crate) fn plan(log: &LogFacts, config: &LogConfig, now_ms: i64) -> CleanPlan {
    // L-49: a checkpoint outside the log says nothing.
    let in_log = |offset: &Offset| (log.log_start..=log.log_end).contains(offset);
    let first_dirty = log.cleaned_to.filter(in_log).unwrap_or(log.log_start);
    let end = uncleanable_from(log, config, first_dirty, now_ms);
    let ends = log.sealed.iter().skip(1).map(|s| s.base_offset);
    let ends = ends.chain(std::iter::once(log.active_base));
    let mut plan = CleanPlan {
        first_dirty,
        end,
        clean_bytes: 0,
        dirty_bytes: 0,
        overdue_ms: 0,
    };
    let mut oldest = i64::MAX;
    for (segment, next) in log.sealed.iter().zip(ends) {
        if next <= first_dirty {
            plan.clean_bytes += segment.size;
        } else if segment.base_offset < end {
            plan.dirty_bytes += segment.size;
            if segment.first_timestamp > 0 {
                oldest = oldest.min(segment.first_timestamp);
            }
        }
    }
    if oldest < i64::MAX {
        let age = now_ms.saturating_sub(oldest);
        plan.overdue_ms = age.saturating_sub(config.max_compaction_lag_ms).max(0);
    }
    plan
}

/// The base of the first segment that may not be cleaned: the active one, one that holds something
/// undecided, one that is too young. Those before the dirty part were cleaned and may be again.
fn uncleanable_from(
    log: &LogFacts,
    config: &LogConfig,
    first_dirty: Offset,
    now_ms: i64,
) -> Offset {
    let stable = log.last_stable.min(log.active_base);
    let young = now_ms.saturating_sub(config.min_compaction_lag_ms);
    let mut bases = log.sealed.iter().map(|s| s.base_offset).skip(1);
    for segment in &log.sealed {
        let next = bases.next().unwrap_or(log.active_base);
        let is_dirty = next > first_dirty;
        let is_young = config.min_compaction_lag_ms > 0 && segment.largest_timestamp > young;
        if next > stable || (is_dirty && is_young) {
            return segment.base_offset;
        }
    }
    log.active_base
}

/// The dirtiest of those that are due: its place, and the least ratios of all.
pub(crate) fn dirtiest(plans: &[(CleanPlan, f64)]) -> Option<usize> {
    let due = plans
        .iter()
        .enumerate()
        .filter(|(_, (p, min))| p.is_due(*min));
    due.max_by(|(_, (a, _)), (_, (b, _))| a.dirty_ratio().total_cmp(&b.dirty_ratio()))
        .map(|(at, _)| at)
}

/// A cleaned segment that grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupFacts {
    pub(crate) base_offset: Offset,
    pub(crate) size: u64,
    /// Entries of its offset index and its time index.
    pub(crate) offset_entries: u32,
    pub(crate) time_entries: u32,
}

/// A segment that might become part of it, before its cleaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextFacts {
    /// Offset after it.
    pub(crate) next_offset: Offset,
    pub(crate) size: u64,
    pub(crate) offset_entries: u32,
    pub(crate) time_entries: u32,
}

/// L-45: together they are a legal segment, even if nothing of the next one goes. One that is empty makes no
/// other one larger, and alone it would be a segment without a batch, which the tier cannot take.
pub(crate) fn may_join(group: &GroupFacts, next: &NextFacts, config: &LogConfig) -> bool {
    let index_bytes = u64::from(config.segment_index_bytes);
    let fits =
        |a: u32, b: u32, entry: u64| (u64::from(a) + u64::from(b) + 1) * entry <= index_bytes;
    let has_room = group.size + next.size <= config.segment_bytes
        && fits(group.offset_entries, next.offset_entries, 8)
        && fits(group.time_entries, next.time_entries, 12);
    (has_room || group.size == 0) && next.next_offset - 1 - group.base_offset <= i64::from(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> LogConfig {
        LogConfig {
            compact: true,
            delete: false,
            ..LogConfig::default()
        }
    }

    /// Segments of 10 offsets with a size each; their times are 100, 200, …
    fn log(sizes: &[u64]) -> LogFacts {
        let sealed = sizes.iter().zip(0_i64..).map(|(size, i)| SegmentFacts {
            base_offset: i * 10,
            size: *size,
            largest_timestamp: i * 100 + 150,
            first_timestamp: i * 100 + 100,
        });
        let end = sizes.len() as i64 * 10;
        LogFacts {
            sealed: sealed.collect(),
            active_base: end,
            cleaned_to: None,
            log_start: 0,
            log_end: end + 5,
            last_stable: end + 5,
        }
    }

    fn range(log: &LogFacts, config: &LogConfig, now_ms: i64) -> (Offset, Offset, u64, u64) {
        let p = plan(log, config, now_ms);
        (p.first_dirty, p.end, p.clean_bytes, p.dirty_bytes)
    }

    // L-40
    #[test]
    fn never_the_active_segment_nor_what_is_not_decided_yet() {
        let mut facts = log(&[1, 2, 4]);
        assert_eq!(range(&facts, &config(), 0), (0, 30, 0, 7));
        facts.last_stable = 30;
        assert_eq!(range(&facts, &config(), 0), (0, 30, 0, 7));
        facts.last_stable = 29; // in the middle of the third
        assert_eq!(range(&facts, &config(), 0), (0, 20, 0, 3));
        facts.last_stable = 3;
        assert_eq!(range(&facts, &config(), 0), (0, 0, 0, 0));
        facts.cleaned_to = Some(20);
        facts.last_stable = 35;
        assert_eq!(range(&facts, &config(), 0), (20, 30, 3, 4));
        assert_eq!(range(&log(&[]), &config(), 0), (0, 0, 0, 0));
    }

    // L-40: min.compaction.lag.ms
    #[test]
    fn what_is_young_waits_and_all_behind_it() {
        let young = LogConfig {
            min_compaction_lag_ms: 100,
            ..config()
        };
        let mut facts = log(&[1, 2, 4]); // up to 150, 250, 350
        assert_eq!(range(&facts, &young, 450), (0, 30, 0, 7));
        assert_eq!(range(&facts, &young, 449), (0, 20, 0, 3));
        assert_eq!(range(&facts, &young, 349), (0, 10, 0, 1));
        facts.cleaned_to = Some(20); // the setting came later
        assert_eq!(range(&facts, &young, 0), (20, 20, 3, 0));
    }

    // L-40
    #[test]
    fn dirty_enough_or_too_long_dirty() {
        let mut facts = log(&[6, 4]);
        facts.cleaned_to = Some(10);
        let p = plan(&facts, &config(), 1 << 40);
        assert_eq!((p.dirty_ratio(), p.overdue_ms), (0.4, 0));
        assert!(p.is_due(0.3) && !p.is_due(0.4));
        let strict = LogConfig {
            max_compaction_lag_ms: 50,
            ..config()
        };
        assert!(!plan(&facts, &strict, 250).is_due(1.0)); // the oldest dirty batch is of 200
        let late = plan(&facts, &strict, 253);
        assert!(late.overdue_ms == 3 && late.is_due(1.0));
        facts.cleaned_to = Some(20);
        assert!(!plan(&facts, &strict, 1 << 40).is_due(0.0)); // nothing is dirty
    }

    // L-49
    #[test]
    fn a_checkpoint_outside_the_log_is_ignored() {
        let mut facts = log(&[1, 1]);
        facts.log_start = 5;
        for (checkpoint, first_dirty) in [(4, 5), (5, 5), (25, 25), (26, 5)] {
            facts.cleaned_to = Some(checkpoint);
            assert_eq!(plan(&facts, &config(), 0).first_dirty, first_dirty);
        }
    }

    // L-40
    #[test]
    fn the_dirtiest_goes_first() {
        let with = |clean_bytes, dirty_bytes, overdue_ms| CleanPlan {
            first_dirty: 0,
            end: 1,
            clean_bytes,
            dirty_bytes,
            overdue_ms,
        };
        let all = [
            (with(1, 4, 0), 0.5),
            (with(0, 9, 0), 1.0),
            (with(1, 9, 0), 0.5),
            (with(9, 1, 0), 0.5),
        ];
        assert_eq!(dirtiest(&all), Some(2)); // the second one has a minimum that it does not pass
        assert_eq!(dirtiest(&all[3..]), None);
        assert_eq!(dirtiest(&[(with(9, 1, 7), 0.5)]), Some(0));
        assert_eq!(dirtiest(&[(with(9, 0, 7), 0.5)]), None);
    }

    // L-45
    #[test]
    fn segments_join_while_they_are_a_legal_segment() {
        let config = LogConfig {
            segment_bytes: 100,
            segment_index_bytes: 240,
            ..config()
        };
        let group = GroupFacts {
            base_offset: 10,
            size: 60,
            offset_entries: 19,
            time_entries: 9,
        };
        let next = NextFacts {
            next_offset: 1000,
            size: 40,
            offset_entries: 10,
            time_entries: 10,
        };
        assert!(may_join(&group, &next, &config));
        assert!(!may_join(&group, &NextFacts { size: 41, ..next }, &config));
        assert!(!may_join(
            &group,
            &NextFacts {
                offset_entries: 11,
                ..next
            },
            &config
        ));
        assert!(!may_join(
            &group,
            &NextFacts {
                time_entries: 11,
                ..next
            },
            &config
        ));
        let at = |next_offset| NextFacts {
            next_offset,
            ..next
        };
        assert!(may_join(&group, &at(11 + i64::from(i32::MAX)), &config));
        assert!(!may_join(&group, &at(12 + i64::from(i32::MAX)), &config));
    }
}
