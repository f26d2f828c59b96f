//! Topics and their partitions. Rules, D-2, R-9.

use std::sync::Arc;

use strandline_types::{BrokerId, LeaderEpoch, TopicId, TopicName};

use crate::broker_list::BrokerList;
use crate::error::ReplayError;
use crate::image::sorted_map::{Change, SortedMap};
use crate::record::{
    BrokerLeadershipsRecord, PartitionChangeRecord, PartitionRecord, Record, RemoveTopicRecord,
    TopicRecord,
};

/// One partition: 64 bytes with up to five replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionImage {
    /// Assignment, preferred leader first.
    pub replicas: BrokerList,
    /// In-sync replicas.
    pub isr: BrokerList,
    /// Leader, or `None` if no replica can lead.
    pub leader: Option<BrokerId>,
    /// Grows by one with each leadership.
    pub leader_epoch: LeaderEpoch,
    /// Grows by one with each change.
    pub partition_epoch: i32,
}

/// One topic with its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicImage {
    name: TopicName,
    id: TopicId,
    partitions: Vec<PartitionImage>,
}

impl TopicImage {
    /// Its name.
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// Its id.
    pub fn id(&self) -> TopicId {
        self.id
    }

    /// The partitions; a partition's index is its place.
    pub fn partitions(&self) -> &[PartitionImage] {
        &self.partitions
    }

    /// The partition of this index.
    pub fn partition(&self, index: i32) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// Replicas of the first partition; 0 if there is none.
    pub fn replication_factor(&self) -> usize {
        self.partitions
            .first()
            .map_or(0, |partition| partition.replicas.len())
    }
}

/// All topics.
#[derive(Debug, Clone, Default)]
pub struct TopicsImage {
    by_name: SortedMap<TopicName, Arc<TopicImage>>,
    by_id: SortedMap<TopicId, TopicName>,
    /// Names that contain a dot, by their form with underscores (D-2).
    dotted: SortedMap<Box<str>, TopicName>,
    partition_count: usize,
}

impl TopicsImage {
    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.by_name.get(name)
    }

    /// The topic of this id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.by_name(self.by_id.get(&id)?)
    }

    /// All topics, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.by_name.iter().map(|(_, topic)| topic)
    }

    /// Topics from `name` on, inclusive, sorted by name: for a paging cursor.
    pub fn iter_from<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<TopicImage>> {
        self.by_name.iter_from(name).map(|(_, topic)| topic)
    }

    /// Number of topics.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True if there is no topic.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of partitions of all topics.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// The existing topic that metrics could not tell from a new `name` (D-2).
    pub fn colliding(&self, name: &TopicName) -> Option<&TopicName> {
        let key = name.collision_key();
        let literal = self.by_name.get(key.as_str()).map(|topic| topic.name());
        literal
            .or_else(|| self.dotted.get(key.as_str()))
            .filter(|other| *other != name)
    }

    /// True if any topic has a partition that this broker leads.
    pub(crate) fn has_leader(&self, broker: BrokerId) -> bool {
        self.iter()
            .any(|topic| topic.partitions.iter().any(|p| p.leader == Some(broker)))
    }

    pub(crate) fn changes_since<'a>(
        &'a self,
        old: &'a Self,
    ) -> Vec<Change<'a, TopicName, Arc<TopicImage>>> {
        self.by_name.changes_since(&old.by_name)
    }

    pub(crate) fn create(&mut self, record: &TopicRecord) -> Result<(), ReplayError> {
        let TopicRecord { name, topic_id } = record.clone();
        if self.by_name(&name).is_some() || self.by_id.get(&topic_id).is_some() {
            return Err(ReplayError::DuplicateTopic {
                name: name.to_string(),
                topic_id,
            });
        }
        if name.contains('.') {
            self.dotted
                .insert(name.collision_key().into(), name.clone());
        }
        self.by_id.insert(topic_id, name.clone());
        let topic = TopicImage {
            name: name.clone(),
            id: topic_id,
            partitions: Vec::new(),
        };
        self.by_name.insert(name, Arc::new(topic));
        Ok(())
    }

    pub(crate) fn add_partition(&mut self, record: &PartitionRecord) -> Result<(), ReplayError> {
        let topic = self.topic_mut(record.topic_id, "PartitionRecord")?;
        let count = topic.partitions.len();
        if usize::try_from(record.partition) != Ok(count) {
            return Err(out_of_order(
                "PartitionRecord",
                record.topic_id,
                record.partition,
                count,
            ));
        }
        topic.partitions.push(PartitionImage {
            replicas: record.replicas.clone(),
            isr: record.isr.clone(),
            leader: record.leader,
            leader_epoch: record.leader_epoch,
            partition_epoch: record.partition_epoch,
        });
        self.partition_count += 1;
        Ok(())
    }

    pub(crate) fn change_partition(
        &mut self,
        record: &PartitionChangeRecord,
    ) -> Result<(), ReplayError> {
        let topic = self.topic_mut(record.topic_id, "PartitionChangeRecord")?;
        let count = topic.partitions.len();
        let partition = usize::try_from(record.partition)
            .ok()
            .and_then(|at| topic.partitions.get_mut(at))
            .ok_or_else(|| {
                out_of_order(
                    "PartitionChangeRecord",
                    record.topic_id,
                    record.partition,
                    count,
                )
            })?;
        if let Some(replicas) = &record.replicas {
            partition.replicas = replicas.clone();
        }
        if let Some(isr) = &record.isr {
            partition.isr = isr.clone();
        }
        if let Some(leader) = record.leader {
            partition.leader = leader;
            partition.leader_epoch += 1;
        }
        partition.partition_epoch += 1;
        Ok(())
    }

    pub(crate) fn begin_leaderships(&mut self, record: &BrokerLeadershipsRecord) {
        let leads = |partition: &PartitionImage| partition.leader == Some(record.broker_id);
        self.by_name.for_each_mut(|_, topic| {
            if !topic.partitions.iter().any(leads) {
                return;
            }
            for partition in &mut Arc::make_mut(topic).partitions {
                if leads(partition) {
                    partition.leader_epoch += 1;
                    partition.partition_epoch += 1;
                }
            }
        });
    }

    pub(crate) fn remove(&mut self, record: &RemoveTopicRecord) -> Result<TopicName, ReplayError> {
        let unknown = ReplayError::UnknownTopicId {
            record: "RemoveTopicRecord",
            topic_id: record.topic_id,
        };
        let Some(name) = self.by_id.remove(&record.topic_id) else {
            return Err(unknown);
        };
        if name.contains('.') {
            self.dotted.remove(name.collision_key().as_str());
        }
        let Some(topic) = self.by_name.remove(name.as_str()) else {
            return Err(unknown);
        };
        self.partition_count -= topic.partitions.len();
        Ok(name)
    }

    pub(crate) fn records(&self, each: &mut impl FnMut(Record)) {
        for topic in self.iter() {
            let topic_id = topic.id;
            each(Record::Topic(TopicRecord {
                name: topic.name.clone(),
                topic_id,
            }));
            for (index, partition) in (0..).zip(&topic.partitions) {
                each(Record::Partition(PartitionRecord {
                    topic_id,
                    partition: index,
                    replicas: partition.replicas.clone(),
                    isr: partition.isr.clone(),
                    leader: partition.leader,
                    leader_epoch: partition.leader_epoch,
                    partition_epoch: partition.partition_epoch,
                }));
            }
        }
    }

    fn topic_mut(
        &mut self,
        topic_id: TopicId,
        record: &'static str,
    ) -> Result<&mut TopicImage, ReplayError> {
        let name = self.by_id.get(&topic_id);
        let topic = name.and_then(|name| self.by_name.get_mut(name.as_str()));
        topic
            .map(Arc::make_mut)
            .ok_or(ReplayError::UnknownTopicId { record, topic_id })
    }
}

fn out_of_order(
    record: &'static str,
    topic_id: TopicId,
    partition: i32,
    count: usize,
) -> ReplayError {
    ReplayError::PartitionOutOfOrder {
        record,
        topic_id,
        partition,
        count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // DESIGN §5: an image costs bytes per partition.
    #[test]
    fn a_partition_is_64_bytes() {
        assert!(
            size_of::<PartitionImage>() <= 64,
            "{}",
            size_of::<PartitionImage>()
        );
    }

    // D-2
    #[test]
    fn collisions_are_found_both_ways() {
        let name = |text: &str| TopicName::new(text).unwrap();
        let mut topics = TopicsImage::default();
        for text in ["a.b", "c_d"] {
            topics
                .create(&TopicRecord {
                    name: name(text),
                    topic_id: TopicId::random(),
                })
                .unwrap();
        }
        assert_eq!(topics.colliding(&name("a_b")), Some(&name("a.b")));
        assert_eq!(topics.colliding(&name("c.d")), Some(&name("c_d")));
        assert_eq!(topics.colliding(&name("a.b")), None);
        assert_eq!(topics.colliding(&name("x.y")), None);
        let topic_id = topics.by_name("a.b").unwrap().id();
        topics.remove(&RemoveTopicRecord { topic_id }).unwrap();
        assert_eq!(topics.colliding(&name("a_b")), None);
    }
}
