//! The partitions of this broker, kept equal to the metadata. Rules: A-23, G-61, R-9, X-58.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use strandline_config::{TopicConfig, TopicKind};
use strandline_log::LogDir;
use strandline_metadata::{Image, TopicImage};
use strandline_tiering::{RemotePartitionId, RemoteTier};
use strandline_types::{BrokerId, TopicId, TopicName, TopicPartition};
use strandline_wire::ErrorCode;

use crate::partition::Partition;
use crate::partition::tiering::RemoteHalf;
use crate::settings::{LiveConfig, log_config};

/// A topic as this broker holds it.
#[derive(Debug)]
struct HostedTopic {
    image: Arc<TopicImage>,
    overrides: Arc<BTreeMap<String, String>>,
    /// By index; `Err` for a partition that is here but cannot be served.
    partitions: HashMap<i32, Result<Arc<Partition>, ErrorCode>>,
}

#[derive(Debug, Default)]
struct Index {
    by_name: HashMap<TopicName, Arc<HostedTopic>>,
    names: HashMap<TopicId, TopicName>,
}

/// What a change of the metadata did here.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    /// Partitions that this broker leads from now on.
    pub(crate) started: Vec<Arc<Partition>>,
    /// Topics that are gone.
    pub(crate) deleted: Vec<TopicName>,
}

/// All partitions of this broker.
#[derive(Debug)]
pub(crate) struct ReplicaManager {
    node_id: BrokerId,
    config: Arc<LiveConfig>,
    log_dir: Arc<LogDir>,
    tier: Option<Arc<RemoteTier>>,
    index: ArcSwap<Index>,
    /// Folders that could not be opened; their partitions answer with an error.
    broken: HashSet<TopicPartition>,
}

impl ReplicaManager {
    pub(crate) fn new(
        node_id: BrokerId,
        config: Arc<LiveConfig>,
        log_dir: Arc<LogDir>,
        tier: Option<Arc<RemoteTier>>,
        broken: HashSet<TopicPartition>,
    ) -> Self {
        Self { node_id, config, log_dir, tier, index: ArcSwap::default(), broken }
    }

    /// Finds a partition by the name of its topic (P-4, P-9).
    pub(crate) fn by_name(&self, topic: &str, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.index.load();
        let topic = topics.by_name.get(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        topic.find(index)
    }

    /// Finds a partition by the id of its topic (P-4, F-2).
    pub(crate) fn by_id(&self, id: TopicId, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        let topics = self.index.load();
        let name = topics.names.get(&id).ok_or(ErrorCode::UnknownTopicId)?;
        let topic = topics.by_name.get(name).ok_or(ErrorCode::UnknownTopicId)?;
        topic.find(index)
    }

    /// All partitions that are served.
    pub(crate) fn all(&self) -> Vec<Arc<Partition>> {
        let topics = self.index.load();
        let of = |t: &Arc<HostedTopic>| -> Vec<Arc<Partition>> {
            t.partitions.values().filter_map(|p| p.as_ref().ok().cloned()).collect()
        };
        topics.by_name.values().flat_map(of).collect()
    }

    /// Makes this broker what the image says. Blocks on the disk; one call at a time.
    pub(crate) fn apply(&self, image: &Image) -> Applied {
        let old = self.index.load_full();
        let mut applied = Applied::default();
        let mut next = Index::default();
        for topic in image.topics().iter() {
            let overrides = image.configs().topic(topic.name()).cloned().unwrap_or_default();
            let before = old.by_name.get(topic.name()).filter(|t| t.image.id() == topic.id());
            let hosted = match before {
                Some(t) if Arc::ptr_eq(&t.image, topic) && t.overrides == overrides => {
                    Arc::clone(t)
                }
                before => self.host(topic, overrides, before, &mut applied),
            };
            next.names.insert(topic.id(), topic.name().clone());
            next.by_name.insert(topic.name().clone(), hosted);
        }
        for (name, topic) in &old.by_name {
            let stays = next.by_name.get(name).is_some_and(|t| t.image.id() == topic.image.id());
            if !stays {
                self.remove(topic);
                applied.deleted.push(name.clone());
            }
        }
        self.index.store(Arc::new(next));
        applied
    }

    /// Settings of all partitions anew, after those of the broker have changed.
    pub(crate) fn refresh_configs(&self) {
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
            let known = before.and_then(|t| t.partitions.get(&index)).and_then(|p| p.as_ref().ok());
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
        Arc::new(HostedTopic { image: Arc::clone(topic), overrides, partitions })
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
        if self.broken.contains(&id) {
            return Err(ErrorCode::KafkaStorageError);
        }
        let log_config = log_config(config, self.config.producer_id_expiration_ms());
        let log = match self.log_dir.log(&id) {
            // Loaded at start, under its settings (X-58: never of an older topic of the name).
            Some(log) => log,
            None => self.log_dir.create_log(id.clone(), topic.id(), log_config).map_err(|e| {
                tracing::error!(partition = %id, error = %e, "create log");
                ErrorCode::KafkaStorageError
            })?,
        };
        let remote_id = RemotePartitionId {
            topic_id: topic.id(),
            topic: topic.name().to_string(),
            partition: index,
        };
        let remote = RemoteHalf::new(
            self.tier.clone(),
            remote_id,
            self.config.get().settings.log_retention_check_interval_ms,
        );
        let partition =
            Partition::new(log, id, topic.id(), leader_epoch, Arc::clone(config), remote);
        applied.started.push(Arc::clone(&partition));
        Ok(partition)
    }

    fn remove(&self, topic: &HostedTopic) {
        for partition in topic.partitions.values().filter_map(|p| p.as_ref().ok()) {
            partition.resign();
            if let Err(e) = partition.log.delete() {
                tracing::error!(partition = %partition.id, error = %e, "delete log");
            }
        }
    }
}

impl HostedTopic {
    fn find(&self, index: i32) -> Result<Arc<Partition>, ErrorCode> {
        match self.partitions.get(&index) {
            Some(hosted) => hosted.clone(),
            None if self.image.partition(index).is_some() => Err(ErrorCode::NotLeaderOrFollower),
            None => Err(ErrorCode::UnknownTopicOrPartition),
        }
    }
}
