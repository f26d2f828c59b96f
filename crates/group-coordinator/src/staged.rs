//! Changes that wait for their append: nothing of them is visible before it has committed.
//!
//! Rules: G-20, G-31, G-53, G-59, G-60, G-61, T-43, X-71.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::classic::Member;
use crate::records::CommittedOffset;
use crate::reply::Effects;
use crate::reply::{OffsetCommitReply, OffsetDeleteReply, Reply};
use strandline_coordinator::{
    Append, AppendBatch, AppendError, AppendToken, CoordinatorRecord, RequestId, TransactionEnd,
};
use strandline_types::ProducerId;

/// What an append stands for.
#[derive(Debug)]
pub(crate) enum Change {
    /// The leader's assignment (G-31).
    Assignment {
        group: Arc<str>,
        assignments: BTreeMap<String, Bytes>,
    },
    /// A static member came back under a new id (G-20).
    StaticRejoin {
        group: Arc<str>,
        rejoin: Box<StaticRejoin>,
    },
    /// A generation without members (G-6); nobody waits for it.
    EmptyGeneration { group: Arc<str> },
    /// An offset commit (G-53).
    Commit {
        group: Arc<str>,
        commit: Box<StagedCommit>,
    },
    /// A transactional offset commit: pending until its marker (G-62).
    PendingCommit {
        group: Arc<str>,
        producer_id: ProducerId,
        commit: Box<StagedCommit>,
    },
    /// The marker of a transaction (T-43).
    EndTransaction {
        end: TransactionEnd,
        request: Option<RequestId>,
    },
    /// Tombstones of offsets.
    RemoveOffsets {
        group: Arc<str>,
        keys: Vec<(Arc<str>, i32)>,
        reason: Removal,
    },
    /// Tombstones of a group and of the last of its offsets, `keys`; `request` is that of DeleteGroups.
    RemoveGroup {
        group: Arc<str>,
        keys: Vec<(Arc<str>, i32)>,
        request: Option<RequestId>,
    },
}

/// Why offsets are removed.
#[derive(Debug)]
pub(crate) enum Removal {
    /// G-60: they may try again at the next scan.
    Expired,
    /// G-61: they must go even if the tombstones could not be written.
    TopicDeleted,
    /// G-59: those before the last ones of a request, or of a group that goes. What comes last looks
    /// whether they are gone.
    InPart,
    /// G-59: the last ones of a request, and those before them.
    Requested {
        request: Option<RequestId>,
        reply: OffsetDeleteReply,
        before: Vec<(Arc<str>, i32)>,
    },
}

/// What is needed to finish or to revert a static member's return.
#[derive(Debug)]
pub(crate) struct StaticRejoin {
    /// `None`: it was answered already.
    pub(crate) request: Option<RequestId>,
    pub(crate) generation: i32,
    pub(crate) member_id: Arc<str>,
    /// As it was before, with its old id.
    pub(crate) previous: Member,
    pub(crate) previous_leader: Option<Arc<str>>,
    pub(crate) supports_skip_assignment: bool,
}

/// An offset commit with the answer that it will get.
#[derive(Debug)]
pub(crate) struct StagedCommit {
    /// `None`: it was answered already.
    pub(crate) request: Option<RequestId>,
    pub(crate) reply: OffsetCommitReply,
    pub(crate) offsets: Vec<(Arc<str>, i32, CommittedOffset)>,
}

impl Change {
    /// The request that nobody but this change can answer, once, with a refusal for it.
    pub(crate) fn refuse(&mut self, error: AppendError) -> Option<(RequestId, Reply)> {
        match self {
            Self::Commit { commit, .. } => {
                let (request, reply) = commit.refuse(error)?;
                Some((request, Reply::OffsetCommit(reply)))
            }
            Self::PendingCommit { commit, .. } => {
                let (request, reply) = commit.refuse(error)?;
                Some((request, Reply::TxnOffsetCommit(reply)))
            }
            Self::EndTransaction { request, .. } => {
                let request = request.take()?;
                Some((request, Reply::TransactionEnd(Err(error))))
            }
            Self::RemoveOffsets {
                reason: Removal::Requested { request, .. },
                ..
            } => {
                let reply = OffsetDeleteReply {
                    error: Some(error.into()),
                    topics: Vec::new(),
                };
                Some((request.take()?, Reply::OffsetDelete(reply)))
            }
            Self::RemoveGroup { request, .. } => {
                let request = request.take()?;
                Some((request, Reply::DeleteGroup(Err(error.into()))))
            }
            Self::RemoveOffsets { .. }
            | Self::Assignment { .. }
            | Self::StaticRejoin { .. }
            | Self::EmptyGeneration { .. } => None,
        }
    }
}

impl StagedCommit {
    fn refuse(&mut self, error: AppendError) -> Option<(RequestId, OffsetCommitReply)> {
        let request = self.request.take()?;
        let topics = std::mem::take(&mut self.reply.topics);
        let mut reply = OffsetCommitReply { topics };
        reply.fail_pending(error.into());
        Some((request, reply))
    }
}

/// A change that waits for the result of its append, or for those before it.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) change: Change,
    result: Option<Result<(), AppendError>>,
}

/// The appends under way, in log order.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    last_token: u64,
    pending: BTreeMap<AppendToken, Pending>,
}

impl Staged {
    /// The position in the log that the next append will have, compared with others'.
    pub(crate) fn next_token(&self) -> AppendToken {
        AppendToken(self.last_token + 1)
    }

    /// What was loaded has positions below `position`.
    pub(crate) fn go_on_at(&mut self, position: AppendToken) {
        self.last_token = self.last_token.max(position.0);
    }

    pub(crate) fn push(
        &mut self,
        effects: &mut Effects,
        records: Vec<CoordinatorRecord>,
        change: Change,
    ) -> AppendToken {
        self.push_batch(effects, AppendBatch::Records(records), change)
    }

    pub(crate) fn push_batch(
        &mut self,
        effects: &mut Effects,
        batch: AppendBatch,
        change: Change,
    ) -> AppendToken {
        let token = self.next_token();
        self.last_token = token.0;
        self.pending.insert(
            token,
            Pending {
                change,
                result: None,
            },
        );
        effects.appends.push(Append { token, batch });
        token
    }

    /// Notes a result; unknown tokens (of a shard that was unloaded meanwhile) are ignored.
    pub(crate) fn resolve(&mut self, token: AppendToken, result: Result<(), AppendError>) {
        if let Some(pending) = self.pending.get_mut(&token) {
            pending.result.get_or_insert(result);
        }
    }

    /// Takes a change out for a moment; see [`Self::put_back`].
    pub(crate) fn take(&mut self, token: AppendToken) -> Option<Pending> {
        self.pending.remove(&token)
    }

    pub(crate) fn put_back(&mut self, token: AppendToken, pending: Pending) {
        self.pending.insert(token, pending);
    }

    /// Takes the first change if its result is known: changes happen in the order of the log, in
    /// whatever order the results came.
    pub(crate) fn pop_resolved(
        &mut self,
    ) -> Option<(AppendToken, Change, Result<(), AppendError>)> {
        let first = self.pending.first_entry()?;
        let result = first.get().result?;
        let (token, pending) = first.remove_entry();
        Some((token, pending.change, result))
    }

    /// Forgets everything, in order.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Change> + use<> {
        std::mem::take(&mut self.pending)
            .into_values()
            .map(|pending| pending.change)
    }
}
