//! Going over stored batches again: producers at an offset, epochs since one (L-23, L-24, P-60).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use strandline_types::Offset;

use crate::error::LogError;
use crate::index::{IndexEntry, search_file};
use crate::offset_index::OffsetEntry;
use crate::producer_snapshot;
use crate::producer_state::ProducerState;
use crate::scan::{BatchWalk, FileBatch, WalkError};
use crate::segment::{Segment, SegmentFile};
use crate::sys;
use crate::transaction_index::AbortedTransaction;

/// Replays read this much at once.
const WINDOW_BYTES: usize = 64 * 1024;
/// Largest marker that is looked at.
const MARKER_BYTES: usize = 4096;

/// The written part of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) base: Offset,
    pub(crate) size: u64,
    /// Offset after it.
    pub(crate) end: Offset,
}

impl Extent {
    pub(crate) fn of((segment, end): (&Segment, Offset)) -> Self {
        Self {
            base: segment.base_offset,
            size: segment.written_size,
            end,
        }
    }
}

/// Shows the batches whose last offset is at or above `from`. Errors: a file cannot be read, or
/// is damaged.
pub(crate) fn walk_from(
    folder: &Path,
    extents: &[Extent],
    from: Offset,
    mut visit: impl FnMut(&BatchWalk<'_>, &FileBatch) -> io::Result<()>,
) -> Result<(), LogError> {
    for extent in extents.iter().filter(|e| e.end > from && e.size > 0) {
        let path = SegmentFile::Log.path(folder, extent.base);
        let file = sys::open(&path, false).map_err(|e| LogError::io("open", path.clone(), e))?;
        let begin = index_position(folder, extent, from, &file);
        let mut walk = BatchWalk::new(&file, begin, extent.size, WINDOW_BYTES);
        loop {
            let batch = match walk.next() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(WalkError::Io(e)) => return Err(LogError::io("read", path, e)),
                Err(damaged) => return Err(LogError::corrupt(path, damaged.to_string())),
            };
            if batch.header.last_offset() >= from {
                visit(&walk, &batch).map_err(|e| LogError::io("read", path.clone(), e))?;
            }
        }
    }
    Ok(())
}

/// Where in a segment to begin for the batches from `from` on: at an index entry that points to a batch
/// before it. An index that is missing or wrong costs time only.
fn index_position(folder: &Path, extent: &Extent, from: Offset, log: &File) -> u64 {
    if from <= extent.base {
        return 0;
    }
    let offset_of = |e: &OffsetEntry| extent.base.saturating_add(i64::from(e.relative_offset));
    let find = || -> io::Result<Option<OffsetEntry>> {
        let index = sys::open(&SegmentFile::OffsetIndex.path(folder, extent.base), false)?;
        let count = u32::try_from(index.metadata()?.len() / OffsetEntry::BYTES as u64);
        search_file(&index, count.unwrap_or(0), |e| offset_of(e) < from)
    };
    let Ok(Some(entry)) = find() else { return 0 };
    let position = u64::from(entry.position);
    match BatchWalk::new(log, position, extent.size.max(position), 0).next() {
        Ok(Some(batch)) if batch.header.last_offset() == offset_of(&entry) => position,
        _ => 0,
    }
}

/// Replays one batch of a walk into `producers`; the aborted transaction that it ends, if any.
pub(crate) fn replay_batch(
    producers: &mut ProducerState,
    walk: &BatchWalk<'_>,
    batch: &FileBatch,
) -> io::Result<Option<AbortedTransaction>> {
    let mut failed = None;
    let whole = || {
        walk.whole(batch, MARKER_BYTES).unwrap_or_else(|e| {
            failed = Some(e);
            None
        })
    };
    let aborted = producers.replay(&batch.header, whole);
    failed.map_or(Ok(aborted), Err)
}

/// The producers as they were at `at`: from `snapshot` (with its offset), then from the log.
pub(crate) fn producers_at(
    folder: &Path,
    extents: &[Extent],
    snapshot: Option<(ProducerState, Offset)>,
    at: Offset,
) -> Result<ProducerState, LogError> {
    let first = extents.first().map_or(at, |e| e.base);
    let (mut producers, from) = snapshot.unwrap_or_else(|| (ProducerState::default(), first));
    if from < at {
        walk_from(folder, extents, from, |walk, batch| {
            if batch.header.last_offset() < at {
                replay_batch(&mut producers, walk, batch)?;
            }
            Ok(())
        })?;
    }
    Ok(producers)
}

/// The producers as they were at `at`, where the segments `before` end: from the newest readable
/// snapshot of then, and the log behind it.
pub(crate) fn producers_before(
    folder: &Path,
    before: &[Extent],
    at: Offset,
) -> Result<ProducerState, LogError> {
    let mut snapshot = None;
    for offset in snapshot_offsets(folder)?.into_iter().rev() {
        if offset <= at
            && let (_, Some(state)) = read_snapshot(folder, offset)?
        {
            snapshot = Some((state, offset));
            break;
        }
    }
    producers_at(folder, before, snapshot, at)
}

/// Offsets of the snapshots in a folder, ascending.
pub(crate) fn snapshot_offsets(folder: &Path) -> Result<Vec<Offset>, LogError> {
    let fail = |e| LogError::io("list", folder, e);
    let mut offsets = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let name = entry.map_err(fail)?.file_name();
        if let Some((offset, SegmentFile::ProducerSnapshot)) =
            name.to_str().and_then(SegmentFile::parse)
        {
            offsets.push(offset);
        }
    }
    offsets.sort_unstable();
    Ok(offsets)
}

/// Reads the snapshot at `offset`: its path, and what it says unless it is missing or damaged.
pub(crate) fn read_snapshot(
    folder: &Path,
    offset: Offset,
) -> Result<(PathBuf, Option<ProducerState>), LogError> {
    let path = SegmentFile::ProducerSnapshot.path(folder, offset);
    match std::fs::read(&path) {
        Ok(bytes) => Ok((path, producer_snapshot::decode(&bytes))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok((path, None)),
        Err(e) => Err(LogError::io("read", path, e)),
    }
}
