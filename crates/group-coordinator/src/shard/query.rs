//! The requests that only read.
//!
//! Rules: G-55…G-58, G-80…G-82.

use super::{GroupShard, Phase};
use crate::error::GroupError;
use crate::offsets::GroupOffsets;
use crate::query::{
    FetchedTopic, GroupDescription, ListGroupsFilter, ListedGroup, OffsetFetchQuery,
};

const CLASSIC_GROUP_TYPE: &str = "classic";

impl GroupShard {
    /// Committed offsets. An unknown group or partition is not an error (G-55); with
    /// `require_stable` one with a commit that waits for its append or its transaction is (G-56).
    ///
    /// # Errors
    /// The shard loads or is not the coordinator. Below v2 of OffsetFetch there is no place for
    /// it but on *every* requested partition; it is never a timeout (G-58).
    pub fn fetch_offsets(&self, query: &OffsetFetchQuery) -> Result<Vec<FetchedTopic>, GroupError> {
        self.check_active()?;
        let none = GroupOffsets::default();
        let group = self.groups.get(&*query.group_id);
        let offsets = group.map_or(&none, |group| &group.offsets);
        let Some(topics) = &query.topics else {
            return Ok(fetch_all(offsets, query.require_stable));
        };
        let topics = topics.iter().map(|(name, partitions)| FetchedTopic {
            name: name.clone(),
            partitions: partitions
                .iter()
                .map(|index| offsets.fetch(name, *index, query.require_stable))
                .collect(),
        });
        Ok(topics.collect())
    }

    /// One group of DescribeGroups.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND, which is told from v6 on only; before it the group is `Dead`, without
    /// an error (G-80). The shard loads or is not the coordinator.
    pub fn describe_group(&self, group_id: &str) -> Result<GroupDescription, GroupError> {
        self.check_active()?;
        let group = self
            .groups
            .get(group_id)
            .ok_or(GroupError::GroupIdNotFound)?;
        Ok(group.classic.describe())
    }

    /// The groups that pass the filter, in order of their ids (G-81).
    ///
    /// # Errors
    /// The shard loads or is not the coordinator; the latter should just be left out of the list.
    pub fn list_groups(&self, filter: &ListGroupsFilter) -> Result<Vec<ListedGroup>, GroupError> {
        self.check_active()?;
        if !passes(&filter.types, CLASSIC_GROUP_TYPE) {
            return Ok(Vec::new());
        }
        let groups = self.groups.iter().map(|(group_id, group)| ListedGroup {
            group_id: group_id.to_string(),
            protocol_type: group.classic.protocol_type.clone().unwrap_or_default(),
            state: group.classic.state(),
            group_type: CLASSIC_GROUP_TYPE,
        });
        Ok(groups
            .filter(|group| passes(&filter.states, group.state.as_str()))
            .collect())
    }

    fn check_active(&self) -> Result<(), GroupError> {
        match self.phase {
            Phase::Active => Ok(()),
            Phase::Loading => Err(GroupError::CoordinatorLoadInProgress),
            Phase::NotCoordinator => Err(GroupError::NotCoordinator),
        }
    }
}

fn fetch_all(offsets: &GroupOffsets, require_stable: bool) -> Vec<FetchedTopic> {
    let mut topics: Vec<FetchedTopic> = Vec::new();
    for (topic, partition, _) in offsets.committed() {
        let fetched = offsets.fetch(topic, partition, require_stable);
        match topics.last_mut().filter(|last| *last.name == **topic) {
            Some(last) => last.partitions.push(fetched),
            None => topics.push(FetchedTopic {
                name: topic.to_string(),
                partitions: vec![fetched],
            }),
        }
    }
    topics
}

/// G-81: an empty filter lets all pass; names are compared without case and surrounding space.
fn passes(names: &[String], value: &str) -> bool {
    names.is_empty()
        || names
            .iter()
            .any(|name| name.trim().eq_ignore_ascii_case(value))
}
