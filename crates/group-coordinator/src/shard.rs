//! All groups and offsets of one partition of `__consumer_offsets`: where every event enters.
//!
//! Rules: G-1, G-40, G-71.

mod apply;
mod early;
mod membership;
mod offsets;
mod query;
mod transactions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use strandline_types::ProducerId;

use crate::classic::{on_join_timer, on_member_timer, on_sync_timer, prepare_if_too_large};
use crate::config::GroupConfig;
use crate::context::Context;
use crate::error::GroupError;
use crate::group::{Groups, remove_if_vacant};
use crate::id_source::IdSource;
use crate::load::Loader;
use crate::query::GroupState;
use crate::reply::Effects;
use crate::reply::Reply;
use crate::request::Request;
use crate::staged::Staged;
use crate::timers::{TimerKey, Timers};
use strandline_coordinator::{AppendError, AppendToken, Now, RequestId};

/// The longest text that the record formats can hold, in bytes.
const MAX_TEXT_BYTES: usize = i16::MAX as usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Loading,
    Active,
    NotCoordinator,
}

/// The coordinator of the groups of one partition.
///
/// Every `&mut` call returns [`Effects`] that the caller must carry out completely. Time never
/// comes from anywhere but the parameters: deadlines follow the monotonic one, and what is called
/// `now_ms` inside is the wall time.
pub struct GroupShard {
    phase: Phase,
    config: GroupConfig,
    groups: Groups,
    timers: Timers,
    staged: Staged,
    ids: Box<dyn IdSource>,
    /// Groups with offsets that wait for the producer's marker.
    open_transactions: BTreeMap<ProducerId, BTreeSet<Arc<str>>>,
    /// Topics that were deleted while this loads: what is read may hold their offsets (G-61).
    deleted_while_loading: BTreeSet<String>,
}

impl fmt::Debug for GroupShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupShard")
            .field("phase", &self.phase)
            .field("groups", &self.groups)
            .field("timers", &self.timers)
            .field("staged", &self.staged)
            .finish_non_exhaustive()
    }
}

impl GroupShard {
    /// A shard that loads: it refuses with COORDINATOR_LOAD_IN_PROGRESS (heartbeats succeed, G-40)
    /// until [`Self::start`].
    pub fn new(config: GroupConfig, ids: Box<dyn IdSource>) -> Self {
        Self {
            phase: Phase::Loading,
            config,
            groups: Groups::new(),
            timers: Timers::default(),
            staged: Staged::default(),
            ids,
            open_transactions: BTreeMap::new(),
            deleted_while_loading: BTreeSet::new(),
        }
    }

    /// Takes over with what was loaded, but for the offsets of topics that were deleted meanwhile
    /// (G-61); every member gets a fresh session timeout (G-71).
    pub fn start(&mut self, loader: Loader, now: Now) -> Effects {
        let now_ms = self.begin(now);
        let deleted = std::mem::take(&mut self.deleted_while_loading);
        let deleted: Vec<String> = deleted.into_iter().collect();
        let mut effects = self.unload();
        self.phase = Phase::Active;
        self.staged.go_on_at(loader.position());
        self.groups = loader.finish();
        self.find_open_transactions();
        self.timers.set(
            TimerKey::OffsetExpiry,
            self.config.offsets_retention_check_interval_ms,
        );
        let (groups, mut context) = self.split(now_ms, &mut effects);
        for group in groups.values_mut() {
            let classic = &mut group.classic;
            for member in classic.members.values() {
                context.restart_session(&classic.id, member);
            }
            prepare_if_too_large(classic, &mut context);
        }
        self.remove_offsets_of(&deleted, now_ms, &mut effects);
        self.finish(effects)
    }

    /// Gives up: leadership has moved. Everything parked is answered with NOT_COORDINATOR, and so
    /// is every later request. Results of appends that are still under way are ignored.
    pub fn unload(&mut self) -> Effects {
        let mut effects = Effects::default();
        let refused = self
            .staged
            .drain()
            .filter_map(|mut change| change.refuse(AppendError::NotLeaderOrFollower));
        effects.replies.extend(refused);
        let mut groups = std::mem::take(&mut self.groups);
        let (_, mut context) = self.split(0, &mut effects);
        for member in groups
            .values_mut()
            .flat_map(|group| group.classic.members.values_mut())
        {
            context.refuse_parked(member, GroupError::NotCoordinator);
        }
        self.timers.clear();
        self.open_transactions.clear();
        self.deleted_while_loading.clear();
        self.phase = Phase::NotCoordinator;
        self.finish(effects)
    }

    /// Leadership has come back: refuses as in [`Self::new`] until [`Self::start`].
    pub fn begin_loading(&mut self) -> Effects {
        let effects = self.unload();
        self.phase = Phase::Loading;
        effects
    }

    /// True between [`Self::start`] and [`Self::unload`].
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// Replaces the settings; deadlines that are set stay.
    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// A request has arrived. Its answer is in the effects of this call or of a later one, once.
    pub fn handle(&mut self, id: RequestId, request: Request, now: Now) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        match self.gate(&request) {
            Some(reply) => effects.reply(id, reply),
            None => self.dispatch(id, request, now_ms, &mut effects),
        }
        self.finish(effects)
    }

    /// An append has committed or failed. The caller reports each token once, in any order; the
    /// changes happen in the order of the log.
    pub fn on_append_result(
        &mut self,
        token: AppendToken,
        result: Result<(), AppendError>,
        now: Now,
    ) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        self.staged.resolve(token, result);
        while let Some((token, change, result)) = self.staged.pop_resolved() {
            self.apply(token, change, result, now_ms, &mut effects);
        }
        if let Err(error) = result {
            // The change waits for those before it, which may take long; its answer is known.
            self.answer_early(token, error, now_ms, &mut effects);
        }
        self.finish(effects)
    }

    /// Time has passed: works through every deadline that is due.
    pub fn on_tick(&mut self, now: Now) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        while let Some(key) = self.timers.pop_due() {
            match key {
                TimerKey::Join(id) => {
                    self.with_group(&id, now_ms, &mut effects, |group, context| {
                        on_join_timer(&mut group.classic, context);
                    });
                }
                TimerKey::Sync(id) => {
                    self.with_group(&id, now_ms, &mut effects, |group, context| {
                        on_sync_timer(&mut group.classic, context);
                    });
                }
                TimerKey::Member(id, member_id) => {
                    self.with_group(&id, now_ms, &mut effects, |group, context| {
                        on_member_timer(&mut group.classic, context, &member_id);
                    });
                }
                TimerKey::OffsetExpiry => self.expire_offsets(now_ms, &mut effects),
            }
        }
        self.finish(effects)
    }

    /// The time of the next deadline, as in [`Effects::next_deadline_ms`].
    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.timers.next_deadline_ms()
    }

    /// How many groups are in each state.
    pub fn state_counts(&self) -> BTreeMap<GroupState, usize> {
        let mut counts = BTreeMap::new();
        for group in self.groups.values() {
            *counts.entry(group.classic.state()).or_insert(0) += 1;
        }
        counts
    }

    /// For `invariants.rs`.
    pub(crate) fn state(&self) -> (&Groups, &Timers) {
        (&self.groups, &self.timers)
    }

    /// What can be answered without looking at a group.
    fn gate(&self, request: &Request) -> Option<Reply> {
        let group_id = request.group_id();
        // Simple consumers of old commit for the group "", and it may be deleted.
        let may_be_empty = matches!(request, Request::OffsetCommit(_) | Request::DeleteGroup(_));
        if (group_id.is_empty() && !may_be_empty) || group_id.len() > MAX_TEXT_BYTES {
            return Some(request.refusal(GroupError::InvalidGroupId));
        }
        match self.phase {
            Phase::Active => None,
            Phase::Loading if matches!(request, Request::Heartbeat(_)) => {
                Some(Reply::Heartbeat(Ok(())))
            }
            Phase::Loading => Some(request.refusal(GroupError::CoordinatorLoadInProgress)),
            Phase::NotCoordinator => Some(request.refusal(GroupError::NotCoordinator)),
        }
    }

    fn dispatch(&mut self, id: RequestId, request: Request, now_ms: i64, effects: &mut Effects) {
        match request {
            Request::Join(request) => self.join(id, request, now_ms, effects),
            Request::Sync(request) => self.sync(id, request, now_ms, effects),
            Request::Heartbeat(request) => self.heartbeat(id, &request, now_ms, effects),
            Request::Leave(request) => self.leave(id, request, now_ms, effects),
            Request::OffsetCommit(request) => self.commit_offsets(id, request, now_ms, effects),
            Request::TxnOffsetCommit(request) => {
                self.commit_pending(id, request, now_ms, effects);
            }
            Request::OffsetDelete(request) => self.delete_offsets(id, request, now_ms, effects),
            Request::DeleteGroup(request) => self.delete_group(id, &request, now_ms, effects),
        }
    }

    /// A call begins: the timers learn the time. Gives the wall time.
    fn begin(&mut self, now: Now) -> i64 {
        self.timers.advance_to(now.monotonic_ms);
        now.wall_ms
    }

    fn split<'a>(
        &'a mut self,
        now_ms: i64,
        effects: &'a mut Effects,
    ) -> (&'a mut Groups, Context<'a>) {
        let context = Context {
            now_ms,
            config: &self.config,
            timers: &mut self.timers,
            staged: &mut self.staged,
            ids: &mut *self.ids,
            effects,
        };
        (&mut self.groups, context)
    }

    /// Runs on a group if it is there, and forgets it if that leaves nothing of it.
    fn with_group<T>(
        &mut self,
        group_id: &str,
        now_ms: i64,
        effects: &mut Effects,
        run: impl FnOnce(&mut crate::group::Group, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let (groups, mut context) = self.split(now_ms, effects);
        let outcome = groups
            .get_mut(group_id)
            .map(|group| run(group, &mut context));
        remove_if_vacant(groups, group_id);
        outcome
    }

    /// Forgets a group whose tombstones are in the log.
    fn remove_group(&mut self, group_id: &Arc<str>) {
        let Some(group) = self.groups.remove(group_id) else {
            return;
        };
        for member_id in group.classic.pending {
            self.timers
                .cancel(&TimerKey::Member(Arc::clone(group_id), member_id));
        }
    }

    fn finish(&self, mut effects: Effects) -> Effects {
        effects.next_deadline_ms = self.timers.next_deadline_ms();
        effects
    }
}
