//! Classic groups: members join, the leader assigns, everybody syncs.
//!
//! Rules: section 4.1.

mod group;
mod heartbeat;
mod join;
mod leave;
mod member;
mod protocol;
mod rebalance;
mod static_join;
mod sync;
mod view;

pub(crate) use group::ClassicGroup;
pub(crate) use heartbeat::heartbeat;
pub(crate) use join::join;
pub(crate) use leave::leave;
pub(crate) use member::Member;
pub(crate) use rebalance::{on_join_timer, on_member_timer, on_sync_timer, prepare_if_too_large};
pub(crate) use static_join::{finish_static_rejoin, refuse_static_rejoin};
pub(crate) use sync::{finish_assignment, sync};
