//! What must hold of every manifest, as plain predicates: T-1, T-3, T-5 … T-8 (see the crate's docs).
//! Called before each write and after each read.

use std::collections::HashSet;

use strandline_types::Offset;

use crate::manifest::{Manifest, SegmentEntry};

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// T-1.
    #[error("T-1: a segment begins at {found} where {expected} is next")]
    Order {
        /// Offset that must come next.
        expected: Offset,
        /// Offset that comes.
        found: Offset,
    },
    /// T-1.
    #[error("T-1: a range from {base} to {last} is empty")]
    Range {
        /// First offset.
        base: Offset,
        /// Last offset.
        last: Offset,
    },
    /// T-3.
    #[error(
        "T-3: manifest {number} of epoch {epoch} does not follow {before} of epoch {before_epoch}"
    )]
    Successor {
        /// Number of the new manifest.
        number: u64,
        /// Its epoch.
        epoch: i32,
        /// Number of the one before.
        before: u64,
        /// Epoch of the one before.
        before_epoch: i32,
    },
    /// T-5.
    #[error("T-5: the log start offset {log_start_offset} is outside of {base} to {end}")]
    LogStart {
        /// The log start offset.
        log_start_offset: Offset,
        /// First offset held.
        base: Offset,
        /// Offset after the last one held.
        end: Offset,
    },
    /// T-5.
    #[error("T-5: the log start offset falls from {before} to {after}")]
    LogStartFalls {
        /// Before.
        before: Offset,
        /// After.
        after: Offset,
    },
    /// T-6.
    #[error("T-6: object '{0}' is alive and to be deleted")]
    LiveObjectDeleted(String),
    /// T-7.
    #[error("T-7: sealed list at offset {0} counts more segments removed than it has")]
    Count(Offset),
    /// T-8.
    #[error("T-8: leader epochs do not grow at epoch {0}")]
    Epochs(i32),
}

/// Segments follow each other: no gap, no overlap (T-1).
pub(crate) fn check_entries(entries: &[SegmentEntry]) -> Result<(), Violation> {
    let mut expected = None;
    for entry in entries {
        follows(&mut expected, entry.base_offset, entry.last_offset)?;
    }
    Ok(())
}

fn follows(expected: &mut Option<Offset>, base: Offset, last: Offset) -> Result<(), Violation> {
    if base < 0 || last < base || last == Offset::MAX {
        return Err(Violation::Range { base, last });
    }
    if let Some(expected) = *expected
        && expected != base
    {
        return Err(Violation::Order {
            expected,
            found: base,
        });
    }
    *expected = Some(last + 1);
    Ok(())
}

/// One manifest by itself.
pub(crate) fn check(manifest: &Manifest) -> Result<(), Violation> {
    let mut expected = None;
    for list in &manifest.sealed {
        follows(&mut expected, list.base_offset, list.last_offset)?;
        if list.removed >= list.count {
            return Err(Violation::Count(list.base_offset));
        }
    }
    for entry in &manifest.inline {
        follows(&mut expected, entry.base_offset, entry.last_offset)?;
    }
    if let (Some(base), Some(end)) = (manifest.base_offset(), manifest.end_offset()) {
        let log_start_offset = manifest.log_start_offset;
        if log_start_offset < base || log_start_offset >= end {
            return Err(Violation::LogStart {
                log_start_offset,
                base,
                end,
            });
        }
    }
    // Offsets of epochs may repeat (an epoch without records), but neither falls.
    for (a, b) in manifest.epochs.iter().zip(manifest.epochs.iter().skip(1)) {
        if a.epoch >= b.epoch || a.start_offset > b.start_offset {
            return Err(Violation::Epochs(b.epoch));
        }
    }
    let doomed: HashSet<&str> = manifest
        .pending_deletes
        .iter()
        .map(|pending| pending.relative.as_str())
        .collect();
    if !doomed.is_empty() {
        let lists = manifest.sealed.iter().map(|list| list.relative.clone());
        let live = lists.chain(manifest.inline.iter().map(|entry| entry.name().relative()));
        if let Some(alive) = live.into_iter().find(|name| doomed.contains(name.as_str())) {
            return Err(Violation::LiveObjectDeleted(alive));
        }
    }
    Ok(())
}

/// A manifest after the one before it (T-3, T-5).
pub(crate) fn check_successor(before: &Manifest, after: &Manifest) -> Result<(), Violation> {
    if after.number != before.number + 1 || after.leader_epoch < before.leader_epoch {
        return Err(Violation::Successor {
            number: after.number,
            epoch: after.leader_epoch,
            before: before.number,
            before_epoch: before.leader_epoch,
        });
    }
    if after.log_start_offset < before.log_start_offset {
        let (before, after) = (before.log_start_offset, after.log_start_offset);
        return Err(Violation::LogStartFalls { before, after });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::PendingDelete;
    use crate::manifest::tests_support::{entry, manifest};

    #[test]
    fn each_violation_is_seen() {
        assert_eq!(check(&manifest()), Ok(()));
        let mut gap = manifest(); // T-1
        gap.inline.push(entry(31, 40));
        assert_eq!(
            check(&gap),
            Err(Violation::Order {
                expected: 30,
                found: 31
            })
        );
        let mut overlap = manifest(); // T-1
        overlap.inline.push(entry(29, 40));
        assert!(matches!(check(&overlap), Err(Violation::Order { .. })));
        let mut start = manifest(); // T-5
        start.log_start_offset = 30;
        assert!(matches!(check(&start), Err(Violation::LogStart { .. })));
        let mut alive = manifest(); // T-6
        let relative = alive.inline[0].name().relative();
        alive.pending_deletes.push(PendingDelete {
            relative,
            due_ms: 0,
        });
        assert!(matches!(
            check(&alive),
            Err(Violation::LiveObjectDeleted(_))
        ));
        let mut count = manifest(); // T-7
        count.sealed[0].removed = 3;
        assert_eq!(check(&count), Err(Violation::Count(0)));
        let mut next = manifest(); // T-3
        assert!(check_successor(&manifest(), &next).is_err());
        next.number += 1;
        assert_eq!(check_successor(&manifest(), &next), Ok(()));
        next.leader_epoch -= 1;
        assert!(check_successor(&manifest(), &next).is_err());
        next.leader_epoch += 1;
        next.log_start_offset -= 1; // T-5
        assert!(matches!(
            check_successor(&manifest(), &next),
            Err(Violation::LogStartFalls { .. })
        ));
    }
}
