//! What time does: transactions that take too long are aborted, ids that nobody uses forgotten.
//!
//! Rules: T-50, T-51.

use std::sync::Arc;

use strandline_coordinator::{AppendError, CoordinatorRecord, Now, tombstone_batches};

use super::{Change, TimerKey, TransactionShard};
use crate::decide;
use crate::records::encode_key;
use crate::reply::Effects;
use crate::state::TransactionState;

impl TransactionShard {
    /// Time has passed: works through every deadline that is due.
    pub fn on_tick(&mut self, now: Now) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        while let Some(key) = self.timers.pop_due() {
            match key {
                TimerKey::AbortScan => self.abort_timed_out(now_ms, &mut effects),
                TimerKey::ExpiryScan => self.expire(now_ms, &mut effects),
                TimerKey::Complete(id) => self.complete(&id, now_ms, &mut effects),
            }
        }
        self.finish(effects)
    }

    /// The scan runs only while there is something that it could find.
    pub(super) fn arm_abort_scan(&mut self) {
        if !self.timers.is_set(&TimerKey::AbortScan) {
            let interval_ms = self.config.abort_scan_interval_ms;
            self.timers.set(TimerKey::AbortScan, interval_ms);
        }
    }

    pub(super) fn arm_abort_scan_if_needed(&mut self) {
        let mut entries = self.entries.values();
        if entries.any(|e| e.transaction.state == TransactionState::Ongoing) {
            self.arm_abort_scan();
        }
    }

    /// T-50. What is changing just now waits for the next scan.
    fn abort_timed_out(&mut self, now_ms: i64, effects: &mut Effects) {
        let is_late = |transaction: &crate::Transaction| {
            let age_ms = now_ms.saturating_sub(transaction.start_ms);
            transaction.state == TransactionState::Ongoing
                && age_ms > i64::from(transaction.timeout_ms)
        };
        let late = self.entries.iter();
        let late = late.filter(|(_, e)| e.pending.is_none() && is_late(&e.transaction));
        let late: Vec<_> = late
            .map(|(id, e)| (Arc::clone(id), decide::fence(&e.transaction, now_ms)))
            .collect();
        for (id, fenced) in late {
            tracing::info!(transactional_id = %id, "a transaction takes too long and is aborted");
            if let Err(error) = self.stage(&id, fenced, None, effects) {
                tracing::error!(transactional_id = %id, %error, "a transaction cannot be aborted");
            }
        }
        self.arm_abort_scan_if_needed();
    }

    /// T-51.
    fn expire(&mut self, now_ms: i64, effects: &mut Effects) {
        let interval_ms = self.config.expiry_scan_interval_ms;
        self.timers.set(TimerKey::ExpiryScan, interval_ms);
        let expiration_ms = self.config.id_expiration_ms;
        let is_idle = |transaction: &crate::Transaction| {
            let is_settled =
                transaction.state == TransactionState::Empty || transaction.state.is_complete();
            is_settled && now_ms.saturating_sub(transaction.last_update_ms) >= expiration_ms
        };
        let idle = self.entries.iter();
        let idle = idle.filter(|(_, e)| e.pending.is_none() && is_idle(&e.transaction));
        let idle: Vec<_> = idle.map(|(id, _)| Arc::clone(id)).collect();
        for ids in tombstone_batches(&idle, |id| id.len()) {
            let records = ids.iter().filter_map(|id| {
                let key = encode_key(id).ok()?;
                Some(CoordinatorRecord { key, value: None })
            });
            let records = records.collect();
            let change = Change::Forget { ids: ids.to_vec() };
            let token = self.push(records, change, effects);
            for id in ids {
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.pending = Some(token);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, ids: &[Arc<str>], result: Result<(), AppendError>) {
        if let Err(error) = result {
            tracing::warn!(%error, "could not forget transactional ids that nobody uses");
        }
        for id in ids {
            if result.is_ok() {
                self.entries.remove(id);
            } else if let Some(entry) = self.entries.get_mut(id) {
                entry.pending = None;
            }
        }
    }
}
