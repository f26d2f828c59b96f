//! What readers get, compared with the model: fetches as a client makes sense of them, and lookups.

use std::collections::HashMap;
use std::ops::Range;

use strandline_records::{Batch, EndTransactionMarker, records};
use strandline_types::Offset;

use crate::model::client::Fetched;
use crate::model::client::Patience;
use crate::model::expected::{ModelPartition, ModelRecord, Transaction};
use crate::model::plan::COMPACTED;
use crate::model::world::World;

const MAX_RECORDS_BYTES: usize = 1 << 20;
/// More than a partition holds.
pub(super) const EVERYTHING: i32 = 8 << 20;

/// All records of a batch, a marker's too.
pub(super) fn records_of(batch: &Batch) -> Vec<ModelRecord> {
    let records = records(batch, MAX_RECORDS_BYTES).unwrap();
    let read = records.map(|record| {
        let record = record.unwrap();
        ModelRecord {
            offset: record.offset,
            timestamp: record.timestamp,
            key: record.key.unwrap_or_default(),
            value: record.value,
        }
    });
    read.collect()
}

/// What a committed reader makes of an answer, as Kafka's own consumer does: it leaves a producer's
/// records out from the first offset that it is told on, until an abort marker.
fn delivered(fetched: &Fetched) -> Vec<ModelRecord> {
    let mut told = fetched.aborted.clone().unwrap_or_default();
    told.reverse();
    let mut aborting: HashMap<i64, ()> = HashMap::new();
    let mut out = Vec::new();
    for batch in &fetched.batches {
        let header = batch.header();
        while let Some((producer, _)) = told.pop_if(|(_, first)| *first <= header.last_offset()) {
            aborting.insert(producer, ());
        }
        if header.attributes.is_control() {
            // An empty one is what cleaning left of a marker.
            let marker = EndTransactionMarker::of_batch(batch).ok().flatten();
            if marker.is_some_and(|marker| !marker.committed) {
                aborting.remove(&header.producer_id);
            }
        } else if !header.attributes.is_transactional()
            || !aborting.contains_key(&header.producer_id)
        {
            out.extend(records_of(batch));
        }
    }
    out
}

/// A reader's view of one partition.
pub(super) struct Reader<'a> {
    pub(super) world: &'a World,
    pub(super) topic: usize,
    pub(super) model: &'a ModelPartition,
    pub(super) transactions: &'a [Transaction],
    pub(super) committed: bool,
}

impl Reader<'_> {
    fn upper(&self) -> Offset {
        self.model.upper(self.committed)
    }

    /// Records of the model that this reader is to have, in a range.
    fn expected(&self, range: Range<Offset>) -> Vec<&ModelRecord> {
        let records = self.model.records(range.start, range.end).into_iter();
        let visible = records.filter(|(batch, _)| {
            let outcome = batch.transaction.map(|n| self.transactions[n].outcome);
            !batch.is_control && (!self.committed || outcome.is_none_or(|o| o == Some(true)))
        });
        visible.map(|(_, record)| record).collect()
    }

    /// Reads once from `offset`; where the records end that were given.
    pub(super) async fn read(&self, offset: Offset, max_bytes: i32) -> Offset {
        // A fetch may give nothing while a chunk of the bucket is on its way.
        let patience = Patience::begin();
        let fetched = loop {
            let (topic, committed) = (self.topic, self.committed);
            let fetched = self.world.fetch(topic, committed, offset, max_bytes).await;
            let is_done = !fetched.batches.is_empty() || fetched.code != 0;
            let waits = self.world.partition(topic).log.local_log_start_offset() > offset;
            if is_done || !waits || offset >= self.upper() || patience.is_over() {
                break fetched;
            }
        };
        let (start, end) = (self.model.start, self.model.end);
        if offset < start || offset > end {
            assert_eq!(fetched.code, 1, "F-20: {offset} of {start}..{end}");
            return offset;
        }
        assert_eq!(fetched.code, 0, "read of {offset} in {start}..{end}");
        self.check_positions(&fetched);
        self.check_records(&fetched, offset, max_bytes)
    }

    fn check_positions(&self, fetched: &Fetched) {
        let told = (
            fetched.log_start,
            fetched.last_stable,
            fetched.high_watermark,
        );
        let model = self.model;
        assert_eq!(told, (model.start, model.last_stable(), model.end));
        assert!(fetched.last_stable <= fetched.high_watermark);
        assert_eq!(fetched.aborted.is_some(), self.committed, "F-31");
    }

    fn check_records(&self, fetched: &Fetched, offset: Offset, max_bytes: i32) -> Offset {
        let upper = self.upper();
        let Some(last) = fetched.batches.last() else {
            let left = self.expected(offset..upper);
            assert_eq!(
                left,
                Vec::<&ModelRecord>::new(),
                "F-4: nothing from {offset}"
            );
            return upper.max(offset);
        };
        let end = last.header().next_offset();
        assert!(end <= upper, "F-10: up to {end}, beyond {upper}");
        assert!(end > offset, "nothing but what is before {offset}");
        let sizes = fetched.batches.iter().map(Batch::size_in_bytes);
        let size: usize = sizes.sum();
        let is_one = fetched.batches.len() == 1;
        assert!(is_one || size <= max_bytes as usize, "F-4: {size} bytes");
        let got = if self.committed {
            let told = fetched.aborted.clone().unwrap_or_default();
            let listed = self.model.aborted_in(offset, end);
            if self.topic == COMPACTED {
                // Cleaning forgets a transaction once nothing of it is left, or only its end.
                let aborted = &self.model.aborted;
                let is_known = |(producer, first): &(i64, Offset)| {
                    let mut of_it = aborted.iter().filter(|a| a.producer_id == *producer);
                    of_it.any(|a| (a.first..=a.last).contains(first))
                };
                assert!(told.iter().all(is_known), "F-31: {told:?}, not {listed:?}");
            } else {
                assert_eq!(told, listed, "F-31, F-34: read of {offset} up to {end}");
            }
            delivered(fetched)
        } else {
            let all = fetched.batches.iter();
            let data = all.filter(|batch| !batch.header().attributes.is_control());
            data.flat_map(records_of).collect()
        };
        let got: Vec<_> = got.iter().filter(|r| r.offset >= offset).collect();
        let wanted = self.expected(offset..end);
        assert_eq!(got, wanted, "read of {offset} up to {end}");
        end
    }

    /// Reads from the beginning to the end, in pieces.
    pub(super) async fn read_all(&self, max_bytes: i32) {
        let mut at = self.model.start;
        loop {
            let next = self.read(at, max_bytes).await;
            if next >= self.upper() {
                return;
            }
            at = next;
        }
    }

    /// The ends of the log.
    pub(super) async fn list_ends(&self) {
        let ends = [(-1, self.upper()), (-2, self.model.start)];
        for (special, expected) in ends {
            let found = self
                .world
                .list_offset(self.topic, self.committed, special)
                .await;
            assert_eq!(found, (expected, -1), "ListOffsets {special}");
        }
    }

    /// O-2, O-5: the first record at or after a time; O-9: that of the greatest timestamp.
    pub(super) async fn look_up(&self, timestamp: i64) {
        let all = self.model.records(0, self.model.end);
        let all: Vec<_> = all
            .into_iter()
            .map(|(_, r)| (r.offset, r.timestamp))
            .collect();
        let visible = |found: Option<(Offset, i64)>| {
            let found = found.filter(|(offset, _)| *offset < self.upper());
            found.unwrap_or((-1, -1))
        };
        let first = all.iter().find(|(_, at)| *at >= timestamp).copied();
        let found = self
            .world
            .list_offset(self.topic, self.committed, timestamp);
        assert_eq!(found.await, visible(first), "O-5: lookup of {timestamp}");
        // Of equal timestamps the first.
        let newest = all.iter().rev().max_by_key(|(_, at)| *at).copied();
        let found = self.world.list_offset(self.topic, self.committed, -3).await;
        assert_eq!(found, visible(newest), "O-9");
    }
}
