//! Creating, deleting and growing topics: the requests. The rules are in the files below.

mod assignment;
mod create;
mod delete;
mod grow;

use std::collections::HashSet;

use strandline_types::{BrokerId, TopicId, TopicName};

use crate::error::RequestError;
use crate::image::{ConfigMap, Image, TopicImage};

pub(crate) use create::create_topics;
pub(crate) use delete::delete_topics;
pub(crate) use grow::create_partitions;

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
