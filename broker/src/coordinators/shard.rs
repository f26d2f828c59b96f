//! One group coordinator: the pure shard, its partition, its timer, its waiting requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strandline_env::{Clock, Pool, Shutdown};
use strandline_group_coordinator::{
    Append, AppendError, AppendToken, Effects, FetchedTopic, GroupConfig, GroupDescription,
    GroupError, GroupShard, ListGroupsFilter, ListedGroup, OffsetFetchQuery, Reply, Request,
    RequestId,
};
use strandline_log::AppendError as LogAppendError;
use strandline_metadata::Metadata;
use strandline_records::{BatchBuilder, Compression};
use strandline_types::{Offset, TimestampType, TopicName};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

use crate::coordinators::load;
use crate::partition::{CommitError, Partition};

/// Between attempts to load a partition whose disk fails.
const LOAD_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct State {
    /// Refuses by itself while the partition is being read.
    shard: GroupShard,
    waiting: HashMap<RequestId, oneshot::Sender<Reply>>,
    next_request: u64,
    next_deadline_ms: Option<i64>,
}

/// A group coordinator on its partition.
#[derive(Debug)]
pub(super) struct Shard {
    partition: Arc<Partition>,
    clock: Clock,
    /// `offsets.commit.timeout.ms` (G-53).
    commit_timeout: Duration,
    state: Mutex<State>,
    deadline_changed: Notify,
}

/// A batch on its way: what to report when it is committed.
type InFlight = (AppendToken, Result<Offset, AppendError>);

impl Shard {
    /// Starts to load the partition, and serves when that is done.
    pub(super) fn start(
        partition: Arc<Partition>,
        config: GroupConfig,
        commit_timeout: Duration,
        clock: Clock,
        io: Pool,
        metadata: Metadata,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let state = State {
            shard: GroupShard::new(config, Box::new(Uuid::new_v4)),
            waiting: HashMap::new(),
            next_request: 0,
            next_deadline_ms: None,
        };
        let shard = Arc::new(Self {
            partition,
            clock,
            commit_timeout,
            state: Mutex::new(state),
            deadline_changed: Notify::new(),
        });
        let task = Arc::clone(&shard);
        tokio::spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task.run(io, metadata) => {}
            }
        });
        shard
    }

    async fn run(self: &Arc<Self>, io: Pool, metadata: Metadata) {
        loop {
            let partition = Arc::clone(&self.partition);
            match io.run(move || load::load(&partition)).await {
                Ok(Ok(loader)) => {
                    self.with_shard(|shard, now_ms| shard.start(loader, now_ms));
                    self.forget_deleted_topics(&metadata);
                    break;
                }
                Ok(Err(e)) => {
                    let partition = &self.partition.id;
                    tracing::error!(%partition, error = %e, "load group coordinator");
                    tokio::time::sleep(LOAD_RETRY).await;
                }
                Err(_) => return,
            }
        }
        self.tick().await;
    }

    /// Topics that were deleted while nobody coordinated here (G-61).
    fn forget_deleted_topics(self: &Arc<Self>, metadata: &Metadata) {
        let image = metadata.image();
        self.with_shard(|shard, now_ms| {
            let mut gone = shard.topics_with_offsets();
            gone.retain(|topic| image.topics().by_name(topic).is_none());
            shard.on_topics_deleted(&gone.into_iter().collect::<Vec<_>>(), now_ms)
        });
    }

    /// Wakes the shard at its deadlines.
    async fn tick(self: &Arc<Self>) {
        loop {
            let deadline = {
                let state = self.state.lock();
                if !state.shard.is_active() {
                    return;
                }
                state.next_deadline_ms
            };
            let Some(deadline) = deadline else {
                self.deadline_changed.notified().await;
                continue;
            };
            let left = u64::try_from(deadline - self.clock.now_ms()).unwrap_or(0);
            if left > 0 {
                let sleep = tokio::time::sleep(Duration::from_millis(left));
                tokio::select! {
                    () = sleep => {}
                    () = self.deadline_changed.notified() => {}
                }
                continue;
            }
            self.with_shard(GroupShard::on_tick);
        }
    }

    /// Calls the shard and carries out what it says.
    fn with_shard(self: &Arc<Self>, call: impl FnOnce(&mut GroupShard, i64) -> Effects) {
        let now_ms = self.clock.now_ms();
        let in_flight = {
            let mut state = self.state.lock();
            let effects = call(&mut state.shard, now_ms);
            self.carry_out(&mut state, effects)
        };
        self.follow(in_flight);
    }

    /// Sends replies and appends records; appends happen under the lock, in the order of their
    /// tokens.
    fn carry_out(&self, state: &mut State, effects: Effects) -> Vec<InFlight> {
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
        effects
            .appends
            .into_iter()
            .map(|a| (a.token, self.append(&a)))
            .collect()
    }

    fn append(&self, append: &Append) -> Result<Offset, AppendError> {
        let now_ms = self.clock.now_ms();
        let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
        for record in &append.records {
            batch
                .append(now_ms, Some(&record.key), record.value.as_deref(), &[])
                .map_err(|_| AppendError::MessageTooLarge)?;
        }
        let batch = batch.build().map_err(|_| AppendError::Unknown)?;
        let limit = usize::try_from(self.partition.config().max_message_bytes).unwrap_or(0);
        if batch.size_in_bytes() > limit {
            return Err(AppendError::MessageTooLarge);
        }
        self.partition
            .append(batch, now_ms)
            .map(|a| a.last_offset + 1)
            .map_err(|e| match e {
                LogAppendError::BatchLargerThanSegment { .. } => AppendError::RecordListTooLarge,
                LogAppendError::Log(_) => AppendError::StorageError,
                _ => AppendError::Unknown,
            })
    }

    /// Reports each append to the shard once it is committed, in order.
    fn follow(self: &Arc<Self>, in_flight: Vec<InFlight>) {
        for (token, appended) in in_flight {
            let shard = Arc::clone(self);
            tokio::spawn(async move {
                let result = match appended {
                    Ok(end_offset) => shard
                        .partition
                        .committed(end_offset, shard.commit_timeout)
                        .await
                        .map_err(|e| match e {
                            CommitError::TimedOut => AppendError::RequestTimedOut,
                            CommitError::Storage => AppendError::StorageError,
                            CommitError::NotLeader => AppendError::NotLeaderOrFollower,
                        }),
                    Err(e) => Err(e),
                };
                shard.with_shard(|s, now_ms| s.on_append_result(token, result, now_ms));
            });
        }
    }

    /// Carries out a request; waits until the shard answers it.
    pub(super) async fn submit(self: &Arc<Self>, request: Request) -> Result<Reply, GroupError> {
        let (sender, receiver) = oneshot::channel();
        let now_ms = self.clock.now_ms();
        let in_flight = {
            let mut state = self.state.lock();
            let id = RequestId(state.next_request);
            state.next_request += 1;
            let effects = state.shard.handle(id, request, now_ms);
            state.waiting.insert(id, sender);
            self.carry_out(&mut state, effects)
        };
        self.follow(in_flight);
        receiver.await.map_err(|_| GroupError::NotCoordinator)
    }

    /// The partition is gone: everyone who waits is told, and nothing happens here any more.
    pub(super) fn unload(self: &Arc<Self>) {
        self.with_shard(|shard, _| shard.unload());
        self.deadline_changed.notify_one();
    }

    pub(super) fn on_topics_deleted(self: &Arc<Self>, names: &[TopicName]) {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        self.with_shard(|shard, now_ms| shard.on_topics_deleted(&names, now_ms));
    }

    pub(super) fn fetch_offsets(
        &self,
        query: &OffsetFetchQuery,
    ) -> Result<Vec<FetchedTopic>, GroupError> {
        self.state.lock().shard.fetch_offsets(query)
    }

    pub(super) fn describe(&self, group_id: &str) -> Result<GroupDescription, GroupError> {
        self.state.lock().shard.describe_group(group_id)
    }

    pub(super) fn list(&self, filter: &ListGroupsFilter) -> Result<Vec<ListedGroup>, GroupError> {
        self.state.lock().shard.list_groups(filter)
    }
}
