//! Where a walk's bytes come from, whole or through a window, and who else sees them.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use super::RawHead;
use crate::compression::{Buffer, Decoder};
use crate::error::BatchError;

/// Takes a copy of what a walk passes.
pub(crate) trait Sink {
    /// False if nothing that it is shown matters.
    const LOOKS: bool = true;
    /// A record begins; its head is not shown again by [`Sink::bytes`].
    fn head(&mut self, index: i32, head: &RawHead) -> Result<(), BatchError>;
    /// The bytes behind the head, in pieces.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), BatchError>;
}

/// For walks that only look.
pub(crate) struct NoSink;

impl Sink for NoSink {
    const LOOKS: bool = false;

    #[inline]
    fn head(&mut self, _index: i32, _head: &RawHead) -> Result<(), BatchError> {
        Ok(())
    }

    #[inline]
    fn bytes(&mut self, _bytes: &[u8]) -> Result<(), BatchError> {
        Ok(())
    }
}

/// Bytes of records, whole or through a window.
pub(super) trait Source {
    /// The next bytes, as far as they are there already.
    fn at_hand(&self) -> &[u8];
    /// The next bytes, at least `want` of them unless fewer are left.
    fn peek(&mut self, want: usize) -> Result<&[u8], BatchError>;
    /// Moves over bytes that were peeked at.
    fn advance(&mut self, count: usize);
    /// Moves over bytes that `sink` sees; false if the data ends before.
    fn skip(&mut self, count: usize, sink: &mut impl Sink) -> Result<bool, BatchError>;
}

pub(super) struct SliceSource<'a>(pub(super) &'a [u8]);

impl Source for SliceSource<'_> {
    #[inline]
    fn at_hand(&self) -> &[u8] {
        self.0
    }

    #[inline]
    fn peek(&mut self, _want: usize) -> Result<&[u8], BatchError> {
        Ok(self.0)
    }

    #[inline]
    fn advance(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    #[inline]
    fn skip(&mut self, count: usize, sink: &mut impl Sink) -> Result<bool, BatchError> {
        let Some((now, rest)) = self.0.split_at_checked(count) else {
            return Ok(false);
        };
        sink.bytes(now)?;
        self.0 = rest;
        Ok(true)
    }
}

pub(super) struct DecoderSource<'a> {
    decoder: Decoder<'a>,
    window: Buffer,
}

impl<'a> DecoderSource<'a> {
    pub(super) fn new(decoder: Decoder<'a>) -> Self {
        Self {
            decoder,
            window: Buffer::new(),
        }
    }

    fn refill(&mut self) -> Result<bool, BatchError> {
        self.decoder.read_more(&mut self.window)
    }
}

impl Source for DecoderSource<'_> {
    #[inline]
    fn at_hand(&self) -> &[u8] {
        self.window.ahead()
    }

    fn peek(&mut self, want: usize) -> Result<&[u8], BatchError> {
        while self.window.ahead().len() < want && self.refill()? {}
        Ok(self.window.ahead())
    }

    fn advance(&mut self, count: usize) {
        self.window.advance(count);
    }

    fn skip(&mut self, mut count: usize, sink: &mut impl Sink) -> Result<bool, BatchError> {
        loop {
            let ahead = self.window.ahead();
            let now = ahead.get(..count).unwrap_or(ahead);
            let passed = now.len();
            sink.bytes(now)?;
            self.advance(passed);
            count -= passed;
            if count == 0 {
                return Ok(true);
            }
            if !self.refill()? {
                return Ok(false);
            }
        }
    }
}
