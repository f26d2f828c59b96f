//! Answers that are given before the change that they are about: an append takes too long, or has failed
//! behind one that does.
//!
//! The change stays where it is in the order of the log. An append that is late may be in the log for
//! good: what is in memory follows it when that is known.
//!
//! Rules: G-20, G-31, G-53, G-61, X-71.

use std::collections::BTreeMap;
use std::sync::Arc;

use strandline_coordinator::{AppendError, AppendToken, Now};

use super::GroupShard;
use crate::classic::{finish_assignment, refuse_static_rejoin};
use crate::reply::Effects;
use crate::staged::{Change, Removal};

impl GroupShard {
    /// An append has no result after `offsets.commit.timeout.ms`: who waits for it is told
    /// REQUEST_TIMED_OUT in the words of G-70. Its result still comes to [`Self::on_append_result`].
    pub fn on_append_late(&mut self, token: AppendToken, now: Now) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        self.answer_early(token, AppendError::RequestTimedOut, now_ms, &mut effects);
        self.finish(effects)
    }

    pub(super) fn answer_early(
        &mut self,
        token: AppendToken,
        error: AppendError,
        now_ms: i64,
        effects: &mut Effects,
    ) {
        let Some(mut pending) = self.staged.take(token) else {
            return;
        };
        match &mut pending.change {
            // The members start over, and a later record will say what became of that (G-31).
            Change::Assignment { group, .. } => {
                self.with_group(group, now_ms, effects, |group, context| {
                    let none = BTreeMap::new();
                    finish_assignment(&mut group.classic, context, token, &none, Err(error));
                });
            }
            Change::StaticRejoin { group, rejoin } => {
                self.with_group(group, now_ms, effects, |group, context| {
                    refuse_static_rejoin(&mut group.classic, context, rejoin, error);
                });
            }
            // They must not greet a new topic (G-61), whatever becomes of the tombstones.
            Change::RemoveOffsets {
                group,
                keys,
                reason: Removal::TopicDeleted,
            } => {
                let group = Arc::clone(group);
                self.forget_offsets(&group, token, keys, now_ms, effects);
            }
            change => effects.replies.extend(change.refuse(error)),
        }
        self.staged.put_back(token, pending);
    }
}
