//! Puts a fetch response together: own bytes with the records of each partition between them.

use std::collections::HashMap;

use strandline_types::IsolationLevel;
use strandline_wire::{
    AbortedTransaction, ErrorCode, FetchPartitionHead, FetchResponseHead, FetchTopicHead,
    encode_fetch_response,
};

use super::RequestContext;
use crate::api::fetch::pass::{PartitionRead, Pass};
use crate::fetch_session::{FetchContext, PartitionFetch, PartitionOutcome};
use crate::net::response::{Outcome, Part};
use crate::partition::Aborted;

pub(super) fn build(
    context: &RequestContext,
    fetch: &FetchContext,
    isolation: IsolationLevel,
    pass: Pass,
) -> Outcome {
    let outcomes: Vec<PartitionOutcome> = pass.reads.iter().map(outcome).collect();
    let named = fetch.finish(&outcomes);
    let mut head = FetchResponseHead {
        session_id: fetch.session_id(),
        ..FetchResponseHead::default()
    };
    // Records in the order in which the head names their partitions.
    let mut by_topic: Vec<Vec<Vec<Part>>> = Vec::new();
    let mut places = HashMap::new();
    for ((asked, read), is_named) in fetch.partitions.iter().zip(pass.reads).zip(named) {
        if !is_named {
            continue;
        }
        if let Some(topic) = read.topic.as_ref().filter(|_| read.bytes > 0) {
            context.broker.metrics.topics.consumed(topic, read.bytes);
        }
        // One entry for each topic, however its partitions are interleaved.
        let key = (asked.key.topic_id, asked.key.topic.as_str());
        let at = *places.entry(key).or_insert_with(|| {
            head.topics.push(FetchTopicHead {
                name: asked.key.topic.clone(),
                topic_id: asked.key.topic_id,
                partitions: Vec::new(),
            });
            by_topic.push(Vec::new());
            head.topics.len() - 1
        });
        head.topics[at]
            .partitions
            .push(partition_head(context.version(), asked, isolation, &read));
        by_topic[at].push(read.parts);
    }
    splice(context, &head, by_topic.into_iter().flatten().collect())
}

fn outcome(read: &PartitionRead) -> PartitionOutcome {
    PartitionOutcome {
        has_records: read.bytes > 0,
        high_watermark: read.visible.map_or(-1, |v| v.high_watermark),
        log_start_offset: read.visible.map_or(-1, |v| v.log_start_offset),
        has_error: read.code != ErrorCode::None,
        has_divergence_or_replica: read.diverging.is_some(),
    }
}

fn partition_head(
    version: i16,
    asked: &PartitionFetch,
    isolation: IsolationLevel,
    read: &PartitionRead,
) -> FetchPartitionHead {
    FetchPartitionHead {
        partition: asked.key.partition,
        error_code: match read.code {
            // F-2: old clients do not know this code.
            ErrorCode::KafkaStorageError if version <= 5 => ErrorCode::NotLeaderOrFollower,
            code => code,
        }
        .code(),
        high_watermark: read.visible.map_or(-1, |v| v.high_watermark),
        last_stable_offset: read.visible.map_or(-1, |v| v.last_stable_offset),
        log_start_offset: read.visible.map_or(-1, |v| v.log_start_offset),
        diverging_epoch: read.diverging,
        current_leader: None,
        // F-31: null for read_uncommitted, a list for read_committed.
        aborted_transactions: match isolation {
            IsolationLevel::ReadUncommitted => None,
            IsolationLevel::ReadCommitted => Some(read.aborted.iter().map(aborted).collect()),
        },
        preferred_read_replica: -1,
        records_bytes: read.bytes,
    }
}

fn aborted(aborted: &Aborted) -> AbortedTransaction {
    AbortedTransaction {
        producer_id: aborted.producer_id,
        first_offset: aborted.first_offset,
    }
}

fn splice(context: &RequestContext, head: &FetchResponseHead, records: Vec<Vec<Part>>) -> Outcome {
    let frame = match encode_fetch_response(&context.header, head) {
        Ok(frame) => frame,
        Err(e) => {
            tracing::error!(error = %e, "fetch response lost");
            return Outcome::Close("a fetch response could not be encoded");
        }
    };
    let mut parts = Vec::with_capacity(records.iter().map(|r| r.len() + 1).sum::<usize>() + 1);
    let mut from = 0;
    for (gap, records) in frame.gaps.iter().zip(records) {
        if records.is_empty() {
            continue;
        }
        parts.push(Part::Bytes(frame.bytes.slice(from..*gap)));
        parts.extend(records);
        from = *gap;
    }
    parts.push(Part::Bytes(frame.bytes.slice(from..)));
    Outcome::Response(parts)
}
