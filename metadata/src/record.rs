//! Records of the metadata log, with Kafka's names.
//!
//! A record is a fact that was decided; applying it never fails on a healthy image and needs no
//! judgement. Their bytes are in `record/encoding.rs` and `docs/formats/metadata-log.md`.

mod encoding;

use strandline_types::{BrokerId, LeaderEpoch, TopicId, TopicName};
use uuid::Uuid;

use crate::broker_list::BrokerList;

pub(crate) use encoding::{decode_records, encode_record, encode_records};

/// How a listener is secured; the numbers are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecurityProtocol {
    /// No encryption, no authentication (0).
    Plaintext,
    /// TLS (1).
    Ssl,
    /// SASL without encryption (2).
    SaslPlaintext,
    /// SASL over TLS (3).
    SaslSsl,
}

impl SecurityProtocol {
    /// Kafka's number.
    pub fn id(self) -> i16 {
        match self {
            Self::Plaintext => 0,
            Self::Ssl => 1,
            Self::SaslPlaintext => 2,
            Self::SaslSsl => 3,
        }
    }

    /// The protocol with Kafka's number `id`.
    pub fn from_id(id: i16) -> Option<Self> {
        [
            Self::Plaintext,
            Self::Ssl,
            Self::SaslPlaintext,
            Self::SaslSsl,
        ]
        .into_iter()
        .find(|protocol| protocol.id() == id)
    }
}

/// Where clients reach a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Name of the listener, upper case as in `listeners`.
    pub name: String,
    /// Advertised host.
    pub host: String,
    /// Advertised port.
    pub port: u16,
    /// How it is secured.
    pub security_protocol: SecurityProtocol,
}

/// A range of levels of a feature that a broker supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportedFeature {
    /// Such as `transaction.version`.
    pub name: String,
    /// Lowest level, inclusive.
    pub min: i16,
    /// Highest level, inclusive.
    pub max: i16,
}

/// What a config belongs to; the numbers are those of the protocol (D-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConfigResourceType {
    /// A topic (2).
    Topic,
    /// A broker by id, or all brokers by the empty name (4).
    Broker,
    /// A subscription of client metrics (16).
    ClientMetrics,
    /// A group (32).
    Group,
}

impl ConfigResourceType {
    /// The protocol's number.
    pub fn id(self) -> i8 {
        match self {
            Self::Topic => 2,
            Self::Broker => 4,
            Self::ClientMetrics => 16,
            Self::Group => 32,
        }
    }

    /// The type with the protocol's number `id`; BROKER_LOGGER (8) is not kept in the metadata.
    pub fn from_id(id: i8) -> Option<Self> {
        [Self::Topic, Self::Broker, Self::ClientMetrics, Self::Group]
            .into_iter()
            .find(|kind| kind.id() == id)
    }
}

/// Something that has configs: a topic by name, a broker by id, or `""` for all brokers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConfigResource {
    /// What it is.
    pub kind: ConfigResourceType,
    /// Its name.
    pub name: String,
}

impl ConfigResource {
    /// The configs of a topic.
    pub fn topic(name: &str) -> Self {
        Self {
            kind: ConfigResourceType::Topic,
            name: name.to_owned(),
        }
    }

    /// The dynamic configs of one broker.
    pub fn broker(id: BrokerId) -> Self {
        Self {
            kind: ConfigResourceType::Broker,
            name: id.to_string(),
        }
    }

    /// The dynamic defaults of all brokers.
    pub fn default_broker() -> Self {
        Self {
            kind: ConfigResourceType::Broker,
            name: String::new(),
        }
    }
}

/// A broker announced itself; replaces an older registration of the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisterBrokerRecord {
    /// `node.id`.
    pub broker_id: BrokerId,
    /// Grows with each registration of any broker.
    pub broker_epoch: i64,
    /// Chosen by the process at its start.
    pub incarnation_id: Uuid,
    /// Where clients reach it.
    pub listeners: Vec<Listener>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Not (yet) part of the cluster: no leaderships, not shown to clients.
    pub fenced: bool,
    /// `directory.id`s of its log dirs.
    pub log_dirs: Vec<Uuid>,
    /// What its version can do.
    pub features: Vec<SupportedFeature>,
}

/// Something changed about a registered broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistrationChangeRecord {
    /// The broker.
    pub broker_id: BrokerId,
    /// Its current epoch.
    pub broker_epoch: i64,
    /// Fence or unfence it.
    pub fenced: Option<bool>,
    /// It wants to stop.
    pub in_controlled_shutdown: Option<bool>,
}

/// A topic exists from now on, without partitions yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRecord {
    /// Its name.
    pub name: TopicName,
    /// Its id, never used before.
    pub topic_id: TopicId,
}

/// The next partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRecord {
    /// The topic.
    pub topic_id: TopicId,
    /// Index; the first is 0 and there are no gaps.
    pub partition: i32,
    /// Assignment, preferred leader first.
    pub replicas: BrokerList,
    /// In-sync replicas.
    pub isr: BrokerList,
    /// Leader, or `None` if no replica can lead.
    pub leader: Option<BrokerId>,
    /// Number of the leadership.
    pub leader_epoch: LeaderEpoch,
    /// Number of this state.
    pub partition_epoch: i32,
}

/// A partition changed; its partition epoch grows by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionChangeRecord {
    /// The topic.
    pub topic_id: TopicId,
    /// Index.
    pub partition: i32,
    /// A new assignment.
    pub replicas: Option<BrokerList>,
    /// New in-sync replicas.
    pub isr: Option<BrokerList>,
    /// A new leadership: `Some(None)` takes the leader away. The leader epoch grows by one.
    pub leader: Option<Option<BrokerId>>,
}

/// Every partition that a broker leads begins a new leadership of the same broker: leader epoch and
/// partition epoch grow by one. So a restart costs one record, however many partitions there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerLeadershipsRecord {
    /// The broker.
    pub broker_id: BrokerId,
}

/// A topic ceased to exist, with its partitions and its configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoveTopicRecord {
    /// The topic.
    pub topic_id: TopicId,
}

/// One config of a resource was set, or removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigRecord {
    /// What it belongs to.
    pub resource: ConfigResource,
    /// Name of the config.
    pub name: String,
    /// `None` removes it.
    pub value: Option<String>,
}

/// A feature was finalized at a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureLevelRecord {
    /// Name of the feature.
    pub name: String,
    /// 0 removes it.
    pub level: i16,
}

/// Producer ids below `next_producer_id` are given away (T-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducerIdsRecord {
    /// Who received the block.
    pub broker_id: BrokerId,
    /// Its epoch then.
    pub broker_epoch: i64,
    /// First id of the next block, exclusive end of this one.
    pub next_producer_id: i64,
}

/// One record of the metadata log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A broker announced itself.
    RegisterBroker(RegisterBrokerRecord),
    /// Something changed about a broker.
    BrokerRegistrationChange(BrokerRegistrationChangeRecord),
    /// A broker leads its partitions anew.
    BrokerLeaderships(BrokerLeadershipsRecord),
    /// A topic exists.
    Topic(TopicRecord),
    /// A partition exists.
    Partition(PartitionRecord),
    /// A partition changed.
    PartitionChange(PartitionChangeRecord),
    /// A topic is gone.
    RemoveTopic(RemoveTopicRecord),
    /// A config was set or removed.
    Config(ConfigRecord),
    /// A feature was finalized.
    FeatureLevel(FeatureLevelRecord),
    /// A block of producer ids was given away.
    ProducerIds(ProducerIdsRecord),
}

impl Record {
    /// The name, as Kafka has it where Kafka has one.
    pub fn name(&self) -> &'static str {
        encoding::kind_of(self).name
    }
}
