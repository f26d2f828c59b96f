//! The committed offsets of one group, how many commits of each are under way, and those that wait
//! for the end of a transaction.
//!
//! Rules: G-53, G-55, G-56, G-60…G-62.

mod commit;
mod expire;

use std::collections::BTreeMap;
use std::sync::Arc;

use strandline_coordinator::{AppendToken, CoordinatorRecord, RecordError};
use strandline_types::ProducerId;

use crate::query::FetchedOffset;
use crate::records::{CommittedOffset, RecordKey};

pub(crate) use commit::{CommitPlan, plan, plan_transactional, validate, validate_transactional};
pub(crate) use expire::expired;

/// One partition.
#[derive(Debug, Default)]
struct Slot {
    /// With its place in the log.
    committed: Option<(AppendToken, CommittedOffset)>,
    /// Commits whose append has no result yet: they will have a record in the log, or may.
    in_flight: u32,
    /// Commits of transactions that have not ended, by producer and place in the log (G-62).
    pending: BTreeMap<(ProducerId, AppendToken), CommittedOffset>,
}

impl Slot {
    fn is_vacant(&self) -> bool {
        self.committed.is_none() && self.in_flight == 0 && self.pending.is_empty()
    }

    /// What stands later in the log counts; of one append, what comes later in it.
    fn commit(&mut self, at: AppendToken, offset: CommittedOffset) {
        if self
            .committed
            .as_ref()
            .is_none_or(|(known, _)| *known <= at)
        {
            self.committed = Some((at, offset));
        }
    }
}

/// Offsets by topic and partition. What is read here is committed, never merely written.
#[derive(Debug, Default)]
pub(crate) struct GroupOffsets {
    topics: BTreeMap<Arc<str>, BTreeMap<i32, Slot>>,
}

impl GroupOffsets {
    pub(crate) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn slot(&self, topic: &str, partition: i32) -> Option<&Slot> {
        self.topics.get(topic)?.get(&partition)
    }

    fn slot_mut(&mut self, topic: &str, partition: i32) -> (Arc<str>, &mut Slot) {
        let name = match self.topics.get_key_value(topic) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(topic),
        };
        let slots = self.topics.entry(Arc::clone(&name)).or_default();
        (name, slots.entry(partition).or_default())
    }

    /// A commit of the partition is on its way to the log. Gives back the shared name.
    pub(crate) fn begin(&mut self, topic: &str, partition: i32) -> Arc<str> {
        let (name, slot) = self.slot_mut(topic, partition);
        slot.in_flight += 1;
        name
    }

    /// The commit that began has its result, at a place in the log; `None` if it failed.
    pub(crate) fn finish(
        &mut self,
        topic: &str,
        partition: i32,
        at: AppendToken,
        offset: Option<CommittedOffset>,
    ) {
        self.update(topic, partition, |slot| {
            slot.in_flight = slot.in_flight.saturating_sub(1);
            if let Some(offset) = offset {
                slot.commit(at, offset);
            }
        });
    }

    /// A transactional commit is on its way to the log, or there. Gives back the shared name.
    pub(crate) fn begin_pending(
        &mut self,
        topic: &str,
        partition: i32,
        producer_id: ProducerId,
        at: AppendToken,
        offset: CommittedOffset,
    ) -> Arc<str> {
        let (name, slot) = self.slot_mut(topic, partition);
        slot.pending.insert((producer_id, at), offset);
        name
    }

    /// A transactional commit could not be written.
    pub(crate) fn drop_pending(
        &mut self,
        topic: &str,
        partition: i32,
        producer_id: ProducerId,
        at: AppendToken,
    ) {
        self.update(topic, partition, |slot| {
            slot.pending.remove(&(producer_id, at));
        });
    }

    /// The producer's transaction has ended at `end`: what it wrote before becomes visible in the
    /// order of the log, or goes (G-62).
    pub(crate) fn end_transaction(
        &mut self,
        producer_id: ProducerId,
        end: AppendToken,
        committed: bool,
    ) {
        self.topics.retain(|_, slots| {
            slots.retain(|_, slot| {
                let range = (producer_id, AppendToken(0))..(producer_id, end);
                let ended: Vec<_> = slot.pending.range(range).map(|(key, _)| *key).collect();
                for key in ended {
                    if let Some(offset) = slot.pending.remove(&key).filter(|_| committed) {
                        slot.commit(key.1, offset);
                    }
                }
                !slot.is_vacant()
            });
            !slots.is_empty()
        });
    }

    /// The producer has commits here that wait for its marker.
    pub(crate) fn has_pending_of(&self, producer_id: ProducerId) -> bool {
        let of_producer = (producer_id, AppendToken(0))..=(producer_id, AppendToken(u64::MAX));
        let mut slots = self.topics.values().flat_map(BTreeMap::values);
        slots.any(|slot| slot.pending.range(of_producer.clone()).next().is_some())
    }

    /// Producers with commits here that wait for their markers; some come more than once.
    pub(crate) fn pending_producers(&self) -> impl Iterator<Item = ProducerId> {
        let slots = self.topics.values().flat_map(BTreeMap::values);
        slots.flat_map(|slot| slot.pending.keys().map(|(producer_id, _)| *producer_id))
    }

    /// A tombstone at `at`: what was committed before, and what waits since before, is gone.
    pub(crate) fn remove(&mut self, topic: &str, partition: i32, at: AppendToken) {
        self.update(topic, partition, |slot| {
            slot.committed.take_if(|(known, _)| *known < at);
            slot.pending.retain(|(_, known), _| *known > at);
        });
    }

    fn update(&mut self, topic: &str, partition: i32, change: impl FnOnce(&mut Slot)) {
        let Some(slots) = self.topics.get_mut(topic) else {
            return;
        };
        let Some(slot) = slots.get_mut(&partition) else {
            return;
        };
        change(slot);
        if slot.is_vacant() {
            slots.remove(&partition);
            if slots.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    /// Sets what the log says.
    pub(crate) fn load(
        &mut self,
        topic: &str,
        partition: i32,
        at: AppendToken,
        offset: Option<CommittedOffset>,
    ) {
        match offset {
            Some(offset) => self.slot_mut(topic, partition).1.commit(at, offset),
            None => self.remove(topic, partition, at),
        }
    }

    /// Every partition that has a record in the log, or may have one soon.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Arc<str>, i32)> {
        self.topics
            .iter()
            .flat_map(|(topic, slots)| slots.keys().map(move |p| (topic, *p)))
    }

    /// The same for one partition.
    pub(crate) fn key(&self, topic: &str, partition: i32) -> Option<(Arc<str>, i32)> {
        let (topic, slots) = self.topics.get_key_value(topic)?;
        let partition = slots.contains_key(&partition).then_some(partition)?;
        Some((Arc::clone(topic), partition))
    }

    /// Something of what stands in the log before `at` is still there.
    pub(crate) fn has_older(&self, topic: &str, partition: i32, at: AppendToken) -> bool {
        self.slot(topic, partition).is_some_and(|slot| {
            let mut pending = slot.pending.keys();
            slot.committed
                .as_ref()
                .is_some_and(|(known, _)| *known < at)
                || pending.any(|(_, known)| *known < at)
        })
    }

    /// The same for one topic.
    pub(crate) fn keys_of(&self, topic: &str) -> Vec<(Arc<str>, i32)> {
        let slots = self.topics.get_key_value(topic);
        let keys = slots.into_iter().flat_map(|(topic, slots)| {
            slots
                .keys()
                .map(|partition| (Arc::clone(topic), *partition))
        });
        keys.collect()
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    /// Committed offsets, without the partitions that only have a commit under way.
    pub(crate) fn committed(&self) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.topics.iter().flat_map(|(topic, slots)| {
            slots.iter().filter_map(move |(partition, slot)| {
                let (_, offset) = slot.committed.as_ref()?;
                Some((topic, *partition, offset))
            })
        })
    }

    /// A partition's answer to OffsetFetch (G-55, G-56). What is on its way to the log may be there for
    /// good, also if its client was told that it failed.
    pub(crate) fn fetch(&self, topic: &str, partition: i32, require_stable: bool) -> FetchedOffset {
        if require_stable && self.is_undecided(topic, partition) {
            return FetchedOffset::unstable(partition);
        }
        let slot = self.slot(topic, partition);
        let committed = slot.and_then(|slot| slot.committed.as_ref());
        FetchedOffset::new(partition, committed.map(|(_, offset)| offset))
    }

    /// A commit of the partition is under way, or waits for the end of a transaction.
    fn is_undecided(&self, topic: &str, partition: i32) -> bool {
        let slot = self.slot(topic, partition);
        slot.is_some_and(|slot| slot.in_flight > 0 || !slot.pending.is_empty())
    }
}

/// Tombstones of offsets.
pub(crate) fn tombstones(
    group_id: &str,
    keys: &[(Arc<str>, i32)],
) -> Result<Vec<CoordinatorRecord>, RecordError> {
    let records = keys.iter().map(|(topic, partition)| {
        let key = RecordKey::encode_offset(group_id, topic, *partition)?;
        Ok(CoordinatorRecord { key, value: None })
    });
    records.collect()
}
