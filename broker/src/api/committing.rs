//! What the requests that commit or delete offsets share: which partitions reach the coordinator (G-50),
//! and what each one is answered.

use std::collections::HashMap;
use std::sync::Arc;

use strandline_group_coordinator::{
    GroupError, OffsetCommitPartition, OffsetCommitTopic, PartitionErrors,
};
use strandline_metadata::Image;
use strandline_types::{LeaderEpoch, Offset};
use strandline_wire::ErrorCode;

use super::RequestContext;

/// What the coordinator says of each partition that reached it.
pub(super) type Errors = HashMap<(String, i32), Option<GroupError>>;

/// The partitions that exist while one request is answered.
pub(super) struct Committing(Arc<Image>);

impl Committing {
    pub(super) fn new(context: &RequestContext) -> Self {
        Self(context.broker.metadata.image())
    }

    /// What the request is answered from.
    pub(super) fn image(&self) -> &Image {
        &self.0
    }

    pub(super) fn exists(&self, topic: &str, partition: i32) -> bool {
        let topic = self.0.topics().by_name(topic);
        topic.is_some_and(|t| t.partition(partition).is_some())
    }

    /// G-50: what does not exist is answered here and does not reach the coordinator.
    pub(super) fn existing<'r, P>(
        &self,
        topics: impl Iterator<Item = (&'r str, P)>,
    ) -> Vec<OffsetCommitTopic>
    where
        P: Iterator<Item = OffsetCommitPartition>,
    {
        let topics = topics.map(|(name, partitions)| OffsetCommitTopic {
            name: name.to_owned(),
            partitions: partitions
                .filter(|p| self.exists(name, p.partition))
                .collect(),
        });
        topics.filter(|t| !t.partitions.is_empty()).collect()
    }

    /// The answer for a partition; `of_error` gives the code for what the coordinator says of it.
    pub(super) fn code(
        &self,
        topic: &str,
        partition: i32,
        outcome: &Result<Errors, ErrorCode>,
        of_error: impl Fn(GroupError) -> ErrorCode,
    ) -> ErrorCode {
        if !self.exists(topic, partition) {
            return ErrorCode::UnknownTopicOrPartition;
        }
        match outcome {
            Err(code) => *code,
            Ok(errors) => match errors.get(&(topic.to_owned(), partition)) {
                Some(error) => error.map_or(ErrorCode::None, of_error),
                // The topic was deleted while the request was on its way to the coordinator.
                None => ErrorCode::UnknownTopicOrPartition,
            },
        }
    }
}

/// One offset of a request; versions without `leader_epoch` have -1 there.
pub(super) fn partition(
    partition: i32,
    offset: Offset,
    leader_epoch: Option<LeaderEpoch>,
    metadata: Option<&str>,
) -> OffsetCommitPartition {
    OffsetCommitPartition {
        partition,
        offset,
        leader_epoch: leader_epoch.unwrap_or(-1),
        metadata: metadata.unwrap_or_default().to_owned(),
    }
}

/// Errors by topic and partition.
pub(super) fn by_partition(topics: Vec<PartitionErrors>) -> Errors {
    let mut out = HashMap::new();
    for topic in topics {
        for (partition, error) in topic.partitions {
            out.insert((topic.name.clone(), partition), error);
        }
    }
    out
}
