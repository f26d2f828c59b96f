//! Walks the records of a batch by their heads: lengths, offsets, timestamps and which fields are
//! null, without copying a payload (P-28…P-35).
//!
//! Compressed records pass through a window; a walk's memory does not grow with the batch.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::ControlFlow;

use strandline_types::{Offset, TimestampType};

use crate::batch::{Batch, BatchHeader, Compression};
use crate::compression::Decoder;
use crate::error::{BatchError, RecordFault};
use crate::varint::{Cursor, MAX_VARINT_BYTES, MAX_VARLONG_BYTES};

mod lookup;
mod quick;
mod source;

pub use lookup::{
    MAX_LOOKUP_BYTES, RecordPosition, first_record_at_or_after, max_timestamp_record,
};
use source::{DecoderSource, SliceSource, Source};
pub(crate) use source::{NoSink, Sink};

/// Length, attributes, timestamp delta and offset delta at their longest.
const MAX_HEAD_BYTES: usize = MAX_VARINT_BYTES + 1 + MAX_VARLONG_BYTES + MAX_VARINT_BYTES;

/// What a walk tells about a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHead {
    /// Position in the batch, from 0.
    pub index: i32,
    /// Offset in the partition.
    pub offset: Offset,
    /// Offset relative to the batch's base offset.
    pub offset_delta: i32,
    /// Timestamp in ms, the batch's own if the broker sets timestamps; -1 for none.
    pub timestamp: i64,
    /// Bytes of the key, `None` for null.
    pub key_size: Option<usize>,
    /// Bytes of the value, `None` for null.
    pub value_size: Option<usize>,
    /// Number of headers.
    pub header_count: i32,
}

/// Shows each record of `batch` to `visit`, until it breaks. Errors: decompression fails or would
/// give more than `max_decompressed_bytes`; a record is malformed or outside the batch; bytes
/// follow the last record. After a break the rest is not looked at.
pub fn walk(
    batch: &Batch,
    max_decompressed_bytes: usize,
    mut visit: impl FnMut(&RecordHead) -> ControlFlow<()>,
) -> Result<(), BatchError> {
    let header = batch.header();
    walk_body(
        &header,
        batch.body(),
        max_decompressed_bytes,
        &mut NoSink,
        |head| {
            if (0..=header.last_offset_delta).contains(&head.offset_delta) {
                Ok(visit(head))
            } else {
                Err(RecordFault::OffsetDelta(head.offset_delta).at(head.index))
            }
        },
    )
}

/// The first fields of a record as they are written.
#[derive(Clone, Copy)]
pub(crate) struct RawHead {
    /// Bytes behind the length field.
    pub(crate) length: i32,
    pub(crate) attributes: u8,
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
}

impl RawHead {
    #[inline]
    fn read(bytes: &[u8]) -> Result<(Self, HeadSize), RecordFault> {
        let mut cursor = Cursor::new(bytes);
        let length = cursor.varint()?;
        if length < 0 {
            return Err(RecordFault::Length(length));
        }
        let length_field = cursor.used();
        let head = Self {
            length,
            attributes: cursor.byte()?,
            timestamp_delta: cursor.varlong()?,
            offset_delta: cursor.varint()?,
        };
        Ok((
            head,
            HeadSize {
                length_field,
                all: cursor.used(),
            },
        ))
    }
}

/// Bytes that a head took.
struct HeadSize {
    length_field: usize,
    all: usize,
}

/// Walks records that may be compressed; what `visit` returns ends the walk. Offset deltas are not
/// judged.
pub(crate) fn walk_body(
    header: &BatchHeader,
    body: &[u8],
    max_decompressed_bytes: usize,
    sink: &mut impl Sink,
    visit: impl FnMut(&RecordHead) -> Result<ControlFlow<()>, BatchError>,
) -> Result<(), BatchError> {
    match header.attributes.compression()? {
        Compression::None => walk_source(header, SliceSource(body), sink, visit),
        codec => {
            let decoder = Decoder::new(codec, body, max_decompressed_bytes)?;
            let source = DecoderSource::new(decoder);
            walk_source(header, source, sink, visit)
        }
    }
}

fn walk_source<K: Sink>(
    header: &BatchHeader,
    mut source: impl Source,
    sink: &mut K,
    mut visit: impl FnMut(&RecordHead) -> Result<ControlFlow<()>, BatchError>,
) -> Result<(), BatchError> {
    if header.record_count < 0 {
        return Err(BatchError::RecordCount(header.record_count));
    }
    for index in 0..header.record_count {
        let quick = if K::LOOKS {
            None
        } else {
            quick_record(header, &mut source, index)
        };
        let head = match quick {
            Some(head) => head,
            None => walk_record(header, &mut source, sink, index)
                .map_err(|trouble| trouble.at(index))?,
        };
        if visit(&head)?.is_break() {
            return Ok(());
        }
    }
    if !source.peek(1)?.is_empty() {
        return Err(BatchError::TrailingBytes {
            records: header.record_count,
        });
    }
    Ok(())
}

/// Why a record's walk ended.
enum Trouble {
    Record(RecordFault),
    Batch(BatchError),
}

impl Trouble {
    fn at(self, index: i32) -> BatchError {
        match self {
            Self::Record(fault) => fault.at(index),
            Self::Batch(error) => error,
        }
    }
}

impl From<RecordFault> for Trouble {
    fn from(fault: RecordFault) -> Self {
        Self::Record(fault)
    }
}

impl From<BatchError> for Trouble {
    fn from(error: BatchError) -> Self {
        Self::Batch(error)
    }
}

/// A common record; `None` leaves the source where it was.
#[inline]
fn quick_record(header: &BatchHeader, source: &mut impl Source, index: i32) -> Option<RecordHead> {
    let quick = quick::read(source.at_hand())?;
    let timestamp = record_timestamp(header, quick.raw.timestamp_delta).ok()?;
    source.advance(quick.size);
    Some(RecordHead {
        index,
        offset: header
            .base_offset
            .wrapping_add(i64::from(quick.raw.offset_delta)),
        offset_delta: quick.raw.offset_delta,
        timestamp,
        key_size: quick.key_size,
        value_size: quick.value_size,
        header_count: 0,
    })
}

fn walk_record<S: Source, K: Sink>(
    header: &BatchHeader,
    source: &mut S,
    sink: &mut K,
    index: i32,
) -> Result<RecordHead, Trouble> {
    let (raw, size) = RawHead::read(source.peek(MAX_HEAD_BYTES)?)?;
    source.advance(size.all);
    sink.head(index, &raw)?;
    let left = (raw.length as usize).checked_sub(size.all - size.length_field);
    let left = left.ok_or(RecordFault::LengthMismatch(raw.length))?;
    let mut fields = Fields {
        source,
        sink,
        left,
        length: raw.length,
    };
    let key_size = fields.field()?;
    let value_size = fields.field()?;
    let header_count = fields.varint()?;
    if header_count < 0 {
        return Err(RecordFault::HeaderCount(header_count).into());
    }
    // Each header takes two bytes at least, so the record's length bounds the loop.
    for _ in 0..header_count {
        if fields.field()?.is_none() {
            return Err(RecordFault::HeaderKey(-1).into());
        }
        fields.field()?;
    }
    if fields.left != 0 {
        return Err(RecordFault::LengthMismatch(raw.length).into());
    }
    Ok(RecordHead {
        index,
        offset: header.base_offset.wrapping_add(i64::from(raw.offset_delta)),
        offset_delta: raw.offset_delta,
        timestamp: record_timestamp(header, raw.timestamp_delta)?,
        key_size,
        value_size,
        header_count,
    })
}

/// Timestamp of a record in ms: the batch's own if the broker set it (O-5).
pub(crate) fn record_timestamp(header: &BatchHeader, delta: i64) -> Result<i64, RecordFault> {
    let own = header
        .base_timestamp
        .checked_add(delta)
        .ok_or(RecordFault::Timestamp(delta))?;
    Ok(match header.attributes.timestamp_type() {
        TimestampType::CreateTime => own,
        TimestampType::LogAppendTime => header.max_timestamp,
    })
}

/// The fields behind a record's head.
struct Fields<'a, S, K> {
    source: &'a mut S,
    sink: &'a mut K,
    /// Bytes of the record that are left.
    left: usize,
    length: i32,
}

impl<S: Source, K: Sink> Fields<'_, S, K> {
    #[inline]
    fn take(&mut self, count: usize) -> Result<(), RecordFault> {
        self.left = self
            .left
            .checked_sub(count)
            .ok_or(RecordFault::LengthMismatch(self.length))?;
        Ok(())
    }

    #[inline]
    fn varint(&mut self) -> Result<i32, Trouble> {
        let bytes = self.source.peek(MAX_VARINT_BYTES)?;
        let (value, used) = crate::varint::read_varint(bytes)?;
        self.sink.bytes(bytes.get(..used).unwrap_or_default())?;
        self.source.advance(used);
        self.take(used)?;
        Ok(value)
    }

    /// Moves over a field with its length; its size, `None` for null.
    #[inline]
    fn field(&mut self) -> Result<Option<usize>, Trouble> {
        let size = self.varint()?;
        let Ok(count) = usize::try_from(size) else {
            let null = size == -1;
            return if null {
                Ok(None)
            } else {
                Err(RecordFault::FieldLength(size).into())
            };
        };
        self.take(count)?;
        if self.source.skip(count, self.sink)? {
            Ok(Some(count))
        } else {
            Err(RecordFault::Truncated.into())
        }
    }
}

#[cfg(test)]
mod tests;
