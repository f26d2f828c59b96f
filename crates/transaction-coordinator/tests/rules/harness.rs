//! A shard with a log: keeps the time, carries out effects, writes markers when it is told to, and
//! watches that every request is answered exactly once and that no invariant breaks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use strandline_coordinator::{Append, AppendError, CoordinatorRecord, Now, Producer, RequestId};
use strandline_transaction_coordinator::{
    AddPartitionsRequest, Effects, EndTxnRequest, InitProducerIdRequest, Loader, Markers, Order,
    Reply, Request, Transaction, TransactionConfig, TransactionError, TransactionShard,
    TransactionState, TransactionVersion,
};
use strandline_types::{TopicName, TopicPartition};

pub(crate) const ID: &str = "orders";
pub(crate) const TIMEOUT_MS: i32 = 60_000;
pub(crate) const V0: TransactionVersion = TransactionVersion::V0;
pub(crate) const V2: TransactionVersion = TransactionVersion::V2;

pub(crate) struct Bench {
    pub(crate) shard: TransactionShard,
    /// Wall time; a test may set it, as an operator does.
    pub(crate) now_ms: i64,
    pub(crate) monotonic_ms: i64,
    /// What has committed, in order.
    pub(crate) log: Vec<CoordinatorRecord>,
    pub(crate) appends: VecDeque<Append>,
    /// Commit appends as soon as they come.
    pub(crate) commits_at_once: bool,
    /// Markers that nobody has written yet.
    pub(crate) markers: VecDeque<Markers>,
    /// Write markers as soon as they are asked for.
    pub(crate) marks_at_once: bool,
    config: TransactionConfig,
    coordinator_epoch: i32,
    last_id: u64,
    next_producer_id: i64,
    unanswered: BTreeSet<RequestId>,
    replies: BTreeMap<RequestId, Reply>,
    deadline_ms: Option<i64>,
}

pub(crate) fn topic_partition(partition: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new("t").unwrap(), partition)
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(TransactionConfig::default())
    }

    pub(crate) fn with(config: TransactionConfig) -> Self {
        let mut bench = Self {
            shard: TransactionShard::new(config.clone()),
            now_ms: 1_000_000,
            monotonic_ms: 77,
            log: Vec::new(),
            appends: VecDeque::new(),
            commits_at_once: true,
            markers: VecDeque::new(),
            marks_at_once: true,
            config,
            coordinator_epoch: 3,
            last_id: 0,
            next_producer_id: 1000,
            unanswered: BTreeSet::new(),
            replies: BTreeMap::new(),
            deadline_ms: None,
        };
        let effects = bench
            .shard
            .start(Loader::new(), bench.coordinator_epoch, bench.now());
        bench.carry_out(effects);
        bench
    }

    pub(crate) fn send(&mut self, request: Request) -> RequestId {
        self.last_id += 1;
        let id = RequestId(self.last_id);
        self.unanswered.insert(id);
        let fresh = self.shard.wants_producer_id(&request).then(|| {
            self.next_producer_id += 1;
            self.next_producer_id
        });
        let effects = self.shard.handle(id, request, fresh, self.now());
        self.carry_out(effects);
        id
    }

    fn carry_out(&mut self, effects: Effects) {
        for (id, reply) in effects.replies {
            assert!(
                self.unanswered.remove(&id),
                "{id:?} was not waiting for {reply:?}"
            );
            self.replies.insert(id, reply);
        }
        for append in effects.appends {
            assert!(!append.batch.records().is_empty());
            if let Some(last) = self.appends.back() {
                assert!(last.token < append.token, "tokens grow");
            }
            self.appends.push_back(append);
        }
        for order in self.shard.take_orders() {
            if let Order::Write(markers) = order {
                self.markers.push_back(markers);
            }
        }
        self.deadline_ms = effects.next_deadline_ms;
        assert_eq!(self.deadline_ms, self.shard.next_deadline_ms());
        self.shard.check().unwrap();
        if self.commits_at_once {
            self.commit_all();
        }
        if self.marks_at_once {
            self.mark_all();
        }
    }

    pub(crate) fn commit_all(&mut self) {
        while self.commit_one() {}
    }

    pub(crate) fn commit_one(&mut self) -> bool {
        let Some(append) = self.appends.pop_front() else {
            return false;
        };
        self.log.extend_from_slice(append.batch.records());
        let effects = self
            .shard
            .on_append_result(append.token, Ok(()), self.now());
        self.carry_out(effects);
        true
    }

    /// Fails the appends that are there; what they lead to is left alone.
    pub(crate) fn fail_all(&mut self, error: AppendError) {
        for append in std::mem::take(&mut self.appends) {
            let effects = self
                .shard
                .on_append_result(append.token, Err(error), self.now());
            self.carry_out(effects);
        }
    }

    pub(crate) fn mark_all(&mut self) {
        while let Some(markers) = self.markers.pop_front() {
            for partition in markers.partitions.clone() {
                self.mark(&markers, &partition);
            }
        }
    }

    pub(crate) fn mark(&mut self, markers: &Markers, partition: &TopicPartition) {
        let effects = self.shard.on_marker_written(
            &markers.transactional_id,
            markers.end.producer,
            partition,
            self.now(),
        );
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
                "a deadline was not worked off"
            );
            self.advance(deadline_ms - self.monotonic_ms);
            let effects = self.shard.on_tick(self.now());
            self.carry_out(effects);
            wakes += 1;
            assert!(wakes < 100_000, "the shard spins");
        }
        self.advance(end_ms - self.monotonic_ms);
    }

    /// Another broker takes over with what has committed.
    pub(crate) fn fail_over(&mut self) {
        let effects = self.shard.unload();
        self.appends.clear();
        self.markers.clear();
        self.carry_out(effects);
        assert!(self.unanswered.is_empty(), "unload answers everybody");
        self.coordinator_epoch += 1;
        let mut loader = Loader::new();
        for record in &self.log {
            loader.feed(&record.key, record.value.as_deref()).unwrap();
        }
        self.shard = TransactionShard::new(self.config.clone());
        let effects = self.shard.start(loader, self.coordinator_epoch, self.now());
        self.carry_out(effects);
    }

    pub(crate) fn is_answered(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id)
    }

    pub(crate) fn reply(&mut self, id: RequestId) -> Reply {
        self.replies
            .remove(&id)
            .unwrap_or_else(|| panic!("{id:?} has no answer yet"))
    }

    pub(crate) fn init(&mut self) -> Result<Producer, TransactionError> {
        self.init_with(None)
    }

    pub(crate) fn init_with(
        &mut self,
        expected: Option<Producer>,
    ) -> Result<Producer, TransactionError> {
        let id = self.send(init(expected));
        let Reply::InitProducerId(result) = self.reply(id) else {
            panic!("not an init")
        };
        result
    }

    pub(crate) fn add(
        &mut self,
        producer: Producer,
        partitions: &[i32],
    ) -> Result<(), TransactionError> {
        self.add_as(producer, partitions, V0)
    }

    pub(crate) fn add_as(
        &mut self,
        producer: Producer,
        partitions: &[i32],
        client_version: TransactionVersion,
    ) -> Result<(), TransactionError> {
        let id = self.send(add(producer, partitions, client_version));
        let Reply::AddPartitions(result) = self.reply(id) else {
            panic!("not an add")
        };
        result
    }

    pub(crate) fn end(
        &mut self,
        producer: Producer,
        committed: bool,
    ) -> Result<Option<Producer>, TransactionError> {
        self.end_as(producer, committed, V0)
    }

    pub(crate) fn end_as(
        &mut self,
        producer: Producer,
        committed: bool,
        client_version: TransactionVersion,
    ) -> Result<Option<Producer>, TransactionError> {
        let id = self.send(end(producer, committed, client_version));
        let Reply::EndTxn(result) = self.reply(id) else {
            panic!("not an end")
        };
        result
    }

    pub(crate) fn transaction(&self) -> Transaction {
        self.shard.describe(ID).unwrap().clone()
    }

    pub(crate) fn state(&self) -> TransactionState {
        self.transaction().state
    }
}

pub(crate) fn init(expected: Option<Producer>) -> Request {
    Request::InitProducerId(InitProducerIdRequest {
        transactional_id: ID.to_owned(),
        timeout_ms: TIMEOUT_MS,
        expected,
    })
}

pub(crate) fn add(
    producer: Producer,
    partitions: &[i32],
    client_version: TransactionVersion,
) -> Request {
    Request::AddPartitions(AddPartitionsRequest {
        transactional_id: ID.to_owned(),
        producer,
        partitions: partitions.iter().map(|p| topic_partition(*p)).collect(),
        client_version,
    })
}

pub(crate) fn end(
    producer: Producer,
    committed: bool,
    client_version: TransactionVersion,
) -> Request {
    Request::EndTxn(EndTxnRequest {
        transactional_id: ID.to_owned(),
        producer,
        committed,
        client_version,
    })
}

pub(crate) fn with_epoch(producer: Producer, epoch: i16) -> Producer {
    Producer { epoch, ..producer }
}
