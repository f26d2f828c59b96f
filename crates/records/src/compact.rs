//! What compaction does to one batch: which of its records stay, when tombstones and markers may go,
//! an empty batch that only keeps its producer's place (L-41…L-44).
//!
//! Offsets, sequences and epochs stay as they are; a record is copied as it was written, unless the
//! base timestamp becomes a delete horizon, which its timestamp is then relative to.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use bytes::Bytes;
use strandline_types::{NO_TIMESTAMP, Offset, TimestampType};

use crate::batch::{Attributes, Batch, BatchHeader, Compression};
use crate::compression::{compress, decompress};
use crate::error::{BatchError, RecordFault};
use crate::varint::{Cursor, put_varint, put_varlong, varint_len, varlong_len};

/// A batch whose records lie open: decompressed, if they were compressed.
#[derive(Debug)]
pub struct OpenBatch {
    batch: Batch,
    records: Bytes,
}

/// A record as far as compaction looks at it.
#[derive(Debug, Clone, Copy)]
pub struct KeyedRecord<'a> {
    /// Offset in the partition.
    pub offset: Offset,
    /// Key, `None` for null.
    pub key: Option<&'a [u8]>,
    /// False for a tombstone.
    pub has_value: bool,
}

/// When what is kept for a while may go (L-43).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteHorizon {
    /// From this time on (ms).
    pub at_ms: i64,
    /// Also if no tombstone is kept: the batch is a marker whose transaction is gone.
    pub is_for_marker: bool,
}

/// What compaction leaves of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compacted {
    /// All of it, as it is.
    Unchanged,
    /// This batch in its place.
    Rewritten(Batch),
    /// No record; see [`Batch::emptied`].
    Nothing,
}

/// A record's bytes and what was read of them.
struct RecordSlice<'a> {
    seen: KeyedRecord<'a>,
    attributes: u8,
    offset_delta: i32,
    /// The record's own timestamp, whoever sets those of the batch.
    timestamp: i64,
    /// Position of the record among the batch's records, its length field included.
    begin: usize,
    end: usize,
    /// The key and all behind it.
    payload: &'a [u8],
}

impl OpenBatch {
    /// Opens a batch. Errors: it cannot be decompressed to at most `max_decompressed_bytes`, or
    /// claims a negative number of records.
    pub fn new(batch: Batch, max_decompressed_bytes: usize) -> Result<Self, BatchError> {
        let header = batch.header();
        if header.record_count < 0 {
            return Err(BatchError::RecordCount(header.record_count));
        }
        let records = match header.attributes.compression()? {
            Compression::None => batch.body().clone(),
            // An empty batch keeps its codec's bits without the codec's frame.
            _ if header.record_count == 0 => Bytes::new(),
            codec => decompress(codec, batch.body(), max_decompressed_bytes)?.into(),
        };
        Ok(Self { batch, records })
    }

    /// The batch as it was.
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// Shows each record. Errors: a record is malformed, or bytes follow the last one.
    pub fn each(&self, mut visit: impl FnMut(&KeyedRecord<'_>)) -> Result<(), BatchError> {
        self.walk(|record| {
            visit(&record.seen);
            Ok(())
        })
    }

    fn walk<'s>(
        &'s self,
        mut visit: impl FnMut(&RecordSlice<'s>) -> Result<(), BatchError>,
    ) -> Result<(), BatchError> {
        let header = self.batch.header();
        let mut at = 0;
        for index in 0..header.record_count {
            let record = read(&header, &self.records, at).map_err(|fault| fault.at(index))?;
            at = record.end;
            visit(&record)?;
        }
        if at < self.records.len() {
            return Err(BatchError::TrailingBytes {
                records: header.record_count,
            });
        }
        Ok(())
    }

    /// The batch with those records for which `keep` holds. `horizon` is for a batch that has none
    /// yet; it is set when it is needed. Errors: as [`OpenBatch::each`], or the codec's.
    pub fn compact(
        &self,
        mut keep: impl FnMut(&KeyedRecord<'_>) -> bool,
        horizon: Option<DeleteHorizon>,
    ) -> Result<Compacted, BatchError> {
        let header = self.batch.header();
        let mut kept = Kept::default();
        self.walk(|record| {
            if keep(&record.seen) {
                kept.add(record);
            }
            Ok(())
        })?;
        if kept.count == 0 {
            return Ok(Compacted::Nothing);
        }
        let horizon = horizon.filter(|h| kept.needs(h));
        if kept.count == header.record_count && horizon.is_none() {
            return Ok(Compacted::Unchanged);
        }
        let mut new = BatchHeader {
            record_count: kept.count,
            ..header
        };
        if header.attributes.timestamp_type() == TimestampType::CreateTime {
            new.max_timestamp = kept.max_timestamp;
        }
        let body = match horizon {
            None => self.copy(&kept),
            Some(horizon) => {
                new.base_timestamp = horizon.at_ms;
                new.attributes = header.attributes.with_delete_horizon();
                self.copy_relative_to(horizon.at_ms, &kept)?
            }
        };
        let body = match header.attributes.compression()? {
            Compression::None => body,
            codec => compress(codec, None, &body)?,
        };
        Ok(Compacted::Rewritten(Batch::build(&new, body.into())))
    }

    fn copy(&self, kept: &Kept) -> Vec<u8> {
        let pieces: Vec<_> = kept
            .runs
            .iter()
            .filter_map(|(from, to)| self.records.get(*from..*to))
            .collect();
        pieces.concat()
    }

    /// The kept records with timestamps relative to `base`.
    fn copy_relative_to(&self, base: i64, kept: &Kept) -> Result<Vec<u8>, BatchError> {
        let header = self.batch.header();
        let mut out = Vec::with_capacity(self.records.len());
        for (mut at, to) in kept.runs.iter().copied() {
            while at < to {
                let record = read(&header, &self.records, at).map_err(|fault| fault.at(0))?;
                record.put_relative_to(base, &mut out)?;
                at = record.end;
            }
        }
        Ok(out)
    }
}

impl RecordSlice<'_> {
    fn put_relative_to(&self, base: i64, out: &mut Vec<u8>) -> Result<(), BatchError> {
        let delta = self.timestamp.wrapping_sub(base); // `Kept::needs` saw that it does not wrap
        let head = 1 + varlong_len(delta) + varint_len(self.offset_delta);
        let max = i32::MAX as usize;
        let length = i32::try_from(head + self.payload.len());
        put_varint(out, length.map_err(|_| BatchError::TooLarge { max })?);
        out.push(self.attributes);
        put_varlong(out, delta);
        put_varint(out, self.offset_delta);
        out.extend_from_slice(self.payload);
        Ok(())
    }
}

/// The records that stay.
#[derive(Default)]
struct Kept {
    /// Where they lie, neighbours together.
    runs: Vec<(usize, usize)>,
    count: i32,
    min_timestamp: i64,
    max_timestamp: i64,
    has_tombstone: bool,
}

impl Kept {
    fn add(&mut self, record: &RecordSlice<'_>) {
        match self.runs.last_mut() {
            Some(last) if last.1 == record.begin => last.1 = record.end,
            _ => self.runs.push((record.begin, record.end)),
        }
        let time = record.timestamp;
        (self.min_timestamp, self.max_timestamp) = match self.count {
            0 => (time, time),
            _ => (self.min_timestamp.min(time), self.max_timestamp.max(time)),
        };
        self.count += 1;
        self.has_tombstone |= !record.seen.has_value;
    }

    /// True if the horizon is to be set. Not where a timestamp is so far from it that the
    /// difference cannot be written: such a batch waits as it is.
    fn needs(&self, horizon: &DeleteHorizon) -> bool {
        let can = |time: i64| time.checked_sub(horizon.at_ms).is_some();
        (self.has_tombstone || horizon.is_for_marker)
            && can(self.min_timestamp)
            && can(self.max_timestamp)
    }
}

/// Reads the record at `begin` of the open records.
fn read<'a>(
    header: &BatchHeader,
    records: &'a [u8],
    begin: usize,
) -> Result<RecordSlice<'a>, RecordFault> {
    let rest = records.get(begin..).unwrap_or_default();
    let mut cursor = Cursor::new(rest);
    let length = cursor.varint()?;
    let size = usize::try_from(length).map_err(|_| RecordFault::Length(length))?;
    let from = cursor.used();
    let bytes = rest.get(from..).and_then(|b| b.get(..size));
    let bytes = bytes.ok_or(RecordFault::Truncated)?;
    let mismatch = |_| RecordFault::LengthMismatch(length);
    let mut cursor = Cursor::new(bytes);
    let attributes = cursor.byte().map_err(mismatch)?;
    let delta = cursor.varlong()?;
    let timestamp = header
        .base_timestamp
        .checked_add(delta)
        .ok_or(RecordFault::Timestamp(delta))?;
    let offset_delta = cursor.varint()?;
    if !(0..=header.last_offset_delta).contains(&offset_delta) {
        return Err(RecordFault::OffsetDelta(offset_delta));
    }
    let payload = bytes.get(cursor.used()..).unwrap_or_default();
    let key = field(&mut cursor, bytes)?;
    let has_value = field(&mut cursor, bytes)?.is_some();
    Ok(RecordSlice {
        seen: KeyedRecord {
            offset: header.base_offset.wrapping_add(i64::from(offset_delta)),
            key,
            has_value,
        },
        attributes,
        offset_delta,
        timestamp,
        begin,
        end: begin + from + size,
        payload,
    })
}

fn field<'a>(cursor: &mut Cursor<'_>, bytes: &'a [u8]) -> Result<Option<&'a [u8]>, RecordFault> {
    let size = cursor.varint()?;
    let Ok(count) = usize::try_from(size) else {
        return if size == -1 {
            Ok(None)
        } else {
            Err(RecordFault::FieldLength(size))
        };
    };
    let begin = cursor.used();
    cursor.skip(count)?;
    Ok(bytes.get(begin..cursor.used()))
}

impl Batch {
    /// The batch without its records: it keeps the place of its producer's last sequence, or of the
    /// last offset (L-42).
    pub fn emptied(&self) -> Self {
        let header = self.header();
        let old = header.attributes;
        let attributes = Attributes::new(
            Compression::None,
            old.timestamp_type(),
            old.is_transactional(),
            old.is_control(),
        );
        let empty = BatchHeader {
            attributes,
            base_timestamp: NO_TIMESTAMP,
            record_count: 0,
            ..header
        };
        Self::build(&empty, Bytes::new())
    }
}

#[cfg(test)]
mod tests;
