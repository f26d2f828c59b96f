//! Going over stored batches again: producers at an offset, epochs since one (L-23, L-24, P-60).

use std::io;
use std::path::{Path, PathBuf};

use strandline_types::Offset;

use crate::error::LogError;
use crate::producer_snapshot;
use crate::producer_state::ProducerState;
use crate::scan::{BatchWalk, FileBatch, WalkError};
use crate::segment::{Segment, SegmentFile};
use crate::sys;

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
        let mut walk = BatchWalk::new(&file, 0, extent.size, WINDOW_BYTES);
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

/// Replays one batch of a walk into `producers`; the bytes of its `.txnindex` entry, if it has one.
pub(crate) fn replay_batch(
    producers: &mut ProducerState,
    walk: &BatchWalk<'_>,
    batch: &FileBatch,
) -> io::Result<Option<[u8; crate::transaction_index::ENTRY_BYTES]>> {
    let mut failed = None;
    let whole = || {
        walk.whole(batch, MARKER_BYTES).unwrap_or_else(|e| {
            failed = Some(e);
            None
        })
    };
    let aborted = producers.replay(&batch.header, whole);
    failed.map_or(Ok(aborted.map(|a| a.encode())), Err)
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
