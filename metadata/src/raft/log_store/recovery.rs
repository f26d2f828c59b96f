//! From frames to state, after a start.

use std::path::Path;

use crate::codec::{DecodeError, Reader};
use crate::error::OpenError;
use crate::raft::encoding::{decode_entry, decode_log_id, decode_opt_log_id, decode_vote};
use crate::raft::log_store::index::{Index, Location};
use crate::raft::log_store::{COMMITTED, ENTRY, PURGE, State, TRUNCATE, VOTE};
use crate::raft::wal::{FILE_HEADER_LEN, FRAME_HEADER_LEN, RecoveredFrame, Wal, recover};

/// Where the first frame of a file lies.
pub(super) const FIRST_POSITION: u64 = FILE_HEADER_LEN as u64;

pub(super) fn open(dir: &Path) -> Result<(State, Wal), OpenError> {
    let mut state = State {
        index: Index::new(dir),
        ..State::default()
    };
    let found = recover(dir, |frame| replay(&mut state, &frame))?;
    check(&state, dir)?;
    if found.cut > 0 {
        tracing::warn!(dir = %dir.display(), bytes = found.cut, "cut the torn end of the metadata log");
    }
    state.next_seq = found.next_seq;
    let file = match found.last {
        Some((number, file)) => {
            state.file = number;
            state.position = found.position;
            file
        }
        None => {
            state.file = 1;
            state.position = FIRST_POSITION;
            Wal::create_file(dir, state.file, state.next_seq)
                .map_err(OpenError::io("create the first log file in", dir))?
        }
    };
    let wal = Wal::start(dir, file, state.position, state.next_seq - 1)?;
    Ok((state, wal))
}

fn replay(state: &mut State, found: &RecoveredFrame<'_>) -> Result<(), OpenError> {
    let body = found.frame.body;
    let bad =
        |error: DecodeError| OpenError::corrupt(found.path, found.position, error.to_string());
    match found.frame.kind {
        // Decoded as a whole: an entry that this version cannot read must be named here, with its
        // place, not when it is applied.
        ENTRY => {
            let log_id = decode_entry(body).map_err(bad)?.log_id;
            let expected = state.index.last().map(|last| last.index + 1);
            if expected.is_some_and(|expected| expected != log_id.index) {
                let reason = format!("entry {} follows entry {:?}", log_id.index, expected);
                return Err(OpenError::corrupt(found.path, found.position, reason));
            }
            let location = Location {
                file: found.file,
                position: found.position,
                len: (FRAME_HEADER_LEN + body.len()) as u64,
                seq: found.frame.seq,
            };
            state.index.push_recovered(log_id, location);
        }
        VOTE => state.vote = Some(decode_vote(body).map_err(bad)?),
        COMMITTED => {
            state.committed = whole(body, decode_opt_log_id).map_err(bad)?;
        }
        TRUNCATE => {
            let last = whole(body, decode_opt_log_id).map_err(bad)?;
            state.index.truncate_from(last.map_or(0, |id| id.index + 1));
        }
        PURGE => {
            let purged = whole(body, decode_log_id).map_err(bad)?;
            state.purged = state.purged.max(Some(purged));
            state.index.purge_to(purged.index);
        }
        kind => {
            let reason = format!("frames of kind {kind} are unknown to this version");
            return Err(OpenError::corrupt(found.path, found.position, reason));
        }
    }
    Ok(())
}

fn whole<T>(
    body: &[u8],
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = Reader::new(body);
    let value = decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// The entries must continue what was purged.
fn check(state: &State, dir: &Path) -> Result<(), OpenError> {
    let Some(first) = state.index.first() else {
        return Ok(());
    };
    let expected = state.purged.map_or(0, |purged| purged.index + 1);
    if first.index == expected {
        return Ok(());
    }
    let reason = format!(
        "entries {expected} to {} are missing: a log file was lost",
        first.index
    );
    Err(OpenError::corrupt(dir, 0, reason))
}
