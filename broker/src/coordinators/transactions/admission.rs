//! May a producer write to a partition as a part of its transaction? The coordinator is asked
//! before the first batch (KIP-890).
//!
//! Rules: P-70, P-71, T-12, T-22.

use strandline_coordinator::Producer;
use strandline_transaction_coordinator::{
    AddPartitionsRequest, InitProducerIdRequest, TransactionError,
};
use strandline_types::TopicPartition;

use super::TransactionCoordinators;
use super::patient::Patience;

impl TransactionCoordinators {
    /// Which partitions the client has added already, in their order (P-70).
    ///
    /// # Errors
    /// The same for all of them.
    pub(crate) fn verify(
        &self,
        transactional_id: &str,
        producer: Producer,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Result<(), TransactionError>>, TransactionError> {
        let shard = self.shard(transactional_id)?;
        shard.read(|machine| machine.verify_partitions(transactional_id, producer, partitions))
    }

    /// AddPartitionsToTxn and AddOffsetsToTxn (T-10…T-13), and what the broker adds by itself (P-71);
    /// the partitions exist. `before_each` is called before each attempt, and may change what it asks for.
    pub(crate) async fn add_patiently(
        &self,
        mut request: AddPartitionsRequest,
        patience: Patience,
        mut before_each: impl FnMut(&mut AddPartitionsRequest),
    ) -> Result<(), TransactionError> {
        let id = request.transactional_id.clone();
        let shard = self.shard(&id)?;
        let attempts = self.patient.attempts(&shard, &id, patience);
        loop {
            before_each(&mut request);
            let added = self.add_partitions(request.clone()).await;
            if !attempts.go_on(&added).await {
                return added;
            }
        }
    }

    /// InitProducerId with a transactional id (T-2…T-6).
    pub(crate) async fn init_patiently(
        &self,
        request: InitProducerIdRequest,
        patience: Patience,
    ) -> Result<Producer, TransactionError> {
        let id = request.transactional_id.clone();
        let shard = self.shard(&id)?;
        let attempts = self.patient.attempts(&shard, &id, patience);
        loop {
            let initialised = self.init_producer_id(request.clone()).await;
            if !attempts.go_on(&initialised).await {
                return initialised;
            }
        }
    }
}
