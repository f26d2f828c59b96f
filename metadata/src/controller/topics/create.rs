//! CreateTopics. Rules: D-1…D-8, D-11…D-13.

use strandline_types::{TopicId, TopicName};

use crate::broker_list::BrokerList;
use crate::controller::topics::assignment::{
    auto_replicas, check_assignments, check_room, new_partitions,
};
use crate::controller::topics::{
    CreateTopics, CreatedTopic, NewTopic, PerTopic, duplicate_topic, repeated,
};
use crate::controller::{ConfigValidator, Decision, MAX_RECORDS_PER_USER_OP};
use crate::delta::Delta;
use crate::error::RequestError;
use crate::image::{ConfigMap, Image};
use crate::record::{ConfigRecord, ConfigResource, Record, TopicRecord};

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
    let configs = validator.validate(&resource, &configs, image.configs())?;
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
