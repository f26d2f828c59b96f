//! A shard with a log: keeps the time, carries out effects, and watches that every request is
//! answered exactly once and that no invariant breaks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use strandline_coordinator::{
    Append, AppendBatch, AppendError, CoordinatorRecord, Now, RequestId, TransactionEnd,
};
use strandline_group_coordinator::{
    DeleteGroupRequest, Effects, FetchedOffset, GroupConfig, GroupDescription, GroupError,
    GroupShard, GroupState, HeartbeatRequest, JoinReply, JoinRequest, LeaveReply, LeaveRequest,
    LeavingMember, Loader, OffsetCommitPartition, OffsetCommitReply, OffsetCommitRequest,
    OffsetCommitTopic, OffsetDeleteReply, OffsetDeleteRequest, OffsetFetchQuery, Reply, Request,
    SyncReply, SyncRequest,
};
use uuid::Uuid;

pub(crate) const GROUP: &str = "g";
pub(crate) const SESSION_MS: i64 = 10_000;
pub(crate) const REBALANCE_MS: i64 = 60_000;
pub(crate) const DELAY_MS: i64 = 3_000;

/// Less than any batch may have: around the keys and values there are a few bytes more.
const MAX_APPEND_BYTES: usize = 800_000;

pub(crate) struct Bench {
    pub(crate) shard: GroupShard,
    /// Wall time; a test may set it, as an operator does.
    pub(crate) now_ms: i64,
    pub(crate) monotonic_ms: i64,
    /// What has committed, in order.
    pub(crate) log: Vec<CoordinatorRecord>,
    /// The same, as it was written.
    pub(crate) batches: Vec<AppendBatch>,
    pub(crate) appends: VecDeque<Append>,
    /// Commit appends as soon as they come.
    pub(crate) commits_at_once: bool,
    config: GroupConfig,
    last_id: u64,
    unanswered: BTreeSet<RequestId>,
    replies: BTreeMap<RequestId, Reply>,
    deadline_ms: Option<i64>,
}

pub(crate) fn config() -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay_ms: DELAY_MS,
        ..GroupConfig::default()
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(config())
    }

    pub(crate) fn with(config: GroupConfig) -> Self {
        let mut bench = Self {
            shard: new_shard(&config, 0),
            now_ms: 1_000_000,
            monotonic_ms: 77,
            log: Vec::new(),
            batches: Vec::new(),
            appends: VecDeque::new(),
            commits_at_once: true,
            config,
            last_id: 0,
            unanswered: BTreeSet::new(),
            replies: BTreeMap::new(),
            deadline_ms: None,
        };
        let effects = bench.shard.start(Loader::new(), bench.now());
        bench.carry_out(effects);
        bench
    }

    pub(crate) fn send(&mut self, request: Request) -> RequestId {
        self.last_id += 1;
        let id = RequestId(self.last_id);
        self.unanswered.insert(id);
        let effects = self.shard.handle(id, request, self.now());
        self.carry_out(effects);
        id
    }

    /// A marker is to be written to the shard's partition.
    pub(crate) fn end_transaction(&mut self, end: TransactionEnd) -> RequestId {
        self.last_id += 1;
        let id = RequestId(self.last_id);
        self.unanswered.insert(id);
        let effects = self.shard.end_transaction(id, end);
        self.carry_out(effects);
        id
    }

    pub(crate) fn carry_out(&mut self, effects: Effects) {
        for (id, reply) in effects.replies {
            assert!(
                self.unanswered.remove(&id),
                "{id:?} was not waiting for {reply:?}"
            );
            self.replies.insert(id, reply);
        }
        for append in effects.appends {
            let is_marker = matches!(append.batch, AppendBatch::Marker(_));
            assert!(
                is_marker || !append.batch.records().is_empty(),
                "an append without records"
            );
            let size = |r: &CoordinatorRecord| r.key.len() + r.value.as_ref().map_or(0, Bytes::len);
            let bytes: usize = append.batch.records().iter().map(size).sum();
            assert!(bytes < MAX_APPEND_BYTES, "nobody takes {bytes} bytes");
            if let Some(last) = self.appends.back() {
                assert!(last.token < append.token, "tokens grow");
            }
            self.appends.push_back(append);
        }
        self.deadline_ms = effects.next_deadline_ms;
        assert_eq!(self.deadline_ms, self.shard.next_deadline_ms());
        self.shard.check().unwrap();
        if self.commits_at_once {
            self.commit_all();
        }
    }

    /// A batch is in the log for good.
    pub(crate) fn write(&mut self, batch: AppendBatch) {
        self.log.extend_from_slice(batch.records());
        self.batches.push(batch);
    }

    pub(crate) fn commit_all(&mut self) {
        while let Some(append) = self.appends.pop_front() {
            self.write(append.batch);
            self.resolve(append.token, Ok(()));
        }
    }

    pub(crate) fn fail_all(&mut self, error: AppendError) {
        for append in std::mem::take(&mut self.appends) {
            self.resolve(append.token, Err(error));
        }
    }

    /// `offsets.commit.timeout.ms` is over for what is under way.
    pub(crate) fn late_all(&mut self) {
        let tokens: Vec<_> = self.appends.iter().map(|append| append.token).collect();
        for token in tokens {
            let effects = self.shard.on_append_late(token, self.now());
            self.carry_out(effects);
        }
    }

    pub(crate) fn resolve(
        &mut self,
        token: strandline_coordinator::AppendToken,
        result: Result<(), AppendError>,
    ) {
        let effects = self.shard.on_append_result(token, result, self.now());
        self.carry_out(effects);
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Now {
        Now {
            wall_ms: self.now_ms,
            monotonic_ms: self.monotonic_ms,
        }
    }

    fn advance(&mut self, ms: i64) {
        self.now_ms += ms;
        self.monotonic_ms += ms;
    }

    /// Lets time pass, waking the shard at each of its deadlines.
    pub(crate) fn pass(&mut self, ms: i64) {
        let end_ms = self.monotonic_ms + ms;
        let mut wakes = 0;
        while let Some(deadline_ms) = self.deadline_ms.filter(|deadline| *deadline <= end_ms) {
            assert!(
                deadline_ms > self.monotonic_ms,
                "a deadline in the past was not worked off"
            );
            self.advance(deadline_ms - self.monotonic_ms);
            let effects = self.shard.on_tick(self.now());
            self.carry_out(effects);
            wakes += 1;
            assert!(wakes < 5_000, "the shard spins");
        }
        self.advance(end_ms - self.monotonic_ms);
    }

    pub(crate) fn topics_deleted(&mut self, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let effects = self.shard.on_topics_deleted(&names, self.now());
        self.carry_out(effects);
    }

    /// Another broker takes over with what has committed.
    pub(crate) fn fail_over(&mut self) {
        let effects = self.shard.unload();
        self.appends.clear();
        self.carry_out(effects);
        assert!(self.unanswered.is_empty(), "unload answers everybody");
        self.shard = self.loaded();
        self.deadline_ms = self.shard.next_deadline_ms();
        self.shard.check().unwrap();
    }

    /// A second shard with the state of the log.
    pub(crate) fn loaded(&self) -> GroupShard {
        let mut shard = new_shard(&self.config, u128::from(self.last_id + 1) << 32);
        shard.start(self.loader(), self.now());
        shard
    }

    /// What is read of the log.
    pub(crate) fn loader(&self) -> Loader {
        let mut loader = Loader::new();
        for batch in &self.batches {
            match batch {
                AppendBatch::Records(records) => {
                    for r in records {
                        loader.feed(&r.key, r.value.as_deref()).unwrap();
                    }
                }
                AppendBatch::Transactional(producer, records) => {
                    for r in records {
                        loader
                            .feed_transactional(producer.id, &r.key, r.value.as_deref())
                            .unwrap();
                    }
                }
                AppendBatch::Marker(end) => loader.feed_marker(end.producer.id, end.committed),
            }
        }
        loader
    }

    pub(crate) fn is_answered(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id)
    }

    pub(crate) fn unanswered_count(&self) -> usize {
        self.unanswered.len()
    }

    pub(crate) fn reply(&mut self, id: RequestId) -> Reply {
        self.replies
            .remove(&id)
            .unwrap_or_else(|| panic!("{id:?} has no answer yet"))
    }

    pub(crate) fn join_reply(&mut self, id: RequestId) -> JoinReply {
        let Reply::Join(reply) = self.reply(id) else {
            panic!("not a join")
        };
        reply
    }

    pub(crate) fn sync_reply(&mut self, id: RequestId) -> SyncReply {
        let Reply::Sync(reply) = self.reply(id) else {
            panic!("not a sync")
        };
        reply
    }

    pub(crate) fn join(&mut self, request: JoinRequest) -> JoinReply {
        let id = self.send(Request::Join(request));
        self.join_reply(id)
    }

    pub(crate) fn park(&mut self, request: JoinRequest) -> RequestId {
        let id = self.send(Request::Join(request));
        assert!(!self.is_answered(id), "{:?}", self.replies.get(&id));
        id
    }

    pub(crate) fn send_sync(
        &mut self,
        generation_id: i32,
        member_id: &str,
        plan: &[(&str, &str)],
    ) -> RequestId {
        self.send(Request::Sync(sync(generation_id, member_id, plan)))
    }

    pub(crate) fn heartbeat(
        &mut self,
        generation_id: i32,
        member_id: &str,
    ) -> Result<(), GroupError> {
        self.heartbeat_as(generation_id, member_id, None)
    }

    pub(crate) fn heartbeat_as(
        &mut self,
        generation_id: i32,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<(), GroupError> {
        let id = self.send(Request::Heartbeat(HeartbeatRequest {
            group_id: GROUP.to_owned(),
            generation_id,
            member_id: member_id.to_owned(),
            group_instance_id: instance_id.map(str::to_owned),
        }));
        let Reply::Heartbeat(outcome) = self.reply(id) else {
            panic!("not a heartbeat")
        };
        outcome
    }

    pub(crate) fn leave(&mut self, members: &[(&str, Option<&str>)]) -> LeaveReply {
        let members = members
            .iter()
            .map(|(member_id, instance_id)| LeavingMember {
                member_id: (*member_id).to_owned(),
                group_instance_id: instance_id.map(str::to_owned),
            });
        let members = members.collect();
        let id = self.send(Request::Leave(LeaveRequest {
            group_id: GROUP.to_owned(),
            members,
        }));
        let Reply::Leave(reply) = self.reply(id) else {
            panic!("not a leave")
        };
        reply
    }

    pub(crate) fn commit(&mut self, request: OffsetCommitRequest) -> Option<GroupError> {
        let id = self.send(Request::OffsetCommit(request));
        self.commit_reply(id).topics[0].partitions[0].1
    }

    pub(crate) fn commit_reply(&mut self, id: RequestId) -> OffsetCommitReply {
        let Reply::OffsetCommit(reply) = self.reply(id) else {
            panic!("not a commit")
        };
        reply
    }

    pub(crate) fn delete_group(&mut self) -> Result<(), GroupError> {
        let request = DeleteGroupRequest {
            group_id: GROUP.to_owned(),
        };
        let id = self.send(Request::DeleteGroup(request));
        let Reply::DeleteGroup(outcome) = self.reply(id) else {
            panic!("not a deletion")
        };
        outcome
    }

    pub(crate) fn delete_offsets(&mut self, topics: &[(&str, &[i32])]) -> OffsetDeleteReply {
        let id = self.send(Request::OffsetDelete(offset_delete(topics)));
        let Reply::OffsetDelete(reply) = self.reply(id) else {
            panic!("not a deletion")
        };
        reply
    }

    pub(crate) fn fetch(&self, topic: &str, partition: i32) -> FetchedOffset {
        fetch_from(&self.shard, topic, partition)
    }

    pub(crate) fn describe(&self) -> GroupDescription {
        self.shard.describe_group(GROUP).unwrap()
    }

    pub(crate) fn state(&self) -> GroupState {
        self.describe().state
    }

    pub(crate) fn group_exists(&self) -> bool {
        self.shard.describe_group(GROUP).is_ok()
    }

    /// A stable group of `count` dynamic members; their ids, the leader first, and the generation.
    pub(crate) fn stable_group(&mut self, count: usize) -> (Vec<String>, i32) {
        self.stable_group_of(vec![join(""); count])
    }

    /// The same from an Empty group with these joins.
    pub(crate) fn stable_group_of(&mut self, joins: Vec<JoinRequest>) -> (Vec<String>, i32) {
        let parked: Vec<_> = joins
            .into_iter()
            .map(|request| self.park(request))
            .collect();
        self.pass(2 * DELAY_MS);
        let replies = parked.into_iter().map(|id| self.join_reply(id)).collect();
        self.sync_all(replies)
    }

    /// Syncs everybody; each is assigned its own id.
    pub(crate) fn sync_all(&mut self, replies: Vec<JoinReply>) -> (Vec<String>, i32) {
        let generation = replies[0].generation_id;
        let leader = replies[0].leader.clone();
        let mut ids = vec![leader.clone()];
        ids.extend(
            replies
                .into_iter()
                .map(|reply| reply.member_id)
                .filter(|id| *id != leader),
        );
        let plan: Vec<(&str, &str)> = ids.iter().map(|id| (&**id, &**id)).collect();
        let syncs: Vec<_> = ids
            .iter()
            .rev()
            .map(|id| self.send_sync(generation, id, &plan))
            .collect();
        for id in syncs {
            assert_eq!(self.sync_reply(id).error, None);
        }
        assert_eq!(self.state(), GroupState::Stable);
        (ids, generation)
    }
}

fn new_shard(config: &GroupConfig, first_id: u128) -> GroupShard {
    let mut id = first_id;
    let ids = move || {
        id += 1;
        Uuid::from_u128(id)
    };
    GroupShard::new(config.clone(), Box::new(ids))
}

pub(crate) fn fetch_from(shard: &GroupShard, topic: &str, partition: i32) -> FetchedOffset {
    let topics = Some(vec![(topic.to_owned(), vec![partition])]);
    let query = OffsetFetchQuery {
        group_id: GROUP.to_owned(),
        topics,
        require_stable: false,
    };
    shard
        .fetch_offsets(&query)
        .unwrap()
        .remove(0)
        .partitions
        .remove(0)
}

/// A consumer subscription to topics.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 1, 0, 0, 0, u8::try_from(topics.len()).unwrap()];
    for topic in topics {
        bytes.extend([0, u8::try_from(topic.len()).unwrap()]);
        bytes.extend(topic.as_bytes());
    }
    bytes.extend([0xff; 4]);
    bytes.into()
}

/// A join as version 5 sends it, but without MEMBER_ID_REQUIRED.
pub(crate) fn join(member_id: &str) -> JoinRequest {
    JoinRequest {
        group_id: GROUP.to_owned(),
        member_id: member_id.to_owned(),
        group_instance_id: None,
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout_ms: i32::try_from(SESSION_MS).unwrap(),
        rebalance_timeout_ms: i32::try_from(REBALANCE_MS).unwrap(),
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), subscription(&["t"]))],
        require_known_member_id: false,
        supports_skip_assignment: false,
    }
}

pub(crate) fn join_static(member_id: &str, instance_id: &str) -> JoinRequest {
    JoinRequest {
        group_instance_id: Some(instance_id.to_owned()),
        ..join(member_id)
    }
}

pub(crate) fn join_with(member_id: &str, protocols: &[(&str, &str)]) -> JoinRequest {
    let protocols = protocols
        .iter()
        .map(|(name, metadata)| {
            (
                (*name).to_owned(),
                Bytes::copy_from_slice(metadata.as_bytes()),
            )
        })
        .collect();
    JoinRequest {
        protocols,
        ..join(member_id)
    }
}

pub(crate) fn sync(generation_id: i32, member_id: &str, plan: &[(&str, &str)]) -> SyncRequest {
    let assignments = plan
        .iter()
        .map(|(id, assignment)| {
            (
                (*id).to_owned(),
                Bytes::copy_from_slice(assignment.as_bytes()),
            )
        })
        .collect();
    SyncRequest {
        group_id: GROUP.to_owned(),
        generation_id,
        member_id: member_id.to_owned(),
        group_instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments,
    }
}

pub(crate) fn commit(generation_id: i32, member_id: &str, offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: GROUP.to_owned(),
        generation_id,
        member_id: member_id.to_owned(),
        group_instance_id: None,
        retention_time_ms: None,
        supports_group_id_not_found: false,
        topics: vec![commit_topic("t", &[(0, offset)])],
    }
}

pub(crate) fn commit_topic(name: &str, offsets: &[(i32, i64)]) -> OffsetCommitTopic {
    let partitions = offsets
        .iter()
        .map(|(partition, offset)| OffsetCommitPartition {
            partition: *partition,
            offset: *offset,
            leader_epoch: 7,
            metadata: "meta".to_owned(),
        });
    OffsetCommitTopic {
        name: name.to_owned(),
        partitions: partitions.collect(),
    }
}

pub(crate) fn offset_delete(topics: &[(&str, &[i32])]) -> OffsetDeleteRequest {
    let topics = topics
        .iter()
        .map(|(name, partitions)| ((*name).to_owned(), partitions.to_vec()));
    OffsetDeleteRequest {
        group_id: GROUP.to_owned(),
        topics: topics.collect(),
    }
}
