//! Predicates that hold in every image: M-1…M-6. Checked by tests and before a snapshot is written.

use std::collections::HashSet;

use crate::error::ReplayError;
use crate::image::{Image, PartitionImage};

/// Checks an image; costs a walk over all partitions.
pub fn check(image: &Image) -> Result<(), ReplayError> {
    let mut ids = HashSet::new();
    for topic in image.topics().iter() {
        let found = image.topics().by_id(topic.id());
        if !ids.insert(topic.id()) || found.is_none_or(|found| found.name() != topic.name()) {
            return Err(ReplayError::Invariant(
                "M-1: topic names and ids are one to one",
            ));
        }
        if image.topics().colliding(topic.name()).is_some() {
            return Err(ReplayError::Invariant(
                "M-2: no two topic names collide (D-2)",
            ));
        }
        let replication_factor = topic.replication_factor();
        for partition in topic.partitions() {
            check_partition(partition, replication_factor)?;
        }
    }
    for (resource, configs) in image.configs().iter() {
        let is_topic = resource.kind == crate::record::ConfigResourceType::Topic;
        if configs.is_empty() || (is_topic && image.topics().by_name(&resource.name).is_none()) {
            return Err(ReplayError::Invariant(
                "M-6: overrides belong to something and are not empty",
            ));
        }
    }
    Ok(())
}

fn check_partition(partition: &PartitionImage, factor: usize) -> Result<(), ReplayError> {
    let replicas = &partition.replicas;
    let isr = &partition.isr;
    if replicas.is_empty() || !replicas.is_distinct() || factor == 0 {
        return Err(ReplayError::Invariant(
            "M-3: replicas are distinct and not empty",
        ));
    }
    if !isr.is_distinct() || isr.iter().any(|id| !replicas.contains(id)) {
        return Err(ReplayError::Invariant(
            "M-4: the ISR is a distinct part of the replicas",
        ));
    }
    if partition
        .leader
        .is_some_and(|leader| !isr.contains(&leader))
    {
        return Err(ReplayError::Invariant("M-4: the leader is in the ISR"));
    }
    if partition.leader_epoch < 0 || partition.partition_epoch < partition.leader_epoch {
        return Err(ReplayError::Invariant(
            "M-4: each new leader epoch is a new partition epoch",
        ));
    }
    Ok(())
}
