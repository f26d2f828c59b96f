//! What the cleaner asks a log and tells it (L-40, L-42, L-49).

use std::collections::HashMap;

use strandline_types::{Offset, ProducerEpoch, ProducerId};

use super::Log;
use crate::cleaner::plan::{LogFacts, SegmentFacts};
use crate::error::LogError;
use crate::segment::{Segment, SegmentId};

/// A sealed segment that the cleaner reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SealedView {
    pub(crate) id: SegmentId,
    pub(crate) next_offset: Offset,
    pub(crate) size: u64,
    pub(crate) offset_entries: u32,
    pub(crate) time_entries: u32,
    pub(crate) modified_ms: i64,
}

/// The place of a producer that is remembered (L-42).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastOfProducer {
    /// Offset of its last record; `None` when only markers are known.
    pub(crate) last_offset: Option<Offset>,
    pub(crate) epoch: ProducerEpoch,
}

impl Log {
    /// What decides whether, and how far, the log may be cleaned. `None` when it is not to be: not
    /// compacted, closed, or a segment is being put in.
    pub(crate) fn clean_facts(&self) -> Option<LogFacts> {
        let state = self.state.lock();
        if self.check_open(&state).is_err() || !state.config.compact || state.is_swapping {
            return None;
        }
        let offsets = self.offsets.view();
        // What the writer is still at is not sealed yet.
        let active_base = state.segments.active().base_offset.min(state.writing);
        let sealed = state.segments.iter().map_while(|s| {
            (s.base_offset < active_base).then_some(SegmentFacts {
                base_offset: s.base_offset,
                size: s.size,
                largest_timestamp: s.largest_timestamp(),
                first_timestamp: s.first_timestamp,
            })
        });
        Some(LogFacts {
            sealed: sealed.collect(),
            active_base,
            cleaned_to: state.cleaned_to,
            log_start: offsets.log_start,
            log_end: offsets.log_end,
            last_stable: offsets.last_stable,
        })
    }

    /// The sealed segments that begin below `end`, oldest first.
    pub(crate) fn sealed_below(&self, end: Offset) -> Result<Vec<SealedView>, LogError> {
        let state = self.state.lock();
        self.check_open(&state)?;
        let views = state
            .segments
            .with_ends(self.log_end_offset())
            .take_while(|(s, _)| s.base_offset < end)
            .map(|(s, next_offset)| SealedView {
                id: s.id(),
                next_offset,
                size: s.written_size,
                offset_entries: s.offset_index.len(),
                time_entries: s.time_index.len(),
                modified_ms: s.modified_ms,
            });
        Ok(views.collect())
    }

    /// Where each remembered producer is.
    pub(crate) fn lasts_of_producers(&self) -> HashMap<ProducerId, LastOfProducer> {
        let state = self.state.lock();
        let entries = state.producers.entries().iter();
        entries
            .map(|(id, entry)| {
                let last_offset = entry.last_data_offset();
                let last = LastOfProducer {
                    last_offset: (last_offset >= 0).then_some(last_offset),
                    epoch: entry.epoch,
                };
                (*id, last)
            })
            .collect()
    }

    /// Notes that everything below `end` is cleaned, and writes that down (L-49). Blocks.
    pub(crate) fn set_cleaned_to(&self, end: Offset) -> Result<(), LogError> {
        {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            state.cleaned_to = Some(end);
            self.dir.note_change();
        }
        self.dir.write_cleaner_checkpoint()
    }

    /// Seals an active segment whose first batch is older than `max.compaction.lag.ms` allows, which
    /// otherwise would wait for the next batch (L-40); whether it did.
    pub(crate) fn roll_for_compaction(&self, now_ms: i64) -> Result<bool, LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        let lag_ms = state.config.max_compaction_lag_ms;
        let active: &Segment = state.segments.active();
        let age = now_ms.saturating_sub(active.first_append_ms);
        Ok(state.config.compact && age > lag_ms && self.roll_if_not_empty(&mut state, now_ms))
    }

    /// An error that no part of the log survives: its directory goes offline, unless it was the log
    /// that went away.
    pub(crate) fn swap_failed(&self, error: LogError) {
        let is_gone = matches!(error, LogError::Closed | LogError::Deleted(_)) || self.is_deleted();
        if !is_gone {
            self.dir.fail(error);
        }
    }
}
