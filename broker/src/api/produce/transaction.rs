//! What a transactional produce must satisfy before it is appended. Rules: P-2, P-8, P-70 … P-74.

use std::collections::BTreeMap;

use strandline_coordinator::Producer;
use strandline_log::{AppendError, VerificationGuard};
use strandline_records::BatchHeader;
use strandline_wire::ErrorCode;
use strandline_wire::messages::ProduceRequest;

use super::{Job, PartitionResult};
use crate::api::RequestContext;
use crate::api::admission::{self, Generation, Wish};
use crate::error_codes;

/// The first version whose clients know TRANSACTION_ABORTABLE, and the first of those that leave
/// adding partitions to the broker.
const FIRST_WITH_ABORTABLE: i16 = 11;
const FIRST_OF_SECOND_GENERATION: i16 = 12;

/// A transaction that some batches of a request belong to.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    id: String,
    producer_id: i64,
}

/// The transaction of a request, if it has transactional batches. Errors hold for all of it.
pub(super) fn of_request(request: &ProduceRequest) -> Result<Option<Transaction>, ErrorCode> {
    let partitions = request.topic_data.iter().flat_map(|t| &t.partition_data);
    let headers = partitions
        .filter_map(|p| p.records.as_ref())
        .filter_map(|r| BatchHeader::parse(r).ok());
    let mut transactional = headers.filter(|h| h.attributes.is_transactional());
    let Some(first) = transactional.next() else {
        return Ok(None);
    };
    // P-2
    let id = request.transactional_id.as_ref();
    let id = id.ok_or(ErrorCode::TransactionalIdAuthorizationFailed)?;
    // P-8
    if transactional.any(|h| h.producer_id != first.producer_id) {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    Ok(Some(Transaction {
        id: id.as_str().to_owned(),
        producer_id: first.producer_id,
    }))
}

/// Asks the coordinator about the partitions where the transaction is not open yet; jobs that it
/// refuses get their error.
pub(super) async fn admit(context: &RequestContext, transaction: Transaction, jobs: &mut [Job]) {
    let generation = match context.version() {
        v if v >= FIRST_OF_SECOND_GENERATION => Generation::Second,
        v if v >= FIRST_WITH_ABORTABLE => Generation::FirstWithAbortable,
        _ => Generation::First,
    };
    // All batches have one producer id; of its epochs more than one would be a mistake, and each is
    // judged by itself.
    let mut by_epoch: BTreeMap<i16, (Vec<usize>, Vec<Wish>)> = BTreeMap::new();
    for (at, job) in jobs.iter().enumerate() {
        if let Some((wish, epoch)) = wish(job) {
            let (places, wishes) = by_epoch.entry(epoch).or_default();
            places.push(at);
            wishes.push(wish);
        }
    }
    for (epoch, (places, wishes)) in by_epoch {
        let producer = Producer {
            id: transaction.producer_id,
            epoch,
        };
        let id = &transaction.id;
        let admitted = admission::admit(context, id, producer, &wishes, generation).await;
        for (at, result) in places.into_iter().zip(admitted) {
            settle(&mut jobs[at], result, generation);
        }
    }
}

/// The code for a batch that the log refused.
pub(super) fn code(version: i16, error: &AppendError) -> ErrorCode {
    match error {
        // Between the coordinator's consent and the append a marker came, that of the last
        // transaction or of this one: the next attempt tells (P-74).
        AppendError::NotVerified { .. } if version >= FIRST_OF_SECOND_GENERATION => {
            ErrorCode::ConcurrentTransactions
        }
        error => error_codes::for_append(error),
    }
}

/// What a job of a transaction wants, and its producer's epoch.
fn wish(job: &Job) -> Option<(Wish, i16)> {
    let (partition, checked) = job.state.as_ref().ok()?;
    let header = checked.as_ref().ok()?.header();
    let wish = Wish {
        partition: partition.clone(),
        base_sequence: header.base_sequence,
    };
    header
        .attributes
        .is_transactional()
        .then_some((wish, header.producer_epoch))
}

fn settle(
    job: &mut Job,
    result: Result<Option<VerificationGuard>, strandline_transaction_coordinator::TransactionError>,
    generation: Generation,
) {
    match result {
        Ok(guard) => job.guard = guard,
        Err(e) => {
            job.state = Err(PartitionResult {
                message: Some(e.to_string()),
                ..PartitionResult::error(error_codes::for_produce_admission(e, generation))
            });
        }
    }
}
