//! The coordinators of this broker on one internal topic: one for each partition of it that it leads.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use strandline_coordinator::partition_for_key;

use super::runtime::{Machine, Runtime};

pub(super) struct Shards<M: Machine>(RwLock<Inner<M>>);

struct Inner<M: Machine> {
    by_partition: HashMap<i32, Arc<Runtime<M>>>,
    /// Partitions of the topic in all, 0 while it does not exist.
    partition_count: i32,
}

impl<M: Machine> Default for Shards<M> {
    fn default() -> Self {
        Self(RwLock::new(Inner {
            by_partition: HashMap::new(),
            partition_count: 0,
        }))
    }
}

impl<M: Machine> fmt::Debug for Shards<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").finish_non_exhaustive()
    }
}

impl<M: Machine> Shards<M> {
    /// This broker leads partition `index` of now `partition_count`; one that it led before keeps its
    /// coordinator.
    pub(super) fn elected(
        &self,
        index: i32,
        partition_count: i32,
        start: impl FnOnce() -> Arc<Runtime<M>>,
    ) {
        let mut inner = self.0.write();
        inner.partition_count = partition_count;
        inner.by_partition.entry(index).or_insert_with(start);
    }

    /// The topic is gone, and every coordinator with it.
    pub(super) fn on_deleted(&self) {
        let shards = {
            let mut inner = self.0.write();
            inner.partition_count = 0;
            std::mem::take(&mut inner.by_partition)
        };
        for shard in shards.into_values() {
            shard.unload();
        }
    }

    /// The partition that coordinates `key`; `None` while the topic does not exist.
    pub(super) fn partition_of(&self, key: &str) -> Option<i32> {
        let count = self.0.read().partition_count;
        (count > 0).then(|| partition_for_key(key, count))
    }

    pub(super) fn at(&self, index: i32) -> Option<Arc<Runtime<M>>> {
        self.0.read().by_partition.get(&index).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<Runtime<M>>> {
        self.0.read().by_partition.values().cloned().collect()
    }
}
