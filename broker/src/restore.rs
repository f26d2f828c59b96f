//! Partitions whose local copy is lost, or may be behind the bucket, come back from the bucket.
//!
//! A process that is killed loses nothing that it acknowledged: the page cache stays. A machine
//! that goes down loses what was not flushed, and then the bucket may be ahead of the disk. So
//! after an unclean stop the machine's boot id decides whether the bucket must be asked first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use strandline_env::{Backoff, BackoffOptions, Shutdown};
use strandline_log::{LeaderEpochs, Log, LogConfig, LogDir, LogError, RemoteStart};
use strandline_tiering::TieringError;
use strandline_types::{LeaderEpoch, TopicId, TopicPartition};

use crate::broker::Broker;
use crate::partition::tiering::RemoteHalf;

/// File in the log directory that holds the machine's boot id as of the last start.
const BOOT_ID_FILE: &str = "boot-id";
const MACHINE_BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Partitions that are asked for at the same time.
const PARALLEL: usize = 16;
const BACKOFF: BackoffOptions = BackoffOptions {
    base: Duration::from_millis(200),
    max: Duration::from_secs(10),
    jitter: 0.2,
};

/// True when the machine was restarted since an unclean stop, or when that cannot be told. Records
/// the boot id for the next start.
pub(crate) fn power_was_lost(dir: &LogDir) -> bool {
    let file = dir.path().join(BOOT_ID_FILE);
    let before = std::fs::read_to_string(&file).ok();
    let now = std::fs::read_to_string(MACHINE_BOOT_ID).ok();
    if let Some(id) = &now
        && before != now
        && let Err(e) = std::fs::write(&file, id)
    {
        tracing::warn!(file = %file.display(), error = %e, "the boot id is not recorded");
    }
    // A directory that was never used has no file and nothing to lose.
    !dir.was_closed_cleanly() && before.is_some() && before != now
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
    dir: &LogDir,
    id: &TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    start: Option<RemoteStart>,
) -> Result<Arc<Log>, LogError> {
    match (dir.log(id), start) {
        (Some(log), Some(start)) if log.log_end_offset() < start.next_offset => {
            let (local, tiered) = (log.log_end_offset(), start.next_offset);
            tracing::warn!(partition = %id, local, tiered, "the bucket is ahead of the disk");
            log.delete()?;
            dir.create_log_at(id.clone(), topic_id, config, &start)
        }
        (Some(log), Some(start)) => {
            if !log.is_log_start_known() {
                log.restore_log_start_offset(start.log_start_offset)?;
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

/// Restores what waits for it, until nothing does.
pub(crate) fn start(broker: &Arc<Broker>, shutdown: &Shutdown) {
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        let mut backoffs = HashMap::new();
        loop {
            let waiting = broker.replicas.to_restore();
            if waiting.is_empty() {
                return;
            }
            let mut wait = Duration::ZERO;
            for some in waiting.chunks(PARALLEL) {
                let jobs = some
                    .iter()
                    .map(|id| broker.replicas.restore(id, &broker.io));
                for (id, done) in some.iter().zip(futures::future::join_all(jobs).await) {
                    let Err(error) = done else { continue };
                    let backoff = backoffs
                        .entry(id.clone())
                        .or_insert_with(|| Backoff::new(BACKOFF));
                    wait = wait.max(backoff.next_delay());
                    tracing::warn!(partition = %id, %error, "the bucket does not answer yet");
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    });
}
