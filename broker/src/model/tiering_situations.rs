//! Single situations of a partition that is tiered.

use std::sync::Arc;

use futures::poll;
use prometheus_client::registry::Registry;
use strandline_bucket::faulty::{Fault, FaultyStore, On};
use strandline_bucket::{Bucket, BucketOptions};
use strandline_records::{BatchBuilder, Compression};
use strandline_tiering::{RemotePartitionId, RemoteTier, RemoteTierOptions};
use strandline_types::{BrokerId, TimestampType, TopicId};

use crate::model::client::Patience;
use crate::model::plan::{APPEND_TIME, Setup, TIERED, TOPICS};
use crate::model::situations::{SETUP, tier_all, world_of, write};
use crate::model::world::World;

async fn tier_once(world: &World) -> bool {
    let (io, clock) = (&world.broker().io, world.clock());
    world.partition(TIERED).tier(io, clock).await.unwrap()
}

// L-5: a log that keeps nothing here is cut by the interval of retention, not as often as the bucket is looked after
#[tokio::test]
async fn what_keeps_nothing_on_the_disk_is_not_rolled_by_each_upload() {
    let world = world_of(SETUP).await;
    write(&world, TIERED, 2).await;
    tier_all(&world, TIERED).await;
    write(&world, TIERED, 1).await;
    let partition = world.partition(TIERED);
    for _ in 0..3 {
        assert!(!tier_once(&world).await);
    }
    assert_eq!(partition.log.active_base_offset(), 2);
    partition.apply_local_retention(world.now_ms()).unwrap();
    assert_eq!(partition.log.active_base_offset(), 3);
    world.sealed(TIERED);
    assert!(tier_once(&world).await);
    assert!(!tier_once(&world).await);
    assert_eq!(partition.log.local_log_start_offset(), 3);
}

// S-1: nobody knows how long a record has waited that came before the clock was set back
#[tokio::test]
async fn a_clock_that_is_set_back_does_not_keep_records_from_the_bucket() {
    let world = world_of(SETUP).await;
    write(&world, TIERED, 2).await;
    tier_all(&world, TIERED).await;
    write(&world, TIERED, 1).await;
    let partition = world.partition(TIERED);
    assert!(!partition.needs_tiering(world.now_ms()));
    world.set_wall_ms(world.now_ms() - 10 * 3_600_000);
    assert!(partition.needs_tiering(world.now_ms()));
    // What was sealed is uploaded once the writer is through with it.
    tier_once(&world).await;
    world.sealed(TIERED);
    tier_once(&world).await;
    assert_eq!(partition.remote.highest_offset(), Some(2));
    assert!(!partition.needs_tiering(world.now_ms()));
}

// S-21: a log at its limit is above it by less than a segment most of the time
#[tokio::test]
async fn a_log_at_its_limit_of_bytes_is_left_alone_until_retention_is_due() {
    let world = world_of(Setup {
        retention_bytes: 1,
        ..SETUP
    })
    .await;
    let partition = world.partition(TIERED);
    for _ in 0..3 {
        write(&world, TIERED, 1).await;
        tier_all(&world, TIERED).await;
        world.advance(10);
    }
    tier_once(&world).await;
    assert_eq!(partition.log.log_start_offset(), 2);
    let view = partition.remote.get().unwrap().view();
    assert!(view.size_in_bytes() > 1 && view.segment_count() == 1);
    assert!(!partition.needs_tiering(world.now_ms()));
    world.advance(10);
    assert!(partition.needs_tiering(world.now_ms()));
}

// S-5, S-21: what cannot be known of the expired does not keep the disk full
#[tokio::test]
async fn a_bucket_that_cannot_expire_does_not_hold_up_uploads() {
    let world = world_of(Setup {
        retention_bytes: 1,
        ..SETUP
    })
    .await;
    let store = FaultyStore::in_memory();
    let (options, registry) = (BucketOptions::default(), &mut Registry::default());
    let bucket = Bucket::over_store(Arc::clone(&store) as _, options, registry);
    let options = RemoteTierOptions::new(bucket, "cluster", BrokerId(1), "/nowhere".into());
    let tier = RemoteTier::open(options, registry).unwrap();
    let id = RemotePartitionId {
        topic_id: TopicId(uuid::Uuid::from_u128(1)),
        topic: TOPICS[TIERED].to_owned(),
        partition: 0,
    };
    let remote = tier.open_partition(id, 0).await.unwrap();
    let partition = world.partition(TIERED);
    for at in 0..3 {
        write(&world, TIERED, 1).await;
        partition.log.roll(world.now_ms()).unwrap();
        world.sealed(TIERED);
        let segment = partition.log.first_sealed_segment(at, at + 1).unwrap();
        let segment = Arc::new(segment.unwrap());
        remote
            .upload(segment, at + 1, world.now_ms())
            .await
            .unwrap();
    }
    let (io, clock) = (&world.broker().io, world.clock());
    assert!(partition.expiry_is_due(&remote, world.now_ms()));
    store.plan(On::Put, "", [Some(Fault::Denied)]);
    partition.expire_or_wait(&remote, io, clock).await.unwrap();
    assert_eq!(remote.view().segment_count(), 3);
    assert!(!partition.expiry_is_due(&remote, world.now_ms()));
    world.advance(10);
    partition.expire_or_wait(&remote, io, clock).await.unwrap();
    assert!(remote.view().segment_count() < 3);
}

// S-21: with LogAppendTime a batch keeps the client's base timestamp, whatever its clock says
#[tokio::test]
async fn a_clock_that_is_ahead_does_not_keep_what_was_appended_long_ago() {
    let world = world_of(SETUP).await;
    let ahead = world.now_ms() * 1000;
    let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
    builder.append(ahead, Some(b"k"), Some(b"v"), &[]).unwrap();
    let batch = builder.build().unwrap().to_bytes();
    let (code, _) = world.produce(9, None, APPEND_TIME, batch).await;
    assert_eq!(code, 0);
    tier_all(&world, APPEND_TIME).await;
    let view = world.partition(APPEND_TIME).remote.get().unwrap().view();
    let segment = &view.manifest().inline[0];
    assert_eq!(segment.max_timestamp, world.now_ms());
    assert_eq!(segment.min_timestamp, world.now_ms());
}

// F-60: a fetch that does not wait so long is not the end of what it began
#[tokio::test]
async fn a_chain_is_opened_even_if_nobody_waits_for_it() {
    let mut world = world_of(SETUP).await;
    write(&world, TIERED, 1).await;
    tier_all(&world, TIERED).await;
    world.restart().await;
    let partition = world.partition(TIERED);
    {
        let opening = partition.remote.open(0);
        tokio::pin!(opening);
        assert!(poll!(&mut opening).is_pending());
    }
    let patience = Patience::begin();
    while partition.remote.get().is_none() {
        assert!(!patience.is_over(), "it was given up");
        tokio::task::yield_now().await;
    }
}

// A topic that is gone is gone from the metrics too.
#[tokio::test]
async fn the_metrics_forget_a_topic_with_its_last_partition() {
    let store = FaultyStore::in_memory();
    let (options, mut registry) = (BucketOptions::default(), Registry::default());
    let bucket = Bucket::over_store(store as _, options, &mut registry);
    let options = RemoteTierOptions::new(bucket, "cluster", BrokerId(1), "/nowhere".into());
    let tier = RemoteTier::open(options, &mut registry).unwrap();
    let has_topic = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.contains("topic=\"gone\"")
    };
    let open = async |partition| {
        let topic_id = TopicId(uuid::Uuid::from_u128(1));
        let topic = "gone".to_owned();
        let id = RemotePartitionId {
            topic_id,
            topic,
            partition,
        };
        tier.open_partition(id, 0).await.unwrap()
    };
    let (first, second) = (open(0).await, open(1).await);
    assert!(has_topic());
    first.delete_all(0).await.unwrap();
    drop(first);
    assert!(has_topic());
    drop(second);
    assert!(!has_topic());
}
