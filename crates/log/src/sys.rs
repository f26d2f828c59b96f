//! Every change to files and folders, the few system calls that `std` lacks, and files replaced in one
//! step (DESIGN §3). Tests keep a journal of the changes.

#[cfg(test)]
pub(crate) mod handles;
#[cfg(test)]
pub(crate) mod journal;

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation};

use crate::error::LogError;

/// Largest number of pieces that one vectored write takes.
pub(crate) const IOV_MAX: usize = 1024;

/// Opens a file of a log for reading and writing; it must exist unless `create`.
pub(crate) fn open(path: &Path, create: bool) -> io::Result<File> {
    #[cfg(test)]
    handles::check(path)?;
    #[cfg(test)]
    let is_new = create && !path.try_exists()?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)?;
    #[cfg(test)]
    if is_new {
        journal::created(path, &file);
    }
    Ok(file)
}

/// Creates a file, empty whatever was there.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    handles::check(path)?;
    let file = File::create(path)?;
    #[cfg(test)]
    journal::created(path, &file);
    Ok(file)
}

/// Creates a folder. Errors: also when it is there.
pub(crate) fn create_dir(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    #[cfg(test)]
    journal::folder_made(path);
    Ok(())
}

/// Writes all of `bytes` at `position`.
pub(crate) fn write_all_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    file.write_all_at(bytes, position)?;
    #[cfg(test)]
    journal::wrote(file, position, bytes);
    Ok(())
}

/// Cuts or extends a file.
pub(crate) fn set_len(file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    #[cfg(test)]
    journal::set_len(file, len);
    Ok(())
}

/// Makes what was written to a file durable; its name is another matter, see [`sync_folder`].
pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    #[cfg(test)]
    let until = journal::position_of(file);
    file.sync_data()?;
    #[cfg(test)]
    journal::synced(file, until);
    Ok(())
}

fn open_to_flush(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    handles::check(path)?;
    File::open(path)
}

/// As [`sync_data`], of a file that is not open.
pub(crate) fn sync_path(path: &Path) -> Result<(), LogError> {
    let flushed = open_to_flush(path).and_then(|file| sync_data(&file));
    flushed.map_err(|e| LogError::io("flush", path, e))
}

/// Gives a file or folder another name; what had it is gone.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    #[cfg(test)]
    journal::renamed(from, to);
    Ok(())
}

/// Removes a file.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    #[cfg(test)]
    journal::removed(path);
    Ok(())
}

/// Removes a folder with all that is in it.
pub(crate) fn remove_dir_all(path: &Path) -> io::Result<()> {
    fs::remove_dir_all(path)?;
    #[cfg(test)]
    journal::removed(path);
    Ok(())
}

/// Writes all `pieces` at `position`, in as few calls as the system allows.
pub(crate) fn write_all_vectored_at(
    file: &File,
    pieces: &mut [IoSlice<'_>],
    position: u64,
) -> io::Result<()> {
    write_pieces(pieces, position, |pieces, at| {
        let n = rustix::io::pwritev(file, pieces, at)?;
        #[cfg(test)]
        journal::wrote(
            file,
            at,
            journal::joined(pieces).get(..n).unwrap_or_default(),
        );
        Ok(n)
    })
}

fn write_pieces(
    mut pieces: &mut [IoSlice<'_>],
    mut position: u64,
    mut write: impl FnMut(&[IoSlice<'_>], u64) -> io::Result<usize>,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        let some = pieces.len().min(IOV_MAX);
        match write(pieces.get(..some).unwrap_or(&[]), position) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                position += n as u64;
                IoSlice::advance_slices(&mut pieces, n);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reserves blocks behind the end of a file without changing its size.
pub(crate) fn reserve(file: &File, position: u64, len: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(
        file,
        FallocateFlags::KEEP_SIZE,
        position,
        len,
    )?)
}

/// Takes the exclusive lock of an open file; false when another process (or another handle of
/// this one) has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Reads up to `buffer.len()` bytes at `position`; fewer only at the end of the file.
pub(crate) fn read_up_to(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, position + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Replaces a file by way of a temporary one, so that a reader finds the old or the new content,
/// never half of it; with `sync` also after a power cut.
pub(crate) fn replace_file(path: &Path, content: &[u8], sync: bool) -> Result<(), LogError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let fail = |operation| move |e| LogError::io(operation, path, e);
    let file = create(&temporary).map_err(fail("create"))?;
    write_all_at(&file, content, 0).map_err(fail("write"))?;
    if sync {
        sync_data(&file).map_err(fail("flush"))?;
    }
    rename(&temporary, path).map_err(fail("rename"))?;
    if sync {
        sync_folder(path)?;
    }
    Ok(())
}

/// Makes the names in the folder of `path` durable.
pub(crate) fn sync_folder(path: &Path) -> Result<(), LogError> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    let open = open_to_flush(folder).map_err(|e| LogError::io("open", folder, e))?;
    #[cfg(test)]
    let until = journal::position(folder);
    open.sync_all()
        .map_err(|e| LogError::io("flush", folder, e))?;
    #[cfg(test)]
    journal::folder_synced(&folder.components().collect::<std::path::PathBuf>(), until);
    Ok(())
}

/// Flushes everything that was written to the file system of `folder`, in one call.
pub(crate) fn sync_file_system(folder: &Path) -> Result<(), LogError> {
    let open = open_to_flush(folder).map_err(|e| LogError::io("open", folder, e))?;
    #[cfg(test)]
    let until = journal::position(folder);
    rustix::fs::syncfs(&open).map_err(|e| LogError::io("flush", folder, e.into()))?;
    #[cfg(test)]
    journal::all_synced(folder, until);
    Ok(())
}

/// Removes a file; one that is not there is fine.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), LogError> {
    match remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_go_on_and_errors_come_out() {
        let data: Vec<u8> = (0..=255).collect();
        for step in [1, 7, 100, 1000] {
            let mut pieces: Vec<_> = data.chunks(13).map(IoSlice::new).collect();
            let mut out = vec![0; 300];
            write_pieces(&mut pieces, 20, |pieces, at| {
                let all: Vec<u8> = pieces.iter().flat_map(|p| p.iter().copied()).collect();
                let n = all.len().min(step);
                out[at as usize..at as usize + n].copy_from_slice(&all[..n]);
                Ok(n)
            })
            .unwrap();
            assert_eq!(out[20..276], data);
        }
        let mut pieces = [IoSlice::new(&data)];
        assert!(write_pieces(&mut pieces, 0, |_, _| Ok(0)).is_err());
        let mut pieces = [IoSlice::new(b"")];
        assert!(write_pieces(&mut pieces, 0, |_, _| Ok(0)).is_ok());
    }
}
