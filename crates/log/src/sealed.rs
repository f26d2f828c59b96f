//! Sealed segments as the uploader needs them (S-1, S-3, S-4).

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use strandline_types::{NO_TIMESTAMP, Offset};

use crate::error::LogError;
use crate::leader_epochs::LeaderEpochs;
use crate::log::Log;
use crate::producer_snapshot;
use crate::replay::{self, Extent};
use crate::scan::{BatchWalk, WalkError};
use crate::segment::{SegmentFile, SegmentId};

/// A segment that will not change any more, with its files complete. Its log file stays readable
/// through the handle here whatever retention does; the other files are read when asked for.
#[derive(Debug, Clone)]
pub struct SealedSegment {
    /// First offset (inclusive).
    pub base_offset: Offset,
    /// Offset after the last record.
    pub next_offset: Offset,
    /// Bytes of the log file.
    pub size_in_bytes: u64,
    /// Greatest timestamp in ms, -1 for none.
    pub max_timestamp: i64,
    /// Leader epochs from the log start offset to the end of the segment (S-3); see
    /// [`SealedSegment::segment_leader_epochs`].
    pub leader_epochs: LeaderEpochs,
    /// The log file, open.
    pub file: Arc<File>,
    log: Arc<Log>,
}

impl Log {
    /// Sealed, wholly written segments that end above `from` and at or below `below`, in order.
    pub fn sealed_segments(
        &self,
        from: Offset,
        below: Offset,
    ) -> Result<Vec<SealedSegment>, LogError> {
        self.sealed(from, below, usize::MAX)
    }

    /// The first of [`Log::sealed_segments`]; opens no other one's file.
    pub fn first_sealed_segment(
        &self,
        from: Offset,
        below: Offset,
    ) -> Result<Option<SealedSegment>, LogError> {
        Ok(self.sealed(from, below, 1)?.pop())
    }

    fn sealed(
        &self,
        from: Offset,
        below: Offset,
        most: usize,
    ) -> Result<Vec<SealedSegment>, LogError> {
        let (extents, epochs): (Vec<(Extent, SegmentId, i64)>, _) = {
            let state = self.lock_state();
            self.check_open(&state)?;
            let sealed = state
                .segments
                .with_ends(self.log_end_offset())
                .filter(|(s, end)| s.base_offset < state.writing && *end > from && *end <= below)
                .map(|(s, end)| (Extent::of((s, end)), s.id(), s.max_timestamp));
            (sealed.take(most).collect(), state.epochs.clone())
        };
        let mut segments = Vec::with_capacity(extents.len());
        for (extent, id, max_timestamp) in extents {
            let file = match self.open_segment_file(id, SegmentFile::Log) {
                // Retention was faster; or else the only one that was asked for is lost.
                Err(e)
                    if e.is_not_found() && (most > 1 || self.log_start_offset() >= extent.end) =>
                {
                    continue;
                }
                other => other?,
            };
            let mut leader_epochs = epochs.clone();
            leader_epochs.truncate_from_end(extent.end);
            let Some(log) = self.shared() else { break };
            segments.push(SealedSegment {
                base_offset: extent.base,
                next_offset: extent.end,
                size_in_bytes: extent.size,
                max_timestamp,
                leader_epochs,
                file,
                log,
            });
        }
        Ok(segments)
    }

    fn extents(&self) -> Vec<Extent> {
        let state = self.lock_state();
        state
            .segments
            .with_ends(self.log_end_offset())
            .map(Extent::of)
            .collect()
    }
}

impl SealedSegment {
    /// Path of the log file.
    pub fn path(&self) -> PathBuf {
        self.path_of(SegmentFile::Log)
    }

    fn path_of(&self, kind: SegmentFile) -> PathBuf {
        kind.path(self.log.folder(), self.base_offset)
    }

    fn read(&self, kind: SegmentFile) -> Result<Bytes, LogError> {
        let path = self.path_of(kind);
        fs::read(&path)
            .map(Bytes::from)
            .map_err(|e| LogError::io("read", path, e))
    }

    /// Bytes of `.index`.
    pub fn offset_index(&self) -> Result<Bytes, LogError> {
        self.read(SegmentFile::OffsetIndex)
    }

    /// Bytes of `.timeindex`.
    pub fn time_index(&self) -> Result<Bytes, LogError> {
        self.read(SegmentFile::TimeIndex)
    }

    /// Bytes of `.txnindex`, `None` when nothing in the segment was aborted.
    pub fn transaction_index(&self) -> Result<Option<Bytes>, LogError> {
        match self.read(SegmentFile::TransactionIndex) {
            Err(e) if e.is_not_found() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Leader epochs of the segment itself, the first one beginning at its base offset (S-4).
    pub fn segment_leader_epochs(&self) -> LeaderEpochs {
        self.leader_epochs
            .between(self.base_offset, self.next_offset)
    }

    /// The producer snapshot as of the segment's end; made anew from the log when the file is
    /// missing.
    pub fn producer_snapshot(&self) -> Result<Bytes, LogError> {
        let folder = self.log.folder();
        let path = SegmentFile::ProducerSnapshot.path(folder, self.next_offset);
        match fs::read(&path) {
            Ok(bytes) if producer_snapshot::decode(&bytes).is_some() => return Ok(bytes.into()),
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(LogError::io("read", path, e)),
        }
        let extents = self.log.extents();
        let producers = replay::producers_before(folder, &extents, self.next_offset)?;
        Ok(producer_snapshot::encode(&producers))
    }

    /// Smallest base timestamp of the segment's batches in ms, -1 for none. Walks all batch
    /// headers.
    pub fn min_timestamp(&self) -> Result<i64, LogError> {
        let mut walk = BatchWalk::new(&self.file, 0, self.size_in_bytes, 4096);
        let mut min: Option<i64> = None;
        loop {
            match walk.next() {
                Ok(Some(batch)) => {
                    let header = batch.header;
                    // With a delete horizon the field means something else (L-43).
                    if header.base_timestamp >= 0 && !header.attributes.has_delete_horizon() {
                        let time = header.base_timestamp.min(header.max_timestamp);
                        min = Some(min.map_or(time, |m| m.min(time)));
                    }
                }
                Ok(None) => return Ok(min.unwrap_or(NO_TIMESTAMP)),
                Err(WalkError::Io(e)) => return Err(LogError::io("read", self.path(), e)),
                Err(damaged) => return Err(LogError::corrupt(self.path(), damaged.to_string())),
            }
        }
    }
}
