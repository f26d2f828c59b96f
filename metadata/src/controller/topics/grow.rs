//! CreatePartitions (SEMANTICS 9.2).

use crate::controller::topics::assignment::{
    auto_replicas, check_assignments, check_room, new_partitions,
};
use crate::controller::topics::{
    NewPartitions, PerTopic, TopicRef, duplicate_topic, find, repeated,
};
use crate::controller::{Decision, MAX_RECORDS_PER_USER_OP};
use crate::error::RequestError;
use crate::image::Image;
use crate::record::Record;

/// Decides a CreatePartitions request (9.2).
pub(crate) fn create_partitions(
    image: &Image,
    topics: &[NewPartitions],
    validate_only: bool,
) -> Decision<PerTopic<()>> {
    let repeated = repeated(topics.iter().map(|topic| topic.name.as_str()));
    let mut records: Vec<Record> = Vec::new();
    let mut replies = Vec::new();
    for topic in topics {
        if repeated.contains(topic.name.as_str()) {
            replies.push(Err(duplicate_topic(&topic.name)));
            continue;
        }
        match grow(image, topic, MAX_RECORDS_PER_USER_OP - records.len()) {
            Ok(new) => {
                records.extend(new);
                replies.push(Ok(()));
            }
            Err(error @ RequestError::PolicyViolation(_)) => return Err(error),
            Err(error) => replies.push(Err(error)),
        }
    }
    if validate_only {
        records.clear();
    }
    Ok((records, replies))
}

fn grow(image: &Image, new: &NewPartitions, room: usize) -> Result<Vec<Record>, RequestError> {
    let topic = find(image, &TopicRef::Name(new.name.clone()))?;
    let current = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
    if new.count <= current {
        return Err(RequestError::InvalidPartitions(format!(
            "topic '{}' has {current} partitions already; {} would not be more",
            new.name, new.count
        )));
    }
    let added = usize::try_from(new.count - current).unwrap_or(usize::MAX);
    check_room(added, room)?;
    let factor = topic.replication_factor();
    let replicas = match &new.assignments {
        None => auto_replicas(image, added, factor)?,
        Some(given) if given.len() != added => {
            return Err(RequestError::InvalidReplicaAssignment(format!(
                "{} assignments for {added} new partitions",
                given.len()
            )));
        }
        Some(given) => {
            let replicas: Vec<_> = given.iter().map(|ids| ids.as_slice().into()).collect();
            check_assignments(image, &replicas, factor)?;
            replicas
        }
    };
    Ok(new_partitions(image, topic.id(), current, replicas).collect())
}
