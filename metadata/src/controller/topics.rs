//! Creating, deleting and growing topics. Rules: D-1…D-8, D-11…D-13, 9.2, 9.3.

use std::collections::HashSet;

use strandline_types::{BrokerId, TopicId, TopicName};

use crate::broker_list::BrokerList;
use crate::controller::placement::place;
use crate::controller::{ConfigValidator, Decision, MAX_RECORDS_PER_USER_OP};
use crate::delta::Delta;
use crate::error::RequestError;
use crate::image::{ConfigMap, Image, TopicImage};
use crate::record::{
    ConfigRecord, ConfigResource, PartitionRecord, Record, RemoveTopicRecord, TopicRecord,
};

/// One topic of a CreateTopics request, as the client sent it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name, not checked yet.
    pub name: String,
    /// Number of partitions; -1 for the default, or if there are assignments (D-12, D-5).
    pub num_partitions: i32,
    /// Replication factor; -1 for the default, or if there are assignments.
    pub replication_factor: i16,
    /// Manual assignment: partition and its replicas (D-6). Empty for an automatic one.
    pub assignments: Vec<(i32, Vec<BrokerId>)>,
    /// Overrides; a null value is refused (D-4).
    pub configs: Vec<(String, Option<String>)>,
}

/// A CreateTopics request.
#[derive(Debug, Clone, Default)]
pub struct CreateTopics {
    /// The topics.
    pub topics: Vec<NewTopic>,
    /// Check, but create nothing (D-13).
    pub validate_only: bool,
    /// What -1 partitions stand for: `num.partitions`.
    pub default_num_partitions: i32,
    /// What replication factor -1 stands for: `default.replication.factor`.
    pub default_replication_factor: i16,
}

/// A topic that was created, or could be (D-13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id; a random one if nothing was created.
    pub topic_id: TopicId,
    /// Number of partitions.
    pub num_partitions: i32,
    /// Replicas of each.
    pub replication_factor: i16,
    /// Its overrides.
    pub configs: ConfigMap,
}

/// A topic to delete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicRef {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// A topic that was deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id.
    pub topic_id: TopicId,
}

/// One topic of a CreatePartitions request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartitions {
    /// Name of the topic.
    pub name: String,
    /// Partitions that it shall have in all.
    pub count: i32,
    /// Replicas of each partition that is added; `None` for an automatic assignment.
    pub assignments: Option<Vec<Vec<BrokerId>>>,
}

/// A result per topic, in the order of the request.
pub(crate) type PerTopic<T> = Vec<Result<T, RequestError>>;

/// Decides a CreateTopics request. `new_id` gives an id that was never used.
pub(crate) fn create_topics(
    image: &Image,
    request: &CreateTopics,
    validator: &dyn ConfigValidator,
    mut new_id: impl FnMut() -> TopicId,
) -> Decision<PerTopic<CreatedTopic>> {
    let repeated = repeated(request.topics.iter().map(|topic| topic.name.as_str()));
    let mut draft = Delta::new(image);
    let mut records = Vec::new();
    let mut replies = Vec::new();
    for topic in &request.topics {
        if repeated.contains(topic.name.as_str()) {
            replies.push(Err(duplicate_topic(&topic.name)));
            continue;
        }
        let room = MAX_RECORDS_PER_USER_OP - records.len();
        match create_topic(draft.image(), request, topic, room, validator, &mut new_id) {
            Ok((new, reply)) => {
                // Later topics of the request collide with earlier ones (D-2), and see their load.
                for record in &new {
                    draft
                        .replay(record)
                        .map_err(|e| RequestError::InvalidRequest(e.to_string()))?;
                }
                records.extend(new);
                replies.push(Ok(reply));
            }
            // D-11 is about the whole request.
            Err(error @ RequestError::PolicyViolation(_)) => return Err(error),
            Err(error) => replies.push(Err(error)),
        }
    }
    if request.validate_only {
        records.clear();
    }
    Ok((records, replies))
}

fn create_topic(
    image: &Image,
    request: &CreateTopics,
    topic: &NewTopic,
    room: usize,
    validator: &dyn ConfigValidator,
    new_id: &mut impl FnMut() -> TopicId,
) -> Result<(Vec<Record>, CreatedTopic), RequestError> {
    let name = new_name(image, &topic.name)?;
    let resource = ConfigResource::topic(&name);
    let configs = new_configs(topic)?;
    let replicas = new_replicas(
        image,
        request,
        topic,
        room.saturating_sub(1 + configs.len()),
    )?;
    validator.validate(&resource, &configs, image.configs())?;
    let topic_id = new_id();
    let mut records = vec![Record::Topic(TopicRecord {
        name: name.clone(),
        topic_id,
    })];
    records.extend(configs.iter().map(|(name, value)| {
        Record::Config(ConfigRecord {
            resource: resource.clone(),
            name: name.clone(),
            value: Some(value.clone()),
        })
    }));
    let replication_factor = replicas.first().map_or(0, |replicas| replicas.len());
    let num_partitions = i32::try_from(replicas.len()).unwrap_or(i32::MAX);
    records.extend(new_partitions(image, topic_id, 0, replicas));
    let replication_factor = i16::try_from(replication_factor).unwrap_or(i16::MAX);
    let reply = CreatedTopic {
        name,
        topic_id,
        num_partitions,
        replication_factor,
        configs,
    };
    Ok((records, reply))
}

fn new_name(image: &Image, name: &str) -> Result<TopicName, RequestError> {
    let name = TopicName::new(name).map_err(|e| RequestError::InvalidTopicName(e.to_string()))?;
    if image.topics().by_name(&name).is_some() {
        return Err(RequestError::TopicAlreadyExists(name.to_string()));
    }
    match image.topics().colliding(&name) {
        None => Ok(name),
        Some(other) => Err(RequestError::InvalidTopicName(format!(
            "topic '{name}' collides with the existing topic '{other}': '.' and '_' are the same in metric names"
        ))),
    }
}

fn new_configs(topic: &NewTopic) -> Result<ConfigMap, RequestError> {
    let mut configs = ConfigMap::new();
    for (name, value) in &topic.configs {
        let value = value.clone().ok_or_else(|| {
            RequestError::InvalidConfig(format!("config '{name}' has a null value"))
        })?;
        if configs.insert(name.clone(), value).is_some() {
            let text = format!("config '{name}' is given more than once");
            return Err(RequestError::InvalidConfig(text));
        }
    }
    Ok(configs)
}

fn new_replicas(
    image: &Image,
    request: &CreateTopics,
    topic: &NewTopic,
    room: usize,
) -> Result<Vec<BrokerList>, RequestError> {
    if !topic.assignments.is_empty() {
        return manual_replicas(image, topic, room);
    }
    let partitions = match topic.num_partitions {
        -1 => request.default_num_partitions,
        given => given,
    };
    let factor = match topic.replication_factor {
        -1 => request.default_replication_factor,
        given => given,
    };
    if partitions <= 0 {
        return Err(RequestError::InvalidPartitions(format!(
            "number of partitions is {partitions}: it must be larger than 0, or -1 for the default"
        )));
    }
    if factor <= 0 {
        return Err(RequestError::InvalidReplicationFactor(format!(
            "replication factor is {factor}: it must be larger than 0, or -1 for the default"
        )));
    }
    let count = usize::try_from(partitions).unwrap_or(usize::MAX);
    check_room(count, room)?;
    auto_replicas(image, count, usize::try_from(factor).unwrap_or(0))
}

/// D-7.
fn auto_replicas(
    image: &Image,
    count: usize,
    factor: usize,
) -> Result<Vec<BrokerList>, RequestError> {
    let alive = image.cluster().alive_ids();
    place(&alive, count, factor, image.topics().partition_count()).ok_or_else(|| {
        RequestError::InvalidReplicationFactor(format!(
            "replication factor {factor} is larger than the number of alive brokers, {}",
            alive.len()
        ))
    })
}

/// D-5, D-6.
fn manual_replicas(
    image: &Image,
    topic: &NewTopic,
    room: usize,
) -> Result<Vec<BrokerList>, RequestError> {
    if topic.num_partitions != -1 || topic.replication_factor != -1 {
        return Err(RequestError::InvalidRequest(
            "number of partitions and replication factor must be -1 if there are assignments"
                .to_owned(),
        ));
    }
    check_room(topic.assignments.len(), room)?;
    let mut by_partition: Vec<Option<BrokerList>> = vec![None; topic.assignments.len()];
    for (partition, brokers) in &topic.assignments {
        let slot = usize::try_from(*partition)
            .ok()
            .and_then(|at| by_partition.get_mut(at));
        let Some(slot @ None) = slot else {
            return Err(RequestError::InvalidReplicaAssignment(format!(
                "partition {partition} is given twice, or the partitions are not 0 to n-1"
            )));
        };
        *slot = Some(BrokerList::from(brokers.as_slice()));
    }
    let replicas: Vec<_> = by_partition.into_iter().flatten().collect();
    let factor = replicas.first().map_or(0, |list| list.len());
    check_assignments(image, &replicas, factor)?;
    Ok(replicas)
}

/// D-6 for each list.
fn check_assignments(
    image: &Image,
    assignments: &[BrokerList],
    factor: usize,
) -> Result<(), RequestError> {
    let refuse = |text: String| Err(RequestError::InvalidReplicaAssignment(text));
    for (index, replicas) in assignments.iter().enumerate() {
        if replicas.is_empty() {
            return refuse(format!("assignment {index} is empty"));
        }
        if let Some(id) = replicas
            .iter()
            .find(|id| image.cluster().broker(**id).is_none())
        {
            return refuse(format!(
                "assignment {index} names broker {id}, which is not registered"
            ));
        }
        if !replicas.is_distinct() {
            return refuse(format!("assignment {index} names a broker twice"));
        }
        if replicas.len() != factor {
            return refuse(format!(
                "assignment {index} has {} replicas, the others have {factor}",
                replicas.len()
            ));
        }
        if !replicas.iter().any(|id| image.cluster().is_alive(*id)) {
            return refuse(format!("all brokers of assignment {index} are fenced"));
        }
    }
    Ok(())
}

/// D-11.
fn check_room(needed: usize, room: usize) -> Result<(), RequestError> {
    if needed <= room {
        return Ok(());
    }
    Err(RequestError::PolicyViolation(format!(
        "the request needs more than {MAX_RECORDS_PER_USER_OP} metadata records: too many partitions at once"
    )))
}

/// Partitions from index `first` on. Fenced replicas are not in the ISR, the first other one leads.
fn new_partitions(
    image: &Image,
    topic_id: TopicId,
    first: i32,
    replicas: Vec<BrokerList>,
) -> impl Iterator<Item = Record> {
    (first..).zip(replicas).map(move |(partition, replicas)| {
        let isr: BrokerList = replicas
            .iter()
            .copied()
            .filter(|id| image.cluster().is_alive(*id))
            .collect();
        Record::Partition(PartitionRecord {
            topic_id,
            partition,
            leader: isr.first().copied(),
            replicas,
            isr,
            leader_epoch: 0,
            partition_epoch: 0,
        })
    })
}

/// Decides a DeleteTopics request (9.3).
pub(crate) fn delete_topics(
    image: &Image,
    topics: &[TopicRef],
) -> Decision<PerTopic<DeletedTopic>> {
    let found: Vec<_> = topics.iter().map(|topic| find(image, topic)).collect();
    let by_ref = repeated(topics);
    let by_id = repeated(found.iter().flatten().map(|topic| topic.id()));
    let mut records = Vec::new();
    let mut replies = Vec::new();
    for (topic, found) in topics.iter().zip(found) {
        let reply = match found {
            _ if by_ref.contains(topic) => Err(duplicate_topic(&text_of(topic))),
            Ok(found) if by_id.contains(&found.id()) => Err(duplicate_topic(&text_of(topic))),
            Ok(found) => {
                let topic_id = found.id();
                records.push(Record::RemoveTopic(RemoveTopicRecord { topic_id }));
                Ok(DeletedTopic {
                    name: found.name().clone(),
                    topic_id,
                })
            }
            Err(error) => Err(error),
        };
        replies.push(reply);
    }
    Ok((records, replies))
}

fn find<'a>(image: &'a Image, topic: &TopicRef) -> Result<&'a TopicImage, RequestError> {
    let topics = image.topics();
    match topic {
        TopicRef::Name(name) => topics
            .by_name(name)
            .ok_or_else(|| RequestError::UnknownTopicOrPartition(name.clone())),
        TopicRef::Id(id) => topics.by_id(*id).ok_or(RequestError::UnknownTopicId(*id)),
    }
    .map(AsRef::as_ref)
}

fn text_of(topic: &TopicRef) -> String {
    match topic {
        TopicRef::Name(name) => name.clone(),
        TopicRef::Id(id) => id.to_string(),
    }
}

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

/// What occurs more than once.
fn repeated<T: std::hash::Hash + Eq + Copy>(items: impl IntoIterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    items
        .into_iter()
        .filter(|item| !seen.insert(*item))
        .collect()
}

fn duplicate_topic(name: &str) -> RequestError {
    RequestError::InvalidRequest(format!(
        "topic '{name}' is named more than once in the request"
    ))
}

#[cfg(test)]
mod tests;
