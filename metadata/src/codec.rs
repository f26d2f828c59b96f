//! The primitives of our binary formats: LEB128 varints, zig-zag, length-prefixed text.
//!
//! Reading never panics and never allocates more than the input is long.

use uuid::Uuid;

/// Bytes that are not what the format says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The input ends inside a value.
    #[error("the input ends inside a value")]
    Truncated,
    /// A varint does not fit its type.
    #[error("a number does not fit its type")]
    Overflow,
    /// Text that is not UTF-8.
    #[error("text is not UTF-8")]
    Utf8,
    /// A topic name that is not legal (D-1).
    #[error("an illegal topic name")]
    TopicName,
    /// An enumeration has no such value.
    #[error("{what} has no value {value}")]
    Value {
        /// The enumeration.
        what: &'static str,
        /// The number found.
        value: u64,
    },
    /// A record that this version does not know: it was written by a newer one.
    #[error("record type {kind} is unknown to this version")]
    UnknownRecord {
        /// Number of the type.
        kind: u64,
    },
    /// A newer version of a record that we know.
    #[error("{record} has version {version}; this version of the software reads up to {newest}")]
    NewerRecord {
        /// Kafka's name of the record.
        record: &'static str,
        /// The version found.
        version: u64,
        /// The newest that we read.
        newest: u64,
    },
    /// Bytes are left after the last field.
    #[error("{count} bytes are left after the last field")]
    Trailing {
        /// How many.
        count: usize,
    },
}

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) out: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    pub(crate) fn bool(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub(crate) fn uvarint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.out.push(value.to_le_bytes()[0]);
    }

    pub(crate) fn len(&mut self, value: usize) {
        self.uvarint(value as u64);
    }

    /// Zig-zag.
    pub(crate) fn varint(&mut self, value: i64) {
        self.uvarint(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.len(value.len());
        self.out.extend_from_slice(value);
    }

    pub(crate) fn str(&mut self, value: &str) {
        self.bytes(value.as_bytes());
    }

    pub(crate) fn opt_str(&mut self, value: Option<&str>) {
        self.bool(value.is_some());
        if let Some(value) = value {
            self.str(value);
        }
    }

    pub(crate) fn uuid(&mut self, value: Uuid) {
        self.out.extend_from_slice(value.as_bytes());
    }
}

/// Takes values from a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// An error if anything is left.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::Trailing { count }),
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self
            .rest
            .split_at_checked(count)
            .ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        let (&first, tail) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(first)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Value {
                what: "a boolean",
                value: value.into(),
            }),
        }
    }

    pub(crate) fn uvarint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(DecodeError::Overflow);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Overflow)
    }

    pub(crate) fn varint(&mut self) -> Result<i64, DecodeError> {
        let value = self.uvarint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(crate) fn i32(&mut self) -> Result<i32, DecodeError> {
        i32::try_from(self.varint()?).map_err(|_| DecodeError::Overflow)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, DecodeError> {
        i16::try_from(self.varint()?).map_err(|_| DecodeError::Overflow)
    }

    /// A count of items that take at least one byte each, so that it cannot exceed the input.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.uvarint()?).map_err(|_| DecodeError::Overflow)?;
        if count > self.rest.len() {
            Err(DecodeError::Truncated)
        } else {
            Ok(count)
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = self.count()?;
        self.take(count)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Utf8)
    }

    pub(crate) fn opt_str(&mut self) -> Result<Option<&'a str>, DecodeError> {
        if self.bool()? {
            self.str().map(Some)
        } else {
            Ok(None)
        }
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        Uuid::from_slice(self.take(16)?).map_err(|_| DecodeError::Truncated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_at_their_limits() {
        let mut writer = Writer::default();
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            writer.varint(value);
        }
        writer.uvarint(u64::MAX);
        let mut reader = Reader::new(&writer.out);
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            assert_eq!(reader.varint(), Ok(value));
        }
        assert_eq!(reader.uvarint(), Ok(u64::MAX));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn hostile_lengths_cost_nothing() {
        let mut writer = Writer::default();
        writer.uvarint(u64::MAX);
        assert_eq!(
            Reader::new(&writer.out).bytes(),
            Err(DecodeError::Truncated)
        );
        assert_eq!(
            Reader::new(&[0xff; 11]).uvarint(),
            Err(DecodeError::Overflow)
        );
        assert_eq!(Reader::new(&[0x80]).uvarint(), Err(DecodeError::Truncated));
    }
}
