#![doc = include_str!("../README.md")]

mod broker_list;
mod codec;
mod controller;
mod delta;
mod directory;
mod error;
#[cfg(test)]
mod fixtures;
mod handle;
mod image;
mod invariants;
mod raft;
mod record;

pub use broker_list::BrokerList;
pub use codec::DecodeError;
pub use controller::cluster::BrokerRegistration;
pub use controller::configs::{AlterConfigs, ConfigAlteration, ConfigChange, ConfigOp};
pub use controller::features::FeatureUpdate;
pub use controller::producer_ids::{PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock};
pub use controller::topics::{
    CreateTopics, CreatedTopic, DeletedTopic, NewPartitions, NewTopic, TopicRef,
};
pub use controller::{ConfigValidator, MAX_RECORDS_PER_USER_OP};
pub use delta::ImageChanges;
pub use error::{OpenError, ReplayError, RequestError};
pub use handle::{Metadata, MetadataOptions};
pub use image::{
    BrokerImage, ClusterImage, ConfigMap, ConfigsImage, FeaturesImage, Image, PartitionImage,
    ProducerIdsImage, TopicImage, TopicsImage,
};
pub use invariants::check as check_invariants;
pub use record::{
    BrokerLeadershipsRecord, BrokerRegistrationChangeRecord, ConfigRecord, ConfigResource,
    ConfigResourceType, FeatureLevelRecord, Listener, PartitionChangeRecord, PartitionRecord,
    ProducerIdsRecord, Record, RegisterBrokerRecord, RemoveTopicRecord, SecurityProtocol,
    SupportedFeature, TopicRecord,
};
