//! Producer ids that nobody can have now.

use strandline_wire::messages as m;

use crate::model::world::World;
use crate::server;

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
