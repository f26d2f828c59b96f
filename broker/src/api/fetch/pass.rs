//! One pass over the partitions of a fetch: gives out the byte budget in order and reads.
//!
//! Rules: F-4, F-6, F-7, F-31, F-60, F-62, F-64, F-66, F-67.

mod remote;

use std::sync::Arc;

use strandline_log::LogRead;
use strandline_types::{IsolationLevel, Offset, TopicName};
use strandline_wire::{EpochEndOffset, ErrorCode};

use self::remote::{RemoteShare, RemoteWait, Turn, read_remote};
use super::{Limits, RequestContext};
use crate::fetch_session::PartitionFetch;
use crate::net::response::Part;
use crate::partition::read::{ReadPlan, ReadRequest, Visible};
use crate::partition::{Aborted, Partition};

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
    /// Offset after the records, if there are any.
    end_offset: Offset,
    /// For a committed reader: the aborted transactions that the records meet (F-31).
    pub(super) aborted: Vec<Aborted>,
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
            end_offset: -1,
            aborted: Vec::new(),
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
            end_offset: read.end_offset,
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

impl Pass {
    /// F-6: records of a sealed segment do not wait for others to be appended.
    pub(super) fn is_catching_up(&self, wanted: &[Wanted]) -> bool {
        let mut with_records = wanted.iter().zip(&self.reads).filter(|(_, r)| r.bytes > 0);
        with_records.any(|(w, _)| {
            let log = w.partition.as_ref().map(|partition| &partition.log);
            log.is_ok_and(|log| w.fetch.fetch_offset < log.active_base_offset())
        })
    }
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
    let mut pass = read_tiers(context, wanted, limits).await;
    if limits.isolation == IsolationLevel::ReadCommitted {
        list_aborted(context, wanted, &mut pass).await;
    }
    pass
}

/// F-31: of each partition that gives records, and up to where they end; all at once, as each may wait
/// for the bucket (F-8).
async fn list_aborted(context: &RequestContext, wanted: &[Wanted], pass: &mut Pass) {
    let wait = RemoteWait::begin(context);
    let mut jobs = Vec::new();
    for (w, read) in wanted.iter().zip(&mut pass.reads) {
        if read.bytes > 0 {
            jobs.push(list_aborted_of(context, w, read, wait));
        }
    }
    let taken_back: usize = futures::future::join_all(jobs).await.into_iter().sum();
    pass.bytes -= taken_back;
    pass.must_answer |= taken_back > 0;
}

/// Records without the list would show what was aborted: how many bytes are taken back for want of it.
async fn list_aborted_of(
    context: &RequestContext,
    wanted: &Wanted,
    read: &mut PartitionRead,
    wait: RemoteWait,
) -> usize {
    let Ok(partition) = &wanted.partition else {
        return 0;
    };
    let (from, to) = (wanted.fetch.fetch_offset, read.end_offset);
    let listed = partition.aborted(&context.broker.io, from, to);
    let without = match wait.bound(context, partition, listed).await {
        Some(Ok(aborted)) => {
            read.aborted = aborted;
            return 0;
        }
        Some(Err(code)) => PartitionRead::error(code),
        // The bucket's part of the list is on its way, as its records would be (F-60).
        None => PartitionRead {
            visible: read.visible,
            ..PartitionRead::error(ErrorCode::None)
        },
    };
    let bytes = read.bytes;
    *read = PartitionRead {
        topic: read.topic.take(),
        ..without
    };
    bytes
}

/// Reads without asking what was aborted.
async fn read_tiers(context: &RequestContext, wanted: &[Wanted], limits: &Limits) -> Pass {
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
    let wait = RemoteWait::begin(context);
    let turn = read_remote(context, &wanted[rest..], &mut more, wait).await;
    // The wait for the bucket was the wait of this request (F-60).
    let has_waited = more.iter().any(|r| r.remote.is_some());
    let bytes: usize = reads.iter().map(|r| r.bytes).sum();
    read_again(context, &wanted[rest..], &limits, bytes, &mut more, turn).await;
    reads.extend(more.into_iter().map(|r| r.read));
    let mut pass = total(wanted, reads);
    pass.must_answer |= has_waited;
    pass
}

/// What the bucket did not use of its shares goes to those that got nothing, in the order of the request:
/// to the local partitions, which must not starve while the store is away (F-62); to the cold ones if
/// another one failed, behind which they might wait for ever; and who found nothing up to the end of the
/// bucket goes on here (F-66).
async fn read_again(
    context: &RequestContext,
    wanted: &[Wanted],
    limits: &Limits,
    bytes_before: usize,
    reads: &mut [DiskRead],
    mut turn: Turn,
) {
    while turn.has_asked {
        let at = |(at, read): (usize, &DiskRead)| {
            let mut again = wanted[at].clone();
            // The epochs were compared at the offset that was asked for.
            again.fetch.last_fetched_epoch = -1;
            again.fetch.fetch_offset = read.again?;
            (read.remote.is_none() || turn.has_failed).then_some((at, again))
        };
        let (places, again): (Vec<_>, Vec<_>) = reads.iter().enumerate().filter_map(at).unzip();
        let Some(first) = places.first() else { return };
        let bytes_of = |reads: &[DiskRead]| reads.iter().map(|r| r.read.bytes).sum::<usize>();
        let budget = Budget {
            left: limits
                .max_bytes
                .saturating_sub(bytes_before + bytes_of(reads)),
            // F-4: whoever comes first in the request, not whoever was read first.
            is_first: bytes_before + bytes_of(&reads[..*first]) == 0,
        };
        if budget.left == 0 && !budget.is_first {
            return;
        }
        let limits = *limits;
        let job = move || (read_disk(&again, &limits, budget), again);
        // Errors: the pool is closed; what was read goes out.
        let Ok((mut found, again)) = context.broker.io.run(job).await else {
            return;
        };
        turn = read_remote(context, &again, &mut found, turn.wait).await;
        for (at, found) in places.into_iter().zip(found) {
            reads[at] = found;
        }
    }
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
    /// Where it may get something if there is room left.
    again: Option<Offset>,
}

impl DiskRead {
    fn done(read: PartitionRead) -> Self {
        Self {
            read,
            remote: None,
            again: None,
        }
    }
}

fn read_disk(wanted: &[Wanted], limits: &Limits, mut budget: Budget) -> Vec<DiskRead> {
    let mut out = Vec::with_capacity(wanted.len());
    for w in wanted {
        let plan = plan(w, limits);
        if let Some(read) = settled(&plan) {
            out.push(DiskRead::done(read));
            continue;
        }
        let (Ok((visible, plan)), Ok(partition)) = (plan, &w.partition) else {
            let read = PartitionRead::error(ErrorCode::UnknownServerError);
            out.push(DiskRead::done(read));
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
                again: Some(w.fetch.fetch_offset),
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
        let is_starved = read.code == ErrorCode::None && read.bytes == 0;
        out.push(DiskRead {
            again: is_starved.then_some(offset),
            ..DiskRead::done(read)
        });
    }
    out
}
