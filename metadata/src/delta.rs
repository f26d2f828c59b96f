//! Image + records → image, and what differs between two images.

use std::sync::Arc;

use crate::error::ReplayError;
use crate::image::{Change, Image, TopicImage};
use crate::record::{ConfigResource, Record};

/// An image in the making.
#[derive(Debug)]
pub(crate) struct Delta {
    image: Image,
}

impl Delta {
    pub(crate) fn new(image: &Image) -> Self {
        Self {
            image: image.clone(),
        }
    }

    /// The image so far.
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// Applies one record. After an error the delta must be thrown away.
    pub(crate) fn replay(&mut self, record: &Record) -> Result<(), ReplayError> {
        let image = &mut self.image;
        match record {
            Record::RegisterBroker(record) => image.cluster.register(record),
            Record::BrokerRegistrationChange(record) => image.cluster.change(record)?,
            Record::BrokerLeaderships(record) => image.topics.begin_leaderships(record),
            Record::Topic(record) => image.topics.create(record)?,
            Record::Partition(record) => image.topics.add_partition(record)?,
            Record::PartitionChange(record) => image.topics.change_partition(record)?,
            Record::RemoveTopic(record) => {
                let name = image.topics.remove(record)?;
                image.configs.remove_all(&ConfigResource::topic(&name));
            }
            Record::Config(record) => image.configs.replay(record),
            Record::FeatureLevel(record) => image.features.replay(record),
            Record::ProducerIds(record) => image.producer_ids.replay(record)?,
        }
        Ok(())
    }

    /// The image after the entry at `offset`, inclusive, written in `epoch`.
    pub(crate) fn finish(mut self, offset: i64, epoch: u64) -> Image {
        self.image.offset = offset;
        self.image.epoch = epoch;
        self.image
    }
}

/// What differs between two images. A topic that was deleted and created again is in both lists.
#[derive(Debug, Default)]
pub struct ImageChanges {
    /// Topics that exist only in the new image, sorted by name.
    pub created: Vec<Arc<TopicImage>>,
    /// Topics that exist only in the old image, sorted by name.
    pub deleted: Vec<Arc<TopicImage>>,
    /// Topics whose partitions differ: old, new.
    pub changed: Vec<(Arc<TopicImage>, Arc<TopicImage>)>,
    /// Resources whose overrides differ, those of deleted topics included.
    pub configs: Vec<ConfigResource>,
    /// A broker was registered or changed.
    pub cluster: bool,
    /// A feature was finalized at another level.
    pub features: bool,
}

impl ImageChanges {
    /// Compares two images of one cluster. Costs what differs, plus one pointer comparison per
    /// about a hundred topics.
    pub fn between(old: &Image, new: &Image) -> Self {
        let mut changes = Self {
            cluster: !new.cluster.is_same(&old.cluster),
            features: !new.features.is_same(&old.features),
            ..Self::default()
        };
        for change in new.topics.changes_since(&old.topics) {
            match change {
                Change::Added(_, topic) => changes.created.push(Arc::clone(topic)),
                Change::Removed(_, topic) => changes.deleted.push(Arc::clone(topic)),
                Change::Touched(_, old, new) if old.id() != new.id() => {
                    changes.deleted.push(Arc::clone(old));
                    changes.created.push(Arc::clone(new));
                }
                Change::Touched(_, old, new) => {
                    if !Arc::ptr_eq(old, new) {
                        changes.changed.push((Arc::clone(old), Arc::clone(new)));
                    }
                }
            }
        }
        for change in new.configs.changes_since(&old.configs) {
            match change {
                Change::Added(resource, _) | Change::Removed(resource, _) => {
                    changes.configs.push(resource.clone());
                }
                Change::Touched(resource, old, new) => {
                    if !Arc::ptr_eq(old, new) && old != new {
                        changes.configs.push(resource.clone());
                    }
                }
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
