//! Writing the markers of transactions that have ended, until each partition has its own.
//!
//! Rules: T-31, T-32, T-40…T-44. **Crash safety**: the end is in `__transaction_state` before the
//! first marker is written; whoever loads that partition next asks for all of them again, and a
//! marker that comes twice finds nothing open.

use std::sync::Arc;
use std::time::Duration;

use strandline_coordinator::{AppendError, TransactionEnd};
use strandline_env::{Clock, Shutdown};
use strandline_metadata::Metadata;
use strandline_transaction_coordinator::{Markers, TransactionShard};
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TopicPartition};
use strandline_wire::ErrorCode;

use crate::coordinators::groups::GroupCoordinators;
use crate::coordinators::runtime::{Runtime, append_error, commit_error};
use crate::coordinators::transactions::late_markers::LateMarkers;
use crate::replica_manager::ReplicaManager;

/// A marker that is not committed after this long is tried again.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Between attempts: the first wait, and the longest.
const RETRY: Duration = Duration::from_millis(20);
const MAX_RETRY: Duration = Duration::from_secs(1);

/// Why a partition has no marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MarkerError {
    /// It does not exist, in the newest metadata.
    #[error("the partition does not exist")]
    Unknown,
    /// It is led elsewhere, or not yet by anybody.
    #[error("the partition is not led here")]
    NotLeader,
    /// It could not be written or committed.
    #[error(transparent)]
    Append(AppendError),
}

/// Writes markers to the partitions that this broker leads.
#[derive(Debug)]
pub(crate) struct MarkerWriter {
    pub(crate) replicas: Arc<ReplicaManager>,
    pub(crate) groups: Arc<GroupCoordinators>,
    pub(crate) metadata: Metadata,
    pub(crate) clock: Clock,
    pub(crate) late: Arc<LateMarkers>,
}

impl MarkerWriter {
    /// Writes one marker and waits until it is committed (T-41, T-44).
    pub(crate) async fn write(
        &self,
        partition: &TopicPartition,
        end: TransactionEnd,
    ) -> Result<(), MarkerError> {
        let found = self.replicas.by_name(&partition.topic, partition.partition);
        let here = found.map_err(|code| self.absence(partition, code))?;
        if partition.topic.as_str() == CONSUMER_OFFSETS_TOPIC {
            // Its coordinator must see the end in the order of the log (T-43).
            let ended = self.groups.end_transaction(partition.partition, end);
            return ended.await.map_err(MarkerError::Append);
        }
        let appended = here
            .append_marker(end, self.clock.now_ms())
            .map_err(|e| MarkerError::Append(append_error(e)))?;
        let committed = here.committed(appended.last_offset + 1, COMMIT_TIMEOUT);
        committed
            .await
            .map_err(|e| MarkerError::Append(commit_error(e)))
    }

    /// Appends a marker; `then` is called when it is committed. False when that must be tried in
    /// another way: nothing is there, or it could not be appended.
    fn write_now(
        &self,
        partition: &TopicPartition,
        end: TransactionEnd,
        then: impl FnOnce(Result<(), AppendError>) + Send + 'static,
    ) -> bool {
        if partition.topic.as_str() == CONSUMER_OFFSETS_TOPIC {
            return false;
        }
        let found = self.replicas.by_name(&partition.topic, partition.partition);
        let Ok(here) = found else { return false };
        let Ok(appended) = here.append_marker(end, self.clock.now_ms()) else {
            return false;
        };
        here.on_committed(appended.last_offset + 1, move |committed| {
            then(committed.map_err(commit_error));
        });
        true
    }

    /// The partitions here follow the metadata a moment later: what is not here may still be about
    /// to come.
    fn absence(&self, partition: &TopicPartition, code: ErrorCode) -> MarkerError {
        let image = self.metadata.image();
        let topic = image.topics().by_name(&partition.topic);
        let exists = topic.is_some_and(|t| t.partition(partition.partition).is_some());
        match code {
            _ if !exists => MarkerError::Unknown,
            ErrorCode::KafkaStorageError => MarkerError::Append(AppendError::StorageError),
            _ => MarkerError::NotLeader,
        }
    }
}

/// Writes the markers of one end, each until it is written, or not needed any more: at once where that
/// goes well, and else in the background. Dropping the task is a crash of the coordinator: see above.
pub(super) fn send(
    writer: &Arc<MarkerWriter>,
    shard: &Arc<Runtime<TransactionShard>>,
    markers: Markers,
    shutdown: &Shutdown,
) {
    let markers = Arc::new(markers);
    for partition in &markers.partitions {
        let sending = Sending {
            writer: Arc::clone(writer),
            shard: Arc::clone(shard),
            markers: Arc::clone(&markers),
            partition: partition.clone(),
            shutdown: shutdown.clone(),
        };
        let (this, partition) = (sending.clone(), partition.clone());
        let is_on_its_way =
            writer.write_now(&partition, markers.end, move |written| match written {
                Ok(()) => this.done(),
                Err(_) => this.go_on(),
            });
        if !is_on_its_way {
            sending.go_on();
        }
    }
}

/// The marker of one partition.
#[derive(Clone)]
struct Sending {
    writer: Arc<MarkerWriter>,
    shard: Arc<Runtime<TransactionShard>>,
    markers: Arc<Markers>,
    partition: TopicPartition,
    shutdown: Shutdown,
}

impl Sending {
    fn done(&self) {
        let (id, producer) = (&*self.markers.transactional_id, self.markers.end.producer);
        self.shard
            .call(|machine, now| machine.on_marker_written(id, producer, &self.partition, now));
    }

    /// Writes it in the background, however long that takes.
    fn go_on(self) {
        let handle = self.shard.handle().clone();
        handle.spawn(async move {
            let shutdown = self.shutdown.clone();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = send_one(&self.writer, &self.shard, &self.markers, &self.partition) => {}
            }
        });
    }
}

async fn send_one(
    writer: &MarkerWriter,
    shard: &Arc<Runtime<TransactionShard>>,
    markers: &Markers,
    partition: &TopicPartition,
) {
    let (id, producer) = (&*markers.transactional_id, markers.end.producer);
    let (mut wait, mut late) = (RETRY, None);
    // A shard that was unloaded has left its transactions to its successor.
    while shard.read(TransactionShard::is_active) {
        match writer.write(partition, markers.end).await {
            Ok(()) | Err(MarkerError::Unknown) => break, // T-40: what is gone is done
            Err(MarkerError::Append(AppendError::CoordinatorFenced)) => {
                // It stays prepared here, for the newer one to end.
                tracing::error!(transactional_id = id, %partition, "a newer transaction coordinator exists: this one leaves the transaction to it");
                return;
            }
            Err(MarkerError::Append(AppendError::InvalidProducerEpoch)) => {
                // A newer epoch has written there, so this end was completed before.
                tracing::warn!(transactional_id = id, %partition, "a marker comes too late and is left out");
                break;
            }
            Err(error) => {
                tracing::debug!(transactional_id = id, %partition, %error, "a marker must wait");
                let now_ms = writer.clock.monotonic_ms();
                let late = late.get_or_insert_with(|| writer.late.begin(partition, now_ms));
                if let Some(told) = late.failed(now_ms) {
                    let (markers, late_ms) = (told.markers, told.late_ms);
                    tracing::warn!(transactional_id = id, %partition, %error, markers, late_ms, "markers cannot be written, and are tried again: committed readers of the partition wait");
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(MAX_RETRY);
            }
        }
    }
    shard.call(|machine, now| machine.on_marker_written(id, producer, partition, now));
}
