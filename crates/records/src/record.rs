//! Records with their payloads, as slices of the batch's bytes (SEMANTICS 0.4).
//!
//! Header keys are bytes: they may repeat, and they need not be UTF-8.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use bytes::Bytes;
use strandline_types::Offset;

use crate::batch::{Batch, BatchHeader, Compression};
use crate::compression::decompress;
use crate::error::{BatchError, RecordFault};
use crate::varint::Cursor;
use crate::walk::record_timestamp;

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Offset in the partition.
    pub offset: Offset,
    /// Timestamp in ms, the batch's own if the broker sets timestamps; -1 for none.
    pub timestamp: i64,
    /// Key, `None` for null.
    pub key: Option<Bytes>,
    /// Value, `None` for null (a tombstone).
    pub value: Option<Bytes>,
    /// Headers in their order; keys may repeat.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
}

/// The records of `batch` in order. Payloads are slices of the batch's body, or of one
/// decompressed copy of it. Errors: decompression fails or would give more than
/// `max_decompressed_bytes`. The iterator ends behind the first malformed record, with its error.
pub fn records(batch: &Batch, max_decompressed_bytes: usize) -> Result<Records, BatchError> {
    let header = batch.header();
    if header.record_count < 0 {
        return Err(BatchError::RecordCount(header.record_count));
    }
    let rest = match header.attributes.compression()? {
        Compression::None => batch.body().clone(),
        codec => decompress(codec, batch.body(), max_decompressed_bytes)?.into(),
    };
    Ok(Records {
        header,
        rest,
        next: 0,
        ended: false,
    })
}

/// Iterator over the records of a batch, see [`records`].
#[derive(Debug, Clone)]
pub struct Records {
    header: BatchHeader,
    rest: Bytes,
    next: i32,
    ended: bool,
}

impl Iterator for Records {
    type Item = Result<Record, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.next == self.header.record_count {
            self.ended = true;
            let records = self.header.record_count;
            return (!self.rest.is_empty()).then_some(Err(BatchError::TrailingBytes { records }));
        }
        let record = self.read().map_err(|fault| fault.at(self.next));
        self.ended = record.is_err();
        self.next += 1;
        Some(record)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // A record takes seven bytes at least: what the header claims is no reason to allocate.
        let left = usize::try_from(self.header.record_count - self.next).unwrap_or(0);
        (0, Some(left.min(self.rest.len() / 7).saturating_add(1)))
    }
}

impl std::iter::FusedIterator for Records {}

impl Records {
    fn read(&mut self) -> Result<Record, RecordFault> {
        let mut cursor = Cursor::new(&self.rest);
        let length = cursor.varint()?;
        let size = usize::try_from(length).map_err(|_| RecordFault::Length(length))?;
        let begin = cursor.used();
        if cursor.remaining() < size {
            return Err(RecordFault::Truncated);
        }
        let bytes = self.rest.slice(begin..begin + size);
        let record = read_record(&self.header, &bytes).map_err(|fault| match fault {
            // The bytes are there, so what runs short is the record's own length.
            RecordFault::Truncated => RecordFault::LengthMismatch(length),
            other => other,
        })?;
        self.rest = self.rest.slice(begin + size..);
        Ok(record)
    }
}

fn read_record(header: &BatchHeader, bytes: &Bytes) -> Result<Record, RecordFault> {
    let mut cursor = Cursor::new(bytes);
    cursor.byte()?;
    let timestamp = record_timestamp(header, cursor.varlong()?)?;
    let delta = cursor.varint()?;
    if !(0..=header.last_offset_delta).contains(&delta) {
        return Err(RecordFault::OffsetDelta(delta));
    }
    let key = field(&mut cursor, bytes)?;
    let value = field(&mut cursor, bytes)?;
    let count = cursor.varint()?;
    let count = usize::try_from(count).map_err(|_| RecordFault::HeaderCount(count))?;
    // A header takes two bytes at least.
    let mut headers = Vec::with_capacity(count.min(cursor.remaining() / 2));
    for _ in 0..count {
        let key = field(&mut cursor, bytes)?.ok_or(RecordFault::HeaderKey(-1))?;
        headers.push((key, field(&mut cursor, bytes)?));
    }
    if cursor.remaining() != 0 {
        return Err(RecordFault::LengthMismatch(bytes.len() as i32));
    }
    let offset = header.base_offset.wrapping_add(i64::from(delta));
    Ok(Record {
        offset,
        timestamp,
        key,
        value,
        headers,
    })
}

fn field(cursor: &mut Cursor<'_>, bytes: &Bytes) -> Result<Option<Bytes>, RecordFault> {
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
    Ok(Some(bytes.slice(begin..cursor.used())))
}

#[cfg(test)]
mod tests;
