//! Folders in which tests let no file be opened, as if the process had no handle left.

use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

static NONE_LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Until this is dropped, no file below a folder can be opened.
pub(crate) struct NoHandles(PathBuf);

impl NoHandles {
    pub(crate) fn below(folder: &Path) -> Self {
        NONE_LEFT.lock().push(folder.to_path_buf());
        Self(folder.to_path_buf())
    }
}

impl Drop for NoHandles {
    fn drop(&mut self) {
        let mut all = NONE_LEFT.lock();
        if let Some(at) = all.iter().position(|folder| *folder == self.0) {
            all.swap_remove(at);
        }
    }
}

pub(super) fn check(path: &Path) -> io::Result<()> {
    let is_left = !NONE_LEFT
        .lock()
        .iter()
        .any(|folder| path.starts_with(folder));
    let none = || rustix::io::Errno::MFILE.into();
    is_left.then_some(()).ok_or_else(none)
}
