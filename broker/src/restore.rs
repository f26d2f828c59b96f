//! Partitions whose local copy is lost, or may be behind the bucket, come back from the bucket.
//!
//! A process that is killed loses nothing that it acknowledged: the page cache stays. A machine
//! that goes down loses what was not flushed, and then the bucket may be ahead of the disk. So
//! after an unclean stop and a restart of the machine the bucket is asked first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use strandline_env::{Backoff, BackoffOptions, PoolError, Shutdown};
use strandline_log::{LeaderEpochs, Log, LogConfig, LogError, RemoteStart};
use strandline_tiering::TieringError;
use strandline_types::{LeaderEpoch, Offset, TopicId, TopicPartition};

use crate::broker::Broker;
use crate::log_dirs::LogDirs;
use crate::partition::tiering::RemoteHalf;

/// Partitions that are asked for at the same time.
const PARALLEL: usize = 16;
const BACKOFF: BackoffOptions = BackoffOptions {
    base: Duration::from_millis(200),
    max: Duration::from_secs(10),
    jitter: 0.2,
};

/// True when a directory may lack what was not flushed.
pub(crate) fn power_was_lost(dirs: &LogDirs) -> bool {
    dirs.all().iter().any(|dir| dir.power_was_lost())
}

/// Why a partition is not restored yet; the next try may succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    /// The store does not say what it has.
    #[error(transparent)]
    Remote(#[from] TieringError),
    /// The local log cannot be made.
    #[error("the local log cannot be made: {0}")]
    Local(#[from] LogError),
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] PoolError),
}

/// What the bucket has of a partition; `None` when it has nothing.
pub(crate) async fn remote_start(
    remote: &RemoteHalf,
    epoch: LeaderEpoch,
) -> Result<Option<RemoteStart>, TieringError> {
    let remote = remote.open(epoch).await?;
    let view = remote.view();
    // Everything may have expired; the offsets below the log start were used all the same.
    let next_offset = view.end_offset().unwrap_or(view.log_start_offset());
    if next_offset == 0 {
        return Ok(None);
    }
    let mut text = format!("0\n{}\n", view.leader_epochs().len());
    for start in view.leader_epochs() {
        text.push_str(&format!("{} {}\n", start.epoch, start.start_offset));
    }
    let snapshot = remote.state_at(next_offset).await?;
    Ok(Some(RemoteStart {
        next_offset,
        log_start_offset: view.log_start_offset(),
        leader_epochs: LeaderEpochs::decode(&text).unwrap_or_default(),
        producer_snapshot: snapshot.map(|(bytes, _)| bytes).unwrap_or_default(),
    }))
}

/// Opens the local log, or makes it anew at the end of what is tiered; blocks on the disk.
pub(crate) fn open_log(
    dirs: &LogDirs,
    id: &TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    start: Option<RemoteStart>,
    now_ms: i64,
) -> Result<Arc<Log>, LogError> {
    let dir = dirs.home(id, topic_id)?;
    match (dirs.log(id, topic_id), start) {
        (Some(log), Some(mut start)) if log.log_end_offset() < start.next_offset => {
            let (local, tiered) = (log.log_end_offset(), start.next_offset);
            tracing::warn!(partition = %id, local, tiered, "the bucket is ahead of the disk");
            if log.is_log_start_known() {
                // 6.6: the bucket learns later what DeleteRecords took here.
                let known = log.log_start_offset().min(tiered);
                start.log_start_offset = start.log_start_offset.max(known);
            }
            log.delete()?;
            let log = dir.create_log_at(id.clone(), topic_id, config, &start)?;
            log.persist_log_start()?;
            Ok(log)
        }
        (Some(log), Some(start)) => {
            if !log.is_log_start_known() {
                // S-20: where the bucket ends before the disk begins, what lies between was deleted while the tier
                // was switched off, and the history below it is no part of the log any more.
                let local_start = log.local_log_start_offset();
                let is_joined = start.next_offset >= local_start;
                let log_start = if is_joined {
                    start.log_start_offset
                } else {
                    let tiered = start.next_offset;
                    tracing::warn!(partition = %id, tiered, local_start, "the bucket ends before the disk begins");
                    local_start
                };
                log.restore_log_start_offset(log_start)?;
            }
            if start.next_offset >= log.local_log_start_offset() {
                // L-23: the bucket may begin below the log start.
                let known = start
                    .leader_epochs
                    .between(log.log_start_offset(), Offset::MAX);
                log.restore_leader_epochs(&known)?;
            }
            if start.next_offset == log.log_end_offset() {
                // S-1: the segment that began there may have lost its name, and the one before it, if
                // it went on, could never follow in the bucket.
                log.roll(now_ms)?;
            }
            Ok(log)
        }
        (Some(log), None) => Ok(log),
        (None, Some(start)) => {
            let tiered = start.next_offset;
            tracing::warn!(partition = %id, tiered, "the local copy is gone: going on from the bucket");
            dir.create_log_at(id.clone(), topic_id, config, &start)
        }
        (None, None) => dir.create_log(id.clone(), topic_id, config),
    }
}

/// The bucket was asked about everything: what a power loss took is back.
async fn forget_power_loss(broker: &Arc<Broker>) {
    // A partition that cannot be opened was not compared with the bucket.
    if broker.replicas.tier().is_none() || broker.replicas.has_broken() {
        return;
    }
    let dirs = Arc::clone(&broker.log_dirs);
    let forget = move || {
        for dir in dirs.all().iter().filter(|dir| dir.power_was_lost()) {
            if let Err(error) = dir.forget_power_loss() {
                let dir = dir.path().display();
                tracing::warn!(%dir, %error, "the next start asks the bucket again");
            }
        }
    };
    // Errors: the pool is closed, as at the end; the next start asks again.
    let _ = broker.io.run(forget).await;
}

/// Restores what waits for it, until nothing does.
pub(crate) fn start(broker: &Arc<Broker>, shutdown: &Shutdown) {
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        let mut backoffs = HashMap::new();
        loop {
            let waiting = broker.replicas.to_restore();
            if waiting.is_empty() {
                forget_power_loss(&broker).await;
                return;
            }
            let (mut wait, now_ms) = (Duration::ZERO, broker.clock.now_ms());
            for some in waiting.chunks(PARALLEL) {
                let jobs = some
                    .iter()
                    .map(|id| broker.replicas.restore(id, &broker.io, now_ms));
                for (id, done) in some.iter().zip(futures::future::join_all(jobs).await) {
                    let Err(error) = done else { continue };
                    let backoff = backoffs
                        .entry(id.clone())
                        .or_insert_with(|| Backoff::new(BACKOFF));
                    wait = wait.max(backoff.next_delay());
                    tracing::warn!(partition = %id, %error, "not restored from the bucket yet");
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use strandline_log::{LogDirOptions, TailBudget};
    use strandline_records::{BatchBuilder, Compression};
    use strandline_types::{BrokerId, TimestampType, TopicName};

    use super::*;

    fn start(log_start_offset: i64, next_offset: i64) -> RemoteStart {
        RemoteStart {
            next_offset,
            log_start_offset,
            leader_epochs: LeaderEpochs::default(),
            producer_snapshot: bytes::Bytes::new(),
        }
    }

    /// A folder for the log of one partition.
    struct Place {
        folder: tempfile::TempDir,
        id: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
    }

    impl Place {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                id: TopicPartition::new(TopicName::new("t").unwrap(), 0),
                topic_id: TopicId::random(),
                config: LogConfig {
                    remote: true,
                    ..LogConfig::default()
                },
            }
        }

        fn open(&self) -> LogDirs {
            let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
            let mut dirs = LogDirs::open(&[self.folder.path().to_path_buf()], &options).unwrap();
            dirs.load(&|_, _| Some(self.config.clone())).unwrap();
            dirs
        }

        /// A log of what begins at 1000, with the history from 40 on in the bucket.
        fn make(&self, dirs: &LogDirs) -> Arc<Log> {
            let (dir, id) = (dirs.home(&self.id, self.topic_id).unwrap(), self.id.clone());
            dir.create_log_at(id, self.topic_id, self.config.clone(), &start(40, 1000))
                .unwrap()
        }

        fn restore(&self, dirs: &LogDirs, start: RemoteStart) -> Arc<Log> {
            let config = self.config.clone();
            open_log(dirs, &self.id, self.topic_id, config, Some(start), 1).unwrap()
        }
    }

    // S-20: a history that does not reach the disk is no part of the log
    #[test]
    fn a_start_that_is_not_known_is_the_buckets_if_it_reaches_the_disk() {
        for (tiered_end, log_start) in [(1000, 40), (1200, 40), (900, 1000)] {
            let place = Place::new();
            let dirs = place.open();
            place.make(&dirs);
            dirs.close();
            drop(dirs);
            std::fs::remove_file(place.folder.path().join("log-start-offset-checkpoint")).unwrap();
            let dirs = place.open();
            let log = place.restore(&dirs, start(40, tiered_end));
            assert_eq!(log.log_start_offset(), log_start, "tiered to {tiered_end}");
            assert!(log.is_log_start_known());
            assert_eq!(log.log_end_offset(), tiered_end.max(1000));
        }
    }

    // 6.6: what DeleteRecords took stays away, though the bucket was not told yet
    #[test]
    fn a_log_that_is_made_anew_keeps_a_start_that_was_moved_here() {
        let place = Place::new();
        let dirs = place.open();
        place.make(&dirs).delete_records_to(700).unwrap();
        let log = place.restore(&dirs, start(40, 1200));
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (700, 1200));
        // As a kill ends.
        drop((log, dirs));
        let dirs = place.open();
        let log = place.restore(&dirs, start(40, 1200));
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (700, 1200));
    }

    // S-1: what is uploaded next begins where the last upload ended
    #[test]
    fn a_segment_begins_where_the_bucket_ends_with_the_disk() {
        let place = Place::new();
        let dirs = place.open();
        let log = place.make(&dirs);
        for _ in 0..3 {
            let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
            batch.append(1, None, Some(b"v"), &[]).unwrap();
            let batch = batch.build().unwrap();
            log.append_as_leader(batch, 0, 1).unwrap();
        }
        let begins_at = |tiered_end| {
            let log = place.restore(&dirs, start(40, tiered_end));
            (log.active_base_offset(), log.segment_count())
        };
        assert_eq!(begins_at(1000), (1000, 1));
        assert_eq!(begins_at(1003), (1003, 2));
        assert_eq!(begins_at(1003), (1003, 2));
    }

    // L-23, O-22: nothing comes back that lies below the log start
    #[test]
    fn epochs_come_back_from_the_log_start_on() {
        let place = Place::new();
        let dirs = place.open();
        place.make(&dirs).delete_records_to(700).unwrap();
        let epochs = LeaderEpochs::decode("0\n3\n0 40\n2 500\n3 800\n").unwrap();
        let log = place.restore(
            &dirs,
            RemoteStart {
                leader_epochs: epochs,
                ..start(40, 1000)
            },
        );
        assert_eq!(log.leader_epochs().encode(), "0\n2\n2 700\n3 800\n");
    }
}
