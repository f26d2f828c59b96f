//! Reading and writing the primitives of our formats: big endian, lengths checked before use.

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

/// The bytes end before the value, or a value has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("it ends inside {0}")]
    Short(&'static str),
    #[error("{0}")]
    Invalid(String),
    #[error("version {0} is unknown")]
    Version(u16),
}

/// A cursor that never reads past its end.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {$(
        pub(crate) fn $name(&mut self, what: &'static str) -> Result<$type, DecodeError> {
            const N: usize = size_of::<$type>();
            let (head, rest) =
                self.rest.split_first_chunk::<N>().ok_or(DecodeError::Short(what))?;
            self.rest = rest;
            Ok(<$type>::from_be_bytes(*head))
        }
    )*};
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    integers!(u8: u8, u16: u16, u32: u32, u64: u64, i32: i32, i64: i64);

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Short(what))?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn uuid(&mut self, what: &'static str) -> Result<Uuid, DecodeError> {
        let bytes = self.take(16, what)?;
        Uuid::from_slice(bytes).map_err(|_| DecodeError::Short(what))
    }

    pub(crate) fn string(&mut self, what: &'static str) -> Result<String, DecodeError> {
        let len = usize::from(self.u16(what)?);
        let bytes = self.take(len, what)?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_| DecodeError::Invalid(format!("{what} is not UTF-8")))
    }

    /// A count of items of at least `item_bytes` each: never more than the bytes that are left can
    /// hold, so that a damaged count reserves nothing absurd.
    pub(crate) fn count(
        &mut self,
        item_bytes: usize,
        what: &'static str,
    ) -> Result<usize, DecodeError> {
        let count = self.u32(what)? as usize;
        if count > self.rest.len() / item_bytes.max(1) {
            return Err(DecodeError::Short(what));
        }
        Ok(count)
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::Invalid(format!("{left} bytes are left over"))),
        }
    }
}

pub(crate) fn put_string(out: &mut BytesMut, text: &str) {
    // Names are far shorter; what does not fit is cut rather than written with a wrong length.
    let len = text.len().min(usize::from(u16::MAX));
    out.put_u16(len as u16);
    out.put_slice(&text.as_bytes()[..len]);
}

/// Appends the checksum of all bytes so far.
pub(crate) fn seal(mut out: BytesMut) -> Bytes {
    let crc = crc32c::crc32c(&out);
    out.put_u32(crc);
    out.freeze()
}

/// The bytes without the checksum at their end, if it is right.
pub(crate) fn unseal(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let (body, crc) = bytes
        .split_last_chunk::<4>()
        .ok_or(DecodeError::Short("the checksum"))?;
    let stored = u32::from_be_bytes(*crc);
    let computed = crc32c::crc32c(body);
    if stored != computed {
        let text = format!("its checksum is {stored:#010x}, its bytes give {computed:#010x}");
        return Err(DecodeError::Invalid(text));
    }
    Ok(body)
}
