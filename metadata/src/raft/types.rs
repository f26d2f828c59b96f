//! openraft's type parameters, fixed once.

// The macro of openraft names its own re-export of the runtime, which is deprecated.
#![allow(deprecated)]

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::DecodeError;
use crate::record::{Record, decode_records, encode_records};

/// Records that are committed together or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub(crate) struct RecordBatch(pub(crate) Vec<Record>);

impl fmt::Display for RecordBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records", self.0.len())
    }
}

impl TryFrom<Vec<u8>> for RecordBatch {
    type Error = DecodeError;
    fn try_from(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        decode_records(&bytes).map(Self)
    }
}

impl From<RecordBatch> for Vec<u8> {
    fn from(batch: RecordBatch) -> Self {
        encode_records(&batch.0)
    }
}

openraft::declare_raft_types!(
    /// Our raft: ids are `node.id`s, one leader per term is not forced.
    pub(crate) TypeConfig:
        D = RecordBatch,
        R = (),
);

pub(crate) type LogId = openraft::type_config::alias::LogIdOf<TypeConfig>;
pub(crate) type LeaderId = openraft::type_config::alias::LeaderIdOf<TypeConfig>;
pub(crate) type Vote = openraft::type_config::alias::VoteOf<TypeConfig>;
pub(crate) type Entry = openraft::type_config::alias::EntryOf<TypeConfig>;
pub(crate) type Payload = openraft::type_config::alias::PayloadOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, openraft::BasicNode>;
pub(crate) type StoredMembership = openraft::type_config::alias::StoredMembershipOf<TypeConfig>;
pub(crate) type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<TypeConfig>;
