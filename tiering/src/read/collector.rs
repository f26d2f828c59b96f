//! What a read takes, and when it has enough. Rules: F-4, F-64.

use bytes::Bytes;
use strandline_records::BatchHeader;
use strandline_types::Offset;

/// What a read of the cold tier found.
#[derive(Debug, Clone, Default)]
pub struct RemoteRead {
    /// Together whole batches, in the order of their offsets; a batch may go on in the next part.
    pub parts: Vec<Bytes>,
    /// Bytes of all parts.
    pub size_in_bytes: usize,
    /// Offset after the last batch; where the next read should begin, here or in the local log.
    pub end_offset: Offset,
}

/// Collects batches until the budget is used up.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) read: RemoteRead,
    from: Offset,
    max_bytes: usize,
    min_one: bool,
    pub(crate) full: bool,
}

/// See [`Collector::mark`].
#[derive(Debug)]
pub(super) struct Mark {
    parts: usize,
    size_in_bytes: usize,
    end_offset: Offset,
}

/// What becomes of a batch.
pub(super) enum Choice {
    /// It is part of the read.
    Take,
    /// It lies before the read.
    Skip,
    /// The read ends before it.
    Stop,
}

impl Collector {
    pub(crate) fn new(from: Offset, max_bytes: usize, min_one: bool) -> Self {
        let read = RemoteRead {
            end_offset: from,
            ..RemoteRead::default()
        };
        Self {
            read,
            from,
            max_bytes,
            min_one,
            full: false,
        }
    }

    pub(super) fn choose(&mut self, header: &BatchHeader) -> Choice {
        if header.last_offset() < self.from {
            return Choice::Skip;
        }
        let size = header.size_in_bytes();
        let fits = self.read.size_in_bytes.saturating_add(size) <= self.max_bytes;
        // F-64: a first batch that is too large goes out only to who must get one.
        if !fits && (!self.min_one || self.read.size_in_bytes > 0) {
            self.full = true;
            return Choice::Stop;
        }
        self.read.size_in_bytes += size;
        self.read.end_offset = header.next_offset();
        Choice::Take
    }

    /// Where the read stands, for [`Collector::back_to`].
    pub(super) fn mark(&self) -> Mark {
        Mark {
            parts: self.read.parts.len(),
            size_in_bytes: self.read.size_in_bytes,
            end_offset: self.read.end_offset,
        }
    }

    /// Forgets what was taken since.
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.read.parts.truncate(mark.parts);
        self.read.size_in_bytes = mark.size_in_bytes;
        self.read.end_offset = mark.end_offset;
    }

    pub(super) fn wanted(&self) -> u64 {
        let left = self.max_bytes.saturating_sub(self.read.size_in_bytes) as u64;
        left.max(u64::from(self.min_one))
    }
}
