//! The common record in one go: lengths of at most three bytes, no headers, all of it at hand.
//!
//! Small records cost what their heads cost. Whatever is unusual here is none of this file's business: the careful
//! walk looks at it again, and says what is wrong.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::RawHead;

/// A record that was passed.
pub(super) struct Quick {
    pub(super) raw: RawHead,
    pub(super) key_size: Option<usize>,
    pub(super) value_size: Option<usize>,
    /// Bytes of the record, its length field included.
    pub(super) size: usize,
}

/// The record at the front of `bytes`; `None` if it is not a common one.
#[inline(always)]
pub(super) fn read(bytes: &[u8]) -> Option<Quick> {
    let mut at = 0;
    let length = varint(bytes, &mut at)?;
    let behind_length = at;
    let attributes = *bytes.get(at)?;
    at += 1;
    let timestamp_delta = varint(bytes, &mut at)?;
    let offset_delta = varint(bytes, &mut at)?;
    let key_size = field(bytes, &mut at)?;
    let value_size = field(bytes, &mut at)?;
    let no_headers = *bytes.get(at)? == 0;
    at += 1;
    let fits = usize::try_from(length).is_ok_and(|length| length == at - behind_length);
    (no_headers && fits).then_some(Quick {
        raw: RawHead {
            length,
            attributes,
            timestamp_delta: i64::from(timestamp_delta),
            offset_delta,
        },
        key_size,
        value_size,
        size: at,
    })
}

/// Moves over a field; that it ends within `bytes` shows with the byte behind it.
#[inline(always)]
fn field(bytes: &[u8], at: &mut usize) -> Option<Option<usize>> {
    match varint(bytes, at)? {
        -1 => Some(None),
        size => {
            let size = usize::try_from(size).ok()?;
            *at += size;
            Some(Some(size))
        }
    }
}

/// A value of one to three bytes in its shortest form.
#[inline(always)]
fn varint(bytes: &[u8], at: &mut usize) -> Option<i32> {
    let rest = bytes.get(*at..)?;
    let &first = rest.first()?;
    let mut raw = u32::from(first & 0x7f);
    *at += 1;
    if first >= 0x80 {
        let &second = rest.get(1)?;
        raw |= u32::from(second & 0x7f) << 7;
        *at += 1;
        let mut last = second;
        if second >= 0x80 {
            let &third = rest.get(2)?;
            raw |= u32::from(third & 0x7f) << 14;
            *at += 1;
            last = third;
        }
        if last == 0 || last >= 0x80 {
            return None;
        }
    }
    Some(((raw >> 1) as i32) ^ -((raw & 1) as i32))
}
