//! What both sparse index files share: a part in the file, a part still in memory, binary search.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// One fixed-size entry of an index file.
pub(crate) trait IndexEntry: Copy {
    /// Bytes of an entry.
    const BYTES: usize;
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads an entry; `bytes` has the right length.
    fn decode(bytes: &[u8]) -> Self;
}

/// An index whose newest entries are still in memory. It costs no memory once written out.
#[derive(Debug, Clone)]
pub(crate) struct Index<E> {
    /// Entries in the file.
    in_file: u32,
    /// Entries behind those.
    buffer: Vec<E>,
    last: Option<E>,
}

impl<E> Default for Index<E> {
    fn default() -> Self {
        Self {
            in_file: 0,
            buffer: Vec::new(),
            last: None,
        }
    }
}

/// Where an entry that was looked for is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found<E> {
    Entry(E),
    /// Among the first so many entries of the file.
    InFile(u32),
    Nowhere,
}

impl<E: IndexEntry> Index<E> {
    /// An index that lies wholly in its file.
    pub(crate) fn in_file(count: u32, last: Option<E>) -> Self {
        Self {
            in_file: count,
            buffer: Vec::new(),
            last,
        }
    }

    pub(crate) fn last(&self) -> Option<E> {
        self.last
    }

    pub(crate) fn len(&self) -> u32 {
        self.in_file + self.buffer.len() as u32
    }

    pub(crate) fn file_len(&self) -> u32 {
        self.in_file
    }

    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    pub(crate) fn push(&mut self, entry: E) {
        self.buffer.push(entry);
        self.last = Some(entry);
    }

    /// The last entry for which `wanted` holds; it holds for a prefix of the entries.
    pub(crate) fn last_where(&self, wanted: impl Fn(&E) -> bool) -> Found<E> {
        let n = self.buffer.partition_point(&wanted);
        match n.checked_sub(1).and_then(|i| self.buffer.get(i)) {
            Some(entry) => Found::Entry(*entry),
            None if self.in_file > 0 => Found::InFile(self.in_file),
            None => Found::Nowhere,
        }
    }

    /// The buffered entries for which `ready` holds as bytes, and where in the file they go.
    pub(crate) fn take_bytes(&self, ready: impl Fn(&E) -> bool) -> IndexBytes {
        let count = self.buffer.partition_point(ready);
        let mut bytes = Vec::with_capacity(count * E::BYTES);
        for entry in self.buffer.iter().take(count) {
            entry.encode(&mut bytes);
        }
        IndexBytes {
            position: u64::from(self.in_file) * E::BYTES as u64,
            bytes,
            count,
        }
    }

    /// Notes that the first `count` buffered entries are in the file now.
    pub(crate) fn written(&mut self, count: usize) {
        let count = count.min(self.buffer.len());
        self.buffer.drain(..count);
        self.in_file += count as u32;
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        }
    }
}

/// Entries on their way into the file.
#[derive(Debug)]
pub(crate) struct IndexBytes {
    pub(crate) position: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

impl IndexBytes {
    /// Size of the file with these entries.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }
}

/// The last of the first `count` entries of `file` for which `wanted` holds.
pub(crate) fn search_file<E: IndexEntry>(
    file: &File,
    count: u32,
    wanted: impl Fn(&E) -> bool,
) -> io::Result<Option<E>> {
    let (mut low, mut high, mut best) = (0, u64::from(count), None);
    let mut slot = [0; 16];
    let slot = slot.get_mut(..E::BYTES).unwrap_or_default();
    while low < high {
        let middle = low.midpoint(high);
        file.read_exact_at(slot, middle * E::BYTES as u64)?;
        let entry = E::decode(slot);
        if wanted(&entry) {
            best = Some(entry);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(best)
}

/// All entries of a file's bytes; `None` when they do not divide evenly.
pub(crate) fn decode_all<E: IndexEntry>(bytes: &[u8]) -> Option<Vec<E>> {
    let chunks = bytes.chunks_exact(E::BYTES);
    chunks
        .remainder()
        .is_empty()
        .then(|| chunks.map(E::decode).collect())
}

/// Fixed-size piece of an entry; zero when it is not there, which the checks of the indexes refuse.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..at + N)
        .and_then(|b| b.try_into().ok())
        .unwrap_or([0; N])
}
