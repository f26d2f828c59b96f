//! `.index`: last offset of a batch → position of its first byte (SEMANTICS 6.3, L-3, L-21).

use crate::index::{IndexEntry, field};

/// One entry: 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetEntry {
    /// Last offset of the batch, minus the segment's base offset.
    pub(crate) relative_offset: u32,
    /// Where in the log file the batch begins.
    pub(crate) position: u32,
}

impl IndexEntry for OffsetEntry {
    const BYTES: usize = 8;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.relative_offset.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self {
            relative_offset: u32::from_be_bytes(field(bytes, 0)),
            position: u32::from_be_bytes(field(bytes, 4)),
        }
    }
}

/// True when both columns grow and stay inside the segment (L-21).
pub(crate) fn is_sane(entries: &[OffsetEntry], size: u64, offsets: u64) -> bool {
    let grows = entries
        .is_sorted_by(|a, b| a.relative_offset < b.relative_offset && a.position < b.position);
    let inside = entries.last().is_none_or(|last| {
        u64::from(last.position) < size && u64::from(last.relative_offset) < offsets
    });
    grows && inside
}
