//! The two encodings of Kafka's internal records: the old one, which we write, and the flexible
//! one of newer value versions, which we only read.
//!
//! Rules: section 4.3, W-4.

use bytes::{BufMut, Bytes};

use super::RecordError;

/// Walks bytes; never reads outside them and never reserves what a length merely claims.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    is_flexible: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            is_flexible: false,
        }
    }

    /// From here on lengths are unsigned varints and structs end with tags.
    pub(super) fn set_flexible(&mut self, is_flexible: bool) {
        self.is_flexible = is_flexible;
    }

    fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], RecordError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(RecordError::Truncated(field))?;
        self.rest = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let (head, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(RecordError::Truncated(field))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn i16(&mut self, field: &'static str) -> Result<i16, RecordError> {
        Ok(i16::from_be_bytes(self.array(field)?))
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, RecordError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Result<i64, RecordError> {
        Ok(i64::from_be_bytes(self.array(field)?))
    }

    fn uvarint(&mut self, field: &'static str) -> Result<u32, RecordError> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array::<1>(field)?;
            if shift == 28 && byte > 0x0f {
                return Err(RecordError::Length(field));
            }
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(RecordError::Length(field))
    }

    /// Length of text, bytes or an array; `None` for null.
    fn len(&mut self, field: &'static str, is_text: bool) -> Result<Option<usize>, RecordError> {
        let len = if self.is_flexible {
            i64::from(self.uvarint(field)?) - 1
        } else if is_text {
            i64::from(self.i16(field)?)
        } else {
            i64::from(self.i32(field)?)
        };
        if len == -1 {
            return Ok(None);
        }
        usize::try_from(len)
            .map(Some)
            .map_err(|_| RecordError::Length(field))
    }

    pub(super) fn nullable_string(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, RecordError> {
        let Some(len) = self.len(field, true)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(self.take(field, len)?);
        text.map(|text| Some(text.to_owned()))
            .map_err(|_| RecordError::Utf8(field))
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<String, RecordError> {
        self.nullable_string(field)?
            .ok_or(RecordError::Length(field))
    }

    pub(super) fn bytes(&mut self, field: &'static str) -> Result<Bytes, RecordError> {
        let len = self.len(field, false)?.ok_or(RecordError::Length(field))?;
        Ok(Bytes::copy_from_slice(self.take(field, len)?))
    }

    /// Number of elements that follow; the caller must not reserve for them.
    pub(super) fn array_len(&mut self, field: &'static str) -> Result<usize, RecordError> {
        self.len(field, false)?.ok_or(RecordError::Length(field))
    }

    /// Skips the tagged fields at the end of a struct, if this encoding has them.
    pub(super) fn tags(&mut self) -> Result<(), RecordError> {
        if !self.is_flexible {
            return Ok(());
        }
        for _ in 0..self.uvarint("tags")? {
            self.uvarint("tag")?;
            let len = self.uvarint("tag size")? as usize;
            self.take("tag", len)?;
        }
        Ok(())
    }
}

/// Builds bytes in the old encoding.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn i16(&mut self, value: i16) {
        self.0.put_i16(value);
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.0.put_i32(value);
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.0.put_i64(value);
    }

    pub(super) fn string(&mut self, field: &'static str, text: &str) -> Result<(), RecordError> {
        let len = i16::try_from(text.len()).map_err(|_| RecordError::TextTooLong {
            field,
            len: text.len(),
        })?;
        self.0.put_i16(len);
        self.0.put_slice(text.as_bytes());
        Ok(())
    }

    pub(super) fn nullable_string(
        &mut self,
        field: &'static str,
        text: Option<&str>,
    ) -> Result<(), RecordError> {
        match text {
            Some(text) => self.string(field, text),
            None => {
                self.0.put_i16(-1);
                Ok(())
            }
        }
    }

    pub(super) fn array_len(&mut self, field: &'static str, len: usize) -> Result<(), RecordError> {
        self.0
            .put_i32(i32::try_from(len).map_err(|_| RecordError::Length(field))?);
        Ok(())
    }

    pub(super) fn bytes(&mut self, field: &'static str, bytes: &[u8]) -> Result<(), RecordError> {
        self.array_len(field, bytes.len())?;
        self.0.put_slice(bytes);
        Ok(())
    }

    pub(super) fn finish(self) -> Bytes {
        self.0.into()
    }
}
