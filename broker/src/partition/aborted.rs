//! Which aborted transactions a committed reader must leave out, over both tiers.
//!
//! Rules: F-31, F-33, F-34, 5.8.

use std::sync::Arc;

use strandline_env::Pool;
use strandline_types::{Offset, ProducerId};
use strandline_wire::ErrorCode;

use crate::error_codes;
use crate::partition::Partition;

/// A transaction whose records must be left out from `first_offset` on, until its marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) first_offset: Offset,
    pub(crate) producer_id: ProducerId,
}

impl Partition {
    /// The aborted transactions that overlap `[from, to)`, by first offset. `to` must not be above
    /// the last stable offset: what is below it is decided, and noted. Errors: retention took a part
    /// of the range away meanwhile, or one of the tiers cannot be read.
    pub(crate) async fn aborted(
        self: &Arc<Self>,
        io: &Pool,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<Aborted>, ErrorCode> {
        // This tier first: what leaves it is in the other one before.
        let mut found = if self.log.may_have_aborted_from(from) {
            let partition = Arc::clone(self);
            let listed = io.run(move || partition.log.aborted_transactions(from, to));
            let listed = listed.await.map_err(|_| ErrorCode::NotLeaderOrFollower)?;
            let listed = listed.map_err(|e| error_codes::for_log(&e))?;
            let local = listed.into_iter().map(|a| (a.first_offset, a.producer_id));
            local.collect()
        } else {
            Vec::new()
        };
        if from < self.log.local_log_start_offset() {
            found.extend(self.aborted_in_bucket(from, to).await?);
        }
        found.sort_unstable();
        found.dedup(); // some are in both tiers
        let aborted = |(first_offset, producer_id)| Aborted {
            first_offset,
            producer_id,
        };
        Ok(found.into_iter().map(aborted).collect())
    }

    async fn aborted_in_bucket(
        &self,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<(Offset, ProducerId)>, ErrorCode> {
        if !self.remote.exists() || from < self.log.log_start_offset() {
            // It was read, and then expired: the client asks again and gets the right answer (F-21).
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let remote = self.remote.open(self.leader_epoch()).await;
        let remote = remote.map_err(|e| self.fault(&e))?;
        let listed = remote.aborted_transactions(from, to).await;
        let (listed, _) = listed.map_err(|e| self.fault(&e))?;
        let listed = listed.into_iter();
        Ok(listed.map(|a| (a.first_offset, a.producer_id)).collect())
    }
}
