//! The committed offsets of one group, and how many commits of each are under way.
//!
//! Rules: G-53, G-55, G-60, G-61.

mod commit;
mod expire;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::effect::CoordinatorRecord;
use crate::query::FetchedOffset;
use crate::records::{CommittedOffset, RecordError, RecordKey};

pub(crate) use commit::{CommitPlan, plan, validate};
pub(crate) use expire::expired;

/// One partition.
#[derive(Debug, Default)]
struct Slot {
    committed: Option<CommittedOffset>,
    /// Commits whose append has no result yet: they will have a record in the log, or may.
    in_flight: u32,
}

impl Slot {
    fn is_vacant(&self) -> bool {
        self.committed.is_none() && self.in_flight == 0
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

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.topics.get(topic)?.get(&partition)?.committed.as_ref()
    }

    /// A commit of the partition is on its way to the log. Gives back the shared name.
    pub(crate) fn begin(&mut self, topic: &str, partition: i32) -> Arc<str> {
        let name = match self.topics.get_key_value(topic) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(topic),
        };
        let slots = self.topics.entry(Arc::clone(&name)).or_default();
        slots.entry(partition).or_default().in_flight += 1;
        name
    }

    /// The commit that began has its result; `None` if it failed.
    pub(crate) fn finish(&mut self, topic: &str, partition: i32, offset: Option<CommittedOffset>) {
        self.update(topic, partition, |slot| {
            slot.in_flight = slot.in_flight.saturating_sub(1);
            if offset.is_some() {
                slot.committed = offset;
            }
        });
    }

    pub(crate) fn remove(&mut self, topic: &str, partition: i32) {
        self.update(topic, partition, |slot| slot.committed = None);
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
    pub(crate) fn load(&mut self, topic: &str, partition: i32, offset: Option<CommittedOffset>) {
        if offset.is_some() {
            self.begin(topic, partition);
            self.finish(topic, partition, offset);
        } else {
            self.remove(topic, partition);
        }
    }

    /// Every partition that has a record in the log, or may have one soon.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Arc<str>, i32)> {
        self.topics
            .iter()
            .flat_map(|(topic, slots)| slots.keys().map(move |p| (topic, *p)))
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
                Some((topic, *partition, slot.committed.as_ref()?))
            })
        })
    }

    /// A partition's answer to OffsetFetch (G-55).
    pub(crate) fn fetch(&self, topic: &str, partition: i32) -> FetchedOffset {
        FetchedOffset::new(partition, self.get(topic, partition))
    }

    fn is_in_flight(&self, topic: &str, partition: i32) -> bool {
        let slot = self
            .topics
            .get(topic)
            .and_then(|slots| slots.get(&partition));
        slot.is_some_and(|slot| slot.in_flight > 0)
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
