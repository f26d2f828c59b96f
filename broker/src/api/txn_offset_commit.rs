//! TxnOffsetCommit (28): to the coordinator of the group. Rules: T-20 … T-23, P-70 … P-73.

use strandline_coordinator::Producer;
use strandline_group_coordinator::{GroupError, Reply, Request, TxnOffsetCommitRequest as Commit};
use strandline_log::VerificationGuard;
use strandline_types::NO_SEQUENCE;
use strandline_wire::ErrorCode;
use strandline_wire::messages::txn_offset_commit_request::TxnOffsetCommitRequest;
use strandline_wire::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

use super::RequestContext;
use super::add_offsets_to_txn::offsets_partition;
use super::admission::{self, Generation, Wish};
use super::committing::{self, Committing, Errors};
use crate::error_codes;

/// The first version whose clients know TRANSACTION_ABORTABLE, and the first of those that leave
/// adding partitions to the broker.
const FIRST_WITH_ABORTABLE: i16 = 4;
const FIRST_OF_SECOND_GENERATION: i16 = 5;

pub(super) async fn handle(
    context: &RequestContext,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let committing = Committing::new(context);
    let outcome = commit(context, &request, &committing).await;
    let of_error = |error| for_version(context.version(), error);
    let code = |topic: &str, partition: i32| committing.code(topic, partition, &outcome, of_error);
    let topics = request.topics.iter().map(|t| {
        let partitions = t.partitions.iter().map(|p| {
            TxnOffsetCommitResponsePartition::default()
                .with_partition_index(p.partition_index)
                .with_error_code(code(&t.name, p.partition_index).code())
        });
        TxnOffsetCommitResponseTopic::default()
            .with_name(t.name.clone())
            .with_partitions(partitions.collect())
    });
    TxnOffsetCommitResponse::default().with_topics(topics.collect())
}

/// T-21: the oldest clients do not wait for a coordinator that loads.
fn for_version(version: i16, error: GroupError) -> ErrorCode {
    match error_codes::for_group(error) {
        // A marker came between the coordinator's consent and the append: the next attempt tells.
        ErrorCode::InvalidTxnState if version >= FIRST_OF_SECOND_GENERATION => {
            ErrorCode::ConcurrentTransactions
        }
        code => for_old(version, code),
    }
}

fn for_old(version: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::CoordinatorLoadInProgress if version < 2 => ErrorCode::CoordinatorNotAvailable,
        code => code,
    }
}

async fn commit(
    context: &RequestContext,
    request: &TxnOffsetCommitRequest,
    committing: &Committing,
) -> Result<Errors, ErrorCode> {
    let version = context.version();
    if request.group_id.is_empty() {
        // Before the transaction is asked: no partition has the offsets of such a group (T-21).
        return Err(for_version(version, GroupError::InvalidGroupId));
    }
    let topics = request.topics.iter().map(|t| {
        let partitions = t.partitions.iter().map(|p| {
            let epoch = (version >= 2).then_some(p.committed_leader_epoch);
            let metadata = p.committed_metadata.as_deref();
            committing::partition(p.partition_index, p.committed_offset, epoch, metadata)
        });
        (t.name.as_str(), partitions)
    });
    let producer = Producer {
        id: request.producer_id.0,
        epoch: request.producer_epoch,
    };
    let (generation_id, member_id, instance_id) = if version >= 3 {
        let member = request.member_id.as_str();
        (
            request.generation_id,
            member,
            request.group_instance_id.as_ref(),
        )
    } else {
        (-1, "", None)
    };
    let commit = Commit {
        group_id: request.group_id.as_str().to_owned(),
        producer,
        generation_id,
        member_id: member_id.to_owned(),
        group_instance_id: instance_id.map(|i| i.as_str().to_owned()),
        topics: committing.existing(topics),
    };
    let guard = verify(context, request, producer).await?;
    let groups = &context.broker.groups;
    let commit = Request::TxnOffsetCommit(commit);
    let submitted = groups.commit(commit, committing.image(), guard);
    match submitted.await {
        Ok(Reply::TxnOffsetCommit(reply)) => Ok(committing::by_partition(reply.topics)),
        Ok(_) => Err(ErrorCode::UnknownServerError),
        Err(e) => Err(for_version(version, e)),
    }
}

/// T-22: the group's partition must be in the transaction, or is added to it.
async fn verify(
    context: &RequestContext,
    request: &TxnOffsetCommitRequest,
    producer: Producer,
) -> Result<Option<VerificationGuard>, ErrorCode> {
    let generation = match context.version() {
        v if v >= FIRST_OF_SECOND_GENERATION => Generation::Second,
        v if v >= FIRST_WITH_ABORTABLE => Generation::FirstWithAbortable,
        _ => Generation::First,
    };
    let id = offsets_partition(context, &request.group_id).await?;
    let found = context.broker.replicas.by_name(&id.topic, id.partition);
    let wish = Wish {
        partition: found.map_err(|_| ErrorCode::NotCoordinator)?,
        base_sequence: NO_SEQUENCE,
    };
    let transactional_id = request.transactional_id.as_str();
    let wishes = [wish];
    let admitted = admission::admit(context, transactional_id, producer, &wishes, generation);
    let guard = admitted.await.pop().unwrap_or(Ok(None));
    let code = |e| error_codes::for_offsets_admission(e, generation);
    guard.map_err(|e| for_old(context.version(), code(e)))
}
