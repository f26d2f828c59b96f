//! The transaction coordinators of this broker, and their pure machines on their partitions.

mod admission;
mod late_markers;
mod load;
mod markers;
mod patient;

use std::collections::BTreeMap;
use std::sync::Arc;

use strandline_coordinator::{AppendError, AppendToken, Now, Producer};
use strandline_metadata::Metadata;
use strandline_transaction_coordinator::{
    AddPartitionsRequest, Effects, EndTxnRequest, InitProducerIdRequest, ListedTransaction, Loader,
    Order, Reply, Request, Transaction, TransactionConfig, TransactionError, TransactionFilter,
    TransactionShard, TransactionState,
};
use strandline_types::TRANSACTION_STATE_TOPIC;

pub(crate) use markers::{MarkerError, MarkerWriter};
pub(crate) use patient::Patience;

use crate::broker::ProducerIds;
use crate::coordinators::runtime::{Machine, Runtime, Surroundings};
use crate::coordinators::shards::Shards;
use crate::features::TRANSACTION_VERSION;
use crate::partition::Partition;
use patient::Patient;

type Shard = Runtime<TransactionShard>;

impl Machine for TransactionShard {
    type Reply = Reply;
    type Order = Order;

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
        Self::on_append_result(self, token, Err(AppendError::RequestTimedOut), now)
    }

    fn take_orders(&mut self) -> Vec<Order> {
        Self::take_orders(self)
    }
}

/// The transaction coordinators of this broker: one for each partition of `__transaction_state`
/// that it leads.
#[derive(Debug)]
pub(crate) struct TransactionCoordinators {
    config: TransactionConfig,
    surroundings: Surroundings,
    metadata: Metadata,
    producer_ids: Arc<ProducerIds>,
    markers: Arc<MarkerWriter>,
    shards: Arc<Shards<TransactionShard>>,
    patient: Arc<Patient>,
}

impl TransactionCoordinators {
    pub(crate) fn new(
        config: TransactionConfig,
        surroundings: Surroundings,
        metadata: Metadata,
        producer_ids: Arc<ProducerIds>,
        markers: Arc<MarkerWriter>,
    ) -> Self {
        Self {
            config,
            surroundings,
            metadata,
            producer_ids,
            markers,
            shards: Arc::default(),
            patient: Arc::default(),
        }
    }

    /// This broker leads a partition of `__transaction_state`; it is loaded in the background, and
    /// ends that were decided before go on (T-32).
    pub(crate) fn on_elected(&self, partition: &Arc<Partition>, partition_count: i32) {
        let index = partition.id.partition;
        let (writer, all) = (Arc::clone(&self.markers), Arc::clone(&self.shards));
        let shutdown = self.surroundings.shutdown.clone();
        let patient = Arc::clone(&self.patient);
        let carry_out = move |order: Order| match order {
            Order::Free(id) => patient.tell(&id),
            Order::Write(markers) => {
                // The shard's own handle: it may be gone, and another one in its place.
                let shard = all.at(index);
                if let Some(shard) = shard {
                    markers::send(&writer, &shard, markers, &shutdown);
                }
            }
        };
        let start = |shard: &Arc<Shard>, loader: Loader| {
            let epoch = shard.partition.leader_epoch();
            shard.call(|machine, now| machine.start(loader, epoch, now));
        };
        let config = TransactionConfig {
            value_version: self.value_version(),
            ..self.config.clone()
        };
        self.shards.elected(index, partition_count, || {
            Shard::start(
                Arc::clone(partition),
                TransactionShard::new(config),
                self.surroundings.clone(),
                Box::new(carry_out),
                load::load,
                start,
            )
        });
    }

    /// From transaction.version 1 on values have the flexible format (5.1).
    fn value_version(&self) -> i16 {
        let image = self.metadata.image();
        i16::from(image.features().level(TRANSACTION_VERSION) >= 1)
    }

    /// `__transaction_state` is gone, and every coordinator with it.
    pub(crate) fn on_deleted(&self) {
        self.shards.on_deleted();
    }

    /// The coordinator of a transactional id, if it is here.
    fn shard(&self, transactional_id: &str) -> Result<Arc<Shard>, TransactionError> {
        let Some(index) = self.shards.partition_of(transactional_id) else {
            return Err(self.absence());
        };
        let shard = self.shards.at(index);
        shard.ok_or(TransactionError::NotCoordinator)
    }

    /// Without the topic nobody coordinates; with it, this broker has not followed it yet.
    fn absence(&self) -> TransactionError {
        let image = self.metadata.image();
        match image.topics().by_name(TRANSACTION_STATE_TOPIC) {
            Some(_) => TransactionError::CoordinatorNotAvailable,
            None => TransactionError::NotCoordinator,
        }
    }

    async fn submit(&self, request: Request) -> Result<Reply, TransactionError> {
        // T-1, T-2: whoever coordinates.
        self.config.check_shape(&request)?;
        let shard = self.shard(request.transactional_id())?;
        let fresh = if shard.read(|machine| machine.wants_producer_id(&request)) {
            let id = self.producer_ids.next(&self.metadata).await;
            Some(id.map_err(|_| TransactionError::CoordinatorNotAvailable)?)
        } else {
            None
        };
        let reply = shard.submit(None, |machine, id, now| {
            machine.handle(id, request, fresh, now)
        });
        reply.await.ok_or(TransactionError::NotCoordinator)
    }

    async fn init_producer_id(
        &self,
        request: InitProducerIdRequest,
    ) -> Result<Producer, TransactionError> {
        match self.submit(Request::InitProducerId(request)).await? {
            Reply::InitProducerId(result) => result,
            Reply::AddPartitions(_) | Reply::EndTxn(_) => Err(TransactionError::UnknownServerError),
        }
    }

    async fn add_partitions(&self, request: AddPartitionsRequest) -> Result<(), TransactionError> {
        match self.submit(Request::AddPartitions(request)).await? {
            Reply::AddPartitions(result) => result,
            Reply::InitProducerId(_) | Reply::EndTxn(_) => {
                Err(TransactionError::UnknownServerError)
            }
        }
    }

    /// EndTxn (T-30…T-33).
    pub(crate) async fn end(
        &self,
        request: EndTxnRequest,
    ) -> Result<Option<Producer>, TransactionError> {
        match self.submit(Request::EndTxn(request)).await? {
            Reply::EndTxn(result) => result,
            Reply::InitProducerId(_) | Reply::AddPartitions(_) => {
                Err(TransactionError::UnknownServerError)
            }
        }
    }

    /// One id of DescribeTransactions.
    pub(crate) fn describe(&self, transactional_id: &str) -> Result<Transaction, TransactionError> {
        self.shard(transactional_id)?
            .read(|machine| machine.describe(transactional_id).cloned())
    }

    /// The transactions whose coordinator is here, in order of their ids.
    pub(crate) fn list(
        &self,
        filter: &TransactionFilter,
    ) -> Result<Vec<ListedTransaction>, TransactionError> {
        let now_ms = self.surroundings.clock.now_ms();
        let mut out = Vec::new();
        for shard in self.all() {
            match shard.read(|machine| machine.list(filter, now_ms)) {
                Ok(transactions) => out.extend(transactions),
                // Not the coordinator of some is no error.
                Err(TransactionError::NotCoordinator) => {}
                Err(e) => return Err(e),
            }
        }
        out.sort_unstable_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        Ok(out)
    }

    /// Does what is due, on a clock that nobody waits for.
    #[cfg(test)]
    pub(crate) fn tick(&self) {
        for shard in self.all() {
            shard.call(TransactionShard::on_tick);
        }
    }

    /// Nothing is being written or waited for.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        let shards = self.all();
        let mut shards = shards.iter();
        shards.all(|shard| shard.read(TransactionShard::is_settled))
    }

    fn all(&self) -> Vec<Arc<Shard>> {
        self.shards.all()
    }

    /// How many transactional ids are in each state here.
    pub(crate) fn state_counts(&self) -> BTreeMap<TransactionState, usize> {
        let mut sum = BTreeMap::new();
        for shard in self.all() {
            for (state, count) in shard.read(TransactionShard::state_counts) {
                *sum.entry(state).or_insert(0) += count;
            }
        }
        sum
    }

    /// Age of the oldest transaction that has not ended, in ms; 0 without any.
    pub(crate) fn longest_open_ms(&self) -> i64 {
        let shards = self.all();
        let starts = shards.iter();
        let starts = starts.filter_map(|s| s.read(TransactionShard::oldest_open_start_ms));
        let now_ms = self.surroundings.clock.now_ms();
        starts
            .min()
            .map_or(0, |oldest| now_ms.saturating_sub(oldest).max(0))
    }
}
