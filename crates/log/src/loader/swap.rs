//! What an interrupted deletion or cleaning left behind (L-25).

use std::fs;
use std::path::Path;

use strandline_types::Offset;

use super::tidy;
use crate::error::LogError;
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
        .filter(|n| n.ends_with(".cleaned"))
        .filter_map(|n| base_of(n));
    let first_unfinished = unfinished.min().unwrap_or(Offset::MAX);
    for name in &names {
        let is_void =
            name.ends_with(".swap") && base_of(name).is_none_or(|b| b >= first_unfinished);
        if name.ends_with(".deleted") || name.ends_with(".cleaned") || is_void {
            sys::remove_if_there(&folder.join(name))?;
        }
    }
    let swaps = names.iter().filter(|n| n.ends_with(".log.swap"));
    let valid = swaps
        .filter_map(|n| base_of(n))
        .filter(|base| *base < first_unfinished);
    for base in valid {
        remove_covered(folder, base)?;
    }
    for name in names.iter().filter(|n| n.ends_with(".swap")) {
        let from = folder.join(name);
        let Some(to) = tidy::without_suffix(&from, ".swap") else {
            continue;
        };
        match fs::rename(&from, &to) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(LogError::io("rename", from, e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes the segments that the swapped segment at `base` replaces: those that begin inside it.
fn remove_covered(folder: &Path, base: Offset) -> Result<(), LogError> {
    let mut path = SegmentFile::Log.path(folder, base).into_os_string();
    path.push(".swap");
    let path = Path::new(&path);
    let file = sys::open(path, false).map_err(|e| LogError::io("open", path, e))?;
    let size = file
        .metadata()
        .map_err(|e| LogError::io("look at", path, e))?
        .len();
    let mut walk = BatchWalk::new(&file, 0, size, 64 * 1024);
    let mut end = base.saturating_add(1);
    while let Ok(Some(batch)) = walk.next() {
        end = end.max(batch.header.next_offset());
    }
    for name in tidy::names(folder)? {
        if let Some((other, SegmentFile::Log)) = SegmentFile::parse(&name)
            && (base..end).contains(&other)
        {
            super::tidy::remove_segments(folder, &[other])?;
        }
    }
    Ok(())
}
