//! Who works on a log's folder by the names in it: as long as someone does, [`Log::delete`] waits.
//!
//! A topic that is created anew gets the same path, and with the same offsets the same names. Whoever
//! went on by name would rename, or remove, what is not this log's any more.

use std::path::Path;

use super::{Log, LogState};
use crate::error::LogError;

/// The folder is this log's until this is dropped, which takes the log's lock.
#[must_use]
pub(crate) struct FolderUse<'l> {
    log: &'l Log,
}

impl FolderUse<'_> {
    pub(crate) fn path(&self) -> &Path {
        &self.log.folder
    }
}

impl Drop for FolderUse<'_> {
    fn drop(&mut self) {
        let mut state = self.log.state.lock();
        state.folder_users -= 1;
        self.log.wake_waiters(&state);
    }
}

impl Log {
    /// Errors: it is the folder of no log any more, or of one that is being deleted.
    pub(crate) fn use_folder(&self) -> Result<FolderUse<'_>, LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        Ok(self.use_folder_locked(&mut state))
    }

    /// For an open log. To be dropped after the lock.
    pub(super) fn use_folder_locked(&self, state: &mut LogState) -> FolderUse<'_> {
        state.folder_users += 1;
        FolderUse { log: self }
    }
}
