//! The write-ahead log: checksummed frames in numbered files, one writer thread, group commit.
//!
//! It knows files and frames, not raft. Positions are given out by [`Wal`]'s owner in the order in
//! which it calls, so that a frame's place is known before it is written.
//!
//! **Crash safety.** A frame counts once `fdatasync` has returned for it. Each frame says up to which
//! frame the log was synced when it was written: so a damaged frame is either the torn end of the last
//! group (nothing after it claims that it was synced: cut off), or damage to what was durable (refused).
//! A file is synced as a whole before the next one is created.

mod file;
mod frame;
mod recovery;
mod writer;

pub(crate) use file::{FILE_HEADER_LEN, FileHeader, log_path, sync_dir};
pub(crate) use frame::{FRAME_HEADER_LEN, Frame, MAX_BODY_LEN, Parsed, encode_frame, parse_frame};
pub(crate) use recovery::{RecoveredFrame, recover};
pub(crate) use writer::{Done, Job, Wal};
