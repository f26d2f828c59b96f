//! One pass over the partitions of a fetch: gives out the byte budget in order and reads.
//!
//! Rules: F-4, F-7, F-62, F-64, F-67.

use std::sync::Arc;
use std::time::Duration;

use strandline_log::LogRead;
use strandline_types::TopicName;
use strandline_wire::{EpochEndOffset, ErrorCode};

use super::{Limits, RequestContext};
use crate::fetch_session::PartitionFetch;
use crate::net::response::Part;
use crate::partition::Partition;
use crate::partition::read::{ReadPlan, ReadRequest, Visible};

/// A partition of the request, if it is here.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) partition: Result<Arc<Partition>, ErrorCode>,
    pub(super) fetch: PartitionFetch,
}

/// The answer of one partition.
#[derive(Debug)]
pub(super) struct PartitionRead {
    pub(super) visible: Option<Visible>,
    pub(super) code: ErrorCode,
    pub(super) diverging: Option<EpochEndOffset>,
    pub(super) parts: Vec<Part>,
    pub(super) bytes: usize,
    /// Name of the topic, which requests from version 13 on do not carry.
    pub(super) topic: Option<TopicName>,
}

impl PartitionRead {
    fn error(code: ErrorCode) -> Self {
        Self {
            visible: None,
            code,
            diverging: None,
            parts: Vec::new(),
            bytes: 0,
            topic: None,
        }
    }

    fn empty(visible: Visible) -> Self {
        Self {
            visible: Some(visible),
            ..Self::error(ErrorCode::None)
        }
    }

    fn local(visible: Visible, read: LogRead) -> Self {
        Self {
            bytes: read.size_in_bytes,
            parts: read.parts.into_iter().map(Part::from).collect(),
            ..Self::empty(visible)
        }
    }
}

/// What one pass over all partitions found.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// In the order of the request.
    pub(super) reads: Vec<PartitionRead>,
    /// Bytes of records in all.
    pub(super) bytes: usize,
    /// An error or a divergence does not wait (F-6).
    pub(super) must_answer: bool,
}

struct Budget {
    left: usize,
    /// Nobody has data yet: the next one gets at least one batch (F-4).
    is_first: bool,
}

impl Budget {
    fn limit(&self, partition_max_bytes: i32) -> usize {
        usize::try_from(partition_max_bytes)
            .unwrap_or(0)
            .min(self.left)
    }

    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        if bytes > 0 {
            self.is_first = false;
        }
    }
}

pub(super) async fn read(context: &RequestContext, wanted: &[Wanted], limits: &Limits) -> Pass {
    let budget = Budget {
        left: limits.max_bytes,
        is_first: true,
    };
    let (mut reads, rest, budget) = match read_memory(wanted, limits, budget) {
        Ok(reads) => return total(wanted, reads),
        Err(stopped) => stopped,
    };
    // The disk, or the bucket, is needed: everything from here on goes to the I/O pool in one job.
    let (tail, limits) = (wanted[rest..].to_vec(), *limits);
    let on_disk = context
        .broker
        .io
        .run(move || read_disk(&tail, &limits, budget))
        .await;
    let Ok(mut more) = on_disk else {
        let closing = wanted[rest..]
            .iter()
            .map(|_| PartitionRead::error(ErrorCode::NotLeaderOrFollower));
        reads.extend(closing);
        return total(wanted, reads);
    };
    let has_remote = more.iter().any(|r| r.remote.is_some());
    read_remote(context, &wanted[rest..], &mut more).await;
    reads.extend(more.into_iter().map(|r| r.read));
    let mut pass = total(wanted, reads);
    // The wait for the bucket was the wait of this request (F-60).
    pass.must_answer |= has_remote;
    pass
}

fn total(wanted: &[Wanted], mut reads: Vec<PartitionRead>) -> Pass {
    for (w, read) in wanted.iter().zip(&mut reads) {
        read.topic = w.partition.as_ref().ok().map(|p| p.id.topic.clone());
    }
    let bytes = reads.iter().map(|r| r.bytes).sum();
    let must_answer = reads
        .iter()
        .any(|r| r.code != ErrorCode::None || r.diverging.is_some());
    Pass {
        reads,
        bytes,
        must_answer,
    }
}

fn plan(wanted: &Wanted, limits: &Limits) -> Result<(Visible, ReadPlan), ErrorCode> {
    let partition = wanted.partition.as_ref().map_err(|code| *code)?;
    partition.plan_read(&ReadRequest {
        offset: wanted.fetch.fetch_offset,
        current_leader_epoch: wanted.fetch.current_leader_epoch,
        last_fetched_epoch: wanted.fetch.last_fetched_epoch,
        isolation: limits.isolation,
    })
}

/// Answers that need neither disk nor bucket.
fn settled(plan: &Result<(Visible, ReadPlan), ErrorCode>) -> Option<PartitionRead> {
    match *plan {
        Err(code) => Some(PartitionRead::error(code)),
        Ok((visible, ReadPlan::AtEnd)) => Some(PartitionRead::empty(visible)),
        Ok((visible, ReadPlan::Diverging(at))) => Some(PartitionRead {
            diverging: Some(at),
            ..PartitionRead::empty(visible)
        }),
        Ok((_, ReadPlan::Local | ReadPlan::Remote)) => None,
    }
}

type Stopped = (Vec<PartitionRead>, usize, Budget);

/// Reads what lies in memory; stops at the first partition that needs more.
fn read_memory(
    wanted: &[Wanted],
    limits: &Limits,
    mut budget: Budget,
) -> Result<Vec<PartitionRead>, Stopped> {
    let mut reads = Vec::with_capacity(wanted.len());
    for (at, w) in wanted.iter().enumerate() {
        let plan = plan(w, limits);
        if let Some(answer) = settled(&plan) {
            reads.push(answer);
            continue;
        }
        let (Ok((visible, ReadPlan::Local)), Ok(partition)) = (plan, &w.partition) else {
            return Err((reads, at, budget));
        };
        let limit = budget.limit(w.fetch.max_bytes);
        let offset = w.fetch.fetch_offset;
        let read = partition.read_from_memory(offset, limit, visible.upper, budget.is_first);
        match read {
            Some(Ok(read)) => {
                budget.spend(read.size_in_bytes);
                reads.push(PartitionRead::local(visible, read));
            }
            Some(Err(code)) => reads.push(PartitionRead::error(code)),
            None => return Err((reads, at, budget)),
        }
    }
    Ok(reads)
}

/// A partition after the disk was asked: done, or waiting for the bucket.
struct DiskRead {
    read: PartitionRead,
    remote: Option<RemoteShare>,
}

/// What a remote partition may return; set aside in the order of the request, before it is known
/// whether it will be used.
#[derive(Debug, Clone, Copy)]
struct RemoteShare {
    max_bytes: usize,
    min_one: bool,
}

fn read_disk(wanted: &[Wanted], limits: &Limits, mut budget: Budget) -> Vec<DiskRead> {
    let mut out = Vec::with_capacity(wanted.len());
    for w in wanted {
        let plan = plan(w, limits);
        if let Some(read) = settled(&plan) {
            out.push(DiskRead { read, remote: None });
            continue;
        }
        let (Ok((visible, plan)), Ok(partition)) = (plan, &w.partition) else {
            let read = PartitionRead::error(ErrorCode::UnknownServerError);
            out.push(DiskRead { read, remote: None });
            continue;
        };
        if plan == ReadPlan::Remote {
            let share = RemoteShare {
                max_bytes: budget.limit(w.fetch.max_bytes),
                min_one: budget.is_first,
            };
            budget.spend(share.max_bytes.max(usize::from(share.min_one)));
            out.push(DiskRead {
                read: PartitionRead::empty(visible),
                remote: Some(share),
            });
            continue;
        }
        let limit = budget.limit(w.fetch.max_bytes);
        let offset = w.fetch.fetch_offset;
        let read = match partition.read_local(offset, limit, visible.upper, budget.is_first) {
            Ok(read) => {
                budget.spend(read.size_in_bytes);
                PartitionRead::local(visible, read)
            }
            Err(code) => PartitionRead::error(code),
        };
        out.push(DiskRead { read, remote: None });
    }
    out
}

/// Reads all remote partitions at the same time, each its share (F-62).
async fn read_remote(context: &RequestContext, wanted: &[Wanted], reads: &mut [DiskRead]) {
    let mut jobs = Vec::new();
    let wait = context.broker.config.remote_fetch_max_wait();
    for (at, read) in reads.iter().enumerate() {
        // Without room for a byte there is nothing to ask for in this response.
        let share = read.remote.filter(|s| s.max_bytes > 0 || s.min_one);
        if let Some(RemoteShare { max_bytes, min_one }) = share {
            jobs.push(read_bucket(
                context,
                &wanted[at],
                at,
                max_bytes,
                min_one,
                wait,
            ));
        }
    }
    for (at, result) in futures::future::join_all(jobs).await {
        let read = &mut reads[at].read;
        match result {
            Ok(Some(data)) => {
                read.bytes = data.parts.iter().map(bytes::Bytes::len).sum();
                read.parts = data.parts.into_iter().map(Part::Bytes).collect();
            }
            Ok(None) => {}
            Err(code) => *read = PartitionRead::error(code),
        }
    }
}

/// One remote read; `None` when it takes longer than `wait`: the fill goes on, and the next fetch
/// finds it done (F-60).
async fn read_bucket(
    context: &RequestContext,
    wanted: &Wanted,
    at: usize,
    limit: usize,
    min_one: bool,
    wait: Duration,
) -> (
    usize,
    Result<Option<strandline_tiering::RemoteRead>, ErrorCode>,
) {
    let Ok(partition) = &wanted.partition else {
        return (at, Err(ErrorCode::UnknownTopicOrPartition));
    };
    let read = partition.read_remote(wanted.fetch.fetch_offset, limit, min_one);
    let result = match tokio::time::timeout(wait, read).await {
        Ok(Ok(data)) => Ok(Some(data)),
        Ok(Err(code)) => Err(code),
        Err(_) => {
            context.broker.note_slow_bucket(&partition.id, wait);
            Ok(None)
        }
    };
    context.broker.metrics.cold.observe(&result);
    (at, result)
}
