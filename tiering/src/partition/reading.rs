//! Reading batches of a partition's cold tier. Rules: F-4, F-64, F-66.

use strandline_types::Offset;

use super::RemotePartition;
use crate::error::TieringError;
use crate::manifest::ManifestView;
use crate::read::collector::{Collector, RemoteRead};
use crate::read::fill::SegmentRef;
use crate::read::read_ahead::{Ended, Stream};
use crate::read::reader::SegmentReader;

/// Whoever takes this much at once replays: consumers fetch a megabyte of a partition by default.
const A_LOT_BYTES: usize = 512 << 10;

impl RemotePartition {
    /// Whole batches from the one that holds `offset` on, `max_bytes` at most, but with `min_one`
    /// at least one. Empty when the first is too large, and behind the last batch of the tier.
    /// Errors: [`TieringError::OutOfRange`] outside of the tier; any other when there is nothing before it to give.
    pub async fn read(
        &self,
        offset: Offset,
        max_bytes: usize,
        min_one: bool,
    ) -> Result<RemoteRead, TieringError> {
        let metrics = &self.shared.fetcher.metrics;
        metrics.cold_reads.inc();
        let view = self.view();
        let read = self.read_in(&view, offset, max_bytes, min_one).await;
        if read.is_err() {
            metrics.cold_read_errors.inc();
        }
        read
    }

    async fn read_in(
        &self,
        view: &ManifestView,
        offset: Offset,
        max_bytes: usize,
        min_one: bool,
    ) -> Result<RemoteRead, TieringError> {
        let end_offset = self.check_range(view, offset)?;
        let fetcher = &self.shared.fetcher;
        let mut collector = Collector::new(offset, max_bytes, min_one);
        let stream = self.read_ahead.begin(offset);
        let mut waited = false;
        let mut last = None;
        let mut next = view.segment_for_offset(offset).await?;
        while let Some(entry) = next {
            let after = entry.next_offset();
            let segment = fetcher.segment(&self.keys, entry);
            let position = self.position(&segment, offset, &stream).await?;
            let mut reader = SegmentReader::new(fetcher, &segment, Some(&stream), position);
            // What is here goes out: many small segments would take their time one after the other, and a fetch that
            // gives up meanwhile would have nothing of them (F-60). Only a sealed list is waited for.
            if !reader.begin(&collector) && collector.read.size_in_bytes > 0 {
                waited = true;
                break;
            }
            let failed = reader.collect(&mut collector).await.err();
            waited |= reader.waited;
            let (position, handles) = (reader.position, reader.into_handles());
            last = Some((segment, position, handles));
            // What is good before a bad place can be had; the next read, which begins there, tells the error.
            match failed {
                Some(error) if collector.read.size_in_bytes == 0 => return Err(error),
                Some(_) => break,
                None if collector.full => break,
                None => {}
            }
            // F-66: the segment holds no more, even if its range goes on.
            collector.read.end_offset = after;
            if collector.read.size_in_bytes >= max_bytes {
                break;
            }
            next = match view.segment_for_offset(after).await {
                Err(error) if collector.read.size_in_bytes == 0 => return Err(error),
                found => found.ok().flatten(),
            };
        }
        let read = collector.read;
        debug_assert!(read.end_offset <= end_offset);
        if let Some((segment, position, handles)) = last {
            let ended = Ended {
                next_offset: read.end_offset,
                segment: &segment,
                position,
                took_a_lot: read.size_in_bytes >= A_LOT_BYTES,
                waited,
                handles,
            };
            let ahead = self
                .read_ahead
                .end(stream, fetcher, &self.keys, view, ended)
                .await;
            if let Err(error) = ahead {
                tracing::debug!(%error, "read-ahead failed");
            }
        }
        Ok(read)
    }

    fn check_range(&self, view: &ManifestView, offset: Offset) -> Result<Offset, TieringError> {
        let log_start_offset = view.log_start_offset();
        let end_offset = view.end_offset().unwrap_or(log_start_offset);
        if offset < log_start_offset || offset >= end_offset {
            return Err(TieringError::OutOfRange {
                offset,
                log_start_offset,
                end_offset,
            });
        }
        Ok(end_offset)
    }

    async fn position(
        &self,
        segment: &SegmentRef,
        offset: Offset,
        stream: &Stream,
    ) -> Result<u64, TieringError> {
        if offset <= segment.entry.base_offset {
            return Ok(0);
        }
        if let Some(position) = stream.position_in(segment) {
            return Ok(position);
        }
        Ok(self
            .shared
            .fetcher
            .tail(segment)
            .await?
            .position_for_offset(offset))
    }
}
