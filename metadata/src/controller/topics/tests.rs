use super::*;
use crate::broker_list::BrokerList;
use crate::fixtures::{Validator, apply, brokers, new_topic, with_topic};

fn request(topics: Vec<NewTopic>) -> CreateTopics {
    CreateTopics {
        topics,
        validate_only: false,
        default_num_partitions: 4,
        default_replication_factor: 2,
    }
}

fn decide(image: &Image, topics: Vec<NewTopic>) -> PerTopic<CreatedTopic> {
    create_topics(image, &request(topics), &Validator, TopicId::random)
        .unwrap()
        .1
}

fn refusal(image: &Image, topic: NewTopic) -> RequestError {
    decide(image, vec![topic]).remove(0).unwrap_err()
}

fn manual(assignments: &[(i32, &[i32])]) -> NewTopic {
    NewTopic {
        assignments: assignments
            .iter()
            .map(|(partition, ids)| (*partition, ids.iter().copied().map(BrokerId).collect()))
            .collect(),
        ..new_topic("manual", -1, -1)
    }
}

// D-1
#[test]
fn illegal_names_are_refused() {
    for name in ["", ".", "..", "a b", "a/b", &"x".repeat(250)] {
        let error = refusal(&brokers(1), new_topic(name, 1, 1));
        assert!(
            matches!(error, RequestError::InvalidTopicName(_)),
            "{name}: {error}"
        );
    }
}

// D-2
#[test]
fn names_that_collide_are_refused_within_a_request_too() {
    let image = with_topic(&brokers(1), new_topic("a.b", 1, 1));
    let error = refusal(&image, new_topic("a_b", 1, 1));
    assert!(
        matches!(error, RequestError::InvalidTopicName(_)),
        "{error}"
    );
    let replies = decide(&image, vec![new_topic("x_y", 1, 1), new_topic("x.y", 1, 1)]);
    assert!(replies[0].is_ok());
    assert!(matches!(replies[1], Err(RequestError::InvalidTopicName(_))));
}

// D-3
#[test]
fn an_existing_topic_is_refused() {
    let image = with_topic(&brokers(1), new_topic("a", 1, 1));
    let error = refusal(&image, new_topic("a", 1, 1));
    assert_eq!(error, RequestError::TopicAlreadyExists("a".to_owned()));
}

// 9.1
#[test]
fn a_name_given_twice_is_refused_both_times_and_the_others_are_created() {
    let topics = vec![
        new_topic("a", 1, 1),
        new_topic("b", 1, 1),
        new_topic("a", 1, 1),
    ];
    let replies = decide(&brokers(1), topics);
    assert!(matches!(replies[0], Err(RequestError::InvalidRequest(_))));
    assert!(replies[1].is_ok());
    assert!(matches!(replies[2], Err(RequestError::InvalidRequest(_))));
}

// D-4
#[test]
fn bad_configs_are_refused() {
    let with = |name: &str, value: Option<&str>| NewTopic {
        configs: vec![(name.to_owned(), value.map(str::to_owned))],
        ..new_topic("a", 1, 1)
    };
    for topic in [
        with("number", None),
        with("number", Some("x")),
        with("other", Some("1")),
    ] {
        let error = refusal(&brokers(1), topic);
        assert!(matches!(error, RequestError::InvalidConfig(_)), "{error}");
    }
    let created = decide(&brokers(1), vec![with("number", Some("1"))])
        .remove(0)
        .unwrap();
    assert_eq!(created.configs.len(), 1);
}

// D-5
#[test]
fn assignments_exclude_counts() {
    for (partitions, factor) in [(1, -1), (-1, 1)] {
        let topic = NewTopic {
            num_partitions: partitions,
            replication_factor: factor,
            ..manual(&[(0, &[0])])
        };
        assert!(matches!(
            refusal(&brokers(2), topic),
            RequestError::InvalidRequest(_)
        ));
    }
}

// D-6
#[test]
fn bad_assignments_are_refused() {
    let bad: [&[(i32, &[i32])]; 8] = [
        &[(0, &[0]), (0, &[1])],
        &[(1, &[0])],
        &[(-1, &[0])],
        &[(0, &[])],
        &[(0, &[7])],
        &[(0, &[1, 1])],
        &[(0, &[0]), (1, &[0, 1])],
        &[(0, &[100])],
    ];
    for assignments in bad {
        let error = refusal(&brokers(2), manual(assignments));
        assert!(
            matches!(error, RequestError::InvalidReplicaAssignment(_)),
            "{assignments:?}: {error}"
        );
    }
}

// D-6
#[test]
fn an_assignment_is_taken_as_given_and_fenced_replicas_are_not_in_the_isr() {
    let image = with_topic(&brokers(2), manual(&[(1, &[1, 0]), (0, &[100, 1])]));
    let topic = image.topics().by_name("manual").unwrap();
    let ids = |list: &BrokerList| list.iter().map(|id| id.0).collect::<Vec<_>>();
    let first = &topic.partitions()[0];
    assert_eq!(
        (ids(&first.replicas), ids(&first.isr)),
        (vec![100, 1], vec![1])
    );
    assert_eq!(first.leader, Some(BrokerId(1)));
    let second = &topic.partitions()[1];
    assert_eq!(
        (ids(&second.replicas), second.leader),
        (vec![1, 0], Some(BrokerId(1)))
    );
}

// D-7
#[test]
fn a_replication_factor_needs_as_many_alive_brokers() {
    for factor in [0, -2, 3] {
        let error = refusal(&brokers(2), new_topic("a", 1, factor));
        assert!(
            matches!(error, RequestError::InvalidReplicationFactor(_)),
            "{factor}: {error}"
        );
    }
    let error = refusal(&brokers(0), new_topic("a", 1, 1));
    assert!(
        matches!(error, RequestError::InvalidReplicationFactor(_)),
        "all fenced: {error}"
    );
}

// D-8
#[test]
fn a_topic_needs_a_partition() {
    for partitions in [0, -2] {
        let error = refusal(&brokers(1), new_topic("a", partitions, 1));
        assert!(
            matches!(error, RequestError::InvalidPartitions(_)),
            "{partitions}: {error}"
        );
    }
}

// D-11
#[test]
fn a_request_has_at_most_10000_records() {
    let image = brokers(1);
    let decide = |topics| create_topics(&image, &request(topics), &Validator, TopicId::random);
    let fits = decide(vec![new_topic("a", 9_999, 1)]).unwrap();
    assert_eq!(fits.0.len(), 10_000);
    for topics in [
        vec![new_topic("a", 10_000, 1)],
        vec![new_topic("a", i32::MAX, 1)],
        vec![new_topic("a", 5_000, 1), new_topic("b", 5_000, 1)],
    ] {
        assert!(matches!(
            decide(topics),
            Err(RequestError::PolicyViolation(_))
        ));
    }
}

// D-12
#[test]
fn minus_one_is_the_default() {
    let created = decide(&brokers(3), vec![new_topic("a", -1, -1)])
        .remove(0)
        .unwrap();
    assert_eq!((created.num_partitions, created.replication_factor), (4, 2));
}

// D-13
#[test]
fn validate_only_checks_and_creates_nothing() {
    let image = brokers(1);
    let mut request = request(vec![new_topic("a", 1, 1), new_topic("b", 0, 1)]);
    request.validate_only = true;
    let (records, replies) = create_topics(&image, &request, &Validator, TopicId::random).unwrap();
    assert!(records.is_empty());
    assert!(!replies[0].as_ref().unwrap().topic_id.is_zero());
    assert!(replies[1].is_err());
}

//
#[test]
fn new_partitions_begin_at_epoch_0_with_a_leader() {
    let image = with_topic(&brokers(3), new_topic("a", 6, 3));
    for partition in image.topics().by_name("a").unwrap().partitions() {
        assert_eq!((partition.leader_epoch, partition.partition_epoch), (0, 0));
        assert_eq!(partition.leader, partition.replicas.first().copied());
        assert_eq!(partition.isr, partition.replicas);
    }
}

// 9.3
#[test]
fn topics_are_deleted_by_name_and_by_id() {
    let image = with_topic(&brokers(1), new_topic("a", 1, 1));
    let image = with_topic(&image, new_topic("b", 1, 1));
    let id = image.topics().by_name("b").unwrap().id();
    let unknown = TopicId::random();
    let refs = [
        TopicRef::Name("a".to_owned()),
        TopicRef::Id(id),
        TopicRef::Name("x".to_owned()),
        TopicRef::Id(unknown),
    ];
    let (records, replies) = delete_topics(&image, &refs).unwrap();
    assert_eq!(replies[0].as_ref().unwrap().name.as_str(), "a");
    assert_eq!(replies[1].as_ref().unwrap().topic_id, id);
    assert_eq!(
        replies[2],
        Err(RequestError::UnknownTopicOrPartition("x".to_owned()))
    );
    assert_eq!(replies[3], Err(RequestError::UnknownTopicId(unknown)));
    assert!(apply(&image, &records).topics().is_empty());
}

// 9.3
#[test]
fn a_topic_named_twice_is_not_deleted() {
    let image = with_topic(&brokers(1), new_topic("a", 1, 1));
    let name = TopicRef::Name("a".to_owned());
    let id = TopicRef::Id(image.topics().by_name("a").unwrap().id());
    for refs in [
        [name.clone(), name.clone()],
        [id.clone(), id.clone()],
        [name, id],
    ] {
        let (records, replies) = delete_topics(&image, &refs).unwrap();
        assert!(records.is_empty());
        for reply in replies {
            assert!(
                matches!(reply, Err(RequestError::InvalidRequest(_))),
                "{refs:?}"
            );
        }
    }
}

fn more(name: &str, count: i32, assignments: Option<&[&[i32]]>) -> NewPartitions {
    let ids = |list: &&[i32]| list.iter().copied().map(BrokerId).collect();
    let assignments = assignments.map(|lists| lists.iter().map(ids).collect());
    NewPartitions {
        name: name.to_owned(),
        count,
        assignments,
    }
}

// 9.2
#[test]
fn a_topic_grows() {
    let image = with_topic(&brokers(2), new_topic("a", 2, 2));
    let requests = [more("a", 4, Some(&[&[1, 0], &[0, 1]]))];
    let (records, replies) = create_partitions(&image, &requests, false).unwrap();
    assert_eq!(replies, [Ok(())]);
    let grown = apply(&image, &records);
    let partitions = grown.topics().by_name("a").unwrap().partitions();
    assert_eq!(partitions.len(), 4);
    assert_eq!(partitions[2].leader, Some(BrokerId(1)));
    let (records, replies) = create_partitions(&image, &[more("a", 3, None)], true).unwrap();
    assert!(records.is_empty() && replies[0].is_ok());
}

// 9.2
#[test]
fn growth_is_checked() {
    let image = with_topic(&brokers(2), new_topic("a", 2, 1));
    let refusal = |request| {
        create_partitions(&image, &[request], false)
            .unwrap()
            .1
            .remove(0)
    };
    for count in [2, 1, 0, -1] {
        let error = refusal(more("a", count, None));
        assert!(
            matches!(error, Err(RequestError::InvalidPartitions(_))),
            "{count}"
        );
    }
    let bad: [&[&[i32]]; 4] = [&[], &[&[0], &[1]], &[&[7]], &[&[0, 1]]];
    for lists in bad {
        let error = refusal(more("a", 3, Some(lists)));
        assert!(
            matches!(error, Err(RequestError::InvalidReplicaAssignment(_))),
            "{lists:?}"
        );
    }
    let unknown = refusal(more("x", 3, None));
    assert_eq!(
        unknown,
        Err(RequestError::UnknownTopicOrPartition("x".to_owned()))
    );
    let twice = [more("a", 3, None), more("a", 4, None)];
    for reply in create_partitions(&image, &twice, false).unwrap().1 {
        assert!(matches!(reply, Err(RequestError::InvalidRequest(_))));
    }
    let huge = create_partitions(&image, &[more("a", i32::MAX, None)], false);
    assert!(matches!(huge, Err(RequestError::PolicyViolation(_))));
}
