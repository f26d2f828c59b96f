//! Drives the pure coordinators over their partitions.

mod load;
mod shard;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use strandline_env::{Clock, Pool, Shutdown};
use strandline_group_coordinator::{
    FetchedTopic, GroupConfig, GroupDescription, GroupError, ListGroupsFilter, ListedGroup,
    OffsetFetchQuery, Reply, Request, partition_for_group,
};
use strandline_metadata::Metadata;
use strandline_types::TopicName;

use crate::coordinators::shard::Shard;
use crate::partition::Partition;

/// The group coordinators of this broker: one for each partition of `__consumer_offsets` that it
/// leads.
#[derive(Debug)]
pub(crate) struct GroupCoordinators {
    config: GroupConfig,
    commit_timeout: Duration,
    clock: Clock,
    io: Pool,
    metadata: Metadata,
    shutdown: Shutdown,
    shards: RwLock<Shards>,
}

#[derive(Debug, Default)]
struct Shards {
    by_partition: HashMap<i32, Arc<Shard>>,
    /// Partitions of the topic in all, 0 while it does not exist.
    partition_count: i32,
}

impl GroupCoordinators {
    pub(crate) fn new(
        config: GroupConfig,
        commit_timeout: Duration,
        clock: Clock,
        io: Pool,
        metadata: Metadata,
        shutdown: Shutdown,
    ) -> Self {
        let shards = RwLock::default();
        Self {
            config,
            commit_timeout,
            clock,
            io,
            metadata,
            shutdown,
            shards,
        }
    }

    /// This broker leads a partition of `__consumer_offsets`; it is loaded in the background (G-71).
    pub(crate) fn on_elected(&self, partition: &Arc<Partition>, partition_count: i32) {
        let mut shards = self.shards.write();
        shards.partition_count = partition_count;
        let index = partition.id.partition;
        if shards.by_partition.contains_key(&index) {
            return;
        }
        let shard = Shard::start(
            Arc::clone(partition),
            self.config.clone(),
            self.commit_timeout,
            self.clock.clone(),
            self.io.clone(),
            self.metadata.clone(),
            self.shutdown.clone(),
        );
        shards.by_partition.insert(index, shard);
    }

    /// `__consumer_offsets` is gone, and every coordinator with it.
    pub(crate) fn on_deleted(&self) {
        let shards = std::mem::take(&mut *self.shards.write());
        for shard in shards.by_partition.into_values() {
            shard.unload();
        }
    }

    /// Forgets the committed offsets of topics that are gone (G-61).
    pub(crate) fn on_topics_deleted(&self, names: &[TopicName]) {
        let shards: Vec<_> = self.shards.read().by_partition.values().cloned().collect();
        for shard in shards {
            shard.on_topics_deleted(names);
        }
    }

    /// The coordinator of a group, if it is here.
    fn shard(&self, group_id: &str) -> Result<Arc<Shard>, GroupError> {
        let shards = self.shards.read();
        if shards.partition_count == 0 {
            return Err(GroupError::CoordinatorNotAvailable);
        }
        let index = partition_for_group(group_id, shards.partition_count);
        shards
            .by_partition
            .get(&index)
            .cloned()
            .ok_or(GroupError::NotCoordinator)
    }

    /// Carries out a request that changes a group. Errors: the coordinator is elsewhere, or loads.
    pub(crate) async fn submit(&self, request: Request) -> Result<Reply, GroupError> {
        self.shard(request.group_id())?.submit(request).await
    }

    /// Reads committed offsets.
    pub(crate) fn fetch_offsets(
        &self,
        query: &OffsetFetchQuery,
    ) -> Result<Vec<FetchedTopic>, GroupError> {
        self.shard(&query.group_id)?.fetch_offsets(query)
    }

    /// Describes a group. Errors: it does not exist, or its coordinator is not here.
    pub(crate) fn describe(&self, group_id: &str) -> Result<GroupDescription, GroupError> {
        self.shard(group_id)?.describe(group_id)
    }

    /// Lists the groups whose coordinator is here (G-81).
    pub(crate) fn list(&self, filter: &ListGroupsFilter) -> Result<Vec<ListedGroup>, GroupError> {
        let shards: Vec<_> = self.shards.read().by_partition.values().cloned().collect();
        let mut out = Vec::new();
        for shard in shards {
            match shard.list(filter) {
                Ok(groups) => out.extend(groups),
                // G-81: not the coordinator of some is no error.
                Err(GroupError::NotCoordinator) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(out)
    }
}
