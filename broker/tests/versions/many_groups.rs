//! Requests that name as many groups as a cluster has, and more than any has (W-4).

use bytes::BytesMut;
use strandline_wire::messages as m;
use strandline_wire::{Encodable, StrBytes};

use crate::client::{Broker, frame, text};

fn names(count: usize) -> Vec<StrBytes> {
    (0..count).map(|at| text(format!("group-{at}"))).collect()
}

// A-29, G-80: a tool asks for all groups at once, and each is answered once.
#[test]
fn thousands_of_groups_are_found_and_described() {
    let broker = Broker::start(&["offsets.topic.num.partitions=1"]);
    broker.wait_for_coordinator("group-0");
    let count = 20_000;
    let mut keys = names(count);
    keys.extend(names(count));
    let request = m::FindCoordinatorRequest::default().with_coordinator_keys(keys);
    let found: m::FindCoordinatorResponse = broker.call(4, &request);
    assert_eq!(found.coordinators.len(), count);
    for (at, coordinator) in found.coordinators.iter().enumerate() {
        assert_eq!(coordinator.key.as_str(), format!("group-{at}"));
        assert_eq!((coordinator.error_code, coordinator.node_id.0), (0, 1));
    }
    let ids = names(count).into_iter().map(Into::into).collect();
    let request = m::DescribeGroupsRequest::default().with_groups(ids);
    let described: m::DescribeGroupsResponse = broker.call(6, &request);
    assert_eq!(described.groups.len(), count);
    for group in &described.groups {
        assert_eq!((group.error_code, group.group_state.as_str()), (69, "Dead"));
    }
}

// W-4: nobody gets an answer that is out of proportion.
#[test]
fn more_groups_than_bytes_are_refused() {
    let broker = Broker::start(&["offsets.topic.num.partitions=1"]);
    broker.wait_for_coordinator("group-0");
    let keys = vec![text("g"); 200_000];
    let request = m::FindCoordinatorRequest::default().with_coordinator_keys(keys);
    let mut body = BytesMut::new();
    request.encode(&mut body, 4).unwrap();
    let mut connection = broker.connect();
    connection.send_bytes(&frame(10, 4, 2, &body));
    assert_eq!(connection.rest(), []);
}
