//! Reading the log after a start: cuts a torn end, refuses damage to what was durable.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use crate::error::OpenError;
use crate::raft::wal::file::{
    FILE_HEADER_LEN, FileHeader, LOG_MAGIC, log_numbers, log_path, sync_dir,
};
use crate::raft::wal::frame::{Frame, Parsed, parse_frame, peek_seq};

/// The log as it was found.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// The last file and its number: it receives what comes. `None` for a new log.
    pub(crate) last: Option<(u64, Arc<File>)>,
    /// Length of the last file in bytes, without what was cut.
    pub(crate) position: u64,
    /// Sequence number of the next frame.
    pub(crate) next_seq: u64,
    /// Bytes of a torn end that were cut off.
    pub(crate) cut: u64,
}

/// A frame found on recovery.
#[derive(Debug)]
pub(crate) struct RecoveredFrame<'a> {
    /// The frame.
    pub(crate) frame: Frame<'a>,
    /// Number of its file.
    pub(crate) file: u64,
    /// Where it begins there.
    pub(crate) position: u64,
    /// The file, for messages.
    pub(crate) path: &'a Path,
}

/// Reads all frames of the log in `dir` in order.
pub(crate) fn recover(
    dir: &Path,
    mut each: impl FnMut(RecoveredFrame<'_>) -> Result<(), OpenError>,
) -> Result<Recovered, OpenError> {
    let mut numbers = log_numbers(dir).map_err(OpenError::io("list", dir))?;
    drop_unfinished_file(dir, &mut numbers)?;
    let mut found = Recovered {
        last: None,
        position: 0,
        next_seq: 1,
        cut: 0,
    };
    let last = numbers.last().copied();
    let mut expected = numbers.first().copied();
    for number in numbers {
        let path = log_path(dir, number);
        if Some(number) != expected {
            let reason = "the file before this one is missing";
            return Err(OpenError::corrupt(&path, 0, reason));
        }
        expected = number.checked_add(1);
        let bytes = fs::read(&path).map_err(OpenError::io("read", &path))?;
        check_header(&path, &bytes, number, &mut found)?;
        let is_last = Some(number) == last;
        let next_seq = &mut found.next_seq;
        let end = read_frames(&path, number, &bytes, is_last, next_seq, &mut each)?;
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(OpenError::io("open", &path))?;
        if end < bytes.len() {
            let cut = file.set_len(end as u64).and_then(|()| file.sync_all());
            cut.map_err(OpenError::io("cut", &path))?;
            found.cut = (bytes.len() - end) as u64;
        }
        found.position = end as u64;
        found.last = Some((number, Arc::new(file)));
    }
    Ok(found)
}

/// The file must continue the one before it.
fn check_header(
    path: &Path,
    bytes: &[u8],
    number: u64,
    found: &mut Recovered,
) -> Result<(), OpenError> {
    let header = FileHeader::decode(bytes, LOG_MAGIC, path)?;
    if header.number != number {
        let reason = "the file has the number of another one";
        return Err(OpenError::corrupt(path, 0, reason));
    }
    if found.last.is_some() && header.first_seq != found.next_seq {
        return Err(OpenError::corrupt(
            path,
            0,
            "the file before this one is cut",
        ));
    }
    found.next_seq = header.first_seq;
    Ok(())
}

/// A crash while a file was created leaves one that is no longer than its header: nothing in it can
/// be durable, since the header is synced before the file is used.
fn drop_unfinished_file(dir: &Path, numbers: &mut Vec<u64>) -> Result<(), OpenError> {
    let Some(&last) = numbers.last() else {
        return Ok(());
    };
    let path = log_path(dir, last);
    let bytes = fs::read(&path).map_err(OpenError::io("read", &path))?;
    if bytes.len() > FILE_HEADER_LEN || FileHeader::decode(&bytes, LOG_MAGIC, &path).is_ok() {
        return Ok(());
    }
    fs::remove_file(&path).map_err(OpenError::io("remove", &path))?;
    sync_dir(dir).map_err(OpenError::io("sync", dir))?;
    numbers.pop();
    Ok(())
}

/// Reads the frames of one file; returns where the good ones end.
fn read_frames(
    path: &Path,
    file: u64,
    bytes: &[u8],
    is_last: bool,
    next_seq: &mut u64,
    each: &mut impl FnMut(RecoveredFrame<'_>) -> Result<(), OpenError>,
) -> Result<usize, OpenError> {
    let mut at = FILE_HEADER_LEN;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let reason = match parse_frame(rest) {
            Parsed::End => return Ok(at),
            Parsed::Frame(frame, len) if frame.seq == *next_seq => {
                each(RecoveredFrame {
                    frame,
                    file,
                    position: at as u64,
                    path,
                })?;
                *next_seq += 1;
                at += len;
                continue;
            }
            Parsed::Frame(..) => "a frame is missing before this one",
            Parsed::Bad(reason) => reason,
        };
        if !is_last || was_synced(rest, *next_seq) {
            return Err(OpenError::corrupt(path, at as u64, reason));
        }
        return Ok(at);
    }
}

/// True if a whole frame in `rest` says that frame `seq` was durable when it was written.
fn was_synced(rest: &[u8], seq: u64) -> bool {
    let mut at = 0;
    while let Some(tail) = rest.get(at..) {
        let Some(peeked) = peek_seq(tail) else {
            return false;
        };
        // Cheap test first: a later frame of this file has a number a little above.
        if peeked > seq
            && peeked - seq <= rest.len() as u64
            && let Parsed::Frame(frame, len) = parse_frame(tail)
        {
            if frame.synced >= seq {
                return true;
            }
            at += len;
            continue;
        }
        at += 1;
    }
    false
}
