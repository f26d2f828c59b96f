//! `.timeindex`: greatest timestamp so far → last offset of its batch (SEMANTICS 6.3, L-3, O-5).

use crate::index::{IndexEntry, field};

/// One entry: 12 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeEntry {
    /// Greatest timestamp up to here, in ms.
    pub(crate) timestamp: i64,
    /// Last offset of the first batch with that timestamp, minus the segment's base offset.
    pub(crate) relative_offset: u32,
}

impl IndexEntry for TimeEntry {
    const BYTES: usize = 12;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.relative_offset.to_be_bytes());
    }

    fn decode(bytes: &[u8]) -> Self {
        Self {
            timestamp: i64::from_be_bytes(field(bytes, 0)),
            relative_offset: u32::from_be_bytes(field(bytes, 8)),
        }
    }
}

/// True when timestamps and offsets grow and stay inside the segment (L-21).
pub(crate) fn is_sane(entries: &[TimeEntry], offsets: u64) -> bool {
    let grows = entries
        .is_sorted_by(|a, b| a.timestamp < b.timestamp && a.relative_offset < b.relative_offset);
    let inside = entries
        .iter()
        .all(|e| e.timestamp >= 0 && u64::from(e.relative_offset) < offsets);
    grows && inside
}
