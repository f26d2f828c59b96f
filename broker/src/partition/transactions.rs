//! Appending for transactions: verified batches, and markers (P-70…P-74, T-41, T-42).

use strandline_coordinator::{Producer, TransactionEnd};
use strandline_log::{AppendChecks, AppendError, Appended, VerificationGuard, VerificationRequest};
use strandline_records::{Batch, EndTransactionMarker};

use crate::partition::Partition;

impl Partition {
    /// Appends a batch of a transaction that is open here, or for which the coordinator has vouched
    /// since the guard was given out.
    pub(crate) fn append_transactional(
        &self,
        batch: Batch,
        guard: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let checks = AppendChecks {
            must_be_verified: true,
            guard,
            ..AppendChecks::default()
        };
        let epoch = self.leader_epoch();
        self.log.append_checked(batch, epoch, checks, now_ms)
    }

    /// Appends the marker that ends a transaction here, whether or not anything is open.
    pub(crate) fn append_marker(
        &self,
        end: TransactionEnd,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let marker = EndTransactionMarker {
            committed: end.committed,
            coordinator_epoch: end.coordinator_epoch,
        };
        let batch = marker.to_batch(end.producer.id, end.producer.epoch, now_ms)?;
        let checks = AppendChecks {
            marker_epoch_must_rise: end.raises_epoch,
            ..AppendChecks::default()
        };
        let epoch = self.leader_epoch();
        self.log.append_checked(batch, epoch, checks, now_ms)
    }

    /// Before the coordinator is asked about a batch: `None` if the transaction is open here.
    pub(crate) fn begin_verification(
        &self,
        producer: Producer,
        base_sequence: i32,
        epoch_rises: bool,
        now_ms: i64,
    ) -> Option<VerificationGuard> {
        let request = VerificationRequest {
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            base_sequence,
            epoch_rises,
        };
        self.log.begin_verification(&request, now_ms)
    }

    /// No marker has come since the guard was given out.
    pub(crate) fn holds_guard(&self, producer: Producer, guard: VerificationGuard) -> bool {
        self.log.holds_guard(producer.id, producer.epoch, guard)
    }
}
