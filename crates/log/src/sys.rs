//! The few system calls that `std` lacks, and files replaced in one step (DESIGN §3).

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation};

use crate::error::LogError;

/// Largest number of pieces that one vectored write takes.
pub(crate) const IOV_MAX: usize = 1024;

/// Opens a file of a log for reading and writing; it must exist unless `create`.
pub(crate) fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)
}

/// Writes all `pieces` at `position`, in as few calls as the system allows.
pub(crate) fn write_all_vectored_at(
    file: &File,
    pieces: &mut [IoSlice<'_>],
    position: u64,
) -> io::Result<()> {
    write_pieces(pieces, position, |pieces, at| {
        Ok(rustix::io::pwritev(file, pieces, at)?)
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
    let mut file = File::create(&temporary).map_err(fail("create"))?;
    file.write_all(content).map_err(fail("write"))?;
    if sync {
        file.sync_data().map_err(fail("flush"))?;
    }
    fs::rename(&temporary, path).map_err(fail("rename"))?;
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
    let open = File::open(folder).map_err(|e| LogError::io("open", folder, e))?;
    open.sync_all()
        .map_err(|e| LogError::io("flush", folder, e))
}

/// Flushes everything that was written to the file system of `folder`, in one call.
pub(crate) fn sync_file_system(folder: &Path) -> Result<(), LogError> {
    let open = File::open(folder).map_err(|e| LogError::io("open", folder, e))?;
    rustix::fs::syncfs(&open).map_err(|e| LogError::io("flush", folder, e.into()))
}

/// Removes a file; one that is not there is fine.
pub(crate) fn remove_if_there(path: &Path) -> Result<(), LogError> {
    match fs::remove_file(path) {
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
