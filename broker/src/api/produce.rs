//! Produce (0). Rules: P-1 … P-12, P-40 … P-74, P-80 … P-84.
//!
//! Validation and append happen while the request is read, in the order of the connection (P-41);
//! what is returned waits for the acknowledgement.

mod transaction;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use strandline_log::{Appended, VerificationGuard};
use strandline_records::{
    Attributes, Batch, BatchHeader, Compression, RejectedBatch, validate_produce,
};
use strandline_types::{RequiredAcks, TopicId, is_internal_topic};
use strandline_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use strandline_wire::messages::{ProduceRequest, TopicName as WireTopicName};
use strandline_wire::{ErrorCode, WireError, decode_request};
use uuid::Uuid;

use super::{RequestContext, respond, some_text, text};
use crate::append_room::wait_for_room;
use crate::error_codes;
use crate::net::connection::Slot;
use crate::net::response::Outcome;
use crate::partition::{CommitError, Partition};

/// A compressed batch above this size is decompressed by the CPU pool, not by the connection's task.
const INLINE_DECOMPRESS_BYTES: usize = 16 << 10;
/// Kafka's own administrative client may write to internal topics (P-7).
const ADMIN_CLIENT_ID: &str = "__admin_client";

/// What became of one partition's batch.
#[derive(Debug)]
struct PartitionResult {
    code: ErrorCode,
    message: Option<String>,
    record_errors: Vec<(i32, String)>,
    appended: Option<(Arc<Partition>, Appended)>,
}

impl PartitionResult {
    fn error(code: ErrorCode) -> Self {
        Self {
            code,
            message: None,
            record_errors: Vec::new(),
            appended: None,
        }
    }

    fn rejected(rejected: &RejectedBatch) -> Self {
        Self {
            code: error_codes::for_rejected(rejected.kind),
            message: Some(rejected.message.clone()),
            record_errors: rejected.records.clone(),
            appended: None,
        }
    }
}

/// A partition, and the batch for it if it is good.
type Found = (Arc<Partition>, Result<Batch, RejectedBatch>);

/// One partition of the request on its way.
#[derive(Debug)]
struct Job {
    topic: usize,
    index: i32,
    state: Result<Found, PartitionResult>,
    /// What the partition wants to see with the first batch of a transaction (P-74).
    guard: Option<VerificationGuard>,
}

pub(super) async fn start(context: RequestContext, body: Bytes) -> Result<Slot, WireError> {
    let frame_bytes = body.len();
    let request: ProduceRequest = decode_request(&context.header, body)?;
    let Some(acks) = RequiredAcks::from_wire(request.acks) else {
        let jobs = refuse_all(&request, ErrorCode::InvalidRequiredAcks);
        return Ok(finish(
            context,
            RequiredAcks::Leader,
            request.timeout_ms,
            topics(&request),
            jobs,
        ));
    };
    let topics = topics(&request);
    let timeout_ms = request.timeout_ms;
    let jobs = match transaction::of_request(&request) {
        Err(code) => refuse_all(&request, code),
        Ok(transaction) => {
            let mut jobs = validate_all(&context, request).await;
            detach_from_frame(&mut jobs, frame_bytes);
            if let Some(transaction) = transaction {
                transaction::admit(&context, transaction, &mut jobs).await;
            }
            jobs
        }
    };
    let now_ms = context.broker.clock.now_ms();
    let mut results = Vec::with_capacity(jobs.len());
    for job in jobs {
        results.push((job.topic, job.index, append(&context, job, now_ms).await));
    }
    Ok(finish(context, acks, timeout_ms, topics, results))
}

type Topics = Vec<(WireTopicName, Uuid)>;
type Results = Vec<(usize, i32, PartitionResult)>;

fn topics(request: &ProduceRequest) -> Topics {
    // Copies: a name that points into the frame would keep all of it.
    request
        .topic_data
        .iter()
        .map(|t| (WireTopicName(text(t.name.as_str())), t.topic_id))
        .collect()
}

fn refuse_all(request: &ProduceRequest, code: ErrorCode) -> Vec<Job> {
    let topics = request.topic_data.iter().enumerate();
    topics
        .flat_map(|(topic, t)| t.partition_data.iter().map(move |p| (topic, p.index)))
        .map(|(topic, index)| Job {
            topic,
            index,
            state: Err(PartitionResult::error(code)),
            guard: None,
        })
        .collect()
}

/// Looks up and validates every partition; those that must be decompressed at the same time.
async fn validate_all(context: &RequestContext, request: ProduceRequest) -> Vec<Job> {
    let mut jobs = Vec::new();
    // Futures for those alone that need one: a request may name very many partitions.
    let mut decompressed = Vec::new();
    for (topic, data) in request.topic_data.into_iter().enumerate() {
        for p in data.partition_data {
            let records = p.records.unwrap_or_default();
            let found = find(context, &data.name, data.topic_id, p.index, &records);
            let state = match found {
                Ok(partition) if must_be_decompressed(&records) => {
                    decompressed.push(decompress(context, jobs.len(), partition, records));
                    Err(PartitionResult::error(ErrorCode::NotLeaderOrFollower))
                }
                Ok(partition) => {
                    let checked = validate(context, &partition, records);
                    Ok((partition, checked))
                }
                Err(code) => Err(PartitionResult::error(code)),
            };
            jobs.push(Job {
                topic,
                index: p.index,
                state,
                guard: None,
            });
        }
    }
    for (at, found) in futures::future::join_all(decompressed).await {
        // Errors: the pool is closed, as at the end.
        if let Some(found) = found {
            jobs[at].state = Ok(found);
        }
    }
    jobs
}

/// Batches keep the frame that they came in. One of which little is kept must not stay for that, as nothing counts
/// it: the memory of the tail is bounded by the size of batches.
fn detach_from_frame(jobs: &mut [Job], frame_bytes: usize) {
    let kept = |job: &Job| match &job.state {
        Ok((_, Ok(batch))) => batch.size_in_bytes(),
        _ => 0,
    };
    if jobs.iter().map(kept).sum::<usize>() >= frame_bytes / 2 {
        return;
    }
    for job in jobs {
        if let Ok((_, Ok(batch))) = &mut job.state {
            batch.detach_body();
        }
    }
}

/// The partition to append to (P-4 … P-10).
fn find(
    context: &RequestContext,
    name: &WireTopicName,
    topic_id: Uuid,
    index: i32,
    records: &[u8],
) -> Result<Arc<Partition>, ErrorCode> {
    let replicas = &context.broker.replicas;
    let partition = if context.version() >= 13 {
        replicas.by_id(TopicId(topic_id), index)?
    } else {
        replicas.by_name(name, index)?
    };
    if is_internal_topic(&partition.id.topic) && context.client_id() != ADMIN_CLIENT_ID {
        return Err(ErrorCode::InvalidTopicException);
    }
    let is_zstd = |a: Attributes| matches!(a.compression(), Ok(Compression::Zstd));
    if context.version() < 7 && BatchHeader::parse(records).is_ok_and(|h| is_zstd(h.attributes)) {
        return Err(ErrorCode::UnsupportedCompressionType);
    }
    Ok(partition)
}

fn must_be_decompressed(records: &[u8]) -> bool {
    records.len() > INLINE_DECOMPRESS_BYTES
        && BatchHeader::parse(records)
            .is_ok_and(|h| !matches!(h.attributes.compression(), Ok(Compression::None)))
}

fn validate(
    context: &RequestContext,
    partition: &Partition,
    records: Bytes,
) -> Result<Batch, RejectedBatch> {
    let broker = &context.broker;
    let options = partition.validate_options(broker.config.full_produce_check());
    validate_produce(records, &options, broker.clock.now_ms())
}

/// The same on the CPU pool, for the job at a place.
async fn decompress(
    context: &RequestContext,
    at: usize,
    partition: Arc<Partition>,
    records: Bytes,
) -> (usize, Option<Found>) {
    let broker = &context.broker;
    let options = partition.validate_options(broker.config.full_produce_check());
    let now_ms = broker.clock.now_ms();
    let checked = broker
        .cpu
        .run(move || validate_produce(records, &options, now_ms))
        .await;
    (at, checked.ok().map(|checked| (partition, checked)))
}

async fn append(context: &RequestContext, job: Job, now_ms: i64) -> PartitionResult {
    let (partition, checked) = match job.state {
        Ok(found) => found,
        Err(result) => return result,
    };
    let batch = match checked {
        Ok(batch) => batch,
        Err(rejected) => return PartitionResult::rejected(&rejected),
    };
    let size = batch.size_in_bytes();
    // Bytes that are accepted but not written yet are bounded.
    wait_for_room(&partition.log).await;
    let appended = if batch.header().attributes.is_transactional() {
        partition.append_transactional(batch, job.guard, now_ms)
    } else {
        partition.append(batch, now_ms)
    };
    match appended {
        Ok(appended) => {
            context
                .broker
                .metrics
                .topics
                .produced(&partition.id.topic, size);
            let appended = Some((partition, appended));
            PartitionResult {
                appended,
                ..PartitionResult::error(ErrorCode::None)
            }
        }
        Err(e) => PartitionResult {
            message: Some(e.to_string()),
            ..PartitionResult::error(transaction::code(context.version(), &e))
        },
    }
}

fn finish(
    context: RequestContext,
    acks: RequiredAcks,
    timeout_ms: i32,
    topics: Topics,
    results: impl IntoResults,
) -> Slot {
    let results = results.into_results();
    if acks == RequiredAcks::None {
        // 2.6: the client learns of a failure only by losing the connection.
        let failed = results.iter().any(|(_, _, r)| r.code != ErrorCode::None);
        return Slot::Ready(if failed {
            Outcome::Close("a produce request with acks=0 failed")
        } else {
            Outcome::Silence
        });
    }
    let timeout = match acks {
        // P-84: acks=1 is not bounded by the request's timeout.
        RequiredAcks::Leader => Duration::from_secs(3600),
        _ => Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)),
    };
    // From here on, and not from when the answers in front of this one are out (P-80).
    let deadline = tokio::time::Instant::now() + timeout;
    Slot::pending(async move {
        let results = acknowledge(results, deadline).await;
        respond(&context.header, &response(&context, topics, results))
    })
}

/// Results, or jobs that never got that far.
trait IntoResults {
    fn into_results(self) -> Results;
}

impl IntoResults for Results {
    fn into_results(self) -> Results {
        self
    }
}

impl IntoResults for Vec<Job> {
    fn into_results(self) -> Results {
        let refused = |state| match state {
            Err(result) => result,
            Ok(_) => PartitionResult::error(ErrorCode::UnknownServerError),
        };
        self.into_iter()
            .map(|job| (job.topic, job.index, refused(job.state)))
            .collect()
    }
}

/// Waits until every appended batch is committed; one deadline for all (P-80).
async fn acknowledge(mut results: Results, deadline: tokio::time::Instant) -> Results {
    for (_, _, result) in &mut results {
        let Some((partition, appended)) = &result.appended else {
            continue;
        };
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if let Err(e) = partition.committed(appended.last_offset + 1, left).await {
            *result = PartitionResult::error(match e {
                CommitError::TimedOut => ErrorCode::RequestTimedOut,
                CommitError::Storage => ErrorCode::KafkaStorageError,
                CommitError::NotLeader => ErrorCode::NotLeaderOrFollower,
            });
        }
    }
    results
}

fn response(context: &RequestContext, topics: Topics, results: Results) -> ProduceResponse {
    let version = context.version();
    let mut partitions: HashMap<usize, Vec<PartitionProduceResponse>> = HashMap::new();
    for (topic, index, result) in results {
        partitions
            .entry(topic)
            .or_default()
            .push(partition_response(version, index, result));
    }
    let responses = topics
        .into_iter()
        .enumerate()
        .map(|(at, (name, topic_id))| {
            let out = TopicProduceResponse::default()
                .with_partition_responses(partitions.remove(&at).unwrap_or_default());
            if version >= 13 {
                out.with_topic_id(topic_id)
            } else {
                out.with_name(name)
            }
        });
    ProduceResponse::default().with_responses(responses.collect())
}

fn partition_response(version: i16, index: i32, r: PartitionResult) -> PartitionProduceResponse {
    let mut out = PartitionProduceResponse::default()
        .with_index(index)
        .with_error_code(r.code.code())
        .with_base_offset(-1)
        .with_log_append_time_ms(-1)
        .with_log_start_offset(-1);
    if let Some((_, appended)) = r.appended {
        out.base_offset = appended.base_offset;
        out.log_append_time_ms = appended.log_append_time_ms;
        if version >= 5 {
            out.log_start_offset = appended.log_start_offset;
        }
    }
    if version >= 8 {
        out.error_message = r.message.and_then(some_text);
        out.record_errors = r
            .record_errors
            .into_iter()
            .map(|(at, message)| {
                BatchIndexAndErrorMessage::default()
                    .with_batch_index(at)
                    .with_batch_index_error_message(some_text(message))
            })
            .collect();
    }
    out
}
