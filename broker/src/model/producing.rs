//! The steps of producers: batches that must be taken, and those that must not.

use bytes::Bytes;
use strandline_records::{BatchBuilder, Compression};
use strandline_types::{Offset, TimestampType};

use crate::model::client::Code;
use crate::model::expected::{ModelBatch, ModelRecord, Transaction};
use crate::model::history::{History, Sent};
use crate::model::plan::{APPEND_TIME, Spec, Who};

/// The version of Produce that each generation speaks.
const PRODUCE: [i16; 2] = [11, 12];

impl History {
    /// Makes a producer one that may write to a topic, and begins its transaction there.
    pub(super) async fn begin(&mut self, who: Who, to: usize) {
        match who {
            Who::Plain => {}
            Who::Idempotent(which) => {
                if self.idempotent[which].pid.is_none() {
                    self.idempotent[which].pid = Some(self.world.init_idempotent().await);
                }
            }
            Who::Transactional(which) => {
                self.init(which).await;
                let pid = self.transactional[which].pid.unwrap();
                let is_in = self.transactional[which]
                    .open
                    .is_some_and(|n| self.transactions[n].topics.contains(&to));
                if !is_in && which == 0 {
                    assert_eq!(
                        self.world.add(which, pid, to).await,
                        0,
                        "AddPartitionsToTxn"
                    );
                }
                self.note_added(which, to);
            }
        }
    }

    pub(super) async fn init(&mut self, which: usize) {
        if self.transactional[which].pid.is_none() {
            let pid = self.world.init(which).await;
            self.transactional[which].become_new(Some(pid));
        }
    }

    /// The topic is a part of the producer's transaction now.
    fn note_added(&mut self, which: usize, to: usize) {
        let producer = &mut self.transactional[which];
        let number = *producer.open.get_or_insert_with(|| {
            self.transactions.push(Transaction {
                which,
                pid: producer.pid.unwrap(),
                start_ms: self.world.now_ms(),
                topics: Vec::new(),
                outcome: None,
            });
            self.transactions.len() - 1
        });
        let topics = &mut self.transactions[number].topics;
        if !topics.contains(&to) {
            topics.push(to);
        }
    }

    /// A batch that nobody has sent before; `skipped` sequence numbers are left out.
    pub(super) fn batch(
        &mut self,
        who: Who,
        to: usize,
        specs: &[Spec],
        codec: u8,
        skipped: i32,
    ) -> (Bytes, Vec<ModelRecord>) {
        let now_ms = self.world.now_ms();
        let codecs = [
            Compression::None,
            Compression::Gzip,
            Compression::Snappy,
            Compression::Lz4,
            Compression::Zstd,
        ];
        let codec = codecs[usize::from(codec)];
        let mut builder = BatchBuilder::new(codec, TimestampType::CreateTime, 0);
        if let Some(producer) = self.producer(who) {
            let (id, epoch) = producer.pid.unwrap();
            let sequence = producer.next.get(&to).copied().unwrap_or(0);
            builder = builder.with_producer(id, epoch, sequence + skipped);
        }
        if let Who::Transactional(_) = who {
            builder = builder.transactional();
        }
        let mut records = Vec::new();
        for (spec, offset) in specs.iter().zip(0..) {
            self.serial += 1;
            let key = Bytes::from(format!("key-{}", spec.key));
            let value = format!("{}-{}", self.serial, "x".repeat(spec.padding));
            let value = (!spec.is_tombstone).then(|| Bytes::from(value));
            let timestamp = now_ms - spec.age_ms;
            builder
                .append(timestamp, Some(&key), value.as_deref(), &[])
                .unwrap();
            records.push(ModelRecord {
                offset,
                timestamp,
                key,
                value,
            });
        }
        (builder.build().unwrap().to_bytes(), records)
    }

    /// Sends a batch as the client of this producer does.
    pub(super) async fn send(&self, who: Who, to: usize, records: Bytes) -> (Code, (Offset, i64)) {
        let (version, which) = match who {
            Who::Transactional(which) => (PRODUCE[usize::from(which > 0)], Some(which)),
            _ => (9, None),
        };
        self.world.produce(version, which, to, records).await
    }

    pub(super) async fn produce(&mut self, who: Who, to: usize, specs: &[Spec], codec: u8) {
        self.begin(who, to).await;
        let (bytes, records) = self.batch(who, to, specs, codec, 0);
        let (code, (base, append_ms)) = self.send(who, to, bytes.clone()).await;
        assert_eq!(code, 0, "Produce");
        let stamp = (to == APPEND_TIME).then(|| self.world.now_ms());
        assert_eq!(append_ms, stamp.unwrap_or(-1), "P-83");
        let transaction = match who {
            Who::Transactional(which) => self.transactional[which].open,
            _ => None,
        };
        let records = records.into_iter().map(|r| ModelRecord {
            offset: base + r.offset,
            timestamp: stamp.unwrap_or(r.timestamp),
            ..r
        });
        let records: Vec<_> = records.collect();
        let count = records.len();
        self.model[to].insert(ModelBatch {
            base,
            last: base + count as i64 - 1,
            size: bytes.len(),
            transaction,
            is_control: false,
            records,
            cleaned_ms: None,
        });
        if let Some(producer) = self.producer(who) {
            *producer.next.entry(to).or_insert(0) += count as i32;
            let records = bytes;
            producer.last.insert(to, Sent { records, base });
        }
    }

    /// Batches of nobody in particular.
    pub(super) async fn burst(&mut self, to: usize, ages_ms: &[i64]) {
        for (age_ms, turn) in ages_ms.iter().zip(0_u8..) {
            let spec = |at| Spec {
                key: (turn + at) % 7,
                is_tombstone: at == turn,
                padding: 120,
                age_ms: *age_ms,
            };
            let specs: Vec<_> = (0..8).map(spec).collect();
            self.produce(Who::Plain, to, &specs, 0).await;
        }
    }

    /// P-50
    pub(super) async fn again(&mut self, who: Who, to: usize) {
        let Some(sent) = self.producer(who).and_then(|p| p.last.get(&to).cloned()) else {
            return;
        };
        let (code, (base, _)) = self.send(who, to, sent.records).await;
        assert_eq!((code, base), (0, sent.base), "P-50");
        self.coverage.duplicates += 1;
    }

    /// P-53
    pub(super) async fn gap(&mut self, who: Who, to: usize) {
        if self.producer(who).is_some_and(|p| p.last.contains_key(&to)) {
            let (bytes, _) = self.batch(who, to, &[plain_spec()], 0, 3);
            assert_eq!(self.send(who, to, bytes).await.0, 45, "P-53");
        }
    }

    /// P-51, P-52
    pub(super) async fn new_epoch(&mut self, which: usize, to: usize) {
        let who = Who::Idempotent(which);
        self.begin(who, to).await;
        let producer = &mut self.idempotent[which];
        let (id, epoch) = producer.pid.unwrap();
        producer.become_new(Some((id, epoch + 1)));
        self.produce(who, to, &[plain_spec()], 0).await;
        self.idempotent[which].pid = Some((id, epoch));
        let (bytes, _) = self.batch(who, to, &[plain_spec()], 0, 0);
        assert_eq!(self.send(who, to, bytes).await.0, 47, "P-51");
        self.idempotent[which].pid = Some((id, epoch + 1));
    }

    /// T-11: a partition without records gets its marker as well.
    pub(super) async fn add_only(&mut self, which: usize, to: usize) {
        if which == 0 {
            self.begin(Who::Transactional(which), to).await;
        }
    }

    /// P-70
    pub(super) async fn unadded(&mut self, to: usize) {
        self.init(0).await;
        let open = self.transactional[0].open;
        if open.is_some_and(|n| self.transactions[n].topics.contains(&to)) {
            return;
        }
        let who = Who::Transactional(0);
        let (bytes, _) = self.batch(who, to, &[plain_spec()], 0, 0);
        assert_eq!(self.send(who, to, bytes).await.0, 120, "P-70");
    }

    /// P-57
    pub(super) async fn outside(&mut self, which: usize, to: usize) {
        let producer = &self.transactional[which];
        let (Some((id, epoch)), Some(number)) = (producer.pid, producer.open) else {
            return;
        };
        if !self.model[to].open.contains_key(&number) {
            return;
        }
        let sequence = producer.next[&to];
        let mut builder = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0)
            .with_producer(id, epoch, sequence);
        let (key, now_ms) = (b"key-0", self.world.now_ms());
        builder
            .append(now_ms, Some(key), Some(b"outside"), &[])
            .unwrap();
        let bytes = builder.build().unwrap().to_bytes();
        assert_eq!(self.send(Who::Plain, to, bytes).await.0, 48, "P-57");
    }
}

/// A record that is of no interest.
pub(super) fn plain_spec() -> Spec {
    Spec {
        key: 0,
        is_tombstone: false,
        padding: 5,
        age_ms: 0,
    }
}
