//! Single situations to which random histories come by chance alone, through the same handlers.

use bytes::Bytes;
use futures::poll;
use strandline_coordinator::{Producer, TransactionEnd};
use strandline_metadata::FeatureUpdate;
use strandline_records::{BatchBuilder, Compression};
use strandline_types::TimestampType;
use strandline_wire::messages as m;

use crate::features::TRANSACTION_VERSION;
use crate::model::client::Pid;
use crate::model::plan::{PLAIN, Setup};
use crate::model::world::World;

async fn world() -> World {
    let setup = Setup {
        segment_bytes: 1 << 20,
        retention_ms: -1,
        retention_bytes: -1,
        local_retention_bytes: 0,
    };
    let world = World::new(setup.clone()).await;
    world.prepare(&setup).await;
    world
}

/// The first batch of a transaction.
fn first_batch(pid: Pid) -> Bytes {
    let builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
    let mut builder = builder.with_producer(pid.0, pid.1, 0).transactional();
    builder.append(1, Some(b"k"), Some(b"v"), &[]).unwrap();
    builder.build().unwrap().to_bytes()
}

// P-74: the last end's marker may come late; the client of the next transaction must not pay for it
#[tokio::test]
async fn a_marker_between_the_guard_and_the_consent_refuses_nothing() {
    let world = world().await;
    let pid = world.init(1).await;
    let produced = world.produce_once(12, Some(1), PLAIN, first_batch(pid));
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
