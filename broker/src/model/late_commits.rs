//! Commits of offsets that are in the log later than their clients wait (G-53).

use std::future::Future;
use std::task::Poll;

use futures::poll;
use strandline_types::CONSUMER_OFFSETS_TOPIC;
use strandline_wire::StrBytes;
use strandline_wire::messages as m;

use crate::model::client::Patience;
use crate::model::world::World;

const GROUP: &str = "group";
const TOPIC: &str = "t";

fn wire_name() -> m::TopicName {
    m::TopicName(StrBytes::from_static_str(TOPIC))
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

async fn commit(world: &World, offset: i64) -> i16 {
    let partition = m::offset_commit_request::OffsetCommitRequestPartition::default()
        .with_committed_offset(offset);
    let topic = m::offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(wire_name())
        .with_partitions(vec![partition]);
    let request = m::OffsetCommitRequest::default()
        .with_group_id(StrBytes::from_static_str(GROUP).into())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    let response: m::OffsetCommitResponse = world.call(8, &request).await;
    response.topics[0].partitions[0].error_code
}

async fn fetch(world: &World, require_stable: bool) -> (i16, i64) {
    let topic = m::offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(wire_name())
        .with_partition_indexes(vec![0]);
    let request = m::OffsetFetchRequest::default()
        .with_group_id(StrBytes::from_static_str(GROUP).into())
        .with_topics(Some(vec![topic]))
        .with_require_stable(require_stable);
    let response: m::OffsetFetchResponse = world.call(7, &request).await;
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.committed_offset)
}

/// On the test's time, which goes on by itself whenever nothing else can.
async fn in_no_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::pause();
    let outcome = what.await;
    tokio::time::resume();
    outcome
}

// G-53, G-56: the client is told in time; who must know waits for the log, and the offset counts at last.
#[tokio::test]
async fn a_late_commit_counts() {
    let world = World::coordinating(GROUP).await;
    create(&world).await;
    assert_eq!(commit(&world, 1).await, 0);
    assert_eq!(fetch(&world, true).await, (0, 1));

    let replicas = &world.broker().replicas;
    let offsets = replicas.by_name(CONSUMER_OFFSETS_TOPIC, 0).unwrap();
    let end = offsets.log.written_end_offset();
    // The disk says nothing for a while.
    offsets.log.set_on_written(Box::new(|_| {}));
    {
        let commit = commit(&world, 2);
        tokio::pin!(commit);
        assert_eq!(poll!(&mut commit), Poll::Pending);
        assert_eq!(fetch(&world, true).await, (88, -1));
        assert_eq!(in_no_time(commit).await, 15);
    }
    assert_eq!(fetch(&world, false).await, (0, 1));
    assert_eq!(fetch(&world, true).await, (88, -1));

    let patience = Patience::begin();
    while offsets.log.written_end_offset() == end {
        assert!(!patience.is_over(), "the batch is not written");
        std::thread::yield_now();
    }
    offsets.become_leader(offsets.leader_epoch());
    assert_eq!(fetch(&world, true).await, (0, 2));
    // Somebody looks after the next one, too.
    let commit = commit(&world, 3);
    assert_eq!(in_no_time(commit).await, 15);
    // The partition is gone from here, and with it what was under way.
    offsets.resign();
    assert_eq!(fetch(&world, true).await, (0, 2));
}
