//! What runs one coordinator: the pure machine, its partition, its timer, its waiting requests.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use strandline_coordinator::{
    Append, AppendBatch, AppendError, AppendToken, CoordinatorRecord, Effects, Now, Producer,
    RequestId,
};
use strandline_env::{Clock, Pool, PoolError, Shutdown};
use strandline_log::{AppendError as LogAppendError, VerificationGuard};
use strandline_records::{Batch, BatchBuilder, Compression};
use strandline_types::{NO_SEQUENCE, Offset, TimestampType};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::coordinators::batches::LoadError;
use crate::partition::{CommitError, Partition};

/// Between attempts to load a partition whose disk fails.
const LOAD_RETRY: Duration = Duration::from_secs(1);

/// A pure coordinator, as the runtime sees it.
pub(super) trait Machine: fmt::Debug + Send + 'static {
    /// What its requests are answered with.
    type Reply: Send + 'static;
    /// What it wants done besides appends and answers.
    type Order: Send + 'static;

    fn is_active(&self) -> bool;
    fn unload(&mut self) -> Effects<Self::Reply>;
    fn on_tick(&mut self, now: Now) -> Effects<Self::Reply>;
    fn on_append_result(
        &mut self,
        token: AppendToken,
        result: Result<(), AppendError>,
        now: Now,
    ) -> Effects<Self::Reply>;
    /// An append takes too long; its result may come still.
    fn on_append_late(&mut self, token: AppendToken, now: Now) -> Effects<Self::Reply>;
    /// Orders of the calls before.
    fn take_orders(&mut self) -> Vec<Self::Order>;
}

/// The outside of a coordinator.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    pub(crate) clock: Clock,
    pub(crate) io: Pool,
    pub(crate) shutdown: Shutdown,
    /// Nobody waits longer for an append to be committed (G-53).
    pub(crate) commit_timeout: Duration,
}

#[derive(Debug)]
struct State<M: Machine> {
    /// Refuses by itself while the partition is being read.
    machine: M,
    waiting: HashMap<RequestId, oneshot::Sender<M::Reply>>,
    next_request: u64,
    /// In monotonic time.
    next_deadline_ms: Option<i64>,
    /// Appends that are neither committed nor known to be late, and until when they should be committed.
    in_flight: BTreeMap<AppendToken, Instant>,
    /// Somebody looks whether they take too long.
    is_watched: bool,
}

type OnOrder<M> = Box<dyn Fn(<M as Machine>::Order) + Send + Sync>;

/// A coordinator on its partition.
pub(super) struct Runtime<M: Machine> {
    pub(super) partition: Arc<Partition>,
    surroundings: Surroundings,
    /// Appends are committed by threads that are not the runtime's.
    handle: Handle,
    state: Mutex<State<M>>,
    deadline_changed: Notify,
    on_order: OnOrder<M>,
    is_unloaded: AtomicBool,
}

impl<M: Machine> fmt::Debug for Runtime<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("partition", &self.partition.id)
            .finish_non_exhaustive()
    }
}

/// A batch on its way: what to report when it is committed.
type InFlight = (AppendToken, Result<Offset, AppendError>);

impl<M: Machine> Runtime<M> {
    /// Starts to load the partition, and serves when that is done: `start` gets what `load` read.
    pub(super) fn start<L: Send + 'static>(
        partition: Arc<Partition>,
        machine: M,
        surroundings: Surroundings,
        on_order: OnOrder<M>,
        load: fn(&Partition) -> Result<L, LoadError>,
        start: impl FnOnce(&Arc<Self>, L) + Send + 'static,
    ) -> Arc<Self> {
        let state = State {
            machine,
            waiting: HashMap::new(),
            next_request: 0,
            next_deadline_ms: None,
            in_flight: BTreeMap::new(),
            is_watched: false,
        };
        let shutdown = surroundings.shutdown.clone();
        let runtime = Arc::new(Self {
            partition,
            surroundings,
            handle: Handle::current(),
            state: Mutex::new(state),
            deadline_changed: Notify::new(),
            on_order,
            is_unloaded: AtomicBool::new(false),
        });
        let task = Arc::clone(&runtime);
        tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task.run(load, start) => {}
            }
        });
        runtime
    }

    async fn run<L: Send + 'static>(
        self: &Arc<Self>,
        load: fn(&Partition) -> Result<L, LoadError>,
        start: impl FnOnce(&Arc<Self>, L),
    ) {
        loop {
            let partition = Arc::clone(&self.partition);
            let loaded = self.surroundings.io.run(move || load(&partition)).await;
            // Deleted meanwhile: nobody asks here any more.
            if self.is_unloaded.load(Ordering::Acquire) || self.partition.log.is_deleted() {
                return;
            }
            let error = match loaded {
                Ok(Ok(loaded)) => {
                    start(self, loaded);
                    break;
                }
                Ok(Err(e)) => e.to_string(),
                Err(e @ PoolError::Panicked { .. }) => e.to_string(),
                Err(PoolError::Stopped(_)) => return,
            };
            let partition = &self.partition.id;
            tracing::error!(%partition, error, "load a coordinator");
            tokio::time::sleep(LOAD_RETRY).await;
        }
        // It may have been unloaded just before it was started.
        if self.is_unloaded.load(Ordering::Acquire) {
            self.call(|machine, _| machine.unload());
            return;
        }
        self.tick().await;
    }

    /// Wakes the machine at its deadlines.
    async fn tick(self: &Arc<Self>) {
        loop {
            let deadline = {
                let state = self.state.lock();
                if !state.machine.is_active() {
                    return;
                }
                state.next_deadline_ms
            };
            let Some(deadline) = deadline else {
                self.deadline_changed.notified().await;
                continue;
            };
            let left = deadline - self.surroundings.clock.monotonic_ms();
            let left = u64::try_from(left).unwrap_or(0);
            if left > 0 {
                let sleep = tokio::time::sleep(Duration::from_millis(left));
                tokio::select! {
                    () = sleep => {}
                    () = self.deadline_changed.notified() => {}
                }
                continue;
            }
            self.call(M::on_tick);
        }
    }

    /// Of the runtime that the coordinator lives in.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    fn now(&self) -> Now {
        let clock = &self.surroundings.clock;
        Now {
            wall_ms: clock.now_ms(),
            monotonic_ms: clock.monotonic_ms(),
        }
    }

    /// Looks at the machine.
    pub(super) fn read<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(&self.state.lock().machine)
    }

    /// Calls the machine and carries out what it says.
    pub(super) fn call(self: &Arc<Self>, call: impl FnOnce(&mut M, Now) -> Effects<M::Reply>) {
        let now = self.now();
        let (in_flight, orders) = {
            let mut state = self.state.lock();
            let effects = call(&mut state.machine, now);
            self.carry_out(&mut state, effects, None)
        };
        self.follow(in_flight, orders);
    }

    /// Carries out a request; waits until the machine answers it. `guard` goes with the
    /// transactional batch that the request leads to. `None`: the coordinator is gone.
    pub(super) async fn submit(
        self: &Arc<Self>,
        guard: Option<VerificationGuard>,
        call: impl FnOnce(&mut M, RequestId, Now) -> Effects<M::Reply>,
    ) -> Option<M::Reply> {
        let (sender, receiver) = oneshot::channel();
        let now = self.now();
        let (in_flight, orders) = {
            let mut state = self.state.lock();
            let id = RequestId(state.next_request);
            state.next_request += 1;
            let effects = call(&mut state.machine, id, now);
            state.waiting.insert(id, sender);
            self.carry_out(&mut state, effects, guard)
        };
        self.follow(in_flight, orders);
        receiver.await.ok()
    }

    /// The partition is gone: everyone who waits is told, and nothing happens here any more.
    pub(super) fn unload(self: &Arc<Self>) {
        self.is_unloaded.store(true, Ordering::Release);
        self.call(|machine, _| machine.unload());
        self.deadline_changed.notify_one();
    }

    /// Sends replies and appends records; appends happen under the lock, in the order of their
    /// tokens.
    fn carry_out(
        &self,
        state: &mut State<M>,
        effects: Effects<M::Reply>,
        guard: Option<VerificationGuard>,
    ) -> (Vec<InFlight>, Vec<M::Order>) {
        for (id, reply) in effects.replies {
            if let Some(waiting) = state.waiting.remove(&id) {
                // The client may be gone.
                let _ = waiting.send(reply);
            }
        }
        if state.next_deadline_ms != effects.next_deadline_ms {
            state.next_deadline_ms = effects.next_deadline_ms;
            self.deadline_changed.notify_one();
        }
        let appends = effects.appends.into_iter();
        let in_flight = appends.map(|a| (a.token, self.append(&a, guard)));
        let in_flight: Vec<InFlight> = in_flight.collect();
        if !in_flight.is_empty() {
            let until = Instant::now() + self.surroundings.commit_timeout;
            state
                .in_flight
                .extend(in_flight.iter().map(|(token, _)| (*token, until)));
        }
        (in_flight, state.machine.take_orders())
    }

    fn append(
        &self,
        append: &Append,
        guard: Option<VerificationGuard>,
    ) -> Result<Offset, AppendError> {
        let now_ms = self.surroundings.clock.now_ms();
        let appended = match &append.batch {
            AppendBatch::Records(records) => {
                let batch = self.build(records, None, now_ms)?;
                self.partition.append(batch, now_ms)
            }
            AppendBatch::Transactional(producer, records) => {
                let batch = self.build(records, Some(*producer), now_ms)?;
                self.partition.append_transactional(batch, guard, now_ms)
            }
            AppendBatch::Marker(end) => self.partition.append_marker(*end, now_ms),
        };
        appended.map(|a| a.last_offset + 1).map_err(append_error)
    }

    fn build(
        &self,
        records: &[CoordinatorRecord],
        producer: Option<Producer>,
        now_ms: i64,
    ) -> Result<Batch, AppendError> {
        let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
        if let Some(Producer { id, epoch }) = producer {
            batch = batch.with_producer(id, epoch, NO_SEQUENCE).transactional();
        }
        for record in records {
            batch
                .append(now_ms, Some(&record.key), record.value.as_deref(), &[])
                .map_err(|_| AppendError::MessageTooLarge)?;
        }
        let batch = batch.build().map_err(|_| AppendError::Unknown)?;
        let limit = usize::try_from(self.partition.config().max_message_bytes).unwrap_or(0);
        if batch.size_in_bytes() > limit {
            return Err(AppendError::MessageTooLarge);
        }
        Ok(batch)
    }

    /// Reports each append to the machine once it is committed, in order; hands on the orders.
    ///
    /// The thread that commits does it: what follows from an append is done without a wake-up, and
    /// so is what follows from that.
    fn follow(self: &Arc<Self>, in_flight: Vec<InFlight>, orders: Vec<M::Order>) {
        if !in_flight.is_empty() {
            self.watch();
        }
        for (token, appended) in in_flight {
            let runtime = Arc::clone(self);
            match appended {
                Ok(end_offset) => self.partition.on_committed(end_offset, move |committed| {
                    runtime.report(token, committed.map_err(commit_error));
                }),
                Err(error) => runtime.report(token, Err(error)),
            }
        }
        for order in orders {
            (self.on_order)(order);
        }
    }

    /// Tells the machine what became of an append, however late: what the log has, memory has too (G-53,
    /// G-61). A machine that was unloaded meanwhile does not know it any more.
    fn report(self: &Arc<Self>, token: AppendToken, result: Result<(), AppendError>) {
        self.state.lock().in_flight.remove(&token);
        self.call(|machine, now| machine.on_append_result(token, result, now));
    }

    /// Starts to look for appends that take too long, if nobody does.
    fn watch(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state.lock().is_watched, true) {
            return;
        }
        let runtime = Arc::clone(self);
        self.handle.spawn(async move {
            let shutdown = runtime.surroundings.shutdown.clone();
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = runtime.give_up_late_ones() => {}
            }
        });
    }

    /// Ends when nothing is in flight.
    async fn give_up_late_ones(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(self.surroundings.commit_timeout).await;
            let late: Vec<AppendToken> = {
                let mut state = self.state.lock();
                if state.in_flight.is_empty() {
                    state.is_watched = false;
                    return;
                }
                let now = Instant::now();
                let late = state.in_flight.iter().filter(|(_, until)| **until <= now);
                late.map(|(token, _)| *token).collect()
            };
            for token in late {
                // It may have been committed just now.
                if self.state.lock().in_flight.remove(&token).is_some() {
                    self.call(|machine, now| machine.on_append_late(token, now));
                }
            }
        }
    }
}

pub(super) fn commit_error(error: CommitError) -> AppendError {
    match error {
        CommitError::TimedOut => AppendError::RequestTimedOut,
        CommitError::Storage => AppendError::StorageError,
        CommitError::NotLeader => AppendError::NotLeaderOrFollower,
    }
}

pub(super) fn append_error(error: LogAppendError) -> AppendError {
    match error {
        LogAppendError::BatchLargerThanSegment { .. } => AppendError::RecordListTooLarge,
        LogAppendError::InvalidProducerEpoch { .. } => AppendError::InvalidProducerEpoch,
        LogAppendError::NotVerified { .. } | LogAppendError::InvalidTransactionState { .. } => {
            AppendError::InvalidTransactionState
        }
        LogAppendError::CoordinatorFenced { .. } => AppendError::CoordinatorFenced,
        LogAppendError::Log(_) => AppendError::StorageError,
        LogAppendError::OutOfOrderSequence { .. }
        | LogAppendError::InvalidBatch(_)
        | LogAppendError::Batch(_) => AppendError::Unknown,
    }
}
