//! What is known of a transactional id: the value of its record.
//!
//! Rules: section 5.1, T-3, T-33.

use std::collections::BTreeSet;

use strandline_coordinator::Producer;
use strandline_types::{
    NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId, TopicPartition,
};

use crate::state::TransactionState;

/// The last epoch that a producer gets; the one above is kept for fencing it (T-3).
pub(crate) const LAST_EPOCH: ProducerEpoch = ProducerEpoch::MAX - 1;
/// "Not begun" in [`Transaction::start_ms`].
pub(crate) const NO_START_MS: i64 = -1;

/// The generation of the protocol that a client used for a step, as `transaction.version` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TransactionVersion(pub i16);

impl TransactionVersion {
    /// Clients that add partitions themselves and keep their epoch.
    pub const V0: Self = Self(0);
    /// Clients whose epoch rises with each end (KIP-890).
    pub const V2: Self = Self(2);

    /// Each end raises the epoch.
    pub fn bumps_epoch(self) -> bool {
        self >= Self::V2
    }
}

/// A transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transaction {
    /// Who may use the id now. While an end is prepared, the epoch that its markers carry.
    pub producer: Producer,
    /// The epoch before this one, if it was this producer's too; -1 after a fence. Not stored.
    pub last_producer_epoch: ProducerEpoch,
    /// Producer id before the epochs were used up, -1 for none.
    pub previous_producer_id: ProducerId,
    /// Producer id that follows when the prepared end is complete, -1 for the same.
    pub next_producer_id: ProducerId,
    /// After this long an ongoing transaction is aborted, in ms.
    pub timeout_ms: i32,
    /// Where it stands.
    pub state: TransactionState,
    /// What it has written to.
    pub partitions: BTreeSet<TopicPartition>,
    /// When its first partition was added, in ms since the Unix epoch; -1 if none was.
    pub start_ms: i64,
    /// When it changed last, in ms since the Unix epoch (T-51).
    pub last_update_ms: i64,
    /// Generation of the client's last step.
    pub client_version: TransactionVersion,
}

impl Transaction {
    /// An id that nobody used before.
    pub(crate) fn unused(producer_id: ProducerId, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer: Producer {
                id: producer_id,
                epoch: NO_PRODUCER_EPOCH,
            },
            last_producer_epoch: NO_PRODUCER_EPOCH,
            previous_producer_id: NO_PRODUCER_ID,
            next_producer_id: NO_PRODUCER_ID,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start_ms: NO_START_MS,
            last_update_ms: now_ms,
            client_version: TransactionVersion::V0,
        }
    }

    /// T-3: no epoch is left to give.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.producer.epoch >= LAST_EPOCH
    }

    /// Who may use the id once the prepared end is complete, or now.
    pub(crate) fn next_producer(&self) -> Producer {
        if self.next_producer_id == NO_PRODUCER_ID {
            self.producer
        } else {
            Producer {
                id: self.next_producer_id,
                epoch: 0,
            }
        }
    }
}
