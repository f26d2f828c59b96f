//! Ids for producers: nobody can have one now, or a whole crowd asks at the same time.

use std::collections::HashSet;

use strandline_wire::messages as m;

use crate::model::world::World;
use crate::server;

const PRODUCERS: usize = 100;

// T-1: whatever is in the way of a producer id, clients of every age ask again.
#[tokio::test]
async fn without_a_block_of_ids_a_producer_asks_again() {
    let world = World::coordinating("group").await;
    server::close(world.broker(), None).await;
    let request = m::InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(1000);
    let response: m::InitProducerIdResponse = world.call(1, &request).await;
    assert_eq!((response.error_code, response.producer_id.0), (14, -1));
}

// T-5
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
