//! Ids for producers, of which a whole crowd may ask at the same time (T-5).

use std::collections::HashSet;

use crate::model::world::World;

const PRODUCERS: usize = 100;

#[tokio::test]
async fn a_crowd_that_finds_no_block_left_waits_for_one() {
    let world = World::coordinating("any").await;
    let broker = world.broker();
    let next_block = || broker.metadata.image().producer_ids().next_producer_id();
    let before = next_block();
    let ask = || broker.producer_ids.next(&broker.metadata);
    let given = futures::future::try_join_all((0..PRODUCERS).map(|_| ask())).await;
    let given: HashSet<i64> = given.unwrap().into_iter().collect();
    assert_eq!(given.len(), PRODUCERS);
    assert_eq!(next_block() - before, 1000);
    assert!(given.iter().all(|id| (before..before + 1000).contains(id)));
}
