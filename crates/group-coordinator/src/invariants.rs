//! What holds between any two calls into a shard; for tests and simulators.
//!
//! Invariants: GC-1…GC-8.

use std::sync::Arc;

use crate::classic::ClassicGroup;
use crate::query::GroupState;
use crate::shard::GroupShard;
use crate::timers::{TimerKey, Timers};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{id}: {claim} (group {group})")]
pub struct BrokenInvariant {
    /// Its id.
    pub id: &'static str,
    /// What it claims.
    pub claim: &'static str,
    /// Where it does not hold.
    pub group: String,
}

type Rule = (
    &'static str,
    &'static str,
    fn(&ClassicGroup, &Timers) -> bool,
);

const RULES: [Rule; 7] = [
    (
        "GC-1",
        "the leader is a member, and only an Empty group has none",
        leader_is_member,
    ),
    (
        "GC-2",
        "Empty and Dead groups have no members, Completing and Stable have some",
        is_populated,
    ),
    (
        "GC-3",
        "a request is parked only where something will answer it",
        parked_has_an_end,
    ),
    ("GC-4", "every wait has a deadline", waits_have_deadlines),
    (
        "GC-5",
        "from Completing on, every member supports the chosen protocol",
        protocol_is_common,
    ),
    (
        "GC-6",
        "each instance id maps to the member that has it",
        instances_are_mapped,
    ),
    (
        "GC-7",
        "a pending id is not a member",
        pending_are_no_members,
    ),
];

impl GroupShard {
    /// Checks every invariant of every group.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), BrokenInvariant> {
        let (groups, timers) = self.state();
        for group in groups.values() {
            for (id, claim, holds) in RULES {
                if !holds(&group.classic, timers) {
                    let group = group.classic.id.to_string();
                    return Err(BrokenInvariant { id, claim, group });
                }
            }
        }
        for key in timers.keys() {
            let (group_id, is_due_to_something) = match key {
                TimerKey::OffsetExpiry => continue,
                TimerKey::Join(id) | TimerKey::Sync(id) | TimerKey::Member(id, _) => {
                    let group = groups.get(id);
                    (
                        id,
                        group.is_some_and(|group| needs_timer(&group.classic, key)),
                    )
                }
            };
            if !is_due_to_something {
                let claim = "every deadline is somebody's wait";
                return Err(BrokenInvariant {
                    id: "GC-8",
                    claim,
                    group: group_id.to_string(),
                });
            }
        }
        Ok(())
    }
}

fn needs_timer(group: &ClassicGroup, key: &TimerKey) -> bool {
    match key {
        TimerKey::Join(_) => group.state() == GroupState::PreparingRebalance,
        TimerKey::Sync(_) => {
            matches!(
                group.state(),
                GroupState::CompletingRebalance | GroupState::Stable
            )
        }
        TimerKey::Member(_, id) => group.members.contains_key(id) || group.pending.contains(id),
        TimerKey::OffsetExpiry => true,
    }
}

fn leader_is_member(group: &ClassicGroup, _: &Timers) -> bool {
    match &group.leader {
        Some(leader) => group.members.contains_key(leader),
        None => group.members.is_empty(),
    }
}

fn is_populated(group: &ClassicGroup, _: &Timers) -> bool {
    match group.state() {
        GroupState::Empty | GroupState::Dead => group.members.is_empty(),
        // All may have left during the initial delay.
        GroupState::PreparingRebalance => {
            !group.members.is_empty() || group.initial_delay.is_some() || !group.pending.is_empty()
        }
        GroupState::CompletingRebalance | GroupState::Stable => !group.members.is_empty(),
    }
}

fn parked_has_an_end(group: &ClassicGroup, _: &Timers) -> bool {
    group.members.values().all(|member| match group.state() {
        GroupState::PreparingRebalance => member.parked_sync.is_none(),
        GroupState::CompletingRebalance => member.parked_join.is_none(),
        // A static member's return waits for its append.
        GroupState::Stable => {
            member.parked_sync.is_none() && (member.parked_join.is_none() || member.is_static())
        }
        GroupState::Empty | GroupState::Dead => true,
    })
}

fn waits_have_deadlines(group: &ClassicGroup, timers: &Timers) -> bool {
    let ids = group.members.keys().chain(&group.pending);
    let mut sessions = ids.map(|id| TimerKey::Member(Arc::clone(&group.id), Arc::clone(id)));
    if !sessions.all(|key| timers.is_set(&key)) {
        return false;
    }
    match group.state() {
        GroupState::PreparingRebalance => timers.is_set(&TimerKey::Join(Arc::clone(&group.id))),
        GroupState::CompletingRebalance | GroupState::Stable => {
            group.members.values().all(|member| member.has_synced)
                || timers.is_set(&TimerKey::Sync(Arc::clone(&group.id)))
        }
        GroupState::Empty | GroupState::Dead => true,
    }
}

fn protocol_is_common(group: &ClassicGroup, _: &Timers) -> bool {
    match group.state() {
        GroupState::CompletingRebalance | GroupState::Stable => {
            let protocol = group.protocol_name.as_deref().unwrap_or_default();
            group
                .members
                .values()
                .all(|member| member.supports(protocol))
        }
        GroupState::Empty | GroupState::PreparingRebalance | GroupState::Dead => true,
    }
}

fn instances_are_mapped(group: &ClassicGroup, _: &Timers) -> bool {
    let mut members = group.members.iter();
    members.all(|(id, member)| {
        let holder = member
            .instance_id
            .as_deref()
            .map(|instance| group.static_member(instance));
        *id == member.id && holder.is_none_or(|holder| holder == Some(id))
    })
}

fn pending_are_no_members(group: &ClassicGroup, _: &Timers) -> bool {
    group
        .pending
        .iter()
        .all(|id| !group.members.contains_key(id))
}
