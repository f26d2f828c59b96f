//! The partitions of this broker, kept equal to the metadata. Rules: A-23, G-61, R-9, X-58.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use strandline_config::{TopicConfig, TopicKind};
use strandline_env::{Pool, PoolError};
use strandline_log::{Log, LogError, RemoteStart};
use strandline_metadata::{Image, TopicImage};
use strandline_tiering::{RemotePartitionId, RemoteTier};
use strandline_types::{BrokerId, LeaderEpoch, TopicId, TopicName, TopicPartition};
use strandline_wire::ErrorCode;

use crate::log_dirs::LogDirs;
use crate::partition::Partition;
use crate::partition::tiering::RemoteHalf;
use crate::restore::{self, RestoreError};
use crate::settings::{LiveConfig, log_config};

/// A topic as this broker holds it.
#[derive(Debug)]
struct HostedTopic {
    image: Arc<TopicImage>,
    overrides: Arc<BTreeMap<String, String>>,
    /// By index; `Err` for a partition that is here but cannot be served.
    partitions: HashMap<i32, Result<Arc<Partition>, ErrorCode>>,
}

#[derive(Debug, Default, Clone)]
struct Index {
    by_name: HashMap<TopicName, Arc<HostedTopic>>,
    names: HashMap<TopicId, TopicName>,
}

/// Partitions that must ask the bucket before they may take anything: their folder is gone, or the
/// machine went down with what was not flushed.
#[derive(Debug, Default)]
struct Restoring {
    /// The metadata is applied for the first time: what it names existed before.
    is_first_time: bool,
    power_was_lost: bool,
    waiting: HashSet<TopicPartition>,
}

/// What a change of the metadata did here.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Partitions that this broker leads from now on.
    pub(crate) started: Vec<Arc<Partition>>,
    /// Topics that are gone.
    pub(crate) deleted: Vec<TopicName>,
    /// Their partitions, served or not.
    pub(crate) stopped: Vec<Stopped>,
}

/// A partition that is gone from this broker; what it has in the bucket is still there (S-24).
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) id: TopicPartition,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) remote: Arc<RemoteHalf>,
}

/// All partitions of this broker.
#[derive(Debug)]
pub(crate) struct ReplicaManager {
    node_id: BrokerId,
    config: Arc<LiveConfig>,
    log_dirs: Arc<LogDirs>,
    tier: Option<Arc<RemoteTier>>,
    index: ArcSwap<Index>,
    /// One change of `index` at a time.
    changing: Mutex<()>,
    /// Partitions of this start whose local copy may not be all there is.
    restoring: Mutex<Restoring>,
    /// Folders that could not be opened; their partitions answer with an error.
    broken: Mutex<HashSet<TopicPartition>>,
}

impl ReplicaManager {
    pub(crate) fn new(
        node_id: BrokerId,
        config: Arc<LiveConfig>,
        log_dirs: Arc<LogDirs>,
        tier: Option<Arc<RemoteTier>>,
        broken: HashSet<TopicPartition>,
        power_was_lost: bool,
    ) -> Self {
        let restoring = Restoring {
            is_first_time: true,
            power_was_lost,
            ..Restoring::default()
        };
        Self {
            node_id,
            config,
            log_dirs,
            tier,
            index: ArcSwap::default(),
            changing: Mutex::new(()),
            restoring: Mutex::new(restoring),
            broken: Mutex::new(broken),
        }
    }

    /// Finds a partition by the name of its topic (P-4, P-9).
    pub(crate) fn by_name(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.index.load();
        let topic = topics
            .by_name
            .get(topic)
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        topic.find(index)
    }

    /// Finds a partition by the id of its topic (P-4, F-2).
    pub(crate) fn by_id(&self, id: TopicId, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.index.load();
        let name = topics.names.get(&id).ok_or(ErrorCode::UnknownTopicId)?;
        let topic = topics.by_name.get(name).ok_or(ErrorCode::UnknownTopicId)?;
        topic.find(index)
    }

    /// The cold tier of this broker, if it has one.
    pub(crate) fn tier(&self) -> Option<&Arc<RemoteTier>> {
        self.tier.as_ref()
    }

    /// All partitions that are served.
    pub(crate) fn all(&self) -> Vec<Arc<Partition>> {
        self.of_topics(|_| true)
    }

    /// The partitions of the topics whose settings are `wanted`. Of the others one partition is
    /// looked at each: there may be thousands that nobody uses, whose memory is cold.
    pub(crate) fn of_topics(&self, wanted: impl Fn(&TopicConfig) -> bool) -> Vec<Arc<Partition>> {
        let topics = self.index.load();
        let mut found = Vec::new();
        for topic in topics.by_name.values() {
            let served = topic.partitions.values().filter_map(|p| p.as_ref().ok());
            if served.clone().next().is_some_and(|p| wanted(&p.config())) {
                found.extend(served.cloned());
            }
        }
        found
    }

    /// Makes this broker what the image says. Blocks on the disk; one call at a time.
    pub(crate) fn apply(&self, image: &Image) -> Applied {
        let _changing = self.changing.lock();
        let old = self.index.load_full();
        let mut applied = Applied::default();
        self.remove_gone(image, &old, &mut applied);
        let mut next = Index::default();
        for topic in image.topics().iter() {
            let overrides = image
                .configs()
                .topic(topic.name())
                .cloned()
                .unwrap_or_default();
            let before = old
                .by_name
                .get(topic.name())
                .filter(|t| t.image.id() == topic.id());
            let hosted = match before {
                Some(t)
                    if Arc::ptr_eq(&t.image, topic)
                        && t.overrides == overrides
                        && !t.has_failed() =>
                {
                    Arc::clone(t)
                }
                before => self.host(topic, overrides, before, &mut applied),
            };
            next.names.insert(topic.id(), topic.name().clone());
            next.by_name.insert(topic.name().clone(), hosted);
        }
        self.index.store(Arc::new(next));
        self.restoring.lock().is_first_time = false;
        applied
    }

    /// Topics that are gone, or have another id now, go first: what comes next may have their name
    ///
    fn remove_gone(&self, image: &Image, old: &Index, applied: &mut Applied) {
        for (name, topic) in &old.by_name {
            let is_same = |t: &Arc<TopicImage>| t.id() == topic.image.id();
            if !image.topics().by_name(name).is_some_and(is_same) {
                applied.stopped.extend(self.remove(topic));
                applied.deleted.push(name.clone());
            }
        }
        if !applied.deleted.is_empty() {
            self.log_dirs.checkpoint();
        }
    }

    /// True when a partition of this start could not be opened.
    pub(crate) fn has_broken(&self) -> bool {
        !self.broken.lock().is_empty()
    }

    /// Partitions that wait for [`ReplicaManager::restore`].
    pub(crate) fn to_restore(&self) -> Vec<TopicPartition> {
        self.restoring.lock().waiting.iter().cloned().collect()
    }

    /// Asks the bucket what it has of a partition, and starts the partition with it. Errors: the
    /// store's and the disk's; the partition goes on waiting, as a log that is made without the bucket
    /// would begin at offsets that are used.
    pub(crate) async fn restore(
        self: &Arc<Self>,
        id: &TopicPartition,
        io: &Pool,
        now_ms: i64,
    ) -> Result<Option<Arc<Partition>>, RestoreError> {
        let Some((topic, epoch)) = self.hosted(id) else {
            self.restoring.lock().waiting.remove(id);
            return Ok(None);
        };
        let remote = self.remote_half(&topic.image, id.partition);
        let start = restore::remote_start(&remote, epoch).await?;
        let (this, id, topic_id) = (Arc::clone(self), id.clone(), topic.image.id());
        let started = io
            .run(move || this.start_restored(&id, topic_id, remote, start, now_ms))
            .await;
        match started {
            Ok(started) => Ok(started?),
            // As at the end.
            Err(PoolError::Stopped(_)) => Ok(None),
            Err(panicked) => Err(panicked.into()),
        }
    }

    /// The topic as it is here, and the leader epoch of a partition that this broker leads.
    fn hosted(&self, id: &TopicPartition) -> Option<(Arc<HostedTopic>, LeaderEpoch)> {
        let topic = self.index.load().by_name.get(&id.topic).cloned()?;
        let image = topic.image.partition(id.partition)?;
        let epoch = image.leader_epoch;
        (image.leader == Some(self.node_id)).then_some((topic, epoch))
    }

    fn start_restored(
        &self,
        id: &TopicPartition,
        topic_id: TopicId,
        remote: RemoteHalf,
        start: Option<RemoteStart>,
        now_ms: i64,
    ) -> Result<Option<Arc<Partition>>, LogError> {
        let _changing = self.changing.lock();
        // Deleted and created anew while the bucket was asked, the answer would be about another.
        let hosted = self.hosted(id);
        let Some((topic, epoch)) = hosted.filter(|(topic, _)| topic.image.id() == topic_id) else {
            return Ok(None);
        };
        let config = self.topic_config(&id.topic, &topic.overrides);
        let log = restore::open_log(
            &self.log_dirs,
            id,
            topic.image.id(),
            log_config(&config, self.config.producer_id_expiration_ms()),
            start,
            now_ms,
        )?;
        let partition = Partition::new(log, id.clone(), epoch, Arc::clone(&config), remote);
        // A log that was there has the settings of when it was loaded.
        self.configure(&partition, &config);
        self.restoring.lock().waiting.remove(id);
        let mut index = Index::clone(&self.index.load());
        let mut partitions = topic.partitions.clone();
        partitions.insert(id.partition, Ok(Arc::clone(&partition)));
        let next = HostedTopic {
            image: Arc::clone(&topic.image),
            overrides: Arc::clone(&topic.overrides),
            partitions,
        };
        index.by_name.insert(id.topic.clone(), Arc::new(next));
        self.index.store(Arc::new(index));
        Ok(Some(partition))
    }

    fn remote_half(&self, topic: &TopicImage, index: i32) -> RemoteHalf {
        let id = RemotePartitionId {
            topic_id: topic.id(),
            topic: topic.name().to_string(),
            partition: index,
        };
        let interval_ms = self.config.get().settings.log_retention_check_interval_ms;
        RemoteHalf::new(self.tier.clone(), id, interval_ms)
    }

    /// Settings of all partitions anew, after those of the broker have changed. Blocks as
    /// [`ReplicaManager::apply`]: a partition that is being started may have looked at the old ones.
    pub(crate) fn refresh_configs(&self) {
        let _changing = self.changing.lock();
        let topics = self.index.load();
        for topic in topics.by_name.values() {
            let config = self.topic_config(topic.image.name(), &topic.overrides);
            for partition in topic.partitions.values().filter_map(|p| p.as_ref().ok()) {
                self.configure(partition, &config);
            }
        }
    }

    fn topic_config(
        &self,
        name: &TopicName,
        overrides: &BTreeMap<String, String>,
    ) -> Arc<TopicConfig> {
        let broker = self.config.get();
        let kind = TopicKind::of(name);
        let (config, errors) = TopicConfig::resolve_stored(overrides, &broker, kind);
        for error in errors.iter() {
            tracing::warn!(topic = %name, %error, "a stored topic setting is not applied");
        }
        Arc::new(config)
    }

    fn configure(&self, partition: &Partition, config: &Arc<TopicConfig>) {
        let log = log_config(config, self.config.producer_id_expiration_ms());
        partition.set_config(Arc::clone(config), log);
    }

    fn host(
        &self,
        topic: &Arc<TopicImage>,
        overrides: Arc<BTreeMap<String, String>>,
        before: Option<&Arc<HostedTopic>>,
        applied: &mut Applied,
    ) -> Arc<HostedTopic> {
        let config = self.topic_config(topic.name(), &overrides);
        let mut partitions = HashMap::new();
        for (p, index) in topic.partitions().iter().zip(0..) {
            if p.leader != Some(self.node_id) {
                continue;
            }
            let known = before
                .and_then(|t| t.partitions.get(&index))
                .and_then(|p| p.as_ref().ok());
            let hosted = match known {
                Some(partition) => {
                    self.configure(partition, &config);
                    partition.become_leader(p.leader_epoch);
                    Ok(Arc::clone(partition))
                }
                None => self.start(topic, index, p.leader_epoch, &config, applied),
            };
            partitions.insert(index, hosted);
        }
        Arc::new(HostedTopic {
            image: Arc::clone(topic),
            overrides,
            partitions,
        })
    }

    fn start(
        &self,
        topic: &Arc<TopicImage>,
        index: i32,
        leader_epoch: i32,
        config: &Arc<TopicConfig>,
        applied: &mut Applied,
    ) -> Result<Arc<Partition>, ErrorCode> {
        let id = TopicPartition::new(topic.name().clone(), index);
        if self.broken.lock().contains(&id) {
            return Err(ErrorCode::KafkaStorageError);
        }
        // Loaded at start, or left by what this broker hosted before.
        let local = self.log_dirs.log(&id, topic.id());
        if local.is_none() && self.may_lie_in_lost_dir() {
            tracing::error!(partition = %id, "not found, and a log directory is offline: offline too");
            self.broken.lock().insert(id);
            return Err(ErrorCode::KafkaStorageError);
        }
        if self.must_ask_bucket(&id, local.as_deref(), config) {
            // Retriable: clients come back until the bucket has answered (F-21).
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let log_config = log_config(config, self.config.producer_id_expiration_ms());
        let log = match local {
            Some(log) => log,
            None => self
                .log_dirs
                .home(&id, topic.id())
                .and_then(|dir| dir.create_log(id.clone(), topic.id(), log_config))
                .map_err(|e| {
                    tracing::error!(partition = %id, error = %e, "create log");
                    ErrorCode::KafkaStorageError
                })?,
        };
        let remote = self.remote_half(topic, index);
        let partition = Partition::new(log, id, leader_epoch, Arc::clone(config), remote);
        self.configure(&partition, config); // as above
        applied.started.push(Arc::clone(&partition));
        Ok(partition)
    }

    /// What is not found at start may be in a directory that could not be opened; made anew it would
    /// have two logs when that one comes back.
    fn may_lie_in_lost_dir(&self) -> bool {
        self.restoring.lock().is_first_time && self.log_dirs.lost().next().is_some()
    }

    fn must_ask_bucket(
        &self,
        id: &TopicPartition,
        local: Option<&Log>,
        config: &TopicConfig,
    ) -> bool {
        let mut restoring = self.restoring.lock();
        // No folder, a folder that may lack what was not flushed, or one that does not know where
        // the tiered history begins.
        let is_known = local.is_some_and(Log::is_log_start_known);
        let is_doubtful = restoring.is_first_time && (!is_known || restoring.power_was_lost);
        if is_doubtful && self.tier.is_some() && config.remote_storage_enable {
            restoring.waiting.insert(id.clone());
        }
        restoring.waiting.contains(id)
    }

    fn remove(&self, topic: &HostedTopic) -> Vec<Stopped> {
        let partitions = topic.partitions.iter();
        let stop = |(index, hosted): (&i32, &Result<Arc<Partition>, ErrorCode>)| match hosted {
            Ok(partition) => stop_served(partition),
            Err(_) => self.stop_unserved(&topic.image, *index),
        };
        partitions.map(stop).collect()
    }

    /// A partition that could not be opened, or that waits for the bucket: its log may be loaded all
    /// the same, and would be in the way of the next topic of the name.
    fn stop_unserved(&self, topic: &TopicImage, index: i32) -> Stopped {
        let id = TopicPartition::new(topic.name().clone(), index);
        self.restoring.lock().waiting.remove(&id);
        let is_broken = self.broken.lock().remove(&id);
        let deleted = match self.log_dirs.log(&id, topic.id()) {
            Some(log) => log.delete(),
            None if is_broken => self.log_dirs.delete_unloaded(&id),
            None => Ok(()),
        };
        if let Err(e) = deleted {
            tracing::error!(partition = %id, error = %e, "delete a log that is not served");
        }
        let image = topic.partition(index);
        Stopped {
            leader_epoch: image.map_or(0, |p| p.leader_epoch),
            remote: Arc::new(self.remote_half(topic, index)),
            id,
        }
    }
}

fn stop_served(partition: &Partition) -> Stopped {
    partition.resign();
    if let Err(e) = partition.log.delete() {
        tracing::error!(partition = %partition.id, error = %e, "delete log");
    }
    Stopped {
        id: partition.id.clone(),
        leader_epoch: partition.leader_epoch(),
        remote: Arc::clone(&partition.remote),
    }
}

impl HostedTopic {
    /// A log could not be made; perhaps it can now.
    fn has_failed(&self) -> bool {
        self.partitions
            .values()
            .any(|p| matches!(p, Err(ErrorCode::KafkaStorageError)))
    }

    fn find(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        match self.partitions.get(&index) {
            Some(hosted) => hosted.clone(),
            None if self.image.partition(index).is_some() => Err(ErrorCode::NotLeaderOrFollower),
            None => Err(ErrorCode::UnknownTopicOrPartition),
        }
    }
}
