//! Loading a partition's folder: exact recovery after a crash, trust after a clean end (L-20…L-26).

mod recover;
mod swap;
mod tidy;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use strandline_types::{Offset, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::error::LogError;
use crate::leader_epochs::LeaderEpochs;
use crate::log::LogParts;
use crate::offsets::LogOffsets;
use crate::producer_state::ProducerState;
use crate::replay::{self, Extent};
use crate::segment::{Segment, SegmentFile};
use crate::segments::Segments;
use crate::stop_summary::StopSummary;
use crate::sys;
use recover::{Checked, Recovery};

pub(crate) use tidy::modified_ms;
#[cfg(test)]
pub(crate) use tidy::names;

/// What the directory knows about a partition before it is loaded.
pub(crate) struct LoadRequest<'r> {
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) folder: Arc<Path>,
    pub(crate) config: LogConfig,
    /// The directory was closed cleanly.
    pub(crate) is_clean: bool,
    /// The segments as they were then; nothing otherwise.
    pub(crate) at_stop: &'r StopSummary,
    /// 0 when the checkpoint does not say.
    pub(crate) recovery_point: Offset,
    pub(crate) is_recovery_point_known: bool,
    pub(crate) log_start: Option<Offset>,
    pub(crate) high_watermark: Option<Offset>,
    /// Where the last cleaning ended.
    pub(crate) cleaned_to: Option<Offset>,
}

/// Why a segment begins above the end of the one before.
enum Gap {
    /// What lay there was cleaned away (L-42).
    Cleaned,
    /// It lay on the device once: what follows stays.
    Unexplained,
    /// It was not flushed, and a power cut took it, but not the name of what follows (L-20).
    Lost,
}

impl LoadRequest<'_> {
    /// `end` is where the segment before it ends.
    fn gap_before(&self, base: Offset, end: Offset) -> Gap {
        let was_cleaned = self.cleaned_to.is_some_and(|to| base <= to);
        let is_unflushed =
            !self.is_clean && end >= self.recovery_point && base > self.recovery_point;
        // What retention has not removed yet is no reason to lose what it keeps.
        let is_remnant = self.log_start.is_some_and(|start| end <= start);
        // A cleaning has written the recovery point down before it puts anything in.
        let may_be_cleaned = self.config.compact && !(is_unflushed && self.is_recovery_point_known);
        if was_cleaned || may_be_cleaned {
            Gap::Cleaned
        } else if is_unflushed && !is_remnant {
            Gap::Lost
        } else {
            Gap::Unexplained
        }
    }
}

/// Loads one partition. Errors: it cannot be read, or what lies before the recovery point is
/// damaged; the partition is then offline, the others are not concerned.
pub(crate) fn load(request: LoadRequest<'_>) -> Result<LogParts, LogError> {
    let folder = Arc::clone(&request.folder);
    swap::finish_swaps(&folder)?;
    let bases = tidy::segment_bases(&folder)?;
    let mut loaded = load_segments(&request, &bases)?;
    let checkpointed = request.log_start.unwrap_or(0);
    if loaded.log_end < checkpointed && !bases.is_empty() {
        tracing::warn!(
            partition = %request.partition, log_end = loaded.log_end, log_start = checkpointed,
            "the log ends before its start: it begins anew" // L-22
        );
        tidy::remove_segments(&folder, &bases)?;
        loaded = start_empty(&folder, checkpointed)?;
    } else if bases.is_empty() {
        loaded = start_empty(&folder, checkpointed)?;
    }
    let log_end = loaded.log_end;
    let first_base = loaded.segments.first_base();
    let log_start = if request.config.remote {
        request.log_start.unwrap_or(first_base) // L-26
    } else {
        checkpointed.max(first_base)
    };
    let local_log_start = log_start.max(first_base);
    let is_log_start_known = request.log_start.is_some() || log_start == 0;
    let producers = load_producers(&request, &mut loaded)?;
    let epochs = load_epochs(&request, &loaded, log_start)?;
    let high_watermark = request
        .high_watermark
        .unwrap_or(local_log_start)
        .clamp(local_log_start, log_end);
    let offsets = LogOffsets {
        log_start,
        local_log_start,
        last_stable: high_watermark,
        high_watermark,
        written_end: log_end,
        log_end,
    };
    Ok(LogParts {
        partition: request.partition,
        topic_id: request.topic_id,
        folder,
        config: request.config,
        segments: loaded.segments,
        producers,
        epochs,
        offsets,
        recovery_point: request.recovery_point.min(log_end),
        cleaned_to: request.cleaned_to,
        is_changed: loaded.was_recovered || request.recovery_point != log_end || !request.is_clean,
        is_log_start_known,
    })
}

struct LoadedSegments {
    segments: Segments,
    log_end: Offset,
    /// Something was cut, or checked batch by batch.
    was_recovered: bool,
    /// The producers at the log's end, where its last segment was gone through.
    producers: Option<ProducerState>,
}

impl LoadedSegments {
    fn extents(&self) -> Vec<Extent> {
        self.segments
            .with_ends(self.log_end)
            .map(Extent::of)
            .collect()
    }
}

fn start_empty(folder: &Path, base: Offset) -> Result<LoadedSegments, LogError> {
    let path = SegmentFile::Log.path(folder, base);
    sys::open(&path, true).map_err(|e| LogError::io("create", path, e))?;
    let segments = Segments::new(
        VecDeque::new(),
        Segment::new(base, tidy::modified_ms(folder), 0),
    );
    Ok(LoadedSegments {
        segments,
        log_end: base,
        was_recovered: true,
        producers: None,
    })
}

/// Checks or recovers each segment in turn; a cut ends the log there (L-20).
fn load_segments(request: &LoadRequest<'_>, bases: &[Offset]) -> Result<LoadedSegments, LogError> {
    let folder = &request.folder;
    let mut segments: VecDeque<Segment> = VecDeque::new();
    let (mut log_end, mut was_recovered, mut producers) = (0, false, None);
    for (i, base) in bases.iter().copied().enumerate() {
        let next_base = bases.get(i + 1).copied();
        let is_unflushed = next_base.is_none_or(|next| next > request.recovery_point);
        if i > 0 && base < log_end {
            let path = SegmentFile::Log.path(folder, base);
            return Err(LogError::corrupt(
                path,
                format!("it begins before offset {log_end}"),
            ));
        }
        if i > 0 && base > log_end {
            match request.gap_before(base, log_end) {
                Gap::Cleaned => {}
                Gap::Unexplained => tracing::warn!(
                    partition = %request.partition, log_end, base, "a gap between segments"
                ),
                Gap::Lost => {
                    tracing::warn!(
                        partition = %request.partition, base, log_end,
                        reason = "the end of the segment before was not flushed",
                        deleted_segments = bases.len() - i, "the log was cut at its last valid batch"
                    );
                    tidy::remove_segments(folder, bases.get(i..).unwrap_or(&[]))?;
                    was_recovered = true;
                    break;
                }
            }
        }
        let at_stop = request.at_stop.segment(&request.partition, base);
        let mut checked =
            recover::check_segment(folder, base, next_base, at_stop, &request.config)?;
        if let Checked::Good(_, end) = &checked
            && !request.is_clean
            && is_unflushed
            && *end != request.recovery_point
        {
            // It holds something that was not flushed when the broker stopped.
            checked = Checked::Damaged("the broker was not stopped cleanly".into());
        }
        let reason = match checked {
            Checked::Good(segment, end) => {
                segments.push_back(segment);
                log_end = end;
                continue;
            }
            Checked::Damaged(reason) => reason,
        };
        tracing::info!(partition = %request.partition, base, reason, "recovering a segment");
        let before: Vec<Extent> = segments
            .iter()
            .zip(bases.iter().skip(1).copied())
            .map(Extent::of)
            .collect();
        let recovery = Recovery {
            folder,
            before: &before,
            base,
            next_base,
            later: bases.get(i + 1..).unwrap_or(&[]),
            config: &request.config,
            recovery_point: request.recovery_point,
            may_cut: is_unflushed,
        };
        let recovered = recovery.run()?;
        was_recovered = true;
        log_end = recovered.next_offset;
        producers = Some((recovered.producers, log_end));
        segments.push_back(recovered.segment);
        if let Some(reason) = recovered.cut {
            tracing::warn!(
                partition = %request.partition, base, log_end, reason,
                deleted_segments = bases.len() - i - 1, "the log was cut at its last valid batch"
            );
            break;
        }
    }
    let Some(active) = segments.pop_back() else {
        let active = Segment::new(0, 0, 0);
        let segments = Segments::new(VecDeque::new(), active);
        return Ok(LoadedSegments {
            segments,
            log_end: 0,
            was_recovered,
            producers: None,
        });
    };
    Ok(LoadedSegments {
        segments: Segments::new(segments, active),
        log_end,
        was_recovered,
        producers: producers.filter(|(_, at)| *at == log_end).map(|(p, _)| p),
    })
}

/// The newest good snapshot, then what the log says since (L-24).
fn load_producers(
    request: &LoadRequest<'_>,
    loaded: &mut LoadedSegments,
) -> Result<ProducerState, LogError> {
    let extents = loaded.extents();
    let bases: Vec<Offset> = extents.iter().map(|e| e.base).collect();
    let snapshot = tidy::newest_snapshot(&request.folder, loaded.log_end, &bases)?;
    match loaded.producers.take() {
        Some(producers) => Ok(producers),
        None => replay::producers_at(&request.folder, &extents, snapshot, loaded.log_end),
    }
}

/// The epochs file, corrected by what the log says where it was recovered (L-23).
fn load_epochs(
    request: &LoadRequest<'_>,
    loaded: &LoadedSegments,
    log_start: Offset,
) -> Result<LeaderEpochs, LogError> {
    let folder = &request.folder;
    let mut stored = LeaderEpochs::read(folder)?;
    // The file may know of a log start that a power cut has taken back.
    let first = log_start.max(loaded.segments.first_base());
    let begins_late = |epochs: &LeaderEpochs| {
        let begins = epochs.entries().first().map(|entry| entry.start_offset);
        begins.is_some_and(|begins| begins > first)
    };
    let mut changed = !request.is_clean && stored.as_ref().is_some_and(begins_late);
    if changed {
        stored = None;
    }
    let from = match (&stored, loaded.was_recovered) {
        (None, _) => loaded.segments.first_base(),
        (Some(_), true) => request.recovery_point.max(loaded.segments.first_base()),
        (Some(_), false) => loaded.log_end,
    };
    let mut epochs = stored.unwrap_or_default();
    changed |= epochs.truncate_from_end(loaded.log_end);
    replay::walk_from(folder, &loaded.extents(), from, |_, batch| {
        changed |= epochs.assign(
            batch.header.partition_leader_epoch,
            batch.header.base_offset,
        );
        Ok(())
    })?;
    // Without its checkpoint the start of a tiered log is not known yet (L-26, S-13).
    if !request.config.remote || request.log_start.is_some() {
        changed |= epochs.truncate_from_start(log_start);
    }
    if changed {
        let path = folder.join(crate::leader_epochs::FILE_NAME);
        sys::replace_file(&path, epochs.encode().as_bytes(), false)?;
    }
    Ok(epochs)
}
