//! Reads numbers and byte runs from a body, and never past its end. Rules: W-4.

use crate::error::BodyFault;

/// A place in a body, and the end of the part that may be read.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Next byte to read.
    position: usize,
    /// Exclusive; never beyond `bytes`.
    end: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            end: bytes.len(),
        }
    }

    /// Offset of the next byte in the body.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Bytes that may still be read.
    pub(super) fn left(&self) -> usize {
        self.end.saturating_sub(self.position)
    }

    /// Takes `count` bytes. Errors: fewer are left.
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], BodyFault> {
        let fault = BodyFault::Truncated {
            needed: count,
            left: self.left(),
        };
        let Some(next) = self
            .position
            .checked_add(count)
            .filter(|next| *next <= self.end)
        else {
            return Err(fault);
        };
        let taken = self.bytes.get(self.position..next).ok_or(fault)?;
        self.position = next;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], BodyFault> {
        let fault = BodyFault::Truncated {
            needed: N,
            left: self.left(),
        };
        self.take(N)?.first_chunk().copied().ok_or(fault)
    }

    pub(super) fn int8(&mut self) -> Result<i8, BodyFault> {
        self.chunk().map(i8::from_be_bytes)
    }

    pub(super) fn int16(&mut self) -> Result<i16, BodyFault> {
        self.chunk().map(i16::from_be_bytes)
    }

    pub(super) fn int32(&mut self) -> Result<i32, BodyFault> {
        self.chunk().map(i32::from_be_bytes)
    }

    /// An unsigned number of 1 to 5 bytes, 7 bits each. Errors: more than 32 bits.
    pub(super) fn varint(&mut self) -> Result<u32, BodyFault> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.chunk()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && bits > 0x0f {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(BodyFault::Varint)
    }

    /// Narrows the cursor to the next `count` bytes, and returns what [`Self::leave`] needs.
    pub(super) fn enter(&mut self, count: usize) -> Result<usize, BodyFault> {
        let outer = self.end;
        match self.position.checked_add(count).filter(|end| *end <= outer) {
            Some(end) => self.end = end,
            None => {
                return Err(BodyFault::Truncated {
                    needed: count,
                    left: self.left(),
                });
            }
        }
        Ok(outer)
    }

    /// Widens the cursor again. Errors: the narrow part has bytes left.
    pub(super) fn leave(&mut self, outer: usize) -> Result<(), BodyFault> {
        self.finish()?;
        self.end = outer;
        Ok(())
    }

    /// Errors: bytes are left.
    pub(super) fn finish(&self) -> Result<(), BodyFault> {
        match self.left() {
            0 => Ok(()),
            left => Err(BodyFault::LeftOver(left)),
        }
    }
}
