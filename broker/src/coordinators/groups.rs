//! The group coordinators of this broker, and their pure machines on their partitions.

mod load;

use std::convert::Infallible;
use std::sync::Arc;

use arc_swap::ArcSwap;
use strandline_coordinator::{AppendError, AppendToken, Now, TransactionEnd};
use strandline_group_coordinator::{
    Effects, FetchedTopic, GroupConfig, GroupDescription, GroupError, GroupShard, ListGroupsFilter,
    ListedGroup, Loader, OffsetFetchQuery, Reply, Request,
};
use strandline_log::VerificationGuard;
use strandline_metadata::{Image, Metadata};
use strandline_types::TopicName;
use uuid::Uuid;

use crate::coordinators::runtime::{Machine, Runtime, Surroundings};
use crate::coordinators::shards::Shards;
use crate::partition::Partition;

type Shard = Runtime<GroupShard>;

impl Machine for GroupShard {
    type Reply = Reply;
    type Order = Infallible;

    fn is_active(&self) -> bool {
        Self::is_active(self)
    }

    fn unload(&mut self) -> Effects {
        Self::unload(self)
    }

    fn on_tick(&mut self, now: Now) -> Effects {
        Self::on_tick(self, now)
    }

    fn on_append_result(
        &mut self,
        token: AppendToken,
        result: Result<(), AppendError>,
        now: Now,
    ) -> Effects {
        Self::on_append_result(self, token, result, now)
    }

    fn on_append_late(&mut self, token: AppendToken, now: Now) -> Effects {
        Self::on_append_late(self, token, now)
    }

    fn take_orders(&mut self) -> Vec<Infallible> {
        Vec::new()
    }
}

/// The group coordinators of this broker: one for each partition of `__consumer_offsets` that it
/// leads.
#[derive(Debug)]
pub(crate) struct GroupCoordinators {
    config: GroupConfig,
    surroundings: Surroundings,
    metadata: Metadata,
    /// The newest image whose deletions the shards have been told of.
    applied: ArcSwap<Image>,
    shards: Shards<GroupShard>,
}

impl GroupCoordinators {
    pub(crate) fn new(config: GroupConfig, surroundings: Surroundings, metadata: Metadata) -> Self {
        Self {
            config,
            surroundings,
            applied: ArcSwap::new(metadata.image()),
            metadata,
            shards: Shards::default(),
        }
    }

    /// This broker leads a partition of `__consumer_offsets`; it is loaded in the background (G-71).
    pub(crate) fn on_elected(&self, partition: &Arc<Partition>, partition_count: i32) {
        // What is not there now is older than all that will be read, even if a topic of its name is
        // created while that is read (G-61); later deletions come to `on_applied`.
        let image = self.metadata.image();
        let start = move |shard: &Arc<Shard>, loader: Loader| {
            let mut gone = loader.topics_with_offsets();
            gone.retain(|topic| image.topics().by_name(topic).is_none());
            let gone: Vec<String> = gone.into_iter().collect();
            shard.call(|machine, now| machine.on_topics_deleted(&gone, now));
            shard.call(|machine, now| machine.start(loader, now));
        };
        let index = partition.id.partition;
        self.shards.elected(index, partition_count, || {
            Shard::start(
                Arc::clone(partition),
                GroupShard::new(self.config.clone(), Box::new(Uuid::new_v4)),
                self.surroundings.clone(),
                Box::new(|never| match never {}),
                load::load,
                start,
            )
        });
    }

    /// `__consumer_offsets` is gone, and every coordinator with it.
    pub(crate) fn on_deleted(&self) {
        self.shards.on_deleted();
    }

    /// The broker follows an image: forgets the committed offsets of the topics that are gone since the
    /// one before, or have come again (G-61).
    pub(crate) fn on_applied(&self, image: Arc<Image>, deleted: &[TopicName]) {
        if !deleted.is_empty() {
            let names: Vec<String> = deleted.iter().map(ToString::to_string).collect();
            for shard in self.shards.all() {
                shard.call(|machine, now| machine.on_topics_deleted(&names, now));
            }
        }
        self.applied.store(image);
    }

    /// The partition of `__consumer_offsets` that coordinates a group; `None` while the topic does
    /// not exist.
    pub(crate) fn partition_of(&self, group_id: &str) -> Option<i32> {
        self.shards.partition_of(group_id)
    }

    /// The coordinator of a group, if it is here. While there are no partitions it is nowhere, and so not
    /// here: each client asks who it is then, and none takes that for fatal (G-58).
    fn shard(&self, group_id: &str) -> Result<Arc<Shard>, GroupError> {
        let index = self.partition_of(group_id);
        let shard = index.and_then(|index| self.shards.at(index));
        shard.ok_or(GroupError::NotCoordinator)
    }

    /// Carries out a request that changes a group. Errors: the coordinator is elsewhere, or loads.
    pub(crate) async fn submit(&self, request: Request) -> Result<Reply, GroupError> {
        let shard = self.shard(request.group_id())?;
        let reply = shard.submit(None, |machine, id, now| machine.handle(id, request, now));
        reply.await.ok_or(GroupError::NotCoordinator)
    }

    /// The same for a request that commits offsets of topics as they are in `image`: a topic that has gone
    /// since, or has come again, is not in the reply (G-61). `guard` is what the partition gave when the
    /// transaction was verified that the request is a part of (P-74).
    pub(crate) async fn commit(
        &self,
        mut request: Request,
        image: &Image,
        guard: Option<VerificationGuard>,
    ) -> Result<Reply, GroupError> {
        let shard = self.shard(request.group_id())?;
        let reply = shard.submit(guard, |machine, id, now| {
            // Here, since the deletion of a topic waits for this call or is in the image already. And
            // who comes before the deletion of an older one was told would be taken for that one.
            let (newest, applied) = (self.metadata.image(), self.applied.load());
            let same = |name: &str| {
                let id_in = |image: &Image| image.topics().by_name(name).map(|t| t.id());
                let id = id_in(image);
                // Nothing was told of one that is new: no deletion of that name is to come.
                id_in(&newest) == id && id_in(&applied).is_none_or(|told| Some(told) == id)
            };
            match &mut request {
                Request::OffsetCommit(commit) => commit.topics.retain(|t| same(&t.name)),
                Request::TxnOffsetCommit(commit) => commit.topics.retain(|t| same(&t.name)),
                _ => {}
            }
            machine.handle(id, request, now)
        });
        reply.await.ok_or(GroupError::NotCoordinator)
    }

    /// Writes the marker of a transaction to a partition of `__consumer_offsets` that is led here
    /// (T-43).
    pub(crate) async fn end_transaction(
        &self,
        index: i32,
        end: TransactionEnd,
    ) -> Result<(), AppendError> {
        let shard = self.shards.at(index);
        let shard = shard.ok_or(AppendError::NotLeaderOrFollower)?;
        match shard
            .submit(None, |machine, id, _| machine.end_transaction(id, end))
            .await
        {
            Some(Reply::TransactionEnd(result)) => result,
            _ => Err(AppendError::NotLeaderOrFollower),
        }
    }

    /// Reads committed offsets.
    pub(crate) fn fetch_offsets(
        &self,
        query: &OffsetFetchQuery,
    ) -> Result<Vec<FetchedTopic>, GroupError> {
        self.shard(&query.group_id)?
            .read(|machine| machine.fetch_offsets(query))
    }

    /// Describes a group. Errors: it does not exist, or its coordinator is not here.
    pub(crate) fn describe(&self, group_id: &str) -> Result<GroupDescription, GroupError> {
        self.shard(group_id)?
            .read(|machine| machine.describe_group(group_id))
    }

    /// Does what is due, on a clock that nobody waits for.
    #[cfg(test)]
    pub(crate) fn tick(&self) {
        for shard in self.shards.all() {
            shard.call(GroupShard::on_tick);
        }
    }

    /// Lists the groups whose coordinator is here (G-81).
    pub(crate) fn list(&self, filter: &ListGroupsFilter) -> Result<Vec<ListedGroup>, GroupError> {
        let mut out = Vec::new();
        for shard in self.shards.all() {
            match shard.read(|machine| machine.list_groups(filter)) {
                Ok(groups) => out.extend(groups),
                // G-81: not the coordinator of some is no error.
                Err(GroupError::NotCoordinator) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(out)
    }
}
