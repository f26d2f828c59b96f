//! Images and a validator for the tests of this crate.

use proptest::prelude::*;
use strandline_types::{BrokerId, TopicId, TopicName};
use uuid::Uuid;

use crate::broker_list::BrokerList;
use crate::controller::ConfigValidator;
use crate::controller::topics::{CreateTopics, NewTopic, create_topics};
use crate::delta::Delta;
use crate::error::RequestError;
use crate::image::{ConfigMap, ConfigsImage, Image};
use crate::record::{
    BrokerLeadershipsRecord, BrokerRegistrationChangeRecord, ConfigRecord, ConfigResource,
    ConfigResourceType, FeatureLevelRecord, Listener, PartitionChangeRecord, PartitionRecord,
    ProducerIdsRecord, Record, RegisterBrokerRecord, RemoveTopicRecord, SecurityProtocol,
    SupportedFeature, TopicRecord,
};

pub(crate) const CLUSTER: &str = "AAAAAAAAAAAAAAAAAAAAAQ";

/// Knows `number` (a number), `list` (a list, default `delete`) and refuses `number` below 0. Takes
/// `fixed`, which is never stored.
#[derive(Debug)]
pub(crate) struct Validator;

impl ConfigValidator for Validator {
    fn validate(
        &self,
        _resource: &ConfigResource,
        overrides: &ConfigMap,
        _configs: &ConfigsImage,
    ) -> Result<ConfigMap, RequestError> {
        for (name, value) in overrides {
            let is_good = match name.as_str() {
                "number" => value.parse::<i64>().is_ok_and(|number| number >= 0),
                "list" | "fixed" => true,
                _ => false,
            };
            if !is_good {
                return Err(RequestError::InvalidConfig(format!("{name}={value}")));
            }
        }
        let mut stored = overrides.clone();
        stored.remove("fixed");
        Ok(stored)
    }

    fn list_default(&self, _resource: &ConfigResource, name: &str) -> Option<String> {
        (name == "list").then(|| "delete".to_owned())
    }
}

pub(crate) fn register(id: i32, fenced: bool) -> Record {
    Record::RegisterBroker(RegisterBrokerRecord {
        broker_id: BrokerId(id),
        broker_epoch: i64::from(id) + 10,
        incarnation_id: Uuid::from_u128(id.unsigned_abs().into()),
        listeners: vec![listener()],
        rack: Some(format!("rack-{id}")),
        fenced,
        log_dirs: vec![Uuid::from_u128(7)],
        features: vec![SupportedFeature {
            name: "f".to_owned(),
            min: 1,
            max: 5,
        }],
    })
}

pub(crate) fn listener() -> Listener {
    Listener {
        name: "PLAINTEXT".to_owned(),
        host: "localhost".to_owned(),
        port: 9092,
        security_protocol: SecurityProtocol::Plaintext,
    }
}

/// Brokers 0 to `alive` - 1, and one fenced broker, 100.
pub(crate) fn brokers(alive: i32) -> Image {
    let mut records: Vec<_> = (0..alive).map(|id| register(id, false)).collect();
    records.push(register(100, true));
    apply(&Image::empty(CLUSTER), &records)
}

/// The image after one more entry.
pub(crate) fn apply(image: &Image, records: &[Record]) -> Image {
    let mut delta = Delta::new(image);
    for record in records {
        delta.replay(record).unwrap();
    }
    let image = delta.finish(image.offset() + 1, 1);
    crate::invariants::check(&image).unwrap();
    image
}

pub(crate) fn new_topic(name: &str, num_partitions: i32, replication_factor: i16) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        num_partitions,
        replication_factor,
        ..NewTopic::default()
    }
}

/// `image` with one more topic.
pub(crate) fn with_topic(image: &Image, topic: NewTopic) -> Image {
    let request = CreateTopics {
        topics: vec![topic],
        ..CreateTopics::default()
    };
    let (records, mut replies) =
        create_topics(image, &request, &Validator, TopicId::random).unwrap();
    replies.remove(0).unwrap();
    apply(image, &records)
}

pub(crate) fn any_record() -> impl Strategy<Value = Record> {
    let broker = || (0_i32..1000).prop_map(BrokerId);
    let topic_id = || any::<u128>().prop_map(|id| TopicId(Uuid::from_u128(id)));
    let list = || prop::collection::vec(broker(), 0..8).prop_map(BrokerList::from);
    let text = || ".{0,12}";
    let resource = (0_usize..4, text()).prop_map(|(kind, name)| ConfigResource {
        kind: [
            ConfigResourceType::Topic,
            ConfigResourceType::Broker,
            ConfigResourceType::ClientMetrics,
            ConfigResourceType::Group,
        ][kind],
        name,
    });
    prop_oneof![
        (
            broker(),
            any::<i64>(),
            any::<u128>(),
            any::<bool>(),
            prop::option::of(text()),
            any::<u16>()
        )
            .prop_map(|(broker_id, broker_epoch, id, fenced, rack, port)| {
                Record::RegisterBroker(RegisterBrokerRecord {
                    broker_id,
                    broker_epoch,
                    incarnation_id: Uuid::from_u128(id),
                    listeners: vec![Listener { port, ..listener() }; usize::from(port % 3)],
                    rack,
                    fenced,
                    log_dirs: vec![Uuid::from_u128(id); usize::from(port % 4)],
                    features: vec![SupportedFeature {
                        name: "x".to_owned(),
                        min: -1,
                        max: 9,
                    }],
                })
            }),
        (
            broker(),
            any::<i64>(),
            any::<Option<bool>>(),
            any::<Option<bool>>()
        )
            .prop_map(
                |(broker_id, broker_epoch, fenced, in_controlled_shutdown)| {
                    Record::BrokerRegistrationChange(BrokerRegistrationChangeRecord {
                        broker_id,
                        broker_epoch,
                        fenced,
                        in_controlled_shutdown,
                    })
                }
            ),
        broker().prop_map(|broker_id| {
            Record::BrokerLeaderships(BrokerLeadershipsRecord { broker_id })
        }),
        ("[a-zA-Z0-9_-]{1,249}", topic_id()).prop_map(|(name, topic_id)| {
            Record::Topic(TopicRecord {
                name: TopicName::new(&name).unwrap(),
                topic_id,
            })
        }),
        (
            topic_id(),
            any::<i32>(),
            list(),
            list(),
            prop::option::of(broker()),
            any::<i32>()
        )
            .prop_map(|(topic_id, partition, replicas, isr, leader, epoch)| {
                Record::Partition(PartitionRecord {
                    topic_id,
                    partition,
                    replicas,
                    isr,
                    leader,
                    leader_epoch: epoch,
                    partition_epoch: epoch.wrapping_mul(3),
                })
            }),
        (
            topic_id(),
            any::<i32>(),
            prop::option::of(list()),
            prop::option::of(list()),
            prop::option::of(prop::option::of(broker()))
        )
            .prop_map(|(topic_id, partition, replicas, isr, leader)| {
                Record::PartitionChange(PartitionChangeRecord {
                    topic_id,
                    partition,
                    replicas,
                    isr,
                    leader,
                })
            }),
        topic_id().prop_map(|topic_id| Record::RemoveTopic(RemoveTopicRecord { topic_id })),
        (resource, text(), prop::option::of(text())).prop_map(|(resource, name, value)| {
            Record::Config(ConfigRecord {
                resource,
                name,
                value,
            })
        }),
        (text(), any::<i16>())
            .prop_map(|(name, level)| { Record::FeatureLevel(FeatureLevelRecord { name, level }) }),
        (broker(), any::<i64>(), any::<i64>()).prop_map(
            |(broker_id, broker_epoch, next_producer_id)| {
                Record::ProducerIds(ProducerIdsRecord {
                    broker_id,
                    broker_epoch,
                    next_producer_id,
                })
            }
        ),
    ]
}
