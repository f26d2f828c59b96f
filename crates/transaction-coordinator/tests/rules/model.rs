//! Random histories of clients of both generations, slow disks, slow markers, failovers and time,
//! against a simple model of what may be true at the partitions.
//!
//! The model is a partition for each index: which epochs have written, which transaction is open,
//! and how it ended. It knows nothing of states: it only sees what a real partition would see, and
//! what the clients were told.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strandline_coordinator::{AppendError, Producer};
use strandline_transaction_coordinator::{Reply, TransactionConfig, TransactionError};

use crate::harness::{Bench, ID, V0, V2, add, end, init, topic_partition};

const PARTITIONS: i32 = 3;
const CLIENTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    /// A client begins anew.
    Init(usize),
    /// A client asks to write to a partition, and writes if it may.
    Write(usize, i32),
    /// A client ends its transaction.
    End(usize, bool),
    /// The last end once more: its answer was lost.
    Again(usize),
    /// One append commits, or fails.
    Append(bool),
    /// One marker reaches its partition.
    Mark,
    FailOver,
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        2 => client.clone().prop_map(Step::Init),
        6 => (client.clone(), 0..PARTITIONS).prop_map(|(c, p)| Step::Write(c, p)),
        4 => (client.clone(), any::<bool>()).prop_map(|(c, commit)| Step::End(c, commit)),
        2 => client.prop_map(Step::Again),
        8 => prop::bool::weighted(0.9).prop_map(Step::Append),
        8 => Just(Step::Mark),
        1 => Just(Step::FailOver),
        1 => (1_i64..90_000).prop_map(Step::Pass),
    ]
}

/// A partition: what its log says of the one transactional id.
#[derive(Debug, Default, Clone)]
struct Partition {
    /// Producer and number of the write's attempt, while a transaction is open.
    open: Option<(Producer, Vec<u64>)>,
    newest: BTreeMap<i64, i16>,
    coordinator_epoch: i32,
    /// Writes by how their transaction ended.
    committed: Vec<u64>,
    aborted: Vec<u64>,
}

#[derive(Debug, Clone, Default)]
struct Client {
    bumps: bool,
    producer: Option<Producer>,
    /// Writes of the transaction that is open in the client's eyes.
    writes: Vec<(i32, u64)>,
    last_end: Option<(Producer, bool)>,
}

struct World {
    bench: Bench,
    partitions: Vec<Partition>,
    clients: Vec<Client>,
    next_write: u64,
    /// Writes whose commit was granted to the client, and whose abort was.
    must_commit: Vec<(i32, u64)>,
    must_abort: Vec<(i32, u64)>,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::with(TransactionConfig::default());
        bench.commits_at_once = false;
        bench.marks_at_once = false;
        let clients = (0..CLIENTS).map(|number| Client {
            bumps: number != 0,
            ..Client::default()
        });
        Self {
            bench,
            partitions: vec![Partition::default(); PARTITIONS as usize],
            clients: clients.collect(),
            next_write: 0,
            must_commit: Vec::new(),
            must_abort: Vec::new(),
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Init(client) => {
                let id = self.bench.send(init(None));
                self.bench.commit_all();
                if let Reply::InitProducerId(Ok(producer)) = self.bench.reply(id) {
                    let client = &mut self.clients[client];
                    client.producer = Some(producer);
                    client.writes.clear();
                    client.last_end = None;
                }
            }
            Step::Write(client, partition) => self.write(client, partition),
            Step::End(client, committed) => {
                if let Some(producer) = self.clients[client].producer {
                    self.end(client, producer, committed);
                }
            }
            Step::Again(client) => {
                if let Some((producer, committed)) = self.clients[client].last_end {
                    self.again(client, producer, committed);
                }
            }
            Step::Append(true) => drop(self.bench.commit_one()),
            Step::Append(false) => self.bench.fail_all(AppendError::NotEnoughReplicas),
            Step::Mark => self.mark_one(),
            Step::FailOver => self.bench.fail_over(),
            Step::Pass(ms) => self.bench.pass(ms),
        }
    }

    fn write(&mut self, client: usize, index: i32) {
        let Client {
            producer: Some(producer),
            bumps,
            ..
        } = self.clients[client]
        else {
            return;
        };
        let version = if bumps { V2 } else { V0 };
        let id = self.bench.send(add(producer, &[index], version));
        self.bench.commit_all();
        if self.bench.reply(id) != Reply::AddPartitions(Ok(())) {
            return;
        }
        let write = self.next_write;
        self.next_write += 1;
        let partition = &mut self.partitions[index as usize];
        let newest = partition
            .newest
            .entry(producer.id)
            .or_insert(producer.epoch);
        assert!(
            producer.epoch >= *newest,
            "a producer that was let in is older than what has written"
        );
        *newest = producer.epoch;
        let open = partition.open.get_or_insert((producer, Vec::new()));
        assert_eq!(open.0, producer, "two producers are let in at once");
        open.1.push(write);
        self.clients[client].writes.push((index, write));
    }

    fn end(&mut self, client: usize, producer: Producer, committed: bool) {
        let version = if self.clients[client].bumps { V2 } else { V0 };
        let id = self.bench.send(end(producer, committed, version));
        self.bench.commit_all();
        let Reply::EndTxn(Ok(next)) = self.bench.reply(id) else {
            return;
        };
        let client = &mut self.clients[client];
        let writes = std::mem::take(&mut client.writes);
        if committed {
            self.must_commit.extend(writes);
        } else {
            self.must_abort.extend(writes);
        }
        assert_eq!(next.is_some(), client.bumps);
        client.producer = next.or(client.producer);
        client.last_end = Some((producer, committed));
    }

    /// T-33: the same answer, as long as nothing came after it.
    fn again(&mut self, client: usize, producer: Producer, committed: bool) {
        let bumps = self.clients[client].bumps;
        if !bumps && !self.clients[client].writes.is_empty() {
            return; // of the first generation this would be the next end
        }
        let version = if bumps { V2 } else { V0 };
        let id = self.bench.send(end(producer, committed, version));
        self.bench.commit_all();
        match self.bench.reply(id) {
            Reply::EndTxn(Ok(Some(next))) => {
                assert_eq!(Some(next), self.clients[client].producer);
            }
            Reply::EndTxn(Ok(None)) => assert!(!bumps),
            Reply::EndTxn(Err(
                TransactionError::ConcurrentTransactions
                | TransactionError::ProducerFenced
                | TransactionError::InvalidProducerIdMapping
                | TransactionError::InvalidTxnState,
            )) => {}
            other => panic!("{other:?}"),
        }
    }

    /// The first marker that is due reaches its partition.
    fn mark_one(&mut self) {
        let Some(mut markers) = self.bench.markers.pop_front() else {
            return;
        };
        let partition = markers.partitions.remove(0);
        self.apply(markers.end, partition.partition);
        self.bench.mark(&markers, &partition);
        if !markers.partitions.is_empty() {
            self.bench.markers.push_front(markers);
        }
    }

    fn apply(&mut self, end: strandline_coordinator::TransactionEnd, index: i32) {
        let partition = &mut self.partitions[index as usize];
        assert!(
            end.coordinator_epoch >= partition.coordinator_epoch,
            "a deposed coordinator"
        );
        partition.coordinator_epoch = end.coordinator_epoch;
        let newest = partition.newest.entry(end.producer.id).or_insert(-1);
        assert!(end.producer.epoch >= *newest, "a marker from the past");
        *newest = end.producer.epoch;
        let is_his = |open: &mut (Producer, Vec<u64>)| open.0.id == end.producer.id;
        if let Some((producer, writes)) = partition.open.take_if(is_his) {
            if end.raises_epoch {
                assert!(end.producer.epoch > producer.epoch, "T-42");
            }
            if end.committed {
                partition.committed.extend(writes);
            } else {
                partition.aborted.extend(writes);
            }
        }
    }

    /// Everything that is under way ends; then nothing is open, and all promises hold.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.bench.commit_all();
            while !self.bench.markers.is_empty() {
                self.mark_one();
                self.bench.commit_all();
            }
            // Whatever is ongoing runs into its timeout.
            self.bench.pass(80_000);
        }
        let state = self.bench.shard.describe(ID).map(|t| t.state);
        let is_settled = state.map(|s| !s.is_prepared() && s.as_str() != "Ongoing");
        assert_ne!(is_settled, Ok(false), "{state:?}");
        for (index, write) in &self.must_commit {
            let partition = &self.partitions[*index as usize];
            assert!(
                partition.committed.contains(write),
                "write {write} was committed"
            );
        }
        for (index, write) in &self.must_abort {
            let partition = &self.partitions[*index as usize];
            assert!(
                partition.aborted.contains(write),
                "write {write} was aborted"
            );
        }
        for (index, partition) in self.partitions.iter().enumerate() {
            assert_eq!(partition.open, None, "partition {index} hangs");
            let doubly = partition.committed.iter();
            assert!(!doubly.clone().any(|w| partition.aborted.contains(w)));
        }
        let _ = topic_partition(0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    // T-3, T-11, T-31 … T-33, T-42, T-50, T-53
    #[test]
    fn no_history_breaks_a_promise(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.settle();
    }
}
