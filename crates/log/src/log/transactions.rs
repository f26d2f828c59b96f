//! Which aborted transactions a read meets (F-31, SEMANTICS 5.8).

use strandline_types::Offset;

use super::Log;
use crate::error::LogError;
use crate::segment::SegmentFile;
use crate::transaction_index::{self, AbortedTransaction};

impl Log {
    /// Aborted transactions that overlap `[from, to)` on the local disk, by first offset. Reads
    /// `.txnindex` files where there are some, so it may block.
    pub fn aborted_transactions(
        &self,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<AbortedTransaction>, LogError> {
        let (bases, unwritten) = {
            let state = self.state.lock();
            self.check_open(&state)?;
            let with_aborts = state.segments.from(from).filter(|s| s.has_aborts);
            let bases: Vec<_> = with_aborts.map(|s| s.base_offset).collect();
            (bases, state.unwritten_aborts.clone())
        };
        let mut found = Vec::new();
        let mut is_complete = false;
        for base in bases {
            let path = SegmentFile::TransactionIndex.path(&self.folder, base);
            if transaction_index::collect(&transaction_index::read(&path)?, from, to, &mut found) {
                is_complete = true;
                break;
            }
        }
        if !is_complete {
            transaction_index::collect(&unwritten, from, to, &mut found);
        }
        found.sort_by_key(|a| (a.first_offset, a.last_offset));
        found.dedup(); // one may be in the file and not yet off the list
        Ok(found)
    }
}
