//! Values for the fields of a request: from a seed, or from a fuzzer's bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use strandline_wire::{ServedApi, StrBytes};

/// Draws values for a request of one version.
pub(crate) struct Filler<'a> {
    pub(crate) api: &'static ServedApi,
    pub(crate) version: i16,
    bytes: &'a [u8],
    /// `None`: zeros follow the bytes.
    state: Option<u64>,
}

impl<'a> Filler<'a> {
    pub(crate) fn seeded(api: &'static ServedApi, version: i16, seed: u64) -> Self {
        let state = Some(seed ^ 0x9e37_79b9_7f4a_7c15);
        Self {
            api,
            version,
            bytes: &[],
            state,
        }
    }

    pub(crate) fn from_bytes(api: &'static ServedApi, version: i16, bytes: &'a [u8]) -> Self {
        Self {
            api,
            version,
            bytes,
            state: None,
        }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        if let Some((first, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            return *first;
        }
        let Some(state) = &mut self.state else {
            return 0;
        };
        // xorshift64*
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    }

    /// 0 to `end`, exclusive.
    pub(crate) fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    pub(crate) fn bool(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    pub(crate) fn int8(&mut self) -> i8 {
        self.byte() as i8
    }

    pub(crate) fn int16(&mut self) -> i16 {
        i16::from_be_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn int32(&mut self) -> i32 {
        match self.below(4) {
            0 => -1,
            1 => i32::from(self.byte()),
            _ => i32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    pub(crate) fn int64(&mut self) -> i64 {
        i64::from(self.int32()) << self.below(33)
    }

    pub(crate) fn uuid(&mut self) -> uuid::Uuid {
        uuid::Uuid::from_bytes([0; 16].map(|_: u8| self.byte()))
    }

    pub(crate) fn text(&mut self) -> StrBytes {
        let words = ["a", "topic-", "orders", "é", "雨", "", "group.", "_x"];
        let count = self.below(4);
        let text: String = (0..count)
            .map(|_| words[usize::from(self.below(8))])
            .collect();
        // Lengths whose varint has two bytes.
        let text = if self.below(32) == 31 {
            text.repeat(40)
        } else {
            text
        };
        StrBytes::from_string(text)
    }

    pub(crate) fn some_text(&mut self) -> Option<StrBytes> {
        (self.below(3) != 0).then(|| self.text())
    }

    pub(crate) fn blob(&mut self) -> Bytes {
        let length = self.below(40);
        (0..length).map(|_| self.byte()).collect()
    }

    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.below(4);
        (0..count).map(|_| item(self)).collect()
    }

    pub(crate) fn some_list<T>(&mut self, item: impl FnMut(&mut Self) -> T) -> Option<Vec<T>> {
        (self.below(4) != 0).then(|| self.list(item))
    }

    /// Tagged fields that nobody knows.
    pub(crate) fn tags(&mut self) -> BTreeMap<i32, Bytes> {
        if !self.api.is_flexible(self.version) || self.below(4) != 0 {
            return BTreeMap::new();
        }
        let count = self.below(4);
        (0..count)
            .map(|_| (10 + i32::from(self.int16().unsigned_abs()), self.blob()))
            .collect()
    }
}
