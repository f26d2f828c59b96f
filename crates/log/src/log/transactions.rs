//! Which aborted transactions a read meets (F-31, SEMANTICS 5.8), and which transactions are about
//! to begin (P-70…P-74).

use std::path::PathBuf;

use strandline_types::{Offset, ProducerEpoch, ProducerId};

use super::Log;
use crate::error::LogError;
use crate::producer_state::OpenTransactions;
use crate::segment::{Segment, SegmentFile, SegmentId};
use crate::transaction_index::{self, AbortedTransaction};
use crate::verification::{VerificationGuard, VerificationRequest};

impl Log {
    /// A transactional batch has come: `None` if its transaction is open here already; else the
    /// guard to show at the append once the coordinator has agreed (P-70, P-74).
    pub fn begin_verification(
        &self,
        request: &VerificationRequest,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        self.state
            .lock()
            .producers
            .begin_verification(request, now_ms)
    }

    /// True while the guard that [`Log::begin_verification`] gave this producer is good: no marker
    /// has dropped it (P-74).
    pub fn holds_guard(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        guard: VerificationGuard,
    ) -> bool {
        let state = self.state.lock();
        state.producers.holds_guard(producer_id, epoch, guard)
    }

    /// The coordinator has refused for good what [`Log::begin_verification`] asked for.
    pub fn end_verification(&self, producer_id: ProducerId, epoch: ProducerEpoch) {
        let mut state = self.state.lock();
        state.producers.end_verification(producer_id, epoch);
    }

    /// Transactions that are open here.
    pub fn open_transactions(&self) -> OpenTransactions {
        self.state.lock().producers.open_transactions()
    }

    /// True when a read from `from` on may meet aborted transactions: only then it must ask
    /// [`Log::aborted_transactions`]. Touches no file.
    pub fn may_have_aborted_from(&self, from: Offset) -> bool {
        let state = self.state.lock();
        !state.unwritten_aborts.is_empty() || state.segments.from(from).any(|s| s.has_aborts)
    }

    /// Aborted transactions that overlap `[from, to)` on the local disk, by first offset. Reads
    /// `.txnindex` files where there are some, so it may block.
    pub fn aborted_transactions(
        &self,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<AbortedTransaction>, LogError> {
        let mut found = Vec::new();
        while !self.collect_aborted(from, to, &mut found)? {
            found.clear(); // cleaning moved entries from file to file meanwhile
        }
        found.sort_by_key(|a| (a.first_offset, a.last_offset));
        found.dedup(); // one may be in the file and not yet off the list
        Ok(found)
    }

    /// False when segments were replaced meanwhile: what was found may lack some.
    fn collect_aborted(
        &self,
        from: Offset,
        to: Offset,
        found: &mut Vec<AbortedTransaction>,
    ) -> Result<bool, LogError> {
        let (segments, unwritten, swaps) = {
            let state = self.state.lock();
            self.check_open(&state)?;
            let with_aborts = state.segments.from(from).filter(|s| s.has_aborts);
            let segments: Vec<_> = with_aborts.map(Segment::id).collect();
            (segments, state.unwritten_aborts.clone(), state.swaps)
        };
        let mut is_complete = false;
        for segment in segments {
            let entries = match self.open_segment_file(segment, SegmentFile::TransactionIndex) {
                Ok(file) => transaction_index::read_file(&file, || self.path_of(segment))?,
                Err(e) if e.is_not_found() => Vec::new(), // not written yet, or replaced
                Err(e) => return Err(e),
            };
            if transaction_index::collect(&entries, from, to, found) {
                is_complete = true;
                break;
            }
        }
        if !is_complete {
            transaction_index::collect(&unwritten, from, to, found);
        }
        Ok(self.state.lock().swaps == swaps)
    }

    fn path_of(&self, segment: SegmentId) -> PathBuf {
        SegmentFile::TransactionIndex.path(&self.folder, segment.base_offset)
    }
}
