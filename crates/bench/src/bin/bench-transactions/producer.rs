//! One producer: what it has asked last, and what comes next.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use strandline_bench::{Connection, Outcome, Values, answer, frame};
use strandline_records::{BatchBuilder, Compression};
use strandline_types::TimestampType;
use strandline_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use strandline_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use strandline_wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, InitProducerIdRequest, InitProducerIdResponse,
    ProduceRequest, ProduceResponse, TopicName, TransactionalId,
};
use strandline_wire::{ErrorCode, Request, StrBytes};

use crate::options::Options;

const FIND_COORDINATOR: i16 = 3;
const INIT_PRODUCER_ID: i16 = 4;
const ADD_PARTITIONS: i16 = 3;
/// Of Produce and of EndTxn, by generation; 0 is without transactions.
const PRODUCE: [i16; 3] = [9, 11, 12];
const END: [i16; 3] = [3, 3, 5];
/// What clients wait before they ask again.
const BACKOFF: Duration = Duration::from_millis(20);

/// What was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Nothing,
    Coordinator,
    ProducerId,
    AddPartitions,
    Produce,
    End,
}

/// A producer on its connection.
#[derive(Debug)]
pub(crate) struct Producer {
    pub(crate) connection: Connection,
    /// Requests that were asked once more, by what was asked and the code of the refusal.
    pub(crate) retries: BTreeMap<(Asked, i16), u64>,
    transactional_id: TransactionalId,
    topic: TopicName,
    partition: i32,
    id: i64,
    epoch: i16,
    next_sequence: i32,
    asked: Asked,
    /// The request of `asked`, for the case that it must be asked again, and when that is due.
    request: Option<Bytes>,
    again_at: Option<Instant>,
    correlation_id: i32,
    batch: Bytes,
}

impl Producer {
    /// Connects, and asks for an id.
    pub(crate) fn new(options: &Options, number: u32) -> Outcome<Self> {
        let text = |value: String| StrBytes::from_string(value);
        let id = format!("{}-{number}", options.topic);
        let mut producer = Self {
            connection: Connection::open(options.broker)?,
            retries: BTreeMap::new(),
            transactional_id: TransactionalId(text(id)),
            topic: TopicName(text(options.topic.clone())),
            partition: i32::try_from(number % options.partitions)?,
            id: -1,
            epoch: -1,
            next_sequence: 0,
            asked: Asked::Nothing,
            request: None,
            again_at: None,
            correlation_id: 0,
            batch: Bytes::new(),
        };
        if options.generation == 0 {
            producer.ask_producer_id(None)?;
        } else {
            let key = producer.transactional_id.0.clone();
            let request = FindCoordinatorRequest::default();
            let request = request.with_key(key).with_key_type(1);
            producer.ask(Asked::Coordinator, FIND_COORDINATOR, &request, 64)?;
        }
        Ok(producer)
    }

    /// It waits for nothing, and has nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked == Asked::Nothing
    }

    /// When a request is due that must be asked again.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        self.again_at
    }

    /// Asks again, if that is due.
    pub(crate) fn wake(&mut self) -> Outcome<()> {
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            self.again_at = None;
            if let Some(request) = self.request.clone() {
                self.connection.send(request)?;
            }
        }
        Ok(())
    }

    /// Begins with the next batch, and its transaction.
    pub(crate) fn begin(&mut self, options: &Options, values: &mut Values) -> Outcome<()> {
        self.batch = self.build(options, values)?;
        if options.generation != 1 {
            return self.ask_produce(options);
        }
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(self.topic.clone())
            .with_partitions(vec![self.partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id.clone())
            .with_v3_and_below_producer_id(self.id.into())
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![topic]);
        self.ask(Asked::AddPartitions, ADD_PARTITIONS, &request, 256)
    }

    fn build(&mut self, options: &Options, values: &mut Values) -> Outcome<Bytes> {
        let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0)
            .with_producer(self.id, self.epoch, self.next_sequence);
        if options.generation > 0 {
            batch = batch.transactional();
        }
        let now_ms = now_ms();
        for _ in 0..options.records {
            batch.append(now_ms, None, Some(values.next_value()), &[])?;
        }
        let records = i32::try_from(options.records)?;
        self.next_sequence = self.next_sequence.wrapping_add(records) & i32::MAX;
        Ok(batch.build()?.to_bytes())
    }

    fn ask<Q: Request>(
        &mut self,
        asked: Asked,
        version: i16,
        request: &Q,
        size: usize,
    ) -> Outcome<()> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let frame = frame(self.correlation_id, version, request, size)?;
        self.asked = asked;
        self.request = Some(frame.clone());
        self.connection.send(frame)
    }

    fn ask_producer_id(&mut self, transactional_id: Option<TransactionalId>) -> Outcome<()> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(transactional_id)
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        self.ask(Asked::ProducerId, INIT_PRODUCER_ID, &request, 128)
    }

    fn ask_produce(&mut self, options: &Options) -> Outcome<()> {
        let size = self.batch.len();
        let partition = PartitionProduceData::default()
            .with_index(self.partition)
            .with_records(Some(self.batch.clone()));
        let topic = TopicProduceData::default()
            .with_name(self.topic.clone())
            .with_partition_data(vec![partition]);
        let id = (options.generation > 0).then(|| self.transactional_id.clone());
        let request = ProduceRequest::default()
            .with_transactional_id(id)
            .with_acks(-1)
            .with_timeout_ms(60_000)
            .with_topic_data(vec![topic]);
        let version = version_of(&PRODUCE, options);
        self.ask(Asked::Produce, version, &request, size)
    }

    fn ask_end(&mut self, options: &Options) -> Outcome<()> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id.clone())
            .with_producer_id(self.id.into())
            .with_producer_epoch(self.epoch)
            .with_committed(true);
        self.ask(Asked::End, version_of(&END, options), &request, 128)
    }

    /// Goes on with what has come.
    pub(crate) fn take_answers(&mut self, options: &Options) -> Outcome<()> {
        while let Some(frame) = self.connection.next_frame()? {
            let code = self.take(options, frame)?;
            if code == 0 {
                continue;
            }
            if !is_retriable(code) {
                return Err(format!("{:?}: error {code}", self.asked).into());
            }
            *self.retries.entry((self.asked, code)).or_default() += 1;
            self.again_at = Some(Instant::now() + BACKOFF);
        }
        Ok(())
    }

    /// The code of an answer; without one the next request is out.
    fn take(&mut self, options: &Options, frame: Bytes) -> Outcome<i16> {
        let number = self.correlation_id;
        let code = match self.asked {
            Asked::Nothing => return Err("an answer to nothing".into()),
            Asked::Coordinator => {
                let told: FindCoordinatorResponse = answer(frame, number, FIND_COORDINATOR)?;
                if told.error_code == 0 {
                    self.ask_producer_id(Some(self.transactional_id.clone()))?;
                }
                told.error_code
            }
            Asked::ProducerId => {
                let told: InitProducerIdResponse = answer(frame, number, INIT_PRODUCER_ID)?;
                if told.error_code == 0 {
                    (self.id, self.epoch) = (told.producer_id.0, told.producer_epoch);
                    self.asked = Asked::Nothing;
                }
                told.error_code
            }
            Asked::AddPartitions => {
                let told: AddPartitionsToTxnResponse = answer(frame, number, ADD_PARTITIONS)?;
                let topics = told.results_by_topic_v3_and_below.iter();
                let mut codes = topics.flat_map(|t| &t.results_by_partition);
                let code = codes.next().ok_or("an empty answer")?.partition_error_code;
                if code == 0 {
                    self.ask_produce(options)?;
                }
                code
            }
            Asked::Produce => {
                let version = version_of(&PRODUCE, options);
                let told: ProduceResponse = answer(frame, number, version)?;
                let mut topics = told.responses.iter().flat_map(|t| &t.partition_responses);
                let code = topics.next().ok_or("an empty answer")?.error_code;
                if code == 0 && options.generation == 0 {
                    self.asked = Asked::Nothing;
                } else if code == 0 {
                    self.ask_end(options)?;
                }
                code
            }
            Asked::End => {
                let told: EndTxnResponse = answer(frame, number, version_of(&END, options))?;
                if told.error_code == 0 {
                    self.asked = Asked::Nothing;
                    if options.generation == 2 {
                        (self.id, self.epoch) = (told.producer_id.0, told.producer_epoch);
                        self.next_sequence = 0;
                    }
                }
                told.error_code
            }
        };
        Ok(code)
    }
}

fn version_of(versions: &[i16; 3], options: &Options) -> i16 {
    let version = versions.get(usize::from(options.generation));
    version.copied().unwrap_or(versions[0])
}

fn is_retriable(code: i16) -> bool {
    let later = [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotCoordinator,
        ErrorCode::ConcurrentTransactions,
        ErrorCode::NotEnoughReplicas,
    ];
    later.iter().any(|error| error.code() == code)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_millis() as i64)
}
