//! Single situations to which random histories come by chance alone, through the same handlers.

use std::path::Path;

use bytes::Bytes;
use futures::poll;
use strandline_coordinator::{Producer, TransactionEnd};
use strandline_metadata::FeatureUpdate;
use strandline_records::{BatchBuilder, Compression};
use strandline_types::{Offset, TimestampType};
use strandline_wire::ErrorCode;
use strandline_wire::messages as m;

use crate::features::TRANSACTION_VERSION;
use crate::model::client::{Patience, Pid};
use crate::model::plan::{APPEND_TIME, COMPACTED, PLAIN, Setup, TIERED, TOPICS};
use crate::model::world::World;

/// Of what is tiered, the disk keeps nothing.
pub(super) const SETUP: Setup = Setup {
    segment_bytes: 1 << 20,
    retention_ms: -1,
    retention_bytes: -1,
    local_retention_bytes: 0,
};

async fn world() -> World {
    world_of(SETUP).await
}

pub(super) async fn world_of(setup: Setup) -> World {
    let world = World::new(setup.clone()).await;
    world.prepare(&setup).await;
    world
}

/// Writes batches of one record; where the first one is.
pub(super) async fn write(world: &World, topic: usize, count: usize) -> Offset {
    let mut first = None;
    for _ in 0..count {
        let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
        builder.append(1, Some(b"k"), Some(b"v"), &[]).unwrap();
        let batch = builder.build().unwrap().to_bytes();
        let (code, (offset, _)) = world.produce(9, None, topic, batch).await;
        assert_eq!(code, 0);
        first.get_or_insert(offset);
    }
    first.unwrap()
}

/// Tiers everything that was written; the last offset in the bucket.
pub(super) async fn tier_all(world: &World, topic: usize) -> Option<Offset> {
    let partition = world.partition(topic);
    partition.log.roll(world.now_ms()).unwrap();
    world.sealed(topic);
    let (io, clock) = (&world.broker().io, world.clock());
    while partition.tier(io, clock).await.unwrap() {}
    partition.remote.highest_offset()
}

/// One record of a transaction.
fn batch(pid: Pid, sequence: i32) -> Bytes {
    let builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
    let mut builder = builder
        .with_producer(pid.0, pid.1, sequence)
        .transactional();
    builder.append(1, Some(b"k"), Some(b"v"), &[]).unwrap();
    builder.build().unwrap().to_bytes()
}

// P-74: the last end's marker may come late; the client of the next transaction must not pay for it
#[tokio::test]
async fn a_marker_between_the_guard_and_the_consent_refuses_nothing() {
    let world = world().await;
    let pid = world.init(1).await;
    let produced = world.produce_once(12, Some(1), PLAIN, batch(pid, 0));
    tokio::pin!(produced);
    // The coordinator is being asked.
    assert!(poll!(&mut produced).is_pending());
    let late = TransactionEnd {
        producer: Producer {
            id: pid.0,
            epoch: pid.1,
        },
        committed: true,
        coordinator_epoch: 0,
        raises_epoch: false,
    };
    let now_ms = world.now_ms();
    let partition = world.partition(PLAIN);
    partition.append_marker(late, now_ms).unwrap();
    let (code, (offset, _)) = produced.await;
    assert_eq!((code, offset), (0, 1));
}

// A-5, D-60: Java believes in finalized features only when their epoch has grown
#[tokio::test]
async fn the_epoch_of_the_finalized_features_grows_with_each_change() {
    let mut world = world().await;
    let mut last = finalized(&world).await;
    assert_eq!(last.0, 2);
    for level in [1, 0, 2] {
        let update = FeatureUpdate {
            name: TRANSACTION_VERSION.to_owned(),
            level,
            allow_downgrade: true,
        };
        let metadata = &world.broker().metadata;
        metadata.update_features(vec![update], false).await.unwrap();
        let now = finalized(&world).await;
        assert!(now.0 == level && now.1 > last.1, "{now:?} after {last:?}");
        world.restart().await;
        last = finalized(&world).await;
        assert!(last.0 == level && last.1 >= now.1, "{last:?} after {now:?}");
    }
}

// P-71, T-53: a client of both generations, whose end is under way while it writes
#[tokio::test]
async fn what_an_end_closes_meanwhile_is_added_to_the_next_transaction() {
    let world = world().await;
    let mut pid = world.init(1).await;
    for _ in 0..20 {
        let first = world.produce(12, Some(1), PLAIN, batch(pid, 0)).await;
        assert_eq!(first.0, 0);
        // Before version 5 the epoch stays. The answer comes before the markers.
        assert_eq!(world.end(4, 1, pid, true).await.0, 0);
        let both = [(PLAIN, batch(pid, 1)), (COMPACTED, batch(pid, 0))];
        let answer = world.produce_to(12, Some(1), &both).await;
        world.settled().await;
        // Whatever was answered: what is open in a log is known to the coordinator, and ends with it.
        pid = world.init(1).await;
        world.settled().await;
        for topic in [PLAIN, COMPACTED] {
            let offsets = world.partition(topic).log.offsets();
            assert_eq!(offsets.last_stable, offsets.log_end, "{answer:?}");
        }
    }
}

// What is named often is answered once, or a small request makes an answer of any size
#[tokio::test]
async fn what_is_named_often_is_told_once() {
    let mut world = world().await;
    let topic = m::metadata_request::MetadataRequestTopic::default()
        .with_name(Some(m::TopicName(TOPICS[PLAIN].into())));
    let request = m::MetadataRequest::default().with_topics(Some(vec![topic; 100]));
    let answer: m::MetadataResponse = world.call(9, &request).await;
    assert_eq!(answer.topics.len(), 1);

    let node_id = world.broker().node_id.0.to_string();
    let resource = m::describe_configs_request::DescribeConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(node_id.into())
        .with_configuration_keys(None);
    let request = m::DescribeConfigsRequest::default().with_resources(vec![resource; 100]);
    let answer: m::DescribeConfigsResponse = world.call(4, &request).await;
    assert_eq!(answer.results.len(), 1);

    let group = m::GroupId("g".into());
    let request = m::DescribeGroupsRequest::default().with_groups(vec![group.clone(); 100]);
    let answer: m::DescribeGroupsResponse = world.call(5, &request).await;
    assert_eq!(answer.groups.len(), 1);

    let topic = m::offset_fetch_request::OffsetFetchRequestTopics::default()
        .with_name(m::TopicName(TOPICS[PLAIN].into()))
        .with_partition_indexes(vec![0; 100]);
    let of = |topics| {
        m::offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group.clone())
            .with_topics(topics)
    };
    let some = of(Some(vec![topic; 10]));
    let groups = [vec![of(None); 100], vec![some; 10]].concat();
    let request = m::OffsetFetchRequest::default().with_groups(groups);
    let answer: m::OffsetFetchResponse = world.call(8, &request).await;
    // All of it once, and what was named.
    assert_eq!(answer.groups.len(), 11);
    world.stop().await;
}

/// The level of `transaction.version`, and the epoch of all levels.
async fn finalized(world: &World) -> (i16, i64) {
    let request = m::ApiVersionsRequest::default()
        .with_client_software_name("test".into())
        .with_client_software_version("1".into());
    let answer: m::ApiVersionsResponse = world.call(4, &request).await;
    let mut features = answer.finalized_features.iter();
    let level = features
        .find(|f| f.name.as_str() == TRANSACTION_VERSION)
        .map_or(0, |f| f.max_version_level);
    (level, answer.finalized_features_epoch)
}

// S-1, S-5: the bucket ends where the disk does, but the segment that began there has lost its name
#[tokio::test]
async fn tiering_goes_on_after_a_power_cut_at_the_border_of_two_segments() {
    let mut world = world_of(Setup {
        local_retention_bytes: -1,
        ..SETUP
    })
    .await;
    write(&world, TIERED, 3).await;
    assert_eq!(tier_all(&world, TIERED).await, Some(2));
    let lose = |logs: &Path| {
        let folder = logs.join(format!("{}-0", TOPICS[TIERED]));
        for kind in ["log", "index", "timeindex"] {
            let lost = std::fs::remove_file(folder.join(format!("{:020}.{kind}", 3)));
            assert!(kind != "log" || lost.is_ok());
        }
    };
    world.power_cut(lose).await;
    world.restore().await;
    assert_eq!(write(&world, TIERED, 1).await, 3);
    assert_eq!(tier_all(&world, TIERED).await, Some(3));
    let read = world.fetch(TIERED, false, 0, 1 << 20).await;
    assert_eq!(read.batches.len(), 4);
}

// X-58, S-24: a topic may go before the bucket has said what it has of it
#[tokio::test]
async fn a_topic_deleted_while_it_waits_for_the_bucket_leaves_nothing_behind() {
    let mut world = world().await;
    write(&world, TIERED, 3).await;
    tier_all(&world, TIERED).await;
    let topic_id = world.partition(TIERED).log.topic_id();
    assert_eq!(world.segment_objects(topic_id).len(), 1);
    world.power_cut(|_| ()).await;
    assert!(world.broker().replicas.by_name(TOPICS[TIERED], 0).is_err());
    world.delete_topics().await;
    world.prepare(&SETUP).await;
    assert_eq!(write(&world, TIERED, 1).await, 0);
    assert!(world.broker().replicas.to_restore().is_empty());
    let patience = Patience::begin();
    while !world.segment_objects(topic_id).is_empty() {
        assert!(!patience.is_over(), "its segments stay in the bucket");
        tokio::task::yield_now().await;
    }
}

// D-45: a setting that is changed while a partition waits for the bucket is in force when it is back
#[tokio::test]
async fn settings_that_change_while_a_partition_waits_for_the_bucket_reach_it() {
    const TOPIC: i8 = 2;
    const BROKER: i8 = 4;
    let mut world = world().await;
    for (kind, resource, name, value) in [
        (BROKER, "", "log.flush.interval.messages", 7),
        (TOPIC, TOPICS[TIERED], "flush.messages", 9),
    ] {
        write(&world, TIERED, 1).await;
        tier_all(&world, TIERED).await;
        world.power_cut(|_| ()).await;
        assert!(world.broker().replicas.by_name(TOPICS[TIERED], 0).is_err());
        world.set_config(kind, resource, name, value).await;
        world.restore().await;
        let partition = world.partition(TIERED);
        assert_eq!(partition.config().flush_messages, value);
        assert_eq!(partition.log.config().flush_messages, value);
    }
}

// F-4, F-62: what cannot be read takes nothing away from what is asked for behind it
#[tokio::test]
async fn a_cold_partition_behind_one_that_fails_is_read() {
    let world = world().await;
    for topic in [TIERED, APPEND_TIME] {
        write(&world, topic, 2).await;
        tier_all(&world, topic).await;
        assert_eq!(world.partition(topic).log.local_log_start_offset(), 2);
    }
    write(&world, PLAIN, 1).await;
    let broken = world.partition(TIERED).log.topic_id();
    for object in world.segment_objects(broken) {
        std::fs::remove_file(object).unwrap();
    }
    let topics = [(TIERED, 0), (APPEND_TIME, 0), (PLAIN, 0)];
    // The first one's share is all there is; the second one's first batch is larger than its share.
    for limits in [(1 << 20, 1 << 20), (100, 100), (1, 1 << 20)] {
        let read = world.fetch_of(&topics, false, limits).await;
        // Retention did not take its objects away.
        assert_eq!(
            read[0].code,
            ErrorCode::KafkaStorageError.code(),
            "{limits:?}"
        );
        assert!(read[0].batches.is_empty());
        assert_eq!(read[1].code, 0, "{limits:?}");
        let whole = limits.0 == 1 << 20;
        assert_eq!(
            read[1].batches.len(),
            if whole { 2 } else { 1 },
            "{limits:?}"
        );
        // What is left is the next one's, and no more than that.
        assert_eq!(read[2].batches.len(), usize::from(whole), "{limits:?}");
    }
}

// L-30, SEMANTICS 6.6: what is confirmed as deleted does not come back, whichever request confirms it
#[tokio::test]
async fn a_deletion_of_records_is_confirmed_only_when_it_is_written_down() {
    let world = world().await;
    write(&world, PLAIN, 2).await;
    let partition = world.partition(PLAIN);
    let file = partition.log.log_dir().join("log-start-offset-checkpoint");
    let obstacle = file.with_extension("tmp");
    std::fs::create_dir(&obstacle).unwrap();
    for attempt in 1..=2 {
        let deleted = partition.delete_records(1);
        assert!(deleted.is_err(), "{attempt}: {deleted:?}");
    }
    std::fs::remove_dir(obstacle).unwrap();
    assert_eq!(partition.delete_records(1), Ok(1));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(&format!("{} 0 1\n", TOPICS[PLAIN])), "{text}");
}
