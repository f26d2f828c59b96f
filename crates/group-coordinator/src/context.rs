//! What one call into the shard carries along: the time, the settings, and where its effects go.
//!
//! Rules: G-4, G-40.

use std::sync::Arc;

use crate::classic::Member;
use crate::config::GroupConfig;
use crate::error::GroupError;
use crate::id_source::IdSource;
use crate::reply::Effects;
use crate::reply::{JoinReply, Reply, SyncReply};
use crate::staged::{Change, Staged};
use crate::timers::{TimerKey, Timers};
use strandline_coordinator::{AppendToken, CoordinatorRecord, RequestId};

/// Borrowed from the shard for one call, beside the groups.
pub(crate) struct Context<'a> {
    /// Wall time: what is stored carries it. The timers know their own.
    pub(crate) now_ms: i64,
    pub(crate) config: &'a GroupConfig,
    pub(crate) timers: &'a mut Timers,
    pub(crate) staged: &'a mut Staged,
    pub(crate) ids: &'a mut dyn IdSource,
    pub(crate) effects: &'a mut Effects,
}

impl Context<'_> {
    pub(crate) fn reply_join(&mut self, id: RequestId, reply: JoinReply) {
        self.effects.reply(id, Reply::Join(reply));
    }

    pub(crate) fn reply_sync(&mut self, id: RequestId, reply: SyncReply) {
        self.effects.reply(id, Reply::Sync(reply));
    }

    /// Answers whatever the member has parked with an error.
    pub(crate) fn refuse_parked(&mut self, member: &mut Member, error: GroupError) {
        if let Some(id) = member.parked_join.take() {
            self.reply_join(id, JoinReply::failed(&*member.id, error));
        }
        if let Some(id) = member.parked_sync.take() {
            self.reply_sync(id, SyncReply::failed(error));
        }
    }

    pub(crate) fn set_timer(&mut self, key: TimerKey, delay_ms: i64) {
        self.timers.set(key, delay_ms);
    }

    /// Starts the member's session anew (G-40).
    pub(crate) fn restart_session(&mut self, group_id: &Arc<str>, member: &Member) {
        let delay_ms = member.session_ms(self.config);
        self.set_timer(
            TimerKey::Member(Arc::clone(group_id), Arc::clone(&member.id)),
            delay_ms,
        );
    }

    pub(crate) fn cancel_session(&mut self, group_id: &Arc<str>, member_id: &Arc<str>) {
        self.timers.cancel(&TimerKey::Member(
            Arc::clone(group_id),
            Arc::clone(member_id),
        ));
    }

    /// Asks for an append; `change` happens when it has committed.
    pub(crate) fn stage(&mut self, records: Vec<CoordinatorRecord>, change: Change) -> AppendToken {
        self.staged.push(self.effects, records, change)
    }
}
