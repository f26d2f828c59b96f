//! What an interrupted deletion or cleaning left behind (L-25).
//!
//! **Crash safety**: each step may be cut off and is then done again by the next start. What a swap
//! replaces is gone from the device before the log file gets its name, which ends the swap.

use std::path::Path;

use strandline_types::Offset;

use super::tidy;
use crate::error::LogError;
use crate::log::{CLEANED, CLEANED_KINDS, DELETED, SWAP, rename_file};
use crate::scan::BatchWalk;
use crate::segment::SegmentFile;
use crate::sys;

/// Removes `.deleted` and `.cleaned` files, and completes `.swap` files unless the cleaning that
/// made them had not ended.
pub(super) fn finish_swaps(folder: &Path) -> Result<(), LogError> {
    let names = tidy::names(folder)?;
    let base_of = |name: &str| {
        name.get(..20)
            .and_then(|digits| digits.parse::<Offset>().ok())
    };
    let unfinished = names
        .iter()
        .filter(|n| n.ends_with(CLEANED))
        .filter_map(|n| base_of(n));
    let first_unfinished = unfinished.min().unwrap_or(Offset::MAX);
    let is_void =
        |name: &str| name.ends_with(SWAP) && base_of(name).is_none_or(|b| b >= first_unfinished);
    // Those that are void go before what makes them so.
    let voids = names.iter().filter(|n| is_void(n));
    let others = names
        .iter()
        .filter(|n| n.ends_with(DELETED) || n.ends_with(CLEANED));
    let mut is_changed = false;
    for name in voids {
        sys::remove_if_there(&folder.join(name))?;
        is_changed = true;
    }
    if is_changed {
        sync(folder)?;
    }
    for name in others {
        sys::remove_if_there(&folder.join(name))?;
    }
    let swaps = names.iter().filter(|n| n.ends_with(SWAP) && !is_void(n));
    let mut bases: Vec<Offset> = swaps.filter_map(|n| base_of(n)).collect();
    bases.dedup();
    bases.into_iter().try_for_each(|base| finish(folder, base))
}

fn sync(folder: &Path) -> Result<(), LogError> {
    sys::sync_folder(&folder.join("."))
}

/// Completes the swap of the segment at `base`.
fn finish(folder: &Path, base: Offset) -> Result<(), LogError> {
    let swapped = |kind: SegmentFile| kind.marked_path(folder, base, SWAP);
    match sys::open(&swapped(SegmentFile::Log), false) {
        Ok(file) => remove_covered(folder, base, &file)?,
        // It has its name already, and nothing that it replaces is left.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(LogError::io("open", swapped(SegmentFile::Log), e)),
    }
    for kind in CLEANED_KINDS {
        rename_file(&swapped(kind), &kind.path(folder, base), false)?;
    }
    sync(folder)
}

/// Removes the segments that the swapped one at `base` replaces: those that begin inside it.
fn remove_covered(folder: &Path, base: Offset, file: &std::fs::File) -> Result<(), LogError> {
    let path = SegmentFile::Log.marked_path(folder, base, SWAP);
    let size = file
        .metadata()
        .map_err(|e| LogError::io("look at", path, e))?
        .len();
    let mut walk = BatchWalk::new(file, 0, size, 64 * 1024);
    let mut end = base.saturating_add(1);
    while let Ok(Some(batch)) = walk.next() {
        end = end.max(batch.header.next_offset());
    }
    for name in tidy::names(folder)? {
        if let Some((other, kind)) = SegmentFile::parse(&name)
            && (base..end).contains(&other)
            // The producers at its beginning are as they were.
            && (kind != SegmentFile::ProducerSnapshot || other != base)
        {
            sys::remove_if_there(&folder.join(name))?;
        }
    }
    sync(folder)
}
