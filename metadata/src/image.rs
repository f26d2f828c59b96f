//! What the cluster knows at one offset of the metadata log: immutable, cheap to clone and compare.
//!
//! Rules: A-20…A-28 read from here. Invariants M-1…M-6 are in `invariants.rs`.

mod cluster;
mod configs;
mod features;
mod producer_ids;
mod sorted_map;
mod topics;

use std::sync::Arc;

use crate::record::Record;

pub use cluster::{BrokerImage, ClusterImage};
pub use configs::{ConfigMap, ConfigsImage};
pub use features::FeaturesImage;
pub use producer_ids::ProducerIdsImage;
pub(crate) use sorted_map::Change;
pub use topics::{PartitionImage, TopicImage, TopicsImage};

/// The whole metadata at one offset. A clone costs a few pointers.
#[derive(Debug, Clone)]
pub struct Image {
    pub(crate) cluster_id: Arc<str>,
    pub(crate) offset: i64,
    pub(crate) epoch: u64,
    pub(crate) cluster: ClusterImage,
    pub(crate) topics: TopicsImage,
    pub(crate) configs: ConfigsImage,
    pub(crate) producer_ids: ProducerIdsImage,
    pub(crate) features: FeaturesImage,
}

impl Image {
    /// The image before the first record.
    pub fn empty(cluster_id: &str) -> Self {
        Self {
            cluster_id: cluster_id.into(),
            offset: -1,
            epoch: 0,
            cluster: ClusterImage::default(),
            topics: TopicsImage::default(),
            configs: ConfigsImage::default(),
            producer_ids: ProducerIdsImage::default(),
            features: FeaturesImage::default(),
        }
    }

    /// Stable id of the cluster: 22 characters of URL-safe base64.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Offset in the metadata log of the last entry that is in this image, inclusive; -1 before the
    /// first. It only grows.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Epoch of the controller that wrote that entry.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Brokers.
    pub fn cluster(&self) -> &ClusterImage {
        &self.cluster
    }

    /// Topics and partitions.
    pub fn topics(&self) -> &TopicsImage {
        &self.topics
    }

    /// Config overrides of topics, brokers and others.
    pub fn configs(&self) -> &ConfigsImage {
        &self.configs
    }

    /// Which producer ids are given away.
    pub fn producer_ids(&self) -> ProducerIdsImage {
        self.producer_ids
    }

    /// Finalized features.
    pub fn features(&self) -> &FeaturesImage {
        &self.features
    }

    /// Calls `each` with records that rebuild this image from an empty one, in an order that can be
    /// replayed. The body of a snapshot.
    pub(crate) fn for_each_record(&self, mut each: impl FnMut(Record)) {
        self.features.records(&mut each);
        self.cluster.records(&mut each);
        self.producer_ids.records(&mut each);
        self.topics.records(&mut each);
        self.configs.records(&mut each);
    }
}
