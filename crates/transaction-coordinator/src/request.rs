//! The requests that a shard understands, independent of the wire and its versions.
//!
//! Rules: T-2, T-4, T-11, T-30, T-33.

use strandline_coordinator::Producer;
use strandline_types::TopicPartition;

use crate::error::TransactionError;
use crate::reply::Reply;
use crate::transaction::TransactionVersion;

/// A request that changes a transaction. Reads are methods of the shard and answer at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// InitProducerId with a transactional id.
    InitProducerId(InitProducerIdRequest),
    /// AddPartitionsToTxn and AddOffsetsToTxn, and what the second generation adds by itself.
    AddPartitions(AddPartitionsRequest),
    /// EndTxn.
    EndTxn(EndTxnRequest),
}

impl Request {
    /// The transactional id, which decides the shard.
    pub fn transactional_id(&self) -> &str {
        match self {
            Self::InitProducerId(r) => &r.transactional_id,
            Self::AddPartitions(r) => &r.transactional_id,
            Self::EndTxn(r) => &r.transactional_id,
        }
    }

    /// The answer that refuses the request; also for the caller, when it has no shard to ask.
    pub fn refusal(&self, error: TransactionError) -> Reply {
        match self {
            Self::InitProducerId(_) => Reply::InitProducerId(Err(error)),
            Self::AddPartitions(_) => Reply::AddPartitions(Err(error)),
            Self::EndTxn(_) => Reply::EndTxn(Err(error)),
        }
    }
}

/// InitProducerId.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitProducerIdRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// Checked against the allowed range (T-2).
    pub timeout_ms: i32,
    /// What the client has, when it goes on after an error (T-4).
    pub expected: Option<Producer>,
}

/// AddPartitionsToTxn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddPartitionsRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// Who asks.
    pub producer: Producer,
    /// What it is going to write to.
    pub partitions: Vec<TopicPartition>,
    /// Generation of the client's protocol.
    pub client_version: TransactionVersion,
}

/// EndTxn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndTxnRequest {
    /// The transactional id.
    pub transactional_id: String,
    /// Who asks.
    pub producer: Producer,
    /// True to commit, false to abort.
    pub committed: bool,
    /// Generation of the client's protocol: the second one from v5 on.
    pub client_version: TransactionVersion,
}
