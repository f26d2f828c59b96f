//! The files of a partition folder at start: segments, orphans, snapshots (L-24, L-25).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use strandline_types::Offset;

use crate::error::LogError;
use crate::producer_state::ProducerState;
use crate::replay;
use crate::segment::SegmentFile;
use crate::sys;

/// Names in a folder that are text.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, LogError> {
    let fail = |e| LogError::io("list", folder, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        if let Ok(name) = entry.map_err(fail)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Base offsets of the segments, ascending. Index files without a log file are removed.
pub(super) fn segment_bases(folder: &Path) -> Result<Vec<Offset>, LogError> {
    let names = names(folder)?;
    let files: Vec<_> = names
        .iter()
        .filter_map(|name| SegmentFile::parse(name))
        .collect();
    let bases: BTreeSet<Offset> = files
        .iter()
        .filter(|(_, kind)| *kind == SegmentFile::Log)
        .map(|(base, _)| *base)
        .collect();
    for (base, kind) in files {
        if kind != SegmentFile::ProducerSnapshot && !bases.contains(&base) {
            // A kill between the deletion of a segment's files leaves it; nothing is lost.
            tracing::info!(folder = %folder.display(), base, "an index without its log is removed");
            sys::remove_if_there(&kind.path(folder, base))?;
        }
    }
    for name in names.iter().filter(|name| name.ends_with(".tmp")) {
        sys::remove_if_there(&folder.join(name))?;
    }
    Ok(bases.into_iter().collect())
}

/// Removes all files of these segments, which are ascending, from the device too; the newest first, so
/// that half of it leaves no hole.
pub(super) fn remove_segments(folder: &Path, bases: &[Offset]) -> Result<(), LogError> {
    for base in bases.iter().rev() {
        for kind in SegmentFile::ALL {
            sys::remove_if_there(&kind.path(folder, *base))?;
        }
    }
    if bases.is_empty() {
        return Ok(());
    }
    sys::sync_folder(&SegmentFile::Log.path(folder, 0))
}

/// The newest readable snapshot at or below `log_end` with its offset. Snapshots above it, damaged
/// ones, and those that belong to no segment (but the newest) are removed.
pub(super) fn newest_snapshot(
    folder: &Path,
    log_end: Offset,
    bases: &[Offset],
) -> Result<Option<(ProducerState, Offset)>, LogError> {
    let mut newest = None;
    for offset in replay::snapshot_offsets(folder)?.into_iter().rev() {
        let is_needed = newest.is_none() || bases.binary_search(&offset).is_ok();
        if offset > log_end || !is_needed {
            sys::remove_if_there(&SegmentFile::ProducerSnapshot.path(folder, offset))?;
            continue;
        }
        if newest.is_some() {
            continue;
        }
        match replay::read_snapshot(folder, offset)? {
            (_, Some(state)) => newest = Some((state, offset)),
            (path, None) => {
                tracing::warn!(path = %path.display(), "a damaged producer snapshot is removed");
                sys::remove_if_there(&path)?;
            }
        }
    }
    Ok(newest)
}

/// When a file was last changed, in ms since the Unix epoch; 0 when the system does not know.
pub(crate) fn modified_ms(path: &Path) -> i64 {
    let modified = fs::metadata(path).and_then(|m| m.modified()).ok();
    let since = modified.and_then(|m| m.duration_since(UNIX_EPOCH).ok());
    since
        .and_then(|d| i64::try_from(d.as_millis()).ok())
        .unwrap_or(0)
}
