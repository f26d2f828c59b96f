//! A whole broker in this process, on a clock that the test moves: started, stopped, killed.
//!
//! A kill is what `kill -9` leaves behind: a copy of the files as they are at this moment, with
//! which the next broker starts. The bucket is nobody's to lose, and stays.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use strandline_config::{BrokerConfig, Machine, Sources};
use strandline_env::{Clock, ManualClock, Shutdown};
use strandline_records::BatchHeader;
use strandline_telemetry::MetricsRegistry;
use strandline_transaction_coordinator::TransactionState;
use strandline_types::{TRANSACTION_STATE_TOPIC, TopicId};
use strandline_wire::{Decodable, HeaderVersion, Request, parse_header};

use crate::api::{self, ClientConnection};
use crate::broker::Broker;
use crate::model::client::{Patience, transactional_id};
use crate::model::plan::{Setup, TOPICS};
use crate::net::response::{Outcome, Part};
use crate::partition::Partition;
use crate::server;

/// When every history begins, in ms since the Unix epoch.
const BEGIN_MS: i64 = 1_700_000_000_000;

/// A running broker with its files and its clock.
pub(super) struct World {
    setup: Setup,
    root: tempfile::TempDir,
    /// Which copy of the files the broker runs on.
    life: u32,
    clock: Clock,
    hands: ManualClock,
    shutdown: Shutdown,
    broker: Option<Arc<Broker>>,
}

impl World {
    pub(super) async fn new(setup: Setup) -> Self {
        let (clock, hands) = Clock::manual(BEGIN_MS);
        let mut world = Self {
            setup,
            root: tempfile::tempdir().unwrap(),
            life: 0,
            clock,
            hands,
            shutdown: Shutdown::new(),
            broker: None,
        };
        world.start().await;
        world
    }

    /// One that keeps everything and coordinates this group.
    pub(super) async fn coordinating(group: &str) -> Self {
        let world = Self::new(Setup {
            segment_bytes: 1 << 20,
            retention_ms: -1,
            retention_bytes: -1,
            local_retention_bytes: -1,
        })
        .await;
        world.wait_for_group_coordinator(group).await;
        world
    }

    fn home(&self) -> PathBuf {
        self.root.path().join(format!("life-{}", self.life))
    }

    pub(super) async fn start(&mut self) {
        self.shutdown = Shutdown::new();
        let config = config(&self.home(), &self.root.path().join("bucket"));
        let (registry, clock) = (MetricsRegistry::new(), self.clock.clone());
        let broker = server::open(config, &[], &registry, clock, &self.shutdown).await;
        self.broker = Some(broker.unwrap());
        self.shrink_segments();
    }

    /// Segments of a few batches, which no client may ask for.
    pub(super) fn shrink_segments(&self) {
        for topic in TOPICS {
            if let Ok(partition) = self.broker().replicas.by_name(topic, 0) {
                let mut config = partition.log.config();
                config.segment_bytes = self.setup.segment_bytes;
                config.index_interval_bytes = 200;
                partition.log.update_config(config);
            }
        }
    }

    /// Ends as SIGTERM does.
    pub(super) async fn stop(&mut self) {
        self.shutdown.cancel();
        let broker = self.broker.take().unwrap();
        server::close(&broker, None).await;
        forget(&broker);
    }

    /// Stops, and starts again.
    pub(super) async fn restart(&mut self) {
        let from = self.move_home();
        self.stop().await;
        // The old broker's last tasks may still hold its directories: the new one gets others.
        copy(&from, &self.home());
        fs::remove_dir_all(from).unwrap();
        self.start().await;
    }

    /// Ends as `kill -9` does, with whatever is under way, and starts again.
    pub(super) async fn kill(&mut self) {
        let from = self.move_home();
        // First what the markers follow from: a copy is not made in one moment, and an end that is
        // complete in it must have all its markers in it.
        let states = PathBuf::from("log").join(format!("{TRANSACTION_STATE_TOPIC}-0"));
        copy(&from.join(&states), &self.home().join(&states));
        copy(&from, &self.home());
        self.stop().await;
        fs::remove_dir_all(from).unwrap();
        self.start().await;
    }

    /// The same, with nothing under way, before the completion of the last end was written.
    pub(super) async fn kill_before_complete(&mut self) {
        let from = self.move_home();
        copy(&from, &self.home());
        self.stop().await;
        fs::remove_dir_all(from).unwrap();
        let states = self.home().join("log");
        cut_last_batch(&states.join(format!("{TRANSACTION_STATE_TOPIC}-0")));
        self.start().await;
    }

    /// Ends as a machine does whose power goes, and starts again: `lose` takes from the log directory
    /// what was not on the device. Nothing has asked the bucket yet.
    pub(super) async fn power_cut(&mut self, lose: impl FnOnce(&Path)) {
        let from = self.move_home();
        copy(&from, &self.home());
        self.stop().await;
        fs::remove_dir_all(from).unwrap();
        let logs = self.home().join("log");
        fs::write(logs.join("boot-id"), "another boot").unwrap();
        lose(&logs);
        self.start().await;
    }

    /// Restores what waits for the bucket.
    pub(super) async fn restore(&self) {
        let (replicas, io) = (&self.broker().replicas, &self.broker().io);
        for id in replicas.to_restore() {
            let restored = replicas.restore(&id, io, self.now_ms()).await.unwrap();
            assert!(restored.is_some(), "{id}");
        }
        self.shrink_segments();
    }

    /// Where the files are now; the next broker's are elsewhere.
    fn move_home(&mut self) -> PathBuf {
        let from = self.home();
        self.life += 1;
        from
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        self.broker.as_ref().unwrap()
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Moves the time on; what is due then is done.
    pub(super) fn advance(&self, ms: u64) {
        self.hands.advance(Duration::from_millis(ms));
        self.tick();
    }

    /// Sets the wall clock alone, as an operator does.
    pub(super) fn set_wall_ms(&self, now_ms: i64) {
        self.hands.set_wall_ms(now_ms);
        self.tick();
    }

    fn tick(&self) {
        self.broker().transactions.tick();
        self.broker().groups.tick();
    }

    /// Waits until the coordinator has done what it was told.
    pub(super) async fn settled(&self) {
        let patience = Patience::begin();
        while !self.broker().transactions.is_settled() {
            assert!(!patience.is_over(), "an end that does not come to its end");
            tokio::task::yield_now().await;
        }
    }

    /// Whether a transactional id has a transaction that was not ended.
    pub(super) fn is_ongoing(&self, which: usize) -> bool {
        let id = transactional_id(which);
        let transaction = self.broker().transactions.describe(&id).unwrap();
        transaction.state == TransactionState::Ongoing
    }

    /// Partition 0 of a topic.
    pub(super) fn partition(&self, topic: usize) -> Arc<Partition> {
        self.broker().replicas.by_name(TOPICS[topic], 0).unwrap()
    }

    /// Waits until the disk has all segments of a topic's partition that were begun.
    pub(super) fn sealed(&self, topic: usize) {
        let log = &self.partition(topic).log;
        while log.sealed_segments(-1, i64::MAX).unwrap().len() + 1 < log.segment_count() {
            std::thread::yield_now();
        }
    }

    /// Where the segments of a topic's partition begin that are on the disk.
    pub(super) fn segments(&self, topic: usize) -> Vec<i64> {
        let files = fs::read_dir(self.partition(topic).log.folder()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let bases = names.filter_map(|name| name.strip_suffix(".log")?.parse().ok());
        let mut bases: Vec<i64> = bases.collect();
        bases.sort_unstable();
        bases
    }

    /// Files of the bucket that hold segments of a topic.
    pub(super) fn segment_objects(&self, topic_id: TopicId) -> Vec<PathBuf> {
        let topic = topic_id.to_string();
        let mut folders = vec![self.root.path().join("bucket")];
        let mut objects = Vec::new();
        while let Some(folder) = folders.pop() {
            // What is being deleted may be gone by now.
            let Ok(entries) = fs::read_dir(folder) else {
                continue;
            };
            for entry in entries {
                let path = entry.unwrap().path();
                let has = |name: &str| path.components().any(|c| c.as_os_str() == name);
                if path.is_dir() {
                    folders.push(path);
                } else if has(&topic) && !has("manifest") {
                    objects.push(path);
                }
            }
        }
        objects
    }

    /// One request, as it comes from a connection.
    pub(super) async fn call<Q: Request, A: Decodable + HeaderVersion>(
        &self,
        version: i16,
        request: &Q,
    ) -> A {
        let mut frame = BytesMut::new();
        frame.put_i16(Q::KEY);
        frame.put_i16(version);
        frame.put_i32(7);
        frame.put_i16(-1);
        if Q::header_version(version) >= 2 {
            frame.put_u8(0);
        }
        request.encode(&mut frame, version).unwrap();
        let (header, body) = parse_header(frame.freeze()).unwrap();
        let client = ClientConnection {
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
            listener: "PLAINTEXT".into(),
        };
        let slot = api::dispatch(self.broker(), &client, header, body).await;
        let outcome = slot.unwrap().outcome().await;
        let mut answer = bytes_of(outcome).slice(8..);
        if A::header_version(version) >= 1 {
            assert_eq!(answer.split_to(1)[..], [0]);
        }
        A::decode(&mut answer, version).unwrap()
    }
}

/// The coordinators hold each other; in a process that goes on somebody must tell them to let go.
fn forget(broker: &Broker) {
    broker.groups.on_deleted();
    broker.transactions.on_deleted();
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(broker) = &self.broker {
            forget(broker);
        }
    }
}

fn config(home: &Path, bucket: &Path) -> BrokerConfig {
    let flags = vec![
        format!("strandline.data.dir={}", home.display()),
        format!("strandline.store.url=file://{}", bucket.display()),
        "strandline.http.listener=".to_owned(),
        "listeners=PLAINTEXT://127.0.0.1:0".to_owned(),
        "transaction.state.log.num.partitions=1".to_owned(),
        "offsets.topic.num.partitions=1".to_owned(),
        "log.retention.check.interval.ms=1".to_owned(),
        "strandline.cache.disk.bytes=0".to_owned(),
    ];
    let machine = Machine {
        memory_bytes: 1 << 30,
        disk_free_bytes: &|_| 1 << 30,
        host_name: "localhost".to_owned(),
        current_dir: PathBuf::from("/"),
    };
    let sources = Sources {
        flags,
        ..Sources::default()
    };
    BrokerConfig::load(&sources, &machine).unwrap().config
}

fn bytes_of(outcome: Outcome) -> Bytes {
    let Outcome::Response(parts) = outcome else {
        panic!("no answer: {outcome:?}");
    };
    let mut bytes = BytesMut::new();
    for part in parts {
        match part {
            Part::Bytes(piece) => bytes.extend_from_slice(&piece),
            Part::Batch(batch) => bytes.extend_from_slice(&batch.to_bytes()),
            Part::File(slice) => bytes.extend_from_slice(&slice.read().unwrap()),
        }
    }
    bytes.freeze()
}

/// Copies what is not there yet; what goes away meanwhile is left out.
/// Takes the last batch from the newest segment of a partition.
fn cut_last_batch(partition: &Path) {
    let files = fs::read_dir(partition)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let newest = logs.max().unwrap();
    let bytes = Bytes::from(fs::read(&newest).unwrap());
    let (mut last, mut next) = (0, 0);
    while next < bytes.len() {
        let header = BatchHeader::parse(&bytes[next..]).unwrap();
        (last, next) = (next, next + header.size_in_bytes());
    }
    let file = fs::OpenOptions::new().write(true).open(newest).unwrap();
    file.set_len(last as u64).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    for entry in entries {
        let entry = entry.unwrap();
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else if !target.try_exists().unwrap() {
            match fs::copy(&source, &target) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
                _ => {}
            }
        }
    }
}
