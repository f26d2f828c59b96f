//! Takes the steps of a history on the broker and on the model, and compares the two.

use std::collections::HashMap;

use bytes::Bytes;
use strandline_records::EndTransactionMarker;
use strandline_types::Offset;

use crate::model::check::{EVERYTHING, Reader, records_of};
use crate::model::client::Pid;
use crate::model::coverage::Coverage;
use crate::model::expected::{ModelBatch, ModelPartition, Transaction};
use crate::model::plan::{IDEMPOTENT, Setup, Step, TOPICS, TRANSACTIONAL, Then, Who};
use crate::model::world::World;

/// A batch as it was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) records: Bytes,
    pub(super) base: Offset,
}

/// A producer with an id.
#[derive(Debug, Default)]
pub(super) struct Producer {
    pub(super) pid: Option<Pid>,
    /// Number of the transaction that it has open.
    pub(super) open: Option<usize>,
    /// By topic: the next sequence number, and what was sent last.
    pub(super) next: HashMap<usize, i32>,
    pub(super) last: HashMap<usize, Sent>,
    /// Who it was before it was fenced.
    pub(super) zombie: Option<Pid>,
    /// The last end: as whom it asked, for what, and what it was told.
    pub(super) last_end: Option<(Pid, bool, Pid)>,
}

impl Producer {
    /// It has a new epoch.
    pub(super) fn become_new(&mut self, pid: Option<Pid>) {
        self.pid = pid;
        self.next.clear();
        self.last.clear();
    }
}

/// A history under way.
pub(super) struct History {
    pub(super) setup: Setup,
    pub(super) world: World,
    pub(super) model: Vec<ModelPartition>,
    pub(super) transactions: Vec<Transaction>,
    pub(super) idempotent: Vec<Producer>,
    pub(super) transactional: Vec<Producer>,
    pub(super) serial: u64,
    pub(super) coverage: Coverage,
}

impl History {
    pub(super) async fn new(setup: Setup) -> Self {
        let world = World::new(setup.clone()).await;
        world.prepare(&setup).await;
        let producers = |count| (0..count).map(|_| Producer::default()).collect();
        Self {
            setup,
            world,
            model: TOPICS.iter().map(|_| ModelPartition::default()).collect(),
            transactions: Vec::new(),
            idempotent: producers(IDEMPOTENT),
            transactional: producers(TRANSACTIONAL),
            serial: 0,
            coverage: Coverage::default(),
        }
    }

    /// Takes one step, and compares everything that readers may see.
    pub(super) async fn take(&mut self, step: &Step) {
        if let Step::End {
            then: Then::Hurry, ..
        } = step
        {
            return self.step(step).await;
        }
        let may_be_under_way = matches!(
            step,
            Step::Produce { .. } | Step::Burst { .. } | Step::Kill | Step::Restart
        );
        if !may_be_under_way {
            self.settle().await;
        }
        self.step(step).await;
        self.settle().await;
        self.compare().await;
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Produce {
                who,
                to,
                records,
                codec,
            } => self.produce(*who, *to, records, *codec).await,
            Step::Burst { to, ages_ms } => self.burst(*to, ages_ms).await,
            Step::Again { who, to } => self.again(*who, *to).await,
            Step::Gap { who, to } => self.gap(*who, *to).await,
            Step::NewEpoch { which, to } => self.new_epoch(*which, *to).await,
            Step::AddOnly { which, to } => self.add_only(*which, *to).await,
            Step::Unadded { to } => self.unadded(*to).await,
            Step::Outside { which, to } => self.outside(*which, *to).await,
            Step::End {
                which,
                commit,
                then,
            } => {
                let ended = self.end(*which, *commit).await;
                if let (Some(number), Then::KillBeforeComplete) = (ended, then) {
                    self.kill_before_complete(number).await;
                }
            }
            Step::EndAgain { which, commit } => self.end_again(*which, *commit).await,
            Step::Fence { which } => self.fence(*which).await,
            Step::Zombie { which, to } => self.zombie(*which, *to).await,
            Step::Advance { ms } => self.advance(*ms).await,
            Step::TimeOut => self.time_out().await,
            upkeep => self.keep_up(upkeep).await,
        }
    }

    pub(super) fn producer(&mut self, who: Who) -> Option<&mut Producer> {
        match who {
            Who::Plain => None,
            Who::Idempotent(which) => Some(&mut self.idempotent[which]),
            Who::Transactional(which) => Some(&mut self.transactional[which]),
        }
    }

    /// Waits until every end is complete, and takes note of the markers.
    pub(super) async fn settle(&mut self) {
        self.world.settled().await;
        for topic in 0..TOPICS.len() {
            self.take_markers(topic).await;
        }
    }

    async fn take_markers(&mut self, topic: usize) {
        let end = self.world.partition(topic).log.high_watermark();
        let mut at = self.model[topic]
            .first_unknown()
            .max(self.model[topic].start);
        while at < end {
            let fetched = self.world.fetch(topic, false, at, EVERYTHING).await;
            let Some(last) = fetched.batches.last() else {
                assert!(at >= self.model[topic].end, "nothing at {at}: {fetched:?}");
                break;
            };
            at = last.header().next_offset();
            for batch in &fetched.batches {
                let header = batch.header();
                let model = &mut self.model[topic];
                if model.batches.contains_key(&header.base_offset) {
                    continue;
                }
                let marker = EndTransactionMarker::of_batch(batch).unwrap();
                let committed = marker.expect("a batch that nobody sent").committed;
                let marker = model.take_marker(header.producer_id, committed);
                model.insert(ModelBatch {
                    base: header.base_offset,
                    last: header.last_offset(),
                    size: batch.size_in_bytes(),
                    transaction: Some(marker.transaction),
                    is_control: true,
                    records: records_of(batch),
                    cleaned_ms: None,
                });
                model.end_transaction(marker, header.last_offset());
            }
        }
        let model = &mut self.model[topic];
        assert_eq!(model.due, Vec::new(), "markers that did not come");
        model.may_repeat.clear();
        assert_eq!(model.end, end, "high watermark of {}", TOPICS[topic]);
    }

    pub(super) fn reader(&self, topic: usize, committed: bool) -> Reader<'_> {
        Reader {
            world: &self.world,
            topic,
            model: &self.model[topic],
            transactions: &self.transactions,
            committed,
        }
    }

    async fn compare(&mut self) {
        for topic in 0..TOPICS.len() {
            for committed in [false, true] {
                let reader = self.reader(topic, committed);
                reader.list_ends().await;
                reader.read_all(EVERYTHING).await;
            }
            let model = &mut self.model[topic];
            assert!(model.last_stable() >= model.seen_stable, "LSO moved back");
            model.seen_stable = model.last_stable();
        }
    }
}
