//! The wall clock of the machine jumps, and the time that passes does not.

use bytes::Bytes;
use strandline_wire::messages as m;
use strandline_wire::{ErrorCode, StrBytes};

use crate::model::world::World;

const GROUP: &str = "group";
/// The default of `group.initial.rebalance.delay.ms`.
const DELAY_MS: u64 = 3_000;
const SESSION_MS: i32 = 10_000;
const HOUR_MS: i64 = 3_600_000;

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

async fn describe(world: &World) -> m::describe_groups_response::DescribedGroup {
    let request = m::DescribeGroupsRequest::default().with_groups(vec![text(GROUP).into()]);
    let mut response: m::DescribeGroupsResponse = world.call(0, &request).await;
    response.groups.remove(0)
}

async fn join(world: &World) -> m::JoinGroupResponse {
    let protocol = m::join_group_request::JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"meta"));
    let request = m::JoinGroupRequest::default()
        .with_group_id(text(GROUP).into())
        .with_session_timeout_ms(SESSION_MS)
        .with_rebalance_timeout_ms(60_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    world.call(2, &request).await
}

/// Two members join; `between` happens while they wait.
async fn join_two(world: &World, between: impl FnOnce()) -> [m::JoinGroupResponse; 2] {
    let (first, second) = (join(world), join(world));
    let mut both = std::pin::pin!(futures::future::join(first, second));
    assert!(futures::poll!(both.as_mut()).is_pending());
    between();
    // The second one has extended the delay (G-5).
    world.advance(DELAY_MS);
    world.advance(DELAY_MS);
    let answered = tokio::time::timeout(std::time::Duration::ZERO, both).await;
    let (first, second) = answered.expect("the delay is over");
    [first, second]
}

async fn heartbeat(world: &World, joined: &m::JoinGroupResponse) -> i16 {
    let request = m::HeartbeatRequest::default()
        .with_group_id(text(GROUP).into())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    let response: m::HeartbeatResponse = world.call(1, &request).await;
    response.error_code
}

async fn sync(world: &World, joined: &m::JoinGroupResponse) -> i16 {
    let request = m::SyncGroupRequest::default()
        .with_group_id(text(GROUP).into())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    let response: m::SyncGroupResponse = world.call(1, &request).await;
    response.error_code
}

// G-41, X-19: a clock that is set forward makes nobody silent.
#[tokio::test]
async fn a_step_forward_evicts_nobody() {
    let world = World::coordinating(GROUP).await;
    let [first, second] = join_two(&world, || {}).await;
    let synced = futures::future::join(sync(&world, &first), sync(&world, &second)).await;
    assert_eq!(synced, (0, 0));
    world.set_wall_ms(world.now_ms() + HOUR_MS);
    assert_eq!(heartbeat(&world, &first).await, 0);
    let group = describe(&world).await;
    assert_eq!(group.group_state.as_str(), "Stable");
    assert_eq!(group.members.len(), 2);
    // Time that does pass counts.
    world.advance(u64::try_from(SESSION_MS).unwrap());
    let gone = ErrorCode::UnknownMemberId.code();
    assert_eq!(heartbeat(&world, &second).await, gone);
}

// G-4, G-5: a clock that is set back parks nobody.
#[tokio::test]
async fn a_step_back_parks_no_join() {
    let world = World::coordinating(GROUP).await;
    let back = || world.set_wall_ms(world.now_ms() - HOUR_MS);
    let [first, second] = join_two(&world, back).await;
    assert_eq!((first.error_code, second.error_code), (0, 0));
    assert_eq!(first.generation_id, second.generation_id);
}
