//! The two encodings of Kafka's internal records: the old one, and the flexible one of newer value
//! versions.
//!
//! Rules: section 4.3, section 5.1, W-4.

use bytes::{BufMut, Bytes};

/// Why bytes are not a record of an internal topic, or a value cannot become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the fields do.
    #[error("record ends inside field {0}")]
    Truncated(&'static str),
    /// A length is negative or does not fit.
    #[error("record has an illegal length in field {0}")]
    Length(&'static str),
    /// Text that is not UTF-8.
    #[error("record has text that is not utf-8 in field {0}")]
    Utf8(&'static str),
    /// A version of a known record that we cannot read.
    #[error("record value has unknown version {0}")]
    ValueVersion(i16),
    /// A value that the field cannot have.
    #[error("record has an illegal value in field {0}")]
    Value(&'static str),
    /// Text longer than 32767 bytes has no place in these formats.
    #[error("text of {len} bytes is too long for field {field}")]
    TextTooLong {
        /// Where it should go.
        field: &'static str,
        /// How long it is.
        len: usize,
    },
}

/// Walks bytes; never reads outside them and never reserves what a length merely claims. The name
/// that each method takes is that of the field, for its error.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    is_flexible: bool,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "every error is that the bytes are not such a field"
)]
impl<'a> Reader<'a> {
    /// Begins in the old encoding.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            is_flexible: false,
        }
    }

    /// From here on lengths are unsigned varints and structs end with tags.
    pub fn set_flexible(&mut self, is_flexible: bool) {
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

    /// One byte.
    pub fn i8(&mut self, field: &'static str) -> Result<i8, RecordError> {
        Ok(i8::from_be_bytes(self.array(field)?))
    }

    /// Two bytes.
    pub fn i16(&mut self, field: &'static str) -> Result<i16, RecordError> {
        Ok(i16::from_be_bytes(self.array(field)?))
    }

    /// Four bytes.
    pub fn i32(&mut self, field: &'static str) -> Result<i32, RecordError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    /// Eight bytes.
    pub fn i64(&mut self, field: &'static str) -> Result<i64, RecordError> {
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

    /// Text, or null.
    pub fn nullable_string(&mut self, field: &'static str) -> Result<Option<String>, RecordError> {
        let Some(len) = self.len(field, true)? else {
            return Ok(None);
        };
        let text = std::str::from_utf8(self.take(field, len)?);
        text.map(|text| Some(text.to_owned()))
            .map_err(|_| RecordError::Utf8(field))
    }

    /// Text.
    pub fn string(&mut self, field: &'static str) -> Result<String, RecordError> {
        self.nullable_string(field)?
            .ok_or(RecordError::Length(field))
    }

    /// Bytes, copied.
    pub fn bytes(&mut self, field: &'static str) -> Result<Bytes, RecordError> {
        let len = self.len(field, false)?.ok_or(RecordError::Length(field))?;
        Ok(Bytes::copy_from_slice(self.take(field, len)?))
    }

    /// Number of elements that follow; the caller must not reserve for them.
    pub fn array_len(&mut self, field: &'static str) -> Result<usize, RecordError> {
        self.len(field, false)?.ok_or(RecordError::Length(field))
    }

    /// The same, `None` for a null array.
    pub fn nullable_array_len(
        &mut self,
        field: &'static str,
    ) -> Result<Option<usize>, RecordError> {
        self.len(field, false)
    }

    /// Skips the tagged fields at the end of a struct, if this encoding has them.
    pub fn tags(&mut self) -> Result<(), RecordError> {
        self.each_tag(|_, _| Ok(()))
    }

    /// Shows each tagged field at the end of a struct, if this encoding has them; those that `read`
    /// does not know it leaves alone.
    pub fn each_tag(
        &mut self,
        mut read: impl FnMut(u32, &mut Reader<'a>) -> Result<(), RecordError>,
    ) -> Result<(), RecordError> {
        if !self.is_flexible {
            return Ok(());
        }
        for _ in 0..self.uvarint("tags")? {
            let tag = self.uvarint("tag")?;
            let len = self.uvarint("tag size")? as usize;
            let mut field = Reader {
                rest: self.take("tag", len)?,
                is_flexible: true,
            };
            read(tag, &mut field)?;
        }
        Ok(())
    }
}

/// Builds bytes, in the old encoding unless told otherwise.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    is_flexible: bool,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "every error is that the value has no place in the encoding"
)]
impl Writer {
    /// From here on lengths are unsigned varints and structs end with tags.
    pub fn set_flexible(&mut self, is_flexible: bool) {
        self.is_flexible = is_flexible;
    }

    /// One byte.
    pub fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    /// Two bytes.
    pub fn i16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    /// Four bytes.
    pub fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    /// Eight bytes.
    pub fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Text of at most 32767 bytes.
    pub fn string(&mut self, field: &'static str, text: &str) -> Result<(), RecordError> {
        let len = i16::try_from(text.len()).map_err(|_| RecordError::TextTooLong {
            field,
            len: text.len(),
        })?;
        if self.is_flexible {
            self.uvarint(u32::from(len.unsigned_abs()) + 1);
        } else {
            self.out.put_i16(len);
        }
        self.out.put_slice(text.as_bytes());
        Ok(())
    }

    /// Text, or null.
    pub fn nullable_string(
        &mut self,
        field: &'static str,
        text: Option<&str>,
    ) -> Result<(), RecordError> {
        match text {
            Some(text) => self.string(field, text)?,
            None if self.is_flexible => self.uvarint(0),
            None => self.out.put_i16(-1),
        }
        Ok(())
    }

    /// The number of elements that follow.
    pub fn array_len(&mut self, field: &'static str, len: usize) -> Result<(), RecordError> {
        let len = i32::try_from(len).map_err(|_| RecordError::Length(field))?;
        if self.is_flexible {
            self.uvarint(len.unsigned_abs() + 1);
        } else {
            self.out.put_i32(len);
        }
        Ok(())
    }

    /// A null array.
    pub fn null_array(&mut self) {
        if self.is_flexible {
            self.uvarint(0);
        } else {
            self.out.put_i32(-1);
        }
    }

    /// Bytes.
    pub fn bytes(&mut self, field: &'static str, bytes: &[u8]) -> Result<(), RecordError> {
        self.array_len(field, bytes.len())?;
        self.out.put_slice(bytes);
        Ok(())
    }

    /// The tagged fields at the end of a struct, in ascending order of their tags; nothing in the
    /// old encoding.
    pub fn tags(&mut self, fields: &[(u32, &[u8])]) {
        if !self.is_flexible {
            return;
        }
        self.uvarint(fields.len() as u32);
        for (tag, bytes) in fields {
            self.uvarint(*tag);
            self.uvarint(bytes.len() as u32);
            self.out.put_slice(bytes);
        }
    }

    /// What was written.
    pub fn finish(self) -> Bytes {
        self.out.into()
    }
}
