//! A classic group: its state, its members, and who of them leads.
//!
//! Rules: G-1, G-5, G-8, G-20, G-22, G-71.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::member::Member;
use crate::error::GroupError;
use crate::query::GroupState;
use crate::records::GroupMetadata;
use strandline_coordinator::AppendToken;

/// The first join phase of a group that was Empty (G-5).
#[derive(Debug)]
pub(crate) struct InitialDelay {
    /// Length of the running delay.
    pub(crate) delay_ms: i64,
    /// What may still be added after it.
    pub(crate) remaining_ms: i64,
    /// Someone joined during it, so it may be extended.
    pub(crate) has_new_member: bool,
}

/// A classic group. Also the shape of a simple group (offsets without members): Empty, without a
/// protocol type.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    pub(crate) id: Arc<str>,
    state: GroupState,
    /// Since when, in ms since the Unix epoch; unknown after loading an old record (G-60).
    pub(crate) state_since_ms: Option<i64>,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol_name: Option<String>,
    pub(crate) leader: Option<Arc<str>>,
    pub(crate) members: BTreeMap<Arc<str>, Member>,
    static_members: BTreeMap<String, Arc<str>>,
    /// Ids that were handed out with MEMBER_ID_REQUIRED and have not joined yet (G-3).
    pub(crate) pending: BTreeSet<Arc<str>>,
    pub(crate) initial_delay: Option<InitialDelay>,
    /// The append of the leader's assignment that is under way.
    pub(crate) assignment_append: Option<AppendToken>,
    /// Topics of the current generation; `None`: not known, so possibly all (G-59).
    pub(super) subscribed: Option<BTreeSet<String>>,
    /// The log has, or may have, a record of this group.
    pub(crate) has_record: bool,
    next_joined_order: u64,
}

impl ClassicGroup {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            state: GroupState::Empty,
            state_since_ms: None,
            generation: 0,
            protocol_type: None,
            protocol_name: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending: BTreeSet::new(),
            initial_delay: None,
            assignment_append: None,
            subscribed: None,
            has_record: false,
            next_joined_order: 0,
        }
    }

    /// G-71: a group with members was Stable when it was written.
    pub(crate) fn from_record(id: Arc<str>, record: GroupMetadata) -> Self {
        let mut group = Self::new(id);
        group.has_record = true;
        group.generation = record.generation;
        group.protocol_type = Some(record.protocol_type).filter(|name| !name.is_empty());
        group.state_since_ms =
            Some(record.current_state_timestamp_ms).filter(|since_ms| *since_ms >= 0);
        if !record.members.is_empty() {
            let protocol = record.protocol.unwrap_or_default();
            for member in record.members {
                group.add(Member::from_record(member, &protocol, 0));
            }
            group.protocol_name = Some(protocol);
            group.state = GroupState::Stable;
            let leader = record
                .leader
                .and_then(|leader| group.members.get_key_value(&*leader));
            if let Some((leader, _)) = leader {
                group.leader = Some(Arc::clone(leader));
            }
        }
        group.subscribed = group.compute_subscribed();
        group
    }

    pub(crate) fn state(&self) -> GroupState {
        self.state
    }

    pub(crate) fn enter(&mut self, state: GroupState, now_ms: i64) {
        self.state = state;
        self.state_since_ms = Some(now_ms);
    }

    /// Marks an Empty group while its tombstones are written; `false` brings it back.
    pub(crate) fn set_dead(&mut self, is_dead: bool) {
        self.state = if is_dead {
            GroupState::Dead
        } else {
            GroupState::Empty
        };
    }

    /// Neither the log nor a client knows anything of this group.
    pub(crate) fn is_vacant(&self) -> bool {
        self.state == GroupState::Empty && self.pending.is_empty() && !self.has_record
    }

    pub(crate) fn add(&mut self, mut member: Member) {
        member.joined_order = self.next_joined_order;
        self.next_joined_order += 1;
        if let Some(instance_id) = &member.instance_id {
            self.static_members
                .insert(instance_id.clone(), Arc::clone(&member.id));
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&member.id));
        }
        self.members.insert(Arc::clone(&member.id), member);
    }

    /// Removes a member. If it led, the oldest of the others leads (G-8).
    pub(crate) fn remove(&mut self, member_id: &str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        if let Some(instance_id) = &member.instance_id
            && self.static_members.get(instance_id) == Some(&member.id)
        {
            self.static_members.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader = self.oldest(|_| true);
        }
        Some(member)
    }

    /// Gives a static member another id; its place, its leadership and all else stay (G-20).
    pub(crate) fn rename_static(&mut self, old_id: &str, new_id: &Arc<str>) -> Option<&mut Member> {
        let mut member = self.members.remove(old_id)?;
        member.id = Arc::clone(new_id);
        if let Some(instance_id) = &member.instance_id {
            self.static_members
                .insert(instance_id.clone(), Arc::clone(new_id));
        }
        if self.is_leader(old_id) {
            self.leader = Some(Arc::clone(new_id));
        }
        Some(self.members.entry(Arc::clone(new_id)).or_insert(member))
    }

    /// Id of the member that holds a group instance id.
    pub(crate) fn static_member(&self, instance_id: &str) -> Option<&Arc<str>> {
        self.static_members.get(instance_id)
    }

    pub(crate) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Keeps the leader if it has rejoined, else the oldest that has; false if nobody has (G-8).
    pub(crate) fn elect_joined_leader(&mut self) -> bool {
        let current = self
            .leader
            .as_ref()
            .and_then(|leader| self.members.get(leader));
        if current.is_some_and(|leader| leader.parked_join.is_some()) {
            return true;
        }
        let Some(oldest) = self.oldest(|member| member.parked_join.is_some()) else {
            return false;
        };
        self.leader = Some(oldest);
        true
    }

    fn oldest(&self, filter: impl Fn(&Member) -> bool) -> Option<Arc<str>> {
        let members = self.members.values().filter(|member| filter(member));
        members
            .min_by_key(|member| member.joined_order)
            .map(|member| Arc::clone(&member.id))
    }

    /// G-1, G-22: what every request of a member is checked for first.
    pub(crate) fn validate_member(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(), GroupError> {
        if let Some(instance_id) = instance_id {
            let holder = self
                .static_member(instance_id)
                .ok_or(GroupError::UnknownMemberId)?;
            if **holder != *member_id {
                return Err(GroupError::FencedInstanceId);
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(GroupError::UnknownMemberId)
        }
    }

    /// The longest rebalance timeout, in ms.
    pub(crate) fn rebalance_timeout_ms(&self) -> i64 {
        let timeouts = self
            .members
            .values()
            .map(|member| i64::from(member.rebalance_timeout_ms));
        timeouts.max().unwrap_or(0)
    }

    /// G-5: every known member has rejoined, and nobody has an id that it did not use yet.
    pub(crate) fn has_all_joined(&self) -> bool {
        self.pending.is_empty()
            && self
                .members
                .values()
                .all(|member| member.parked_join.is_some())
    }

    /// Begins the next generation, Completing with members and Empty without.
    pub(crate) fn begin_generation(&mut self, now_ms: i64) {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.protocol_name = self.select_protocol();
        self.subscribed = self.compute_subscribed();
        if self.members.is_empty() {
            self.leader = None;
            self.enter(GroupState::Empty, now_ms);
        } else {
            self.enter(GroupState::CompletingRebalance, now_ms);
        }
    }
}
