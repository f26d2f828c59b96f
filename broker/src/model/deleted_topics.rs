//! Commits of offsets that meet the deletion of their topic: what comes later under its name must not
//! inherit them, and must not lose its own (G-61).

use std::sync::Arc;

use strandline_group_coordinator::{
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, OffsetFetchQuery, Reply, Request,
};
use strandline_metadata::Image;
use strandline_types::TopicName;
use strandline_wire::StrBytes;
use strandline_wire::messages as m;

use crate::model::client::Patience;
use crate::model::world::World;

const GROUP: &str = "group";
const TOPIC: &str = "again";

fn wire_name() -> m::TopicName {
    m::TopicName(StrBytes::from_static_str(TOPIC))
}

async fn world() -> World {
    let world = World::coordinating(GROUP).await;
    create(&world).await;
    world
}

async fn create(world: &World) {
    let topic = m::create_topics_request::CreatableTopic::default()
        .with_name(wire_name())
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = m::CreateTopicsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(60_000);
    let response: m::CreateTopicsResponse = world.call(5, &request).await;
    assert_eq!(response.topics[0].error_code, 0);
}

async fn delete(world: &World) {
    let request = m::DeleteTopicsRequest::default()
        .with_topic_names(vec![wire_name()])
        .with_timeout_ms(60_000);
    let response: m::DeleteTopicsResponse = world.call(4, &request).await;
    assert_eq!(response.responses[0].error_code, 0);
}

fn image(world: &World) -> Arc<Image> {
    world.broker().metadata.image()
}

/// A commit by a request that saw `image`; whether it was taken.
async fn commit(world: &World, image: &Image, offset: i64) -> bool {
    let request = OffsetCommitRequest {
        group_id: GROUP.to_owned(),
        generation_id: -1,
        member_id: String::new(),
        group_instance_id: None,
        retention_time_ms: None,
        supports_group_id_not_found: false,
        topics: vec![OffsetCommitTopic {
            name: TOPIC.to_owned(),
            partitions: vec![OffsetCommitPartition {
                partition: 0,
                offset,
                leader_epoch: -1,
                metadata: String::new(),
            }],
        }],
    };
    let groups = &world.broker().groups;
    let reply = groups.commit(Request::OffsetCommit(request), image, None);
    let Ok(Reply::OffsetCommit(reply)) = reply.await else {
        panic!("no answer");
    };
    let mut partitions = reply.topics.iter().flat_map(|t| &t.partitions);
    partitions.next().is_some_and(|(_, error)| error.is_none())
}

fn committed(world: &World) -> i64 {
    let query = OffsetFetchQuery {
        group_id: GROUP.to_owned(),
        topics: Some(vec![(TOPIC.to_owned(), vec![0])]),
        require_stable: false,
    };
    let fetched = world.broker().groups.fetch_offsets(&query).unwrap();
    fetched[0].partitions[0].offset
}

// G-61: the topic is deleted while a commit waits for the verification of its transaction.
#[tokio::test]
async fn a_commit_that_comes_after_the_deletion_is_not_taken() {
    let world = world().await;
    let old = image(&world);
    assert!(commit(&world, &old, 3).await);
    delete(&world).await;
    assert!(!commit(&world, &old, 4).await);
    create(&world).await;
    let patience = Patience::begin();
    while committed(&world) != -1 {
        assert!(!patience.is_over(), "the offset of the old one stays");
        tokio::task::yield_now().await;
    }
    assert!(!commit(&world, &old, 5).await, "meant for the old one");
    assert_eq!(committed(&world), -1);
    assert!(commit(&world, &image(&world), 6).await);
    assert_eq!(committed(&world), 6);
}

// G-61: the topic has come again, and the coordinators have not been told yet that the old one is gone.
#[tokio::test]
async fn a_commit_before_the_deletion_is_told_is_not_taken_for_an_old_one() {
    let world = world().await;
    let old = image(&world);
    delete(&world).await;
    create(&world).await;
    let groups = &world.broker().groups;
    groups.on_applied(old, &[]);
    let new = image(&world);
    let is_taken = commit(&world, &new, 7).await;
    groups.on_applied(Arc::clone(&new), &[TopicName::new(TOPIC).unwrap()]);
    assert_eq!((is_taken, committed(&world)), (false, -1));
    assert!(commit(&world, &new, 8).await);
    assert_eq!(committed(&world), 8);
}
