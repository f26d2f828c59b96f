//! Questions about a partition's cold tier that a record or an index answers.

use bytes::Bytes;
use strandline_types::Offset;

use super::RemotePartition;
use crate::error::TieringError;
use crate::read::lookup::{self, TimestampedOffset};
use crate::segment_object::{AbortedTransaction, EpochStart};

impl RemotePartition {
    /// The first record at or above both `timestamp` and the offset `from`; `None` when there is
    /// none in the cold tier, so the local log must be asked (O-5, S-16).
    pub async fn offset_for_timestamp(
        &self,
        timestamp: i64,
        from: Offset,
    ) -> Result<Option<TimestampedOffset>, TieringError> {
        let view = self.view();
        let from = from.max(view.log_start_offset());
        lookup::offset_for_timestamp(&self.shared.fetcher, &self.keys, &view, timestamp, from).await
    }

    /// Of the records of the cold tier at or above the offset `from` the first with the greatest
    /// timestamp (O-9).
    pub async fn max_timestamp(
        &self,
        from: Offset,
    ) -> Result<Option<TimestampedOffset>, TieringError> {
        let view = self.view();
        let from = from.max(view.log_start_offset());
        lookup::max_timestamp(&self.shared.fetcher, &self.keys, &view, from).await
    }

    /// Aborted transactions that touch offsets from `from` to `upper` (exclusive), by their first
    /// offset. With `true` the local log need not be asked for more (F-31…F-34).
    pub async fn aborted_transactions(
        &self,
        from: Offset,
        upper: Offset,
    ) -> Result<(Vec<AbortedTransaction>, bool), TieringError> {
        let view = self.view();
        // What expired is not listed any more: without it, its records would pass for committed.
        if from < view.log_start_offset() {
            return Err(TieringError::OutOfRange {
                offset: from,
                log_start_offset: view.log_start_offset(),
                end_offset: view.end_offset().unwrap_or(view.log_start_offset()),
            });
        }
        let mut found = Vec::new();
        let mut complete = false;
        let mut sources = view.sources_of_aborted(from);
        while let Some(source) = sources.next().filter(|_| !complete) {
            for entry in view.segments_with_aborted(source, from).await? {
                let segment = self.shared.fetcher.segment(&self.keys, entry);
                let tail = self.shared.fetcher.tail(&segment).await?;
                for transaction in &tail.aborted {
                    if transaction.last_offset >= from && transaction.first_offset < upper {
                        found.push(*transaction);
                    }
                    complete |= transaction.last_stable_offset >= upper;
                }
                if complete {
                    break;
                }
            }
        }
        found.sort_by_key(|transaction| transaction.first_offset);
        Ok((found, complete))
    }

    /// The producers' state at the end of the segment that ends at `next_offset`, and the leader
    /// epochs up to there: what a new replica begins with (S-31). `None` without such a segment.
    pub async fn state_at(
        &self,
        next_offset: Offset,
    ) -> Result<Option<(Bytes, Vec<EpochStart>)>, TieringError> {
        let view = self.view();
        let Some(entry) = view.segment_for_offset(next_offset - 1).await? else {
            return Ok(None);
        };
        if entry.next_offset() != next_offset {
            return Ok(None);
        }
        let segment = self.shared.fetcher.segment(&self.keys, entry);
        let tail = self.shared.fetcher.tail(&segment).await?;
        let epochs = view.leader_epochs().iter().copied();
        let epochs = epochs
            .filter(|start| start.start_offset < next_offset)
            .collect();
        Ok(Some((tail.producer_snapshot.clone(), epochs)))
    }
}
