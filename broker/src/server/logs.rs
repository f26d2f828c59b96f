//! Opening the log directories at start (L-20…L-27).

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use strandline_config::{BrokerConfig, TopicConfig, TopicKind};
use strandline_env::{Pool, open_file_limit};
use strandline_log::{FailedLog, LogDirOptions, LogError, TailBudget};
use strandline_metadata::Metadata;
use strandline_types::{BrokerId, TopicPartition};

use super::ServerError;
use crate::log_dirs::{LogDirs, LogDirsError};
use crate::settings::{LiveConfig, log_config};

/// A log directory without its metadata: a new cluster would set its partitions aside. Nothing is
/// written before this is clear.
pub(super) fn refuse_orphaned_logs(config: &BrokerConfig) -> Result<(), ServerError> {
    let is_there = |dir: &Path| dir.join("meta.properties").try_exists().unwrap_or(true);
    let orphan = config.log_dirs.iter().find(|dir| is_there(dir));
    if let Some(log_dir) = orphan.filter(|_| !is_there(&config.metadata_log_dir)) {
        return Err(ServerError::MetadataGone {
            log_dir: log_dir.clone(),
            metadata_dir: config.metadata_log_dir.clone(),
        });
    }
    Ok(())
}

/// Opens the log directories and recovers what is in them (L-20 … L-27). The partitions that cannot be
/// opened are returned.
pub(super) async fn open_logs(
    live: &Arc<LiveConfig>,
    metadata: &Metadata,
    node_id: BrokerId,
    io: &Pool,
) -> Result<(Arc<LogDirs>, Arc<TailBudget>, HashSet<TopicPartition>), ServerError> {
    let config = live.get();
    let tail = usize::try_from(config.strandline.tail_memory_bytes).unwrap_or(usize::MAX);
    let tail = TailBudget::new(tail);
    let mut options = LogDirOptions::new(metadata.cluster_id(), node_id, Arc::clone(&tail));
    let threads = usize::try_from(config.settings.num_recovery_threads_per_data_dir);
    options.recovery_threads = threads.unwrap_or(1);
    options.open_files = log_handles(open_file_limit(), config.log_dirs.len());
    let (image, live) = (metadata.image(), Arc::clone(live));
    let opened = io.run(move || {
        let mut dirs = LogDirs::open(&config.log_dirs, &options)?;
        let loaded = dirs.load(&|partition, topic_id| {
            let topic = image.topics().by_name(&partition.topic)?;
            topic
                .partition(partition.partition)
                .filter(|_| topic.id() == topic_id)?;
            let none = BTreeMap::new();
            let overrides = image
                .configs()
                .topic(&partition.topic)
                .map_or(&none, |map| map);
            let kind = TopicKind::of(&partition.topic);
            let (topic, _) = TopicConfig::resolve_stored(overrides, &config, kind);
            Some(log_config(&topic, live.producer_id_expiration_ms()))
        })?;
        Ok((dirs, loaded))
    });
    let stopped = LogDirsError::Log(LogError::Closed);
    let opened: Result<_, LogDirsError> = opened.await.unwrap_or(Err(stopped));
    let (dirs, loaded) = opened?;
    for stray in loaded.strays {
        let folder = stray.display();
        tracing::warn!(%folder, "log of a topic that the metadata does not know: set aside");
    }
    let mut broken = HashSet::new();
    for FailedLog {
        partition, error, ..
    } in loaded.failed
    {
        tracing::error!(%partition, %error, "the log cannot be opened: the partition is offline");
        broken.insert(partition);
    }
    Ok((Arc::new(dirs), tail, broken))
}

/// Handles that the log may keep: a part of all, as each connection needs one as well, and no more than pays.
fn log_handles(limit: u64, dirs: usize) -> usize {
    usize::try_from(limit / 4 / dirs.max(1) as u64)
        .unwrap_or(usize::MAX)
        .clamp(256, 16_384)
}
