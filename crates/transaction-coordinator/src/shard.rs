//! All transactional ids of one partition of `__transaction_state`: where every event enters.
//!
//! Rules: T-2, T-6, T-11, T-31, T-32, section 5.1 (one pending change at a time).

mod apply;
mod query;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use strandline_coordinator::{AppendToken, Now, Producer, RequestId, Timers};
use strandline_types::{ProducerId, TopicPartition};

use crate::config::TransactionConfig;
use crate::decide::{self, EndDecision, InitDecision};
use crate::error::TransactionError;
use crate::load::Loader;
use crate::marker::Order;
use crate::reply::{Effects, Reply};
use crate::request::{AddPartitionsRequest, EndTxnRequest, InitProducerIdRequest, Request};
use crate::transaction::Transaction;

/// The longest text that the record formats can hold, in bytes.
pub(crate) const MAX_TEXT_BYTES: usize = i16::MAX as usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Loading,
    Active,
    NotCoordinator,
}

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    /// Next look for transactions that take too long (T-50).
    AbortScan,
    /// Next look for ids that nobody uses (T-51).
    ExpiryScan,
    /// A completed end could not be written: once more.
    Complete(Arc<str>),
}

/// A transactional id with what is under way for it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) transaction: Transaction,
    /// The change that is being written; nothing else may change meanwhile.
    pub(crate) pending: Option<AppendToken>,
    /// Partitions of a prepared end that have no marker yet.
    pub(crate) unmarked: BTreeSet<TopicPartition>,
}

impl Entry {
    /// Whoever wants a change now is told CONCURRENT_TRANSACTIONS.
    fn is_busy(&self) -> bool {
        self.pending.is_some() || self.transaction.state.is_prepared()
    }
}

/// What an append stands for.
#[derive(Debug)]
enum Change {
    /// The id becomes what was written; `answer` goes to who asked for it.
    Become {
        id: Arc<str>,
        next: Box<Transaction>,
        answer: Option<(RequestId, Reply)>,
    },
    /// The ids are forgotten (T-51).
    Forget { ids: Vec<Arc<str>> },
}

/// The coordinator of the transactional ids of one partition.
///
/// Every `&mut` call returns [`Effects`] that the caller must carry out completely; after each call
/// it takes the orders, too. Time never comes from anywhere but the parameters: deadlines follow the
/// monotonic one, and what is called `now_ms` inside is the wall time.
#[derive(Debug)]
pub struct TransactionShard {
    phase: Phase,
    config: TransactionConfig,
    coordinator_epoch: i32,
    entries: BTreeMap<Arc<str>, Entry>,
    timers: Timers<TimerKey>,
    staged: BTreeMap<AppendToken, Change>,
    last_token: u64,
    orders: Vec<Order>,
}

impl TransactionShard {
    /// A shard that loads: it refuses with COORDINATOR_LOAD_IN_PROGRESS until [`Self::start`].
    pub fn new(config: TransactionConfig) -> Self {
        Self {
            phase: Phase::Loading,
            config,
            coordinator_epoch: -1,
            entries: BTreeMap::new(),
            timers: Timers::default(),
            staged: BTreeMap::new(),
            last_token: 0,
            orders: Vec::new(),
        }
    }

    /// Takes over with what was loaded. `coordinator_epoch` is the leader epoch of the partition:
    /// it goes into every marker and fences those of earlier coordinators. Ends that are prepared
    /// go on (T-32).
    pub fn start(&mut self, loader: Loader, coordinator_epoch: i32, now: Now) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = self.unload();
        self.phase = Phase::Active;
        self.coordinator_epoch = coordinator_epoch;
        for (id, transaction) in loader.finish() {
            let entry = Entry {
                transaction,
                pending: None,
                unmarked: BTreeSet::new(),
            };
            self.entries.insert(id.into(), entry);
        }
        self.timers
            .set(TimerKey::ExpiryScan, self.config.expiry_scan_interval_ms);
        let prepared = self
            .entries
            .iter()
            .filter(|(_, e)| e.transaction.state.is_prepared());
        let prepared: Vec<_> = prepared.map(|(id, _)| Arc::clone(id)).collect();
        for id in prepared {
            self.send_markers(&id, now_ms, &mut effects);
        }
        self.arm_abort_scan_if_needed();
        self.finish(effects)
    }

    /// Gives up: leadership has moved. Whoever waits is answered with NOT_COORDINATOR, and so is
    /// every later request. Results of appends and markers that are still under way are ignored.
    pub fn unload(&mut self) -> Effects {
        let mut effects = Effects::default();
        for change in std::mem::take(&mut self.staged).into_values() {
            if let Change::Become {
                answer: Some((request, reply)),
                ..
            } = change
            {
                let refused = refuse(&reply, TransactionError::NotCoordinator);
                effects.reply(request, refused);
            }
        }
        self.entries.clear();
        self.timers.clear();
        self.orders.clear();
        self.phase = Phase::NotCoordinator;
        self.finish(effects)
    }

    /// True between [`Self::start`] and [`Self::unload`].
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// True when it serves, nothing is being written, and no end waits for its markers.
    pub fn is_settled(&self) -> bool {
        self.is_active() && !self.entries.values().any(Entry::is_busy)
    }

    /// True when nothing is being written for this transactional id, nor waited for.
    pub fn is_free(&self, transactional_id: &str) -> bool {
        let entry = self.entries.get(transactional_id);
        !entry.is_some_and(Entry::is_busy)
    }

    /// Replaces the settings; deadlines that are set stay.
    pub fn set_config(&mut self, config: TransactionConfig) {
        self.config = config;
    }

    /// What the last calls want done.
    pub fn take_orders(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    /// The time of the next deadline, as in [`Effects::next_deadline_ms`].
    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.timers.next_deadline_ms()
    }

    /// True if [`Self::handle`] wants a producer id that was never used, to answer this request.
    pub fn wants_producer_id(&self, request: &Request) -> bool {
        if self.phase != Phase::Active || self.config.check_shape(request).is_err() {
            return false;
        }
        let current = self.entries.get(request.transactional_id());
        let current = current.map(|entry| &entry.transaction);
        match request {
            Request::InitProducerId(request) => decide::needs_producer_id(current, request),
            Request::AddPartitions(_) => false,
            Request::EndTxn(request) => {
                request.client_version.bumps_epoch()
                    && current.is_some_and(Transaction::is_exhausted)
            }
        }
    }

    /// A request has arrived. Its answer is in the effects of this call or of a later one, once.
    /// `fresh` is a producer id that was never used, when [`Self::wants_producer_id`] said so;
    /// without one where it is needed the answer is retriable.
    pub fn handle(
        &mut self,
        id: RequestId,
        request: Request,
        fresh: Option<ProducerId>,
        now: Now,
    ) -> Effects {
        let now_ms = self.begin(now);
        let mut effects = Effects::default();
        let refused = match self.gate(&request) {
            Ok(()) => self.dispatch(id, &request, fresh, now_ms, &mut effects),
            Err(error) => Err(error),
        };
        if let Err(error) = refused {
            effects.reply(id, request.refusal(error));
        }
        self.finish(effects)
    }

    /// A call begins: the timers learn the time. Gives the wall time.
    fn begin(&mut self, now: Now) -> i64 {
        self.timers.advance_to(now.monotonic_ms);
        now.wall_ms
    }

    /// What can be answered without looking at the transaction.
    fn gate(&self, request: &Request) -> Result<(), TransactionError> {
        self.config.check_shape(request)?;
        self.check_active()
    }

    fn check_active(&self) -> Result<(), TransactionError> {
        match self.phase {
            Phase::Active => Ok(()),
            Phase::Loading => Err(TransactionError::CoordinatorLoadInProgress),
            Phase::NotCoordinator => Err(TransactionError::NotCoordinator),
        }
    }

    fn dispatch(
        &mut self,
        id: RequestId,
        request: &Request,
        fresh: Option<ProducerId>,
        now_ms: i64,
        effects: &mut Effects,
    ) -> Result<(), TransactionError> {
        match request {
            Request::InitProducerId(r) => self.init_producer_id(id, r, fresh, now_ms, effects),
            Request::AddPartitions(r) => self.add_partitions(id, r, now_ms, effects),
            Request::EndTxn(r) => self.end_txn(id, r, fresh, now_ms, effects),
        }
    }

    fn init_producer_id(
        &mut self,
        request_id: RequestId,
        request: &InitProducerIdRequest,
        fresh: Option<ProducerId>,
        now_ms: i64,
        effects: &mut Effects,
    ) -> Result<(), TransactionError> {
        let id = &*request.transactional_id;
        let unused;
        let current = match self.entries.get(id) {
            Some(entry) if entry.pending.is_some() => {
                return Err(TransactionError::ConcurrentTransactions);
            }
            Some(entry) => &entry.transaction,
            None => {
                let fresh = fresh.ok_or(TransactionError::CoordinatorNotAvailable)?;
                unused = Transaction::unused(fresh, request.timeout_ms, now_ms);
                &unused
            }
        };
        let (next, reply) = match decide::init_producer_id(current, request, fresh, now_ms)? {
            InitDecision::Become(next) => {
                let reply = Reply::InitProducerId(Ok(next.producer));
                (next, reply)
            }
            // T-3: when the fence is written the client is told to come back.
            InitDecision::Fence(next) => {
                let retry = TransactionError::ConcurrentTransactions;
                (next, Reply::InitProducerId(Err(retry)))
            }
        };
        self.stage(id, next, Some((request_id, reply)), effects)
    }

    fn add_partitions(
        &mut self,
        request_id: RequestId,
        request: &AddPartitionsRequest,
        now_ms: i64,
        effects: &mut Effects,
    ) -> Result<(), TransactionError> {
        let id = &*request.transactional_id;
        let entry = self.entry(id)?;
        let next = decide::add_partitions(&entry.transaction, request, now_ms)?;
        if entry.pending.is_some() {
            return Err(TransactionError::ConcurrentTransactions);
        }
        let reply = Reply::AddPartitions(Ok(()));
        match next {
            Some(next) => self.stage(id, next, Some((request_id, reply)), effects),
            None => {
                effects.reply(request_id, reply);
                Ok(())
            }
        }
    }

    fn end_txn(
        &mut self,
        request_id: RequestId,
        request: &EndTxnRequest,
        fresh: Option<ProducerId>,
        now_ms: i64,
        effects: &mut Effects,
    ) -> Result<(), TransactionError> {
        let id = &*request.transactional_id;
        let entry = self.entry(id)?;
        let decision = match decide::end(&entry.transaction, request, fresh, now_ms) {
            // Who may not speak is told so; anything else depends on the change under way.
            Err(
                error @ (TransactionError::InvalidProducerIdMapping
                | TransactionError::ProducerFenced),
            ) => return Err(error),
            _ if entry.pending.is_some() => return Err(TransactionError::ConcurrentTransactions),
            decided => decided?,
        };
        let answer = |producer: Producer| {
            Reply::EndTxn(Ok(request.client_version.bumps_epoch().then_some(producer)))
        };
        match decision {
            EndDecision::Done(producer) => {
                effects.reply(request_id, answer(producer));
                Ok(())
            }
            EndDecision::Prepare(next) => {
                let reply = answer(next.next_producer());
                self.stage(id, next, Some((request_id, reply)), effects)
            }
        }
    }

    fn entry(&self, id: &str) -> Result<&Entry, TransactionError> {
        let entry = self.entries.get(id);
        // An id whose first state is still being written is not known yet.
        entry
            .filter(|entry| entry.transaction.producer.epoch >= 0)
            .ok_or(TransactionError::InvalidProducerIdMapping)
    }

    fn finish(&self, mut effects: Effects) -> Effects {
        effects.next_deadline_ms = self.timers.next_deadline_ms();
        effects
    }

    /// For `invariants.rs`.
    pub(crate) fn parts(&self) -> (&BTreeMap<Arc<str>, Entry>, &Timers<TimerKey>) {
        (&self.entries, &self.timers)
    }

    pub(crate) fn is_staged(&self, token: AppendToken) -> bool {
        self.staged.contains_key(&token)
    }
}

/// The answer that refuses what `reply` would have granted.
fn refuse(reply: &Reply, error: TransactionError) -> Reply {
    match reply {
        Reply::InitProducerId(_) => Reply::InitProducerId(Err(error)),
        Reply::AddPartitions(_) => Reply::AddPartitions(Err(error)),
        Reply::EndTxn(_) => Reply::EndTxn(Err(error)),
    }
}
