//! Putting a cleaned segment in the place of those it was made of, while the log is used (L-45, L-47).
//!
//! **Consistency**: a reader sees the old segments or the new one. What it learned of a segment under
//! the log's lock holds for one incarnation only; a file that was opened by name is kept only if the
//! segment is still of that incarnation afterwards.
//! **Crash safety**: see [`swap_steps`].

use std::fs;
use std::path::{Path, PathBuf};

use strandline_types::Offset;

use super::{Log, Status};
use crate::error::LogError;
use crate::janitor::Chore;
use crate::segment::{Segment, SegmentFile, SegmentId};
use crate::sys;

pub(crate) const CLEANED: &str = ".cleaned";
pub(crate) const SWAP: &str = ".swap";
pub(crate) const DELETED: &str = ".deleted";

/// The files that a cleaned segment brings, the log file last: with it the swap is complete.
pub(crate) const CLEANED_KINDS: [SegmentFile; 4] = [
    SegmentFile::OffsetIndex,
    SegmentFile::TimeIndex,
    SegmentFile::TransactionIndex,
    SegmentFile::Log,
];

/// One step of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SwapStep {
    Rename {
        from: PathBuf,
        to: PathBuf,
        /// It must be there; the others may have been no file, or are renamed already.
        is_needed: bool,
    },
    /// All names so far are on the device.
    SyncFolder,
    /// From here on readers get the new segment. Before it the swap can be called off.
    Publish,
}

/// The steps that put the cleaned segment at `old[0]` in the place of all of `old`.
///
/// After a crash the next start (L-25) undoes a swap of which a `.cleaned` file is left, and completes
/// one of which a `.swap` file is left: it removes what the swap replaces, then renames. Each stage is
/// on the device before the next one begins, so that a power cut, which may keep some of the names of
/// a stage and not others, leaves either all old segments or a complete new one.
pub(crate) fn swap_steps(folder: &Path, old: &[Offset]) -> Vec<SwapStep> {
    let Some(base) = old.first().copied() else {
        return Vec::new();
    };
    let rename = |kind: SegmentFile, base, from: &str, to: &str| {
        let path = |mark| kind.marked_path(folder, base, mark);
        SwapStep::Rename {
            from: path(from),
            to: path(to),
            is_needed: to != DELETED && kind != SegmentFile::TransactionIndex,
        }
    };
    let mut steps = Vec::new();
    steps.extend(CLEANED_KINDS.map(|kind| rename(kind, base, CLEANED, SWAP)));
    steps.extend([SwapStep::SyncFolder, SwapStep::Publish]);
    for replaced in old.iter().copied() {
        // The producers at the beginning of what stays are still of use.
        let kinds = SegmentFile::ALL.into_iter();
        let gone = kinds.filter(|k| *k != SegmentFile::ProducerSnapshot || replaced != base);
        steps.extend(gone.map(|kind| rename(kind, replaced, "", DELETED)));
    }
    steps.push(SwapStep::SyncFolder);
    steps.extend(CLEANED_KINDS.map(|kind| rename(kind, base, SWAP, "")));
    steps.push(SwapStep::SyncFolder);
    steps
}

/// Whether there was something to rename.
pub(crate) fn rename(from: &Path, to: &Path, is_needed: bool) -> Result<bool, LogError> {
    match sys::rename(from, to) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !is_needed => Ok(false),
        Err(e) => Err(LogError::io("rename", from, e)),
    }
}

impl Log {
    /// Puts `new`, whose files are named `.cleaned` and on the device, in the place of `old`. False,
    /// with nothing done, when the log has changed so that it must not be: retention took one of them,
    /// the topic is no longer compacted. Errors: what lies on the disk is not known any more.
    pub(crate) fn replace_segments(
        &self,
        old: &[SegmentId],
        new: Segment,
    ) -> Result<bool, LogError> {
        if !self.begin_swap(old)? {
            return Ok(false);
        }
        let done = self.swap(old, new);
        self.state.lock().is_swapping = false;
        done.map(|()| true)
    }

    fn begin_swap(&self, old: &[SegmentId]) -> Result<bool, LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        if !state.config.compact || !state.segments.has(old) {
            return Ok(false);
        }
        state.is_swapping = true;
        Ok(true)
    }

    fn swap(&self, old: &[SegmentId], new: Segment) -> Result<(), LogError> {
        let bases: Vec<Offset> = old.iter().map(|id| id.base_offset).collect();
        let mut deleted = Vec::new();
        for step in swap_steps(&self.folder, &bases) {
            match step {
                SwapStep::Rename {
                    from,
                    to,
                    is_needed,
                } => {
                    let is_done = rename(&from, &to, is_needed)?;
                    if is_done
                        && to
                            .as_os_str()
                            .as_encoded_bytes()
                            .ends_with(DELETED.as_bytes())
                    {
                        deleted.push(to);
                    }
                }
                SwapStep::SyncFolder => self.sync_names()?,
                SwapStep::Publish => self.publish(old, new.clone())?,
            }
        }
        let delay_ms = {
            let mut state = self.state.lock();
            if let Some(segment) = state.segments.at_mut(new.base_offset) {
                segment.is_at_swap = false;
            }
            state.config.file_delete_delay_ms
        };
        self.dir
            .files
            .forget(self.number, |base| bases.contains(&base));
        self.dir.janitor.add(Chore::RemoveFiles(deleted), delay_ms);
        Ok(())
    }

    /// In the middle of a swap there is no way back, so it waits for a handle.
    fn sync_names(&self) -> Result<(), LogError> {
        self.dir.with_handles(|| self.flush_folder())
    }

    fn publish(&self, old: &[SegmentId], mut new: Segment) -> Result<(), LogError> {
        let end = {
            let mut state = self.state.lock();
            self.check_open(&state)?;
            state.swaps += 1;
            new.incarnation = state.swaps;
            new.is_at_swap = true;
            let base = new.base_offset;
            if !state.segments.replace(old, new) {
                let reason = "segments left while they were replaced";
                return Err(LogError::corrupt(&*self.folder, reason));
            }
            self.dir.note_change();
            let next = state.segments.floor(base).and_then(|(_, next)| next);
            next.unwrap_or(base)
        };
        // Memory still has what was removed; its transactions' index entries may be gone (F-31).
        self.tail.drop_below(end, &self.dir.tail);
        Ok(())
    }

    /// Opens a file of a sealed segment. Errors: [`LogError::is_not_found`] also when the segment was
    /// replaced, see [`Log::is_replaced`].
    pub(crate) fn open_segment_file(
        &self,
        segment: SegmentId,
        kind: SegmentFile,
    ) -> Result<std::sync::Arc<fs::File>, LogError> {
        let key = self.file_key(segment, kind);
        let files = &self.dir.files;
        files.spare(|| {
            if let Some(file) = files.get(key) {
                return Ok(file);
            }
            let file = self.open_by_name(segment, kind, self.is_at_swap(segment))?;
            Ok(files.put(key, file))
        })
    }

    /// Opens it by the name that it has if `is_at_swap`, which a moment ago was so, or not.
    fn open_by_name(
        &self,
        segment: SegmentId,
        kind: SegmentFile,
        is_at_swap: bool,
    ) -> Result<fs::File, LogError> {
        let path = kind.path(&self.folder, segment.base_offset);
        let fail = |e| LogError::io("open", path.clone(), e);
        if is_at_swap {
            let swap = kind.marked_path(&self.folder, segment.base_offset, SWAP);
            match sys::open(&swap, false) {
                // Else it may be of the next swap, which is not published yet.
                Ok(file) if self.is_at_swap(segment) => return Ok(file),
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail(e)),
                _ => {} // renamed since: it has its own name
            }
        }
        let file = sys::open(&path, false).map_err(fail)?;
        if self.is_replaced(segment) {
            return Err(fail(std::io::ErrorKind::NotFound.into()));
        }
        Ok(file)
    }

    fn is_at_swap(&self, segment: SegmentId) -> bool {
        let mut state = self.state.lock();
        let found = state.segments.at_mut(segment.base_offset);
        found.is_some_and(|s| s.id() == segment && s.is_at_swap)
    }

    /// True when another segment has taken this one's place.
    pub(crate) fn is_replaced(&self, segment: SegmentId) -> bool {
        let state = self.state.lock();
        let found = state.segments.floor(segment.base_offset);
        state.status == Status::Open && found.is_some_and(|(s, _)| s.id() != segment)
    }
}

#[cfg(test)]
mod tests;
