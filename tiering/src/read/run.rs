//! Several chunks that follow each other, in one request.
//!
//! A request costs the store, and who pays for it, as much as some megabytes of data. What is fetched ahead of a
//! sequential reader therefore comes in runs of chunks; each chunk is handed on as soon as it is there.
//!
//! **Retries**: none for a run. A chunk that it did not bring is fetched on its own, with all repetition.

use std::sync::Arc;

use parking_lot::Mutex;
use strandline_bucket::RangeRead;
use tokio::sync::oneshot;

use super::chunk_cache::ChunkHandle;
use super::fill::{Fetcher, SegmentRef};
use super::plan::Part;

/// The bytes of one chunk, when the run has got there; an error when it will not.
pub(crate) type Piece = oneshot::Receiver<RangeRead>;

impl Fetcher {
    /// The bytes of chunks that follow each other; those that are nowhere yet come in as few requests as possible.
    pub(crate) fn parts(&self, segment: &SegmentRef, parts: &[Part]) -> Vec<ChunkHandle> {
        let mut handles = Vec::with_capacity(parts.len());
        let mut rest = parts;
        while let [first, ..] = rest {
            let is_absent = |part: &&Part| !self.cache.is_near(&segment.cut.key(**part));
            let absent = rest.iter().take_while(is_absent).count();
            if absent > 1 {
                handles.extend(self.run(segment, &rest[..absent]));
                rest = &rest[absent..];
            } else {
                handles.push(self.part(segment, *first));
                rest = &rest[1..];
            }
        }
        handles
    }

    fn run(&self, segment: &SegmentRef, parts: &[Part]) -> Vec<ChunkHandle> {
        let (senders, pieces): (Vec<_>, Vec<_>) = parts.iter().map(|_| oneshot::channel()).unzip();
        let handles = parts.iter().zip(pieces);
        let handles = handles
            .map(|(part, piece)| self.part_of_run(segment, *part, piece))
            .collect();
        let starts = parts.iter().map(|part| segment.cut.range(*part).start);
        let ends = parts.iter().map(|part| segment.cut.range(*part).end);
        let start = starts.min().unwrap_or_default();
        let end = ends.max().unwrap_or_default();
        let (fetcher, key) = (self.clone(), Arc::clone(&segment.key));
        let piece_bytes = segment.cut.chunk_bytes;
        tokio::spawn(async move {
            // One share for all, as chunks that each held theirs would wait for a run that gets none.
            let _share = fetcher.fill_budget.acquire(end - start).await;
            let senders = Mutex::new(senders.into_iter());
            let deliver = |read: RangeRead| {
                if let Some(sender) = senders.lock().next() {
                    // Nobody waits if somebody else brought the chunk meanwhile.
                    let _ = sender.send(read);
                }
            };
            let fetched = fetcher
                .bucket
                .get_pieces(&key, start..end, piece_bytes, &deliver);
            if let Err(error) = fetched.await {
                tracing::debug!(%key, %error, "a run of chunks failed, they are fetched one by one");
            }
        });
        handles
    }
}
