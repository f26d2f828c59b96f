//! Fetch (1), with sessions, long polling and both tiers. Rules: F-1 … F-11, F-20 … F-26, F-40 …
//! F-49, F-60 … F-67.

mod pass;
mod reply;

use std::sync::Arc;
use std::time::Duration;

use strandline_types::IsolationLevel;
use strandline_wire::messages::FetchRequest;
use strandline_wire::{ErrorCode, FetchResponseHead, encode_fetch_response};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::RequestContext;
use crate::api::fetch::pass::{Pass, Wanted};
use crate::fetch_session::{FetchContext, PartitionFetch, PartitionKey, SessionRequest};
use crate::net::response::Outcome;

pub(super) async fn handle(context: &RequestContext, request: FetchRequest) -> Outcome {
    let broker = &context.broker;
    let now_ms = broker.clock.now_ms();
    let session = session_request(context, &request);
    let fetch = match broker.sessions.begin(session, now_ms, broker.random_id()) {
        Ok(fetch) => fetch,
        Err(code) => return top_level_error(context, code),
    };
    let limits = Limits::new(context, &request);
    let wanted = resolve(context, &request, &fetch);
    let pass = poll(context, &wanted, &limits).await;
    reply::build(context, &fetch, limits.isolation, pass)
}

/// How much may be read, and how long the request may wait.
#[derive(Debug, Clone, Copy)]
struct Limits {
    max_bytes: usize,
    min_bytes: usize,
    max_wait: Duration,
    isolation: IsolationLevel,
}

impl Limits {
    /// F-3.
    fn new(context: &RequestContext, request: &FetchRequest) -> Self {
        let size = |n: i32| usize::try_from(n).unwrap_or(0);
        let max_bytes = size(request.max_bytes).min(context.broker.config.fetch_max_bytes());
        Self {
            max_bytes,
            min_bytes: size(request.min_bytes).min(max_bytes),
            max_wait: Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)),
            isolation: IsolationLevel::from_wire(request.isolation_level),
        }
    }
}

/// A follower names itself in `replica_id`, from version 15 in a tagged field.
fn replica_id(context: &RequestContext, request: &FetchRequest) -> i32 {
    if context.version() >= 15 {
        request.replica_state.replica_id.0
    } else {
        request.replica_id.0
    }
}

fn session_request(context: &RequestContext, request: &FetchRequest) -> SessionRequest {
    let mut partitions = Vec::new();
    for topic in &request.topics {
        for p in &topic.partitions {
            partitions.push(PartitionFetch {
                key: PartitionKey {
                    topic: topic.topic.as_str().to_owned(),
                    topic_id: topic.topic_id,
                    partition: p.partition,
                },
                fetch_offset: p.fetch_offset,
                max_bytes: p.partition_max_bytes,
                current_leader_epoch: p.current_leader_epoch,
                last_fetched_epoch: p.last_fetched_epoch,
                log_start_offset: p.log_start_offset,
            });
        }
    }
    let forgotten = request.forgotten_topics_data.iter().flat_map(|t| {
        t.partitions.iter().map(|partition| PartitionKey {
            topic: t.topic.as_str().to_owned(),
            topic_id: t.topic_id,
            partition: *partition,
        })
    });
    SessionRequest {
        session_id: request.session_id,
        // Versions below 7 have no session fields: always a full fetch (F-40).
        epoch: if context.version() >= 7 {
            request.session_epoch
        } else {
            -1
        },
        uses_topic_ids: context.version() >= 13,
        is_follower: replica_id(context, request) >= 0,
        partitions,
        forgotten: forgotten.collect(),
    }
}

/// Finds the partitions; an id that is unknown now may be known at the next fetch (F-47).
fn resolve(context: &RequestContext, request: &FetchRequest, fetch: &FetchContext) -> Vec<Wanted> {
    let replicas = &context.broker.replicas;
    // Replication between brokers is not served: no broker but this one holds a replica.
    let is_follower = replica_id(context, request) >= 0;
    let find = |f: &PartitionFetch| {
        if is_follower {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        if context.version() >= 13 {
            replicas.by_id(strandline_types::TopicId(f.key.topic_id), f.key.partition)
        } else {
            replicas.by_name(&f.key.topic, f.key.partition)
        }
    };
    fetch
        .partitions
        .iter()
        .map(|f| Wanted {
            partition: find(f),
            fetch: f.clone(),
        })
        .collect()
}

/// Reads until there is enough, or the time is over (F-6, F-8).
async fn poll(context: &RequestContext, wanted: &[Wanted], limits: &Limits) -> Pass {
    let deadline = Instant::now() + limits.max_wait;
    let mut notify: Option<Arc<Notify>> = None;
    loop {
        let pass = pass::read(context, wanted, limits).await;
        let is_enough = pass.must_answer || pass.bytes >= limits.min_bytes;
        if is_enough || wanted.is_empty() || pass.is_catching_up(wanted) {
            return pass;
        }
        if Instant::now() >= deadline {
            return pass;
        }
        let Some(watched) = &notify else {
            // Watch first, then look again: a change in between must not be missed.
            let fresh = Arc::new(Notify::new());
            watch(wanted, &fresh);
            notify = Some(fresh);
            continue;
        };
        if tokio::time::timeout_at(deadline, watched.notified())
            .await
            .is_ok()
        {
            watch(wanted, watched);
        }
    }
}

fn watch(wanted: &[Wanted], notify: &Arc<Notify>) {
    for w in wanted {
        if let Ok(partition) = &w.partition {
            partition.watch(notify);
        }
    }
}

/// F-40.
fn top_level_error(context: &RequestContext, code: ErrorCode) -> Outcome {
    let head = FetchResponseHead {
        error_code: code.code(),
        ..FetchResponseHead::default()
    };
    match encode_fetch_response(&context.header, &head) {
        Ok(frame) => Outcome::frame(frame.bytes),
        Err(_) => Outcome::Close("a fetch response could not be encoded"),
    }
}
