//! Zig-zag variable-length integers of records, strict: one encoding per value (SEMANTICS 0.4).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use crate::error::RecordFault;

/// Longest encoding of a 32-bit value, in bytes.
pub(crate) const MAX_VARINT_BYTES: usize = 5;
/// Longest encoding of a 64-bit value, in bytes.
pub(crate) const MAX_VARLONG_BYTES: usize = 10;

/// Reads a 32-bit value from the front of `bytes`: the value and the bytes it took. Errors: the
/// bytes end, the value overflows, or a shorter encoding exists.
#[inline]
pub fn read_varint(bytes: &[u8]) -> Result<(i32, usize), RecordFault> {
    let (raw, used) = read_unsigned(bytes, MAX_VARINT_BYTES)?;
    let raw = u32::try_from(raw).map_err(|_| RecordFault::Varint)?;
    Ok((((raw >> 1) as i32) ^ -((raw & 1) as i32), used))
}

/// Reads a 64-bit value, as [`read_varint`].
#[inline]
pub fn read_varlong(bytes: &[u8]) -> Result<(i64, usize), RecordFault> {
    let (raw, used) = read_unsigned(bytes, MAX_VARLONG_BYTES)?;
    Ok((((raw >> 1) as i64) ^ -((raw & 1) as i64), used))
}

#[inline]
fn read_unsigned(bytes: &[u8], longest: usize) -> Result<(u64, usize), RecordFault> {
    // Nearly all that a record has is one to three bytes long; a last byte of zero is overlong.
    let bits = |byte: u8, at: u32| u64::from(byte & 0x7f) << (7 * at);
    match *bytes {
        [only, ..] if only < 0x80 => Ok((u64::from(only), 1)),
        [a, b, ..] if (1..0x80).contains(&b) => Ok((bits(a, 0) | bits(b, 1), 2)),
        [a, b, c, ..] if b >= 0x80 && (1..0x80).contains(&c) => {
            Ok((bits(a, 0) | bits(b, 1) | bits(c, 2), 3))
        }
        [] => Err(RecordFault::Truncated),
        _ => read_unsigned_long(bytes, longest),
    }
}

#[cold]
fn read_unsigned_long(bytes: &[u8], longest: usize) -> Result<(u64, usize), RecordFault> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().take(longest).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        // The tenth byte has room for one bit only.
        if shift == 63 && bits > 1 {
            return Err(RecordFault::Varint);
        }
        value |= bits << shift;
        if byte < 0x80 {
            // A last byte of zero adds nothing: the same value has a shorter form.
            let overlong = byte == 0 && index > 0;
            return if overlong {
                Err(RecordFault::Varint)
            } else {
                Ok((value, index + 1))
            };
        }
    }
    Err(if bytes.len() < longest {
        RecordFault::Truncated
    } else {
        RecordFault::Varint
    })
}

/// Appends a 32-bit value.
pub fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_unsigned(out, u64::from(zigzag32(value)));
}

/// Appends a 64-bit value.
pub fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, zigzag64(value));
}

fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`put_varint`] appends.
pub fn varint_len(value: i32) -> usize {
    unsigned_len(u64::from(zigzag32(value)))
}

/// Bytes that [`put_varlong`] appends.
pub fn varlong_len(value: i64) -> usize {
    unsigned_len(zigzag64(value))
}

fn zigzag32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

fn zigzag64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unsigned_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Reads the fields of a record from the front of a slice.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    used: usize,
}

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            used: 0,
        }
    }

    /// Bytes read so far.
    #[inline]
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Bytes left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, RecordFault> {
        let (&byte, rest) = self.rest.split_first().ok_or(RecordFault::Truncated)?;
        self.rest = rest;
        self.used += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Result<i32, RecordFault> {
        let (value, used) = read_varint(self.rest)?;
        self.skip(used)?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn varlong(&mut self) -> Result<i64, RecordFault> {
        let (value, used) = read_varlong(self.rest)?;
        self.skip(used)?;
        Ok(value)
    }

    #[inline]
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), RecordFault> {
        self.rest = self.rest.get(count..).ok_or(RecordFault::Truncated)?;
        self.used += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // 0.4: the values of Kafka's encoding
    #[test]
    fn known_values_have_known_bytes() {
        for (value, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(read_varint(bytes), Ok((value, bytes.len())));
        }
    }

    #[test]
    fn overlong_and_overflowing_values_are_refused() {
        assert_eq!(read_varint(&[0x80, 0]), Err(RecordFault::Varint));
        assert_eq!(
            read_varint(&[0xff, 0xff, 0xff, 0xff, 0x1f]),
            Err(RecordFault::Varint)
        );
        assert_eq!(read_varint(&[0x80; 5]), Err(RecordFault::Varint));
        assert_eq!(read_varint(&[0x80; 4]), Err(RecordFault::Truncated));
        assert_eq!(read_varint(&[]), Err(RecordFault::Truncated));
        let mut longest = [0xff; 10];
        longest[9] = 1;
        assert_eq!(read_varlong(&longest), Ok((i64::MIN, 10)));
        longest[9] = 2;
        assert_eq!(read_varlong(&longest), Err(RecordFault::Varint));
        assert_eq!(read_varlong(&[0x80; 11]), Err(RecordFault::Varint));
    }

    proptest! {
        #[test]
        fn every_value_reads_back(int: i32, long: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, int);
            prop_assert_eq!(out.len(), varint_len(int));
            prop_assert_eq!(read_varint(&out), Ok((int, out.len())));
            out.clear();
            put_varlong(&mut out, long);
            prop_assert_eq!(out.len(), varlong_len(long));
            prop_assert_eq!(read_varlong(&out), Ok((long, out.len())));
        }

        // One encoding per value: what is read is what would be written.
        #[test]
        fn reading_is_strict(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Ok((value, used)) = read_varlong(&bytes) {
                let mut out = Vec::new();
                put_varlong(&mut out, value);
                prop_assert_eq!(&out[..], &bytes[..used]);
            }
        }
    }
}
