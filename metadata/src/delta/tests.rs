use strandline_types::{BrokerId, TopicId, TopicName};

use super::*;
use crate::broker_list::BrokerList;
use crate::fixtures::{CLUSTER, apply, brokers, new_topic, with_topic};
use crate::record::{
    BrokerLeadershipsRecord, ConfigRecord, PartitionChangeRecord, ProducerIdsRecord,
    RemoveTopicRecord, TopicRecord,
};

fn config(topic: &str, name: &str, value: Option<&str>) -> Record {
    Record::Config(ConfigRecord {
        resource: ConfigResource::topic(topic),
        name: name.to_owned(),
        value: value.map(str::to_owned),
    })
}

fn names(topics: &[Arc<TopicImage>]) -> Vec<&str> {
    topics.iter().map(|topic| topic.name().as_str()).collect()
}

#[test]
fn changes_name_what_differs_and_nothing_else() {
    let mut old = brokers(3);
    for name in ["a", "b", "c", "d"] {
        old = with_topic(&old, new_topic(name, 2, 2));
    }
    let id = |name: &str| old.topics().by_name(name).unwrap().id();
    let new = apply(
        &old,
        &[
            Record::RemoveTopic(RemoveTopicRecord { topic_id: id("a") }),
            Record::RemoveTopic(RemoveTopicRecord { topic_id: id("b") }),
            Record::PartitionChange(PartitionChangeRecord {
                topic_id: id("c"),
                partition: 1,
                replicas: None,
                isr: None,
                leader: Some(None),
            }),
            config("d", "number", Some("1")),
        ],
    );
    let new = with_topic(&new, new_topic("b", 1, 1));
    let changes = ImageChanges::between(&old, &new);
    assert_eq!(names(&changes.created), ["b"]);
    assert_eq!(names(&changes.deleted), ["a", "b"]);
    assert_eq!(changes.changed.len(), 1);
    let (before, after) = &changes.changed[0];
    assert_eq!(before.partitions()[0], after.partitions()[0]);
    assert_eq!(after.partitions()[1].leader, None);
    assert_eq!(after.partitions()[1].leader_epoch, 1);
    assert_eq!(changes.configs, [ConfigResource::topic("d")]);
    assert!(!changes.cluster && !changes.features);
    let none = ImageChanges::between(&new, &new.clone());
    assert!(none.created.is_empty() && none.deleted.is_empty() && none.changed.is_empty());
}

// with the topic its configs go, so that a new topic of the name begins without them.
#[test]
fn a_removed_topic_takes_its_configs_along() {
    let image = with_topic(&brokers(1), new_topic("a", 1, 1));
    let image = apply(&image, &[config("a", "number", Some("1"))]);
    assert_eq!(image.configs().topic("a").unwrap().len(), 1);
    let topic_id = image.topics().by_name("a").unwrap().id();
    let image = apply(
        &image,
        &[Record::RemoveTopic(RemoveTopicRecord { topic_id })],
    );
    assert_eq!(image.configs().topic("a"), None);
    assert_eq!(
        (image.topics().len(), image.topics().partition_count()),
        (0, 0)
    );
}

//
#[test]
fn a_new_leadership_touches_only_what_the_broker_leads() {
    let image = with_topic(&brokers(2), new_topic("a", 4, 1));
    let record = Record::BrokerLeaderships(BrokerLeadershipsRecord {
        broker_id: BrokerId(1),
    });
    let image = apply(&image, &[record]);
    for partition in image.topics().by_name("a").unwrap().partitions() {
        let expected = i32::from(partition.leader == Some(BrokerId(1)));
        assert_eq!(partition.leader_epoch, expected);
        assert_eq!(partition.partition_epoch, expected);
    }
}

#[test]
fn an_image_is_rebuilt_from_its_records() {
    let mut image = brokers(3);
    for (name, partitions) in [("a.b", 3), ("c", 70), ("__consumer_offsets", 50)] {
        image = with_topic(&image, new_topic(name, partitions, 2));
    }
    let ids = ProducerIdsRecord {
        broker_id: BrokerId(1),
        broker_epoch: 11,
        next_producer_id: 5000,
    };
    let image = apply(
        &image,
        &[config("c", "list", Some("x,y")), Record::ProducerIds(ids)],
    );
    let mut delta = Delta::new(&Image::empty(CLUSTER));
    image.for_each_record(|record| delta.replay(&record).unwrap());
    let rebuilt = delta.finish(image.offset(), image.epoch());
    let records = |image: &Image| {
        let mut records = Vec::new();
        image.for_each_record(|record| records.push(record));
        records
    };
    assert_eq!(records(&rebuilt), records(&image));
    assert_eq!(rebuilt.producer_ids(), image.producer_ids());
    assert_eq!(rebuilt.topics().partition_count(), 123);
    crate::invariants::check(&rebuilt).unwrap();
}

#[test]
fn records_that_do_not_fit_are_refused() {
    let image = with_topic(&brokers(1), new_topic("a", 1, 1));
    let topic_id = image.topics().by_name("a").unwrap().id();
    let refused = |record: Record| Delta::new(&image).replay(&record).unwrap_err();
    let unknown = TopicId::random();
    assert!(matches!(
        refused(Record::RemoveTopic(RemoveTopicRecord { topic_id: unknown })),
        ReplayError::UnknownTopicId { .. }
    ));
    let again = TopicRecord {
        name: TopicName::new("a").unwrap(),
        topic_id: unknown,
    };
    assert!(matches!(
        refused(Record::Topic(again)),
        ReplayError::DuplicateTopic { .. }
    ));
    let change = PartitionChangeRecord {
        topic_id,
        partition: 1,
        replicas: Some(BrokerList::from(vec![BrokerId(0)])),
        isr: None,
        leader: None,
    };
    assert!(matches!(
        refused(Record::PartitionChange(change)),
        ReplayError::PartitionOutOfOrder {
            partition: 1,
            count: 1,
            ..
        }
    ));
    let ids = ProducerIdsRecord {
        broker_id: BrokerId(0),
        broker_epoch: 0,
        next_producer_id: 0,
    };
    assert!(matches!(
        refused(Record::ProducerIds(ids)),
        ReplayError::Invariant(_)
    ));
}
