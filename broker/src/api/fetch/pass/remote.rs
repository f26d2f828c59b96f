//! The turns of a fetch to the bucket: all partitions that need it at the same time, under one deadline.
//!
//! Rules: F-8, F-60, F-62, F-66.

use std::time::Duration;

use strandline_tiering::RemoteRead;
use strandline_wire::ErrorCode;
use tokio::time::Instant;

use super::{DiskRead, PartitionRead, Wanted};
use crate::api::RequestContext;
use crate::net::response::Part;
use crate::partition::Partition;

/// What a remote partition may return; set aside in the order of the request, before it is known
/// whether it will be used.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteShare {
    pub(super) max_bytes: usize,
    pub(super) min_one: bool,
}

/// How long a fetch waits for the bucket, whatever it asks there (F-60).
#[derive(Debug, Clone, Copy)]
pub(super) struct RemoteWait {
    wait: Duration,
    until: Instant,
}

impl RemoteWait {
    pub(super) fn begin(context: &RequestContext) -> Self {
        let wait = context.broker.config.remote_fetch_max_wait();
        let until = Instant::now() + wait;
        Self { wait, until }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// `None` when it takes longer: the fill goes on, and the next fetch finds it done.
    pub(super) async fn bound<T>(
        &self,
        context: &RequestContext,
        partition: &Partition,
        asked: impl Future<Output = T>,
    ) -> Option<T> {
        let answer = tokio::time::timeout_at(self.until, asked).await;
        if answer.is_err() {
            context.broker.note_slow_bucket(&partition.id, self.wait);
        }
        answer.ok()
    }
}

/// What came of one turn to the bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) wait: RemoteWait,
    pub(super) has_asked: bool,
    /// A share was not used, as a partition answered with an error or not in time.
    pub(super) has_failed: bool,
}

/// Reads all remote partitions at the same time, each its share (F-62).
pub(super) async fn read_remote(
    context: &RequestContext,
    wanted: &[Wanted],
    reads: &mut [DiskRead],
    wait: RemoteWait,
) -> Turn {
    let mut jobs = Vec::new();
    // Even then once: what is cached is had, and what is not is there when the next fetch comes.
    let was_over = wait.is_over();
    for (at, read) in reads.iter().enumerate() {
        // Without room for a byte there is nothing to ask for in this response.
        let share = read.remote.filter(|s| s.max_bytes > 0 || s.min_one);
        if let Some(share) = share {
            jobs.push(read_bucket(context, &wanted[at], at, share, wait));
        }
    }
    let mut turn = Turn {
        wait,
        has_asked: !jobs.is_empty(),
        has_failed: false,
    };
    for (at, result) in futures::future::join_all(jobs).await {
        let DiskRead {
            read,
            remote,
            again,
        } = &mut reads[at];
        *again = None;
        match result {
            Ok(Some(data)) if data.parts.is_empty() => {
                *again = Some(data.end_offset);
                // F-66: the rest of the bucket's range holds nothing any more.
                remote.take_if(|_| data.end_offset > wanted[at].fetch.fetch_offset);
            }
            Ok(Some(data)) => {
                read.bytes = data.parts.iter().map(bytes::Bytes::len).sum();
                read.end_offset = data.end_offset;
                read.parts = data.parts.into_iter().map(Part::Bytes).collect();
            }
            Ok(None) => turn.has_failed |= !was_over,
            Err(code) => {
                *read = PartitionRead::error(code);
                turn.has_failed |= !was_over;
            }
        }
    }
    turn
}

/// One remote read; `None` when it takes longer than the wait (F-60).
async fn read_bucket(
    context: &RequestContext,
    wanted: &Wanted,
    at: usize,
    share: RemoteShare,
    wait: RemoteWait,
) -> (usize, Result<Option<RemoteRead>, ErrorCode>) {
    let Ok(partition) = &wanted.partition else {
        return (at, Err(ErrorCode::UnknownTopicOrPartition));
    };
    let RemoteShare { max_bytes, min_one } = share;
    let read = partition.read_remote(wanted.fetch.fetch_offset, max_bytes, min_one);
    let result = wait.bound(context, partition, read).await.transpose();
    context.broker.metrics.cold.observe(&result);
    (at, result)
}
