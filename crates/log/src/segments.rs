//! The ordered segments of a log; never empty.

use std::collections::VecDeque;

use strandline_types::Offset;

use crate::segment::{Segment, SegmentId};

/// Segments in ascending order of base offset. The last one is active.
#[derive(Debug)]
pub(crate) struct Segments {
    sealed: VecDeque<Segment>,
    active: Segment,
}

impl Segments {
    pub(crate) fn new(mut sealed: VecDeque<Segment>, active: Segment) -> Self {
        sealed.shrink_to_fit();
        Self { sealed, active }
    }

    pub(crate) fn active(&self) -> &Segment {
        &self.active
    }

    pub(crate) fn active_mut(&mut self) -> &mut Segment {
        &mut self.active
    }

    pub(crate) fn len(&self) -> usize {
        self.sealed.len() + 1
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.sealed.iter().chain(std::iter::once(&self.active))
    }

    fn get(&self, index: usize) -> Option<&Segment> {
        if index == self.sealed.len() {
            Some(&self.active)
        } else {
            self.sealed.get(index)
        }
    }

    /// Makes `next` the active segment.
    pub(crate) fn roll(&mut self, next: Segment) {
        self.sealed
            .push_back(std::mem::replace(&mut self.active, next));
    }

    /// Base offset of the first segment.
    pub(crate) fn first_base(&self) -> Offset {
        self.sealed.front().unwrap_or(&self.active).base_offset
    }

    fn index_of(&self, offset: Offset) -> Option<usize> {
        if self.active.base_offset <= offset {
            return Some(self.sealed.len());
        }
        self.sealed
            .partition_point(|s| s.base_offset <= offset)
            .checked_sub(1)
    }

    /// The segment that `offset` lies in, and the base offset of the one behind it.
    pub(crate) fn floor(&self, offset: Offset) -> Option<(&Segment, Option<Offset>)> {
        let at = self.index_of(offset)?;
        Some((self.get(at)?, self.get(at + 1).map(|s| s.base_offset)))
    }

    /// The segment with exactly this base offset.
    pub(crate) fn at_mut(&mut self, base: Offset) -> Option<&mut Segment> {
        if self.active.base_offset == base {
            return Some(&mut self.active);
        }
        let at = self
            .sealed
            .binary_search_by_key(&base, |s| s.base_offset)
            .ok()?;
        self.sealed.get_mut(at)
    }

    /// Each segment with the offset after it.
    pub(crate) fn with_ends(&self, log_end: Offset) -> impl Iterator<Item = (&Segment, Offset)> {
        let ends = self
            .iter()
            .skip(1)
            .map(|s| s.base_offset)
            .chain(std::iter::once(log_end));
        self.iter().zip(ends)
    }

    /// The segments from the one that holds `offset` on.
    pub(crate) fn from(&self, offset: Offset) -> impl Iterator<Item = &Segment> {
        self.iter().skip(self.index_of(offset).unwrap_or(0))
    }

    /// Bytes of all segments.
    pub(crate) fn size(&self) -> u64 {
        self.iter().map(|s| s.size).sum()
    }

    /// Where consecutive sealed segments are, if they are there as they were.
    fn range_of(&self, ids: &[SegmentId]) -> Option<std::ops::Range<usize>> {
        let base = ids.first()?.base_offset;
        let at = self
            .sealed
            .binary_search_by_key(&base, |s| s.base_offset)
            .ok()?;
        let range = at..at + ids.len();
        let found = self.sealed.iter().skip(at).take(ids.len());
        found
            .map(Segment::id)
            .eq(ids.iter().copied())
            .then_some(range)
    }

    /// True when these consecutive sealed segments are there as they were.
    pub(crate) fn has(&self, ids: &[SegmentId]) -> bool {
        self.range_of(ids).is_some()
    }

    /// Puts `new` in the place of consecutive sealed segments; false, with nothing done, when they are
    /// not there as they were.
    pub(crate) fn replace(&mut self, old: &[SegmentId], new: Segment) -> bool {
        let Some(range) = self.range_of(old) else {
            return false;
        };
        if let Some(first) = self.sealed.get_mut(range.start) {
            *first = new;
        }
        self.sealed.drain(range.start + 1..range.end);
        true
    }

    /// Takes the first `count` segments out; the active one always stays.
    pub(crate) fn remove_first(&mut self, count: usize) -> Vec<Segment> {
        let removed = self.sealed.drain(..count.min(self.sealed.len())).collect();
        if self.sealed.capacity() > 64 && self.sealed.len() * 4 < self.sealed.capacity() {
            self.sealed.shrink_to_fit();
        }
        removed
    }
}
