//! ListOffsets over both tiers (SEMANTICS 3.6).

use std::sync::Arc;

use strandline_env::Pool;
use strandline_types::{IsolationLevel, ListOffsetsTimestamp, Offset};
use strandline_wire::ErrorCode;

use crate::error_codes;
use crate::partition::Partition;
use crate::partition::read::Visible;

/// An offset that was looked up; -1 in all fields for "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetLookup {
    pub(crate) offset: Offset,
    pub(crate) timestamp: i64,
    pub(crate) leader_epoch: i32,
}

impl OffsetLookup {
    const NONE: Self = Self {
        offset: -1,
        timestamp: -1,
        leader_epoch: -1,
    };
}

/// Times that a record is looked for while segments leave the disk.
const MAX_LOOKUPS: usize = 8;

impl Partition {
    /// Answers one partition of ListOffsets.
    pub(crate) async fn list_offset(
        self: &Arc<Self>,
        io: &Pool,
        wanted: ListOffsetsTimestamp,
        isolation: IsolationLevel,
    ) -> Result<OffsetLookup, ErrorCode> {
        if self.log.is_offline() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let visible = self.visible(isolation);
        match wanted {
            ListOffsetsTimestamp::Latest => Ok(OffsetLookup {
                offset: visible.upper,
                timestamp: -1,
                leader_epoch: self.log.latest_epoch().unwrap_or(-1),
            }),
            ListOffsetsTimestamp::Earliest => Ok(self.at(visible.log_start_offset)),
            ListOffsetsTimestamp::EarliestLocal => Ok(self.at(self.log.local_log_start_offset())),
            ListOffsetsTimestamp::LatestTiered => self.latest_tiered().await,
            ListOffsetsTimestamp::EarliestPendingUpload => {
                let tiered = self.latest_tiered().await?;
                Ok(self.at((tiered.offset + 1).max(visible.log_start_offset)))
            }
            ListOffsetsTimestamp::MaxTimestamp | ListOffsetsTimestamp::At(_) => {
                self.look_for_record(io, wanted, visible).await
            }
        }
    }

    /// O-7: the bucket is asked before the disk, and a record may go the other way meanwhile; then neither had
    /// it when it was asked.
    async fn look_for_record(
        self: &Arc<Self>,
        io: &Pool,
        wanted: ListOffsetsTimestamp,
        visible: Visible,
    ) -> Result<OffsetLookup, ErrorCode> {
        for _ in 0..MAX_LOOKUPS {
            let local_start = self.log.local_log_start_offset();
            let found = match wanted {
                ListOffsetsTimestamp::At(timestamp) => self.at_time(io, timestamp, visible).await,
                _ => self.max_timestamp(io, visible).await,
            };
            if self.log.local_log_start_offset() == local_start {
                return found;
            }
        }
        // Retriable.
        Err(ErrorCode::NotLeaderOrFollower)
    }

    fn at(&self, offset: Offset) -> OffsetLookup {
        let leader_epoch = self.log.epoch_for_offset(offset).unwrap_or(-1);
        OffsetLookup {
            offset,
            timestamp: -1,
            leader_epoch,
        }
    }

    fn has_remote_part(&self) -> bool {
        self.log.log_start_offset() < self.log.local_log_start_offset()
    }

    async fn latest_tiered(&self) -> Result<OffsetLookup, ErrorCode> {
        if !self.remote.exists() || !self.config().remote_storage_enable {
            return Ok(OffsetLookup::NONE);
        }
        let remote = self
            .remote
            .open(self.leader_epoch())
            .await
            .map_err(|e| self.fault(&e))?;
        Ok(remote
            .highest_offset()
            .map_or(OffsetLookup::NONE, |offset| self.at(offset)))
    }

    /// O-5, O-7: the first record at or after the time, in the bucket and then here.
    async fn at_time(
        self: &Arc<Self>,
        io: &Pool,
        timestamp: i64,
        visible: Visible,
    ) -> Result<OffsetLookup, ErrorCode> {
        if self.has_remote_part() {
            let remote = self
                .remote
                .open(self.leader_epoch())
                .await
                .map_err(|e| self.fault(&e))?;
            let found = remote
                .offset_for_timestamp(timestamp, visible.log_start_offset)
                .await
                .map_err(|e| self.fault(&e))?;
            // What is in both tiers is answered from here: the same record, without the wait.
            let local_start = self.log.local_log_start_offset();
            if let Some(found) = found.filter(|f| f.offset < local_start) {
                return Ok(within(
                    visible,
                    OffsetLookup {
                        // A race with DeleteRecords answers something that still exists (O-7).
                        offset: found.offset.max(self.log.log_start_offset()),
                        timestamp: found.timestamp,
                        leader_epoch: found.leader_epoch,
                    },
                ));
            }
        }
        let partition = Arc::clone(self);
        let job = move || partition.log.offset_for_timestamp(timestamp, visible.upper);
        let found = io
            .run(job)
            .await
            .map_err(|_| ErrorCode::NotLeaderOrFollower)?;
        let found = found.map_err(|e| error_codes::for_log(&e))?;
        Ok(found.map_or(OffsetLookup::NONE, |f| {
            within(
                visible,
                OffsetLookup {
                    offset: f.offset,
                    timestamp: f.timestamp,
                    leader_epoch: f.leader_epoch,
                },
            )
        }))
    }

    /// O-9, over both tiers; of equal timestamps the first.
    async fn max_timestamp(
        self: &Arc<Self>,
        io: &Pool,
        visible: Visible,
    ) -> Result<OffsetLookup, ErrorCode> {
        let remote = if self.has_remote_part() {
            let remote = self
                .remote
                .open(self.leader_epoch())
                .await
                .map_err(|e| self.fault(&e))?;
            let found = remote.max_timestamp(visible.log_start_offset).await;
            found.map_err(|e| self.fault(&e))?
        } else {
            None
        };
        let partition = Arc::clone(self);
        let job = move || partition.log.max_timestamp_record();
        let local = io
            .run(job)
            .await
            .map_err(|_| ErrorCode::NotLeaderOrFollower)?;
        let local = local
            .map_err(|e| error_codes::for_log(&e))?
            .map(|f| OffsetLookup {
                offset: f.offset,
                timestamp: f.timestamp,
                leader_epoch: f.leader_epoch,
            });
        let remote = remote.map(|f| OffsetLookup {
            offset: f.offset,
            timestamp: f.timestamp,
            leader_epoch: f.leader_epoch,
        });
        let best = match (remote, local) {
            (Some(r), Some(l)) if l.timestamp > r.timestamp => Some(l),
            (Some(r), _) => Some(r),
            (None, l) => l,
        };
        Ok(best.map_or(OffsetLookup::NONE, |found| within(visible, found)))
    }
}

/// O-2: a hit that the reader may not see yet is none.
fn within(visible: Visible, found: OffsetLookup) -> OffsetLookup {
    if found.offset >= visible.upper {
        OffsetLookup::NONE
    } else {
        found
    }
}
