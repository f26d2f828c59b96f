//! `.txnindex`: the aborted transactions of a segment (SEMANTICS 5.8, F-31).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use strandline_types::{Offset, ProducerId};

use crate::error::LogError;
use crate::sys;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 34;

/// One aborted transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction (inclusive).
    pub first_offset: Offset,
    /// Offset of the abort marker (inclusive).
    pub last_offset: Offset,
    /// Last stable offset when the marker was appended: below it nothing else was open.
    pub last_stable_offset: Offset,
}

impl AbortedTransaction {
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        let fields = [
            self.producer_id,
            self.first_offset,
            self.last_offset,
            self.last_stable_offset,
        ];
        for (i, field) in fields.iter().enumerate() {
            let at = 2 + i * 8;
            if let Some(slot) = out.get_mut(at..at + 8) {
                slot.copy_from_slice(&field.to_be_bytes());
            }
        }
        out
    }

    fn decode(entry: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let field = |at: usize| {
            let bytes = entry.get(at..at + 8)?;
            Some(i64::from_be_bytes(bytes.try_into().ok()?))
        };
        let version = i16::from_be_bytes([entry[0], entry[1]]);
        (version == 0).then_some(Self {
            producer_id: field(2)?,
            first_offset: field(10)?,
            last_offset: field(18)?,
            last_stable_offset: field(26)?,
        })
    }
}

/// Reads a whole file's entries; a missing file has none.
pub(crate) fn read(path: &Path) -> Result<Vec<AbortedTransaction>, LogError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(LogError::io("read", path, e)),
    };
    decode_transaction_index(&bytes)
        .ok_or_else(|| LogError::corrupt(path, "an entry cannot be read"))
}

/// As [`read`], from an open file that may be growing: half an entry at its end is not there yet, and still
/// on its log's list; `path` is for the error.
pub(crate) fn read_file(
    file: &File,
    path: impl Fn() -> PathBuf,
) -> Result<Vec<AbortedTransaction>, LogError> {
    let read = || {
        let len = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len];
        let n = sys::read_up_to(file, &mut bytes, 0)?;
        bytes.truncate(n - n % ENTRY_BYTES);
        Ok(bytes)
    };
    let bytes = read().map_err(|e| LogError::io("read", path(), e))?;
    decode_transaction_index(&bytes)
        .ok_or_else(|| LogError::corrupt(path(), "an entry cannot be read"))
}

/// Reads entries; `None` when the length or a version is wrong, or the order is.
pub fn decode_transaction_index(bytes: &[u8]) -> Option<Vec<AbortedTransaction>> {
    let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
    let entries: Option<Vec<_>> = entries.iter().map(AbortedTransaction::decode).collect();
    let entries = entries.filter(|_| rest.is_empty())?;
    entries
        .is_sorted_by(|a, b| a.last_offset < b.last_offset)
        .then_some(entries)
}

/// Adds those of `entries` that overlap `[from, to)`; true when no later one can (5.8).
pub(crate) fn collect(
    entries: &[AbortedTransaction],
    from: Offset,
    to: Offset,
    found: &mut Vec<AbortedTransaction>,
) -> bool {
    for e in entries {
        if e.last_offset >= from && e.first_offset < to {
            found.push(*e);
        }
        if e.last_stable_offset >= to {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(first: i64, last: i64, stable: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: 3,
            first_offset: first,
            last_offset: last,
            last_stable_offset: stable,
        }
    }

    // 5.8
    #[test]
    fn entries_read_back_and_the_search_ends_at_a_stable_offset() {
        let entries = [entry(5, 10, 7), entry(7, 20, 21), entry(30, 40, 41)];
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(AbortedTransaction::encode)
            .collect();
        assert_eq!(bytes.len(), 102);
        assert_eq!(decode_transaction_index(&bytes).unwrap(), entries);
        assert!(decode_transaction_index(&bytes[..101]).is_none());
        let mut found = Vec::new();
        assert!(collect(&entries, 11, 21, &mut found));
        assert_eq!(found, [entry(7, 20, 21)]);
        found.clear();
        assert!(!collect(&entries, 0, 100, &mut found));
        assert_eq!(found.len(), 3);
    }

    // F-31: a page at a time, a reader may see half of what is being written.
    #[test]
    fn half_an_entry_at_the_end_of_an_open_file_is_not_there() {
        let entry = AbortedTransaction {
            producer_id: 1,
            first_offset: 2,
            last_offset: 3,
            last_stable_offset: 2,
        };
        let bytes = [&entry.encode()[..], &[0; 5]].concat();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("index");
        std::fs::write(&path, bytes).unwrap();
        let found = read_file(&File::open(&path).unwrap(), || path.clone());
        assert_eq!(found.unwrap(), [entry]);
        assert!(read(&path).is_err(), "a start makes it anew");
    }
}
