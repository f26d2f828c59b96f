//! Which transactions a pass over the log is in, which are aborted, which have nothing left but their
//! marker (L-43, L-44); pure.

use std::collections::{HashMap, HashSet, VecDeque};

use strandline_records::{BatchHeader, EndTransactionMarker};
use strandline_types::{Offset, ProducerId};

use crate::transaction_index::AbortedTransaction;

/// What is known about a marker when the pass comes to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MarkerFate {
    /// No batch of its transaction was met: nothing needs it any more.
    pub(crate) is_orphan: bool,
    /// Its entry of the transaction index, which lives as long as the marker.
    pub(crate) aborted: Option<AbortedTransaction>,
}

/// Follows the transactions through a log that is read from its beginning.
#[derive(Debug)]
pub(crate) struct CleanedTransactions {
    /// Those that the pass has not come to, by first offset.
    ahead: VecDeque<AbortedTransaction>,
    /// Those that it is in, and whether a batch of theirs was met.
    aborted: HashMap<ProducerId, (AbortedTransaction, bool)>,
    /// Producers of committed ones of which a batch was met.
    committed: HashSet<ProducerId>,
}

impl CleanedTransactions {
    /// `aborted`: all aborted transactions of the range.
    pub(crate) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|a| a.first_offset);
        Self {
            ahead: aborted.into(),
            aborted: HashMap::new(),
            committed: HashSet::new(),
        }
    }

    fn advance(&mut self, offset: Offset) {
        while let Some(next) = self.ahead.pop_front_if(|a| a.first_offset <= offset) {
            self.aborted
                .entry(next.producer_id)
                .or_insert((next, false));
        }
    }

    /// A batch with data; true if it was aborted.
    pub(crate) fn on_data(&mut self, header: &BatchHeader) -> bool {
        self.advance(header.last_offset());
        if !header.attributes.is_transactional() {
            return false;
        }
        if let Some((_, is_met)) = self.aborted.get_mut(&header.producer_id) {
            *is_met = true;
            return true;
        }
        self.committed.insert(header.producer_id);
        false
    }

    /// A control batch; `marker` is `None` for one that was emptied before, or says something else.
    pub(crate) fn on_control(
        &mut self,
        header: &BatchHeader,
        marker: Option<EndTransactionMarker>,
    ) -> MarkerFate {
        self.advance(header.last_offset());
        let id = header.producer_id;
        match marker {
            Some(marker) if marker.committed => MarkerFate {
                is_orphan: !self.committed.remove(&id),
                aborted: None,
            },
            Some(_) => {
                let known = self.aborted.remove(&id);
                MarkerFate {
                    is_orphan: known.is_none_or(|(_, is_met)| !is_met),
                    aborted: known.map(|(aborted, _)| aborted),
                }
            }
            None => MarkerFate {
                is_orphan: header.record_count == 0,
                aborted: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BatchSpec, marker_batch};

    fn data(pid: i64, base: Offset) -> BatchHeader {
        let mut batch = BatchSpec {
            producer: Some((pid, 0, 0)),
            transactional: true,
            ..BatchSpec::default()
        }
        .build();
        batch.set_offset_and_epoch(base, 0);
        batch.header()
    }

    fn end(txns: &mut CleanedTransactions, pid: i64, base: Offset, is_abort: bool) -> MarkerFate {
        let mut batch = marker_batch(pid, 0, is_abort, 1);
        batch.set_offset_and_epoch(base, 0);
        let marker = EndTransactionMarker::of_batch(&batch).unwrap();
        txns.on_control(&batch.header(), marker)
    }

    fn aborted(producer_id: i64, first_offset: Offset, last_offset: Offset) -> AbortedTransaction {
        AbortedTransaction {
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset: last_offset + 1,
        }
    }

    // L-44
    #[test]
    fn data_is_aborted_from_its_first_offset_to_its_marker() {
        let (one, two) = (aborted(1, 10, 20), aborted(1, 30, 40));
        let mut txns = CleanedTransactions::new(vec![two, one]);
        assert!(!txns.on_data(&data(1, 9)));
        assert!(txns.on_data(&data(1, 10)));
        assert!(!txns.on_data(&data(2, 11)));
        let fate = end(&mut txns, 1, 20, true);
        assert_eq!(
            fate,
            MarkerFate {
                is_orphan: false,
                aborted: Some(one)
            }
        );
        assert!(!txns.on_data(&data(1, 25)));
        assert!(!end(&mut txns, 1, 26, false).is_orphan);
        assert!(txns.on_data(&data(1, 30)));
        assert!(!end(&mut txns, 1, 40, true).is_orphan);
        assert!(!end(&mut txns, 2, 41, false).is_orphan);
    }

    // L-43: markers only when all data of their transaction is gone as well
    #[test]
    fn a_marker_is_an_orphan_when_no_batch_of_its_transaction_is_left() {
        let gone = aborted(1, 10, 20);
        let mut txns = CleanedTransactions::new(vec![gone]);
        let fate = end(&mut txns, 1, 20, true);
        assert_eq!(
            fate,
            MarkerFate {
                is_orphan: true,
                aborted: Some(gone)
            }
        );
        assert!(end(&mut txns, 2, 21, false).is_orphan);
        assert!(end(&mut txns, 3, 22, true).is_orphan); // without an entry nothing was aborted
        assert!(!txns.on_data(&data(2, 30)));
        assert!(!end(&mut txns, 2, 31, false).is_orphan);
        let mut emptied = marker_batch(4, 0, true, 1).emptied();
        emptied.set_offset_and_epoch(32, 0);
        assert!(txns.on_control(&emptied.header(), None).is_orphan);
    }
}
