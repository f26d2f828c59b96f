//! What a log that ends at some offset must hold: everything that was done to it, as simply as can be.

use std::collections::BTreeMap;

use strandline_types::{LeaderEpoch, Offset};

/// Key and value by offset, as appended.
pub(super) type History = BTreeMap<Offset, (String, String)>;

/// A transaction on one partition.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) pid: i64,
    pub(super) offsets: Vec<Offset>,
    /// Offset of the marker, and whether it commits.
    pub(super) marker: Option<(Offset, bool)>,
}

impl Transaction {
    /// What a log that ends at `end` knows of its outcome.
    pub(super) fn outcome(&self, end: Offset) -> Option<bool> {
        let marker = self.marker.filter(|(offset, _)| *offset < end);
        marker.map(|(_, committed)| committed)
    }

    /// How many of its records such a log has.
    pub(super) fn count_below(&self, end: Offset) -> usize {
        self.offsets.iter().filter(|o| **o < end).count()
    }
}

/// What was done to one log.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) history: History,
    pub(super) transactions: Vec<Transaction>,
    /// Leader epochs above 0 by first offset.
    pub(super) epochs: BTreeMap<Offset, LeaderEpoch>,
}

impl Done {
    /// The last stable offset of a log that ends at `end`.
    pub(super) fn stable(&self, end: Offset) -> Offset {
        let all = self.transactions.iter();
        let open = all.filter(|t| t.outcome(end).is_none());
        open.map(|t| t.offsets[0]).min().unwrap_or(end).min(end)
    }

    /// Producer, first offset, and offset of the marker, by first offset.
    pub(super) fn aborted(&self, end: Offset) -> Vec<(i64, Offset, Offset)> {
        let all = self.transactions.iter();
        let aborted = all.filter(|t| t.outcome(end) == Some(false));
        let mut aborted: Vec<_> = aborted
            .map(|t| (t.pid, t.offsets[0], t.marker.unwrap().0))
            .collect();
        aborted.sort_unstable_by_key(|(_, first, _)| *first);
        aborted
    }

    /// What a committed reader of a log that ends at `end` gets.
    pub(super) fn committed(&self, end: Offset) -> History {
        let all = self.transactions.iter();
        let aborted = all.filter(|t| t.outcome(end) == Some(false));
        let hidden: Vec<Offset> = aborted.flat_map(|t| t.offsets.clone()).collect();
        let below = self.history.range(..self.stable(end));
        let visible = below.filter(|(offset, _)| !hidden.contains(offset));
        visible.map(|(o, r)| (*o, r.clone())).collect()
    }

    /// The leader epoch in which what lies at `offset` was appended.
    pub(super) fn epoch(&self, offset: Offset) -> LeaderEpoch {
        let begun = self.epochs.range(..=offset);
        begun.last().map_or(0, |(_, epoch)| *epoch)
    }

    /// The highest offset up to `offset` that lies within no transaction.
    pub(super) fn between_transactions(&self, mut offset: Offset) -> Offset {
        let splits = |t: &&Transaction, at| {
            let marker = t.marker.map_or(Offset::MAX, |(offset, _)| offset);
            t.offsets[0] < at && at <= marker
        };
        while let Some(split) = self.transactions.iter().find(|t| splits(t, offset)) {
            offset = split.offsets[0];
        }
        offset
    }

    /// The sequence number that follows what a log that ends at `end` has of a producer.
    pub(super) fn next_sequence(&self, pid: i64, end: Offset) -> i32 {
        let all = self.transactions.iter().filter(|t| t.pid == pid);
        all.map(|t| t.count_below(end) as i32).sum()
    }
}
