//! The simple model: what each partition must hold, as a list of batches with their fate.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;

use bytes::Bytes;
use strandline_types::Offset;

use crate::model::client::Pid;

/// A record, also one of a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelRecord {
    pub(super) offset: Offset,
    pub(super) timestamp: i64,
    pub(super) key: Bytes,
    /// `None` for a tombstone.
    pub(super) value: Option<Bytes>,
}

/// Which transaction a batch belongs to: the number of a transaction in its history.
pub(super) type TransactionNumber = usize;

#[derive(Debug, Clone)]
pub(super) struct ModelBatch {
    pub(super) base: Offset,
    pub(super) last: Offset,
    pub(super) size: usize,
    pub(super) transaction: Option<TransactionNumber>,
    pub(super) is_control: bool,
    /// Those that are still there: cleaning takes some away.
    pub(super) records: Vec<ModelRecord>,
    /// When a cleaning could first have seen the batch.
    pub(super) cleaned_ms: Option<i64>,
}

/// A transaction, of which a partition may have a part.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) which: usize,
    /// The producer of its records.
    pub(super) pid: Pid,
    pub(super) start_ms: i64,
    /// Partitions that were added to it: each gets a marker.
    pub(super) topics: Vec<usize>,
    /// True when it was committed, `None` while it is open.
    pub(super) outcome: Option<bool>,
}

/// A marker that must come, or has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marker {
    pub(super) transaction: TransactionNumber,
    pub(super) producer_id: i64,
    pub(super) committed: bool,
}

/// A transaction that was aborted, as readers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aborted {
    pub(super) producer_id: i64,
    pub(super) first: Offset,
    /// Offset of the marker.
    pub(super) last: Offset,
}

/// What a partition must hold.
#[derive(Debug, Default)]
pub(super) struct ModelPartition {
    pub(super) batches: BTreeMap<Offset, ModelBatch>,
    pub(super) start: Offset,
    pub(super) end: Offset,
    /// The part of each open transaction, by its first offset.
    pub(super) open: BTreeMap<TransactionNumber, Offset>,
    pub(super) aborted: Vec<Aborted>,
    /// Markers that must come.
    pub(super) due: Vec<Marker>,
    /// Markers that may come twice: the coordinator was killed between them and their complete end.
    pub(super) may_repeat: Vec<Marker>,
    /// The last stable offset that was seen last; it never moves back.
    pub(super) seen_stable: Offset,
}

impl ModelPartition {
    /// First offset of an open transaction that the log still has, or the end (F-30).
    pub(super) fn last_stable(&self) -> Offset {
        let first = self.open.values().copied().min();
        first.map_or(self.end, |first| first.max(self.start))
    }

    pub(super) fn upper(&self, committed: bool) -> Offset {
        if committed {
            self.last_stable()
        } else {
            self.end
        }
    }

    /// A batch is in the log.
    pub(super) fn insert(&mut self, batch: ModelBatch) {
        if let (Some(number), false) = (batch.transaction, batch.is_control) {
            let first = self.open.entry(number).or_insert(batch.base);
            *first = batch.base.min(*first);
        }
        self.end = self.end.max(batch.last + 1);
        match self.batches.entry(batch.base) {
            MapEntry::Vacant(free) => free.insert(batch),
            MapEntry::Occupied(other) => panic!("{batch:?} where {:?} is", other.get()),
        };
    }

    /// A marker is in the log: which transaction it ends here.
    pub(super) fn take_marker(&mut self, producer_id: i64, committed: bool) -> Marker {
        let is_it = |m: &Marker| m.producer_id == producer_id && m.committed == committed;
        if let Some(at) = self.due.iter().position(is_it) {
            return self.due.remove(at);
        }
        let repeated = self.may_repeat.iter().find(|m| is_it(m)).copied();
        repeated.unwrap_or_else(|| panic!("a marker of {producer_id} that nobody asked for"))
    }

    /// The marker of a transaction is at this offset.
    pub(super) fn end_transaction(&mut self, marker: Marker, last: Offset) {
        let first = self.open.remove(&marker.transaction);
        if let (Some(first), false) = (first, marker.committed) {
            let producer_id = marker.producer_id;
            self.aborted.push(Aborted {
                producer_id,
                first,
                last,
            });
        }
    }

    /// Nothing is at these offsets yet, as far as the model knows.
    pub(super) fn first_unknown(&self) -> Offset {
        let mut next = 0;
        for batch in self.batches.values() {
            if batch.base > next {
                break;
            }
            next = batch.last + 1;
        }
        next
    }

    /// Records in `[from, to)`.
    pub(super) fn records(&self, from: Offset, to: Offset) -> Vec<(&ModelBatch, &ModelRecord)> {
        let batches = self.batches.values();
        let all = batches.flat_map(|b| b.records.iter().map(move |r| (b, r)));
        all.filter(|(_, r)| (from.max(self.start)..to).contains(&r.offset))
            .collect()
    }

    /// Bytes of the batches from an offset on.
    pub(super) fn bytes_from(&self, offset: Offset) -> i64 {
        let batches = self.batches.values();
        let batches = batches.filter(|b| b.last >= offset);
        batches.map(|b| b.size as i64).sum()
    }

    /// Aborted transactions that overlap `[from, to)`, by first offset (F-31).
    pub(super) fn aborted_in(&self, from: Offset, to: Offset) -> Vec<(i64, Offset)> {
        let aborted = self.aborted.iter();
        let aborted = aborted.filter(|a| a.last >= from && a.first < to);
        let mut out: Vec<_> = aborted.map(|a| (a.producer_id, a.first)).collect();
        out.sort_unstable_by_key(|(_, first)| *first);
        out
    }
}
