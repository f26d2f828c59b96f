//! The steps that the broker takes by itself: restarts, retention, cleaning, tiering; and reads.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures::poll;
use strandline_types::Offset;

use crate::model::check::{EVERYTHING, records_of};
use crate::model::expected::ModelPartition;
use crate::model::history::History;
use crate::model::plan::{
    APPEND_TIME, COMPACTED, DELETE_RETENTION_MS, PLAIN, Step, TIERED, TOPICS,
};

/// Lookups by time at the end of a history, for each partition; each with two times.
const LOOKUPS: usize = 8;
/// Bytes of the reads at the end of a history: several for each partition.
const PIECE_BYTES: i32 = 700;

impl History {
    pub(super) async fn keep_up(&mut self, step: &Step) {
        match step {
            Step::Restart => self.restart(false).await,
            Step::Kill => self.restart(true).await,
            Step::Checkpoint => self.world.broker().log_dirs.checkpoint(),
            Step::Roll { topic } => {
                let log = &self.world.partition(*topic).log;
                log.roll(self.world.now_ms()).unwrap();
            }
            Step::Retain => self.retain(),
            Step::Clean { roll } => self.clean(*roll).await,
            Step::Tier { topic } => self.tier(*topic).await,
            Step::TierCut { topic, after } => self.tier_cut(*topic, *after).await,
            Step::DeleteRecords { topic, part } => self.delete_records(*topic, *part).await,
            Step::Read {
                topic,
                committed,
                part,
                max_bytes,
            } => {
                // Also a little outside of the log.
                let model = &self.model[*topic];
                let (from, span) = (model.start - 1, model.end - model.start + 3);
                let offset = from + span * i64::from(*part) / i64::from(u16::MAX);
                let reader = self.reader(*topic, *committed);
                reader.read(offset.max(0), *max_bytes).await;
            }
            Step::Lookup {
                topic,
                committed,
                part,
            } => {
                let records = self.model[*topic].records(0, Offset::MAX);
                let times = records.iter().map(|(_, r)| r.timestamp);
                let first = times.min().unwrap_or(self.world.now_ms());
                let span = self.world.now_ms() - first + 2_000;
                let timestamp = first - 500 + span * i64::from(*part) / i64::from(u16::MAX);
                self.reader(*topic, *committed).look_up(timestamp).await;
            }
            other => panic!("{other:?} is none of these"),
        }
    }

    async fn restart(&mut self, is_kill: bool) {
        for model in &mut self.model {
            // Whether the ends were noted as complete is not known.
            let due = model.due.clone();
            model.may_repeat.extend(due);
        }
        if is_kill {
            self.coverage.kills += 1;
            self.world.kill().await;
        } else {
            self.world.restart().await;
        }
    }

    fn retain(&mut self) {
        let now_ms = self.world.now_ms();
        for topic in 0..TOPICS.len() {
            let partition = self.world.partition(topic);
            partition.apply_local_retention(now_ms).unwrap();
            self.follow_start(topic);
        }
        // L-30: what is due is gone.
        let bases = self.world.segments(PLAIN);
        if let [first, second, ..] = bases[..] {
            let oldest = self.model[PLAIN].records(first, second);
            let is_old = |at: i64| now_ms - at > self.setup.retention_ms;
            let all_old = self.setup.retention_ms >= 0
                && !oldest.is_empty()
                && oldest.iter().all(|(_, r)| is_old(r.timestamp));
            let limit = self.setup.retention_bytes;
            let too_much = limit >= 0 && self.model[PLAIN].bytes_from(second) >= limit;
            assert!(!all_old && !too_much, "L-30: {first}..{second} is due");
        }
    }

    /// Retention may have moved the start: as far as the limits say, and no further.
    fn follow_start(&mut self, topic: usize) {
        let start = self.world.partition(topic).log.log_start_offset();
        let old = self.model[topic].start;
        assert!(start >= old, "the start moved back from {old} to {start}");
        if start == old {
            return;
        }
        assert_ne!(topic, COMPACTED);
        let limit_ms = self.world.now_ms() - self.setup.retention_ms;
        let model = &mut self.model[topic];
        let gone = model.records(old, start);
        let is_young = |at: i64| self.setup.retention_ms < 0 || at >= limit_ms;
        let young = gone.iter().filter(|(_, r)| is_young(r.timestamp));
        if let Some(youngest) = young.map(|(batch, _)| batch.last + 1).max() {
            let (limit, left) = (self.setup.retention_bytes, model.bytes_from(youngest));
            assert!(
                limit >= 0 && left >= limit,
                "L-30: {} begins at {start}, which leaves {left} bytes of {limit}",
                TOPICS[topic]
            );
        }
        let count = (start - old) as usize;
        match topic {
            PLAIN => self.coverage.deleted_on_disk += count,
            _ => self.coverage.deleted_in_bucket += count,
        }
        model.start = start;
    }

    async fn delete_records(&mut self, topic: usize, part: u8) {
        let model = &self.model[topic];
        let span = model.end - model.start;
        let offset = model.start + span * i64::from(part) / i64::from(u8::MAX);
        let answer = self.world.delete_records(topic, offset).await;
        if topic == COMPACTED {
            assert_eq!(answer, (44, -1), "6.6");
            return;
        }
        assert_eq!(answer, (0, offset), "6.6");
        self.model[topic].start = offset;
    }

    async fn tier(&mut self, topic: usize) {
        let partition = self.world.partition(topic);
        let before = partition.remote.highest_offset();
        let (io, clock) = (&self.world.broker().io, self.world.clock());
        while partition.tier(io, clock).await.unwrap() {}
        let after = partition.remote.highest_offset();
        // S-1
        assert!(after.is_none_or(|highest| highest < self.model[topic].last_stable()));
        self.coverage.tiered += usize::from(after > before);
        self.follow_start(topic);
        let local = partition.log.local_log_start_offset();
        let aborted = &self.model[topic].aborted;
        self.coverage.cold_aborted += aborted.iter().filter(|a| a.last < local).count();
    }

    /// A run that is cut off leaves nothing that the next one cannot go on with.
    async fn tier_cut(&mut self, topic: usize, after: usize) {
        let partition = self.world.partition(topic);
        let broker = self.world.broker().clone();
        let clock = self.world.clock().clone();
        {
            let mut run = Box::pin(partition.tier(&broker.io, &clock));
            for _ in 0..after {
                if poll!(&mut run).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        drop((partition, broker));
        if after % 2 == 1 {
            self.restart(true).await;
            self.settle().await;
        }
        self.tier(topic).await;
    }

    async fn clean(&mut self, roll: bool) {
        let partition = self.world.partition(COMPACTED);
        let now_ms = self.world.now_ms();
        if roll {
            partition.log.roll(now_ms).unwrap();
        }
        self.world.sealed(COMPACTED);
        // Everything below here can be cleaned (L-40).
        let stable = self.model[COMPACTED].last_stable();
        let active = partition.log.active_base_offset();
        let bases = self.world.segments(COMPACTED).into_iter().chain([active]);
        let end = bases.filter(|base| *base <= stable.min(active)).max();
        let end = end.unwrap_or(0);
        for batch in self.model[COMPACTED].batches.values_mut() {
            if batch.last < end {
                batch.cleaned_ms.get_or_insert(now_ms);
            }
        }
        let broker = self.world.broker().clone();
        let io = broker.io.clone();
        let cleaning = io.run(move || {
            let logs = [partition.log.clone()];
            while broker
                .cleaner
                .clean_dirtiest(&logs, now_ms)
                .report()
                .is_some()
            {}
        });
        cleaning.await.unwrap();
        let left = self.offsets_left().await;
        self.follow_cleaning(&left, end, now_ms);
    }

    /// Offsets of all records that the compacted partition has.
    async fn offsets_left(&self) -> HashSet<Offset> {
        let mut left = HashSet::new();
        let mut at = self.model[COMPACTED].start;
        loop {
            let fetched = self.world.fetch(COMPACTED, false, at, EVERYTHING).await;
            let Some(last) = fetched.batches.last() else {
                return left;
            };
            at = last.header().next_offset();
            let records = fetched.batches.iter().flat_map(records_of);
            left.extend(records.map(|record| record.offset));
        }
    }

    /// L-41 … L-44: what is gone may go, and what must go is gone.
    fn follow_cleaning(&mut self, left: &HashSet<Offset>, end: Offset, now_ms: i64) {
        let outcome = |number: usize| self.transactions[number].outcome;
        let model = &mut self.model[COMPACTED];
        let newest = newest(model, end, &outcome);
        let in_use: HashSet<usize> = model
            .batches
            .values()
            .filter(|b| !b.is_control && b.records.iter().any(|r| left.contains(&r.offset)))
            .filter_map(|b| b.transaction)
            .collect();
        for batch in model.batches.values_mut() {
            let seen = batch.cleaned_ms.map(|at| now_ms - at);
            let is_late = seen.is_some_and(|age| age >= DELETE_RETENTION_MS);
            let is_aborted = batch.transaction.is_some_and(|n| outcome(n) == Some(false));
            let (is_control, is_cleanable) = (batch.is_control, batch.last < end);
            let is_needed = batch.transaction.is_some_and(|n| in_use.contains(&n));
            batch.records.retain(|record| {
                let is_here = left.contains(&record.offset);
                let is_replaced = newest.get(&record.key).is_some_and(|n| *n > record.offset);
                let must_go = is_cleanable && !is_control && (is_aborted || is_replaced);
                let may_go = is_cleanable
                    && match is_control {
                        true => is_late && !is_needed,
                        false => must_go || (record.value.is_none() && is_late),
                    };
                let told = (is_control, is_aborted, is_replaced);
                assert!(
                    is_here || may_go,
                    "lost, cleaned to {end}: {told:?} {record:?}"
                );
                assert!(
                    !is_here || !must_go,
                    "left, cleaned to {end}: {told:?} {record:?}"
                );
                if !is_here {
                    self.coverage.cleaned_records += 1;
                    let is_dropped = !is_control && !must_go;
                    self.coverage.dropped_tombstones += usize::from(is_dropped);
                }
                is_here
            });
        }
    }

    /// Times of records, and between them.
    fn times(&self, topic: usize) -> Vec<i64> {
        let records = self.model[topic].records(0, Offset::MAX);
        let some = records.iter().step_by(records.len() / LOOKUPS + 1);
        let times = some.flat_map(|(_, r)| [r.timestamp, r.timestamp + 1]);
        times.chain([0]).collect()
    }

    /// After everything: a kill, and reads in small pieces.
    pub(super) async fn finish(&mut self) {
        self.settle().await;
        for topic in [TIERED, APPEND_TIME] {
            self.tier(topic).await;
        }
        self.restart(true).await;
        self.settle().await;
        for topic in 0..TOPICS.len() {
            for committed in [false, true] {
                let reader = self.reader(topic, committed);
                reader.read_all(PIECE_BYTES).await;
                for timestamp in self.times(topic) {
                    reader.look_up(timestamp).await;
                }
            }
        }
        self.world.stop().await;
    }
}

/// Offset of the newest committed record of each key below `end`.
fn newest(
    model: &ModelPartition,
    end: Offset,
    outcome: &impl Fn(usize) -> Option<bool>,
) -> HashMap<Bytes, Offset> {
    let mut newest = HashMap::new();
    for batch in model.batches.values().filter(|b| b.last < end) {
        let is_committed = batch.transaction.is_none_or(|n| outcome(n) == Some(true));
        if !batch.is_control && is_committed {
            for record in &batch.records {
                newest.insert(record.key.clone(), record.offset);
            }
        }
    }
    newest
}
