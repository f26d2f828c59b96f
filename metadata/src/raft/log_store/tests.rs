//! openraft's conformance suite, a model with random histories and crashes, and damage.

use std::fs;
use std::path::PathBuf;

use openraft::storage::RaftLogStorageExt;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, RaftLogReader, StorageError};
use proptest::prelude::*;
use strandline_types::BrokerId;
use tempfile::TempDir;

use super::*;
use crate::fixtures::CLUSTER;
use crate::raft::snapshot::SnapshotStore;
use crate::raft::state_machine::StateMachine;
use crate::raft::types::{LeaderId, RecordBatch};
use crate::raft::wal::log_path;
use crate::record::{BrokerLeadershipsRecord, ProducerIdsRecord, Record};

const SMALL: LogStoreOptions = LogStoreOptions {
    file_bytes: 700,
    cache_bytes: 200,
    read_bytes: 300,
};

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let (log, snapshots) = (dir.path().join("log"), dir.path().join("snapshots"));
        fs::create_dir(&log).unwrap();
        fs::create_dir(&snapshots).unwrap();
        let store = LogStore::open(&log, SMALL, None).unwrap();
        let (snapshots, found) = SnapshotStore::open(&snapshots, CLUSTER).unwrap();
        Ok((dir, store, StateMachine::new(CLUSTER, snapshots, found)))
    }
}

// Issue 3, item 5
#[test]
fn openrafts_conformance_suite_passes() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(Suite::test_all(Builder)).unwrap();
}

fn id(term: u64, index: u64) -> LogId {
    LogId {
        leader_id: LeaderId { term, node_id: 1 },
        index,
    }
}

fn entry(term: u64, index: u64, size: usize) -> Entry {
    let payload = match size {
        0 => EntryPayload::Blank,
        _ => EntryPayload::Normal(RecordBatch(vec![
            Record::BrokerLeaderships(
                BrokerLeadershipsRecord {
                    broker_id: BrokerId(i32::try_from(index).unwrap())
                }
            );
            size
        ])),
    };
    Entry {
        log_id: id(term, index),
        payload,
    }
}

/// What the log must say.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    entries: Vec<Entry>,
    vote: Option<Vote>,
    committed: Option<LogId>,
    purged: Option<LogId>,
}

impl Model {
    fn next_index(&self) -> u64 {
        let purged = self.purged.map_or(0, |id| id.index + 1);
        self.entries
            .last()
            .map_or(purged, |entry| entry.log_id.index + 1)
    }

    async fn read(store: &mut LogStore) -> Self {
        let state = store.get_log_state().await.unwrap();
        let model = Self {
            entries: store.try_get_log_entries(..).await.unwrap(),
            vote: store.read_vote().await.unwrap(),
            committed: store.read_committed().await.unwrap(),
            purged: state.last_purged_log_id,
        };
        let last = model.entries.last().map(|entry| entry.log_id);
        assert_eq!(state.last_log_id, last.or(state.last_purged_log_id));
        model
    }
}

#[derive(Debug, Clone)]
enum Op {
    Append {
        sizes: Vec<usize>,
        new_term: bool,
    },
    Truncate {
        keep: prop::sample::Index,
    },
    Purge {
        upto: prop::sample::Index,
    },
    PurgeBeyond(u64),
    Vote(u64),
    Commit {
        at: prop::sample::Index,
    },
    Reopen,
    /// Power loss: the last file ends at any byte.
    Crash {
        at: prop::sample::Index,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (prop::collection::vec(0_usize..30, 1..6), any::<bool>())
            .prop_map(|(sizes, new_term)| Op::Append { sizes, new_term }),
        2 => any::<prop::sample::Index>().prop_map(|keep| Op::Truncate { keep }),
        2 => any::<prop::sample::Index>().prop_map(|upto| Op::Purge { upto }),
        1 => (0_u64..5).prop_map(Op::PurgeBeyond),
        1 => (0_u64..9).prop_map(Op::Vote),
        2 => any::<prop::sample::Index>().prop_map(|at| Op::Commit { at }),
        1 => Just(Op::Reopen),
        2 => any::<prop::sample::Index>().prop_map(|at| Op::Crash { at }),
    ]
}

/// A log and its model, and what the model was after each frame.
struct History {
    dir: TempDir,
    store: LogStore,
    model: Model,
    term: u64,
    frames: Vec<(u64, u64, Model)>,
}

impl History {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = LogStore::open(dir.path(), SMALL, None).unwrap();
        let frames = vec![(1, recovery::FIRST_POSITION, Model::default())];
        Self {
            dir,
            store,
            model: Model::default(),
            term: 1,
            frames,
        }
    }

    fn mark(&mut self) {
        let state = self.store.shared.state.lock();
        self.frames
            .push((state.file, state.position, self.model.clone()));
    }

    async fn step(&mut self, op: Op) {
        match op {
            Op::Append { sizes, new_term } => {
                self.term += u64::from(new_term);
                let first = self.model.next_index();
                let entries: Vec<_> = (first..)
                    .zip(sizes)
                    .map(|(at, size)| entry(self.term, at, size))
                    .collect();
                self.store.blocking_append(entries.clone()).await.unwrap();
                for entry in entries {
                    let index = entry.log_id.index;
                    self.model.entries.push(entry);
                    let location = self.store.shared.state.lock().index.location_of(index);
                    let location = location.unwrap();
                    let end = location.position + location.len;
                    self.frames.push((location.file, end, self.model.clone()));
                }
            }
            Op::Truncate { keep } => {
                let keep = keep.index(self.model.entries.len() + 1);
                self.model.entries.truncate(keep);
                let last = self.model.entries.last().map(|entry| entry.log_id);
                self.store
                    .truncate_after(last.or(self.model.purged))
                    .await
                    .unwrap();
                self.mark();
            }
            Op::Purge { upto } if !self.model.entries.is_empty() => {
                let upto = upto.index(self.model.entries.len());
                let last = self
                    .model
                    .entries
                    .drain(..=upto)
                    .next_back()
                    .unwrap()
                    .log_id;
                self.purge(last).await;
            }
            Op::Purge { .. } => {}
            Op::PurgeBeyond(more) => {
                let last = id(self.term, self.model.next_index() + more);
                self.model.entries.clear();
                self.purge(last).await;
            }
            Op::Vote(term) => {
                let vote = Vote {
                    leader_id: LeaderId { term, node_id: 1 },
                    committed: false,
                };
                self.model.vote = Some(vote);
                self.store.save_vote(&vote).await.unwrap();
                self.mark();
            }
            Op::Commit { at } => {
                let at = at.index(self.model.entries.len() + 1);
                self.model.committed = self.model.entries.get(at).map(|entry| entry.log_id);
                self.store
                    .save_committed(self.model.committed)
                    .await
                    .unwrap();
                self.mark();
            }
            Op::Reopen => {
                self.store.stop();
                self.store = LogStore::open(self.dir.path(), SMALL, None).unwrap();
            }
            Op::Crash { at } => self.crash(at),
        }
        assert_eq!(Model::read(&mut self.store).await, self.model);
    }

    async fn purge(&mut self, last: LogId) {
        self.model.purged = Some(last);
        self.store.purge(last).await.unwrap();
        self.mark();
        // Files are removed only after this frame is durable: no crash can take it back.
        self.frames.drain(..self.frames.len() - 1);
    }

    fn crash(&mut self, at: prop::sample::Index) {
        self.store.stop();
        let last = self.store.shared.state.lock().file;
        let in_last = |frame: &&(u64, u64, Model)| frame.0 == last;
        let Some(first) = self.frames.iter().find(in_last).map(|frame| frame.1) else {
            // The head of a new file may already say what the frame after it will.
            self.store = LogStore::open(self.dir.path(), SMALL, None).unwrap();
            return;
        };
        let path = log_path(self.dir.path(), last);
        let len = fs::metadata(&path).unwrap().len();
        let cut = first + at.index(usize::try_from(len - first).unwrap() + 1) as u64;
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(cut)
            .unwrap();
        self.frames
            .retain(|(file, end, _)| *file < last || *end <= cut);
        self.model = self.frames.last().unwrap().2.clone();
        self.store = LogStore::open(self.dir.path(), SMALL, None).unwrap();
        let kept = fs::metadata(&path).unwrap().len();
        assert_eq!(
            kept,
            self.frames.last().unwrap().1,
            "cut at the end of the last whole frame"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_histories_with_crashes_match_the_model(
        ops in prop::collection::vec(any_op(), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut history = History::new();
            for op in ops {
                history.step(op).await;
            }
        });
    }
}

async fn filled(dir: &TempDir, options: LogStoreOptions, count: u64) -> LogStore {
    let mut store = LogStore::open(dir.path(), options, None).unwrap();
    for index in 0..count {
        store.blocking_append([entry(1, index, 3)]).await.unwrap();
    }
    store
}

fn files(dir: &TempDir) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_purge_removes_whole_files_and_the_state_survives() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(&dir, SMALL, 100).await;
    let vote = Vote {
        leader_id: LeaderId {
            term: 3,
            node_id: 1,
        },
        committed: true,
    };
    store.save_vote(&vote).await.unwrap();
    let before = files(&dir).len();
    assert!(before > 5);
    store.purge(id(1, 97)).await.unwrap();
    for index in 100..120 {
        store.blocking_append([entry(1, index, 3)]).await.unwrap();
    }
    store.purge(id(1, 110)).await.unwrap();
    store.stop();
    assert!(files(&dir).len() < 4, "{:?}", files(&dir));
    let mut store = LogStore::open(dir.path(), SMALL, None).unwrap();
    let model = Model::read(&mut store).await;
    assert_eq!(model.vote, Some(vote));
    assert_eq!(model.purged, Some(id(1, 110)));
    assert_eq!(model.entries.len(), 9);
}

#[tokio::test]
async fn a_read_for_a_follower_is_bounded_by_bytes_but_never_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(&dir, SMALL, 20).await;
    let read = store.limited_get_log_entries(3, 20).await.unwrap();
    assert!(!read.is_empty() && read.len() < 17);
    assert_eq!(read[0].log_id.index, 3);
    store.blocking_append([entry(1, 20, 2000)]).await.unwrap();
    assert_eq!(
        store.limited_get_log_entries(20, 21).await.unwrap().len(),
        1
    );
}

#[tokio::test]
async fn writes_after_the_stop_fail() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(&dir, SMALL, 1).await;
    store.stop();
    assert!(store.blocking_append([entry(1, 1, 0)]).await.is_err());
    assert!(store.save_vote(&Vote::new(1, 1)).await.is_err());
}

/// Opens the log after a change to the bytes of one of its files.
fn open_damaged(
    dir: &TempDir,
    file: usize,
    damage: impl FnOnce(&mut Vec<u8>),
) -> Result<LogStore, OpenError> {
    let path = files(dir)[file].clone();
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    LogStore::open(dir.path(), SMALL, None)
}

#[tokio::test]
async fn damage_in_the_middle_is_refused_with_its_place() {
    // One file with many frames: what follows says that the damaged frame was durable.
    let dir = tempfile::tempdir().unwrap();
    filled(&dir, LogStoreOptions::default(), 10).await.stop();
    let error = open_damaged(&dir, 0, |bytes| bytes[70] ^= 1).unwrap_err();
    assert!(
        matches!(&error, OpenError::Corrupt { position: 32, .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("00000000000000000001.log") && text.contains("checksum"),
        "{text}"
    );

    // The end of a file that is not the last one.
    let dir = tempfile::tempdir().unwrap();
    filled(&dir, SMALL, 60).await.stop();
    let error = open_damaged(&dir, 0, |bytes| bytes.truncate(bytes.len() - 1)).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");

    let dir = tempfile::tempdir().unwrap();
    filled(&dir, SMALL, 60).await.stop();
    fs::remove_file(&files(&dir)[1]).unwrap();
    let error = LogStore::open(dir.path(), SMALL, None).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");

    let dir = tempfile::tempdir().unwrap();
    filled(&dir, SMALL, 60).await.stop();
    fs::remove_file(&files(&dir)[0]).unwrap();
    let error = LogStore::open(dir.path(), SMALL, None).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[tokio::test]
async fn the_header_is_checked_and_a_newer_format_is_named() {
    let dir = tempfile::tempdir().unwrap();
    filled(&dir, LogStoreOptions::default(), 3).await.stop();
    let whole = fs::read(&files(&dir)[0]).unwrap();
    let error = open_damaged(&dir, 0, |bytes| bytes[0] = b'X').unwrap_err();
    assert!(
        matches!(error, OpenError::Corrupt { position: 0, .. }),
        "{error}"
    );
    fs::write(&files(&dir)[0], &whole).unwrap();
    let error = open_damaged(&dir, 0, |bytes| {
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
    })
    .unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::NewerFormat {
                found: 2,
                newest: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn an_unfinished_new_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(&dir, SMALL, 5).await;
    store.stop();
    let next = store.shared.state.lock().file + 1;
    for len in [0, 7, 32] {
        fs::write(log_path(dir.path(), next), vec![0; len]).unwrap();
        let mut store = LogStore::open(dir.path(), SMALL, None).unwrap();
        assert_eq!(Model::read(&mut store).await.entries.len(), 5);
        store.stop();
        assert!(!log_path(dir.path(), next).try_exists().unwrap());
    }
}

/// Bytes of frames as one group would write them after frame `synced`.
fn group(synced: u64, seqs: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    seqs.map(|seq| {
        let body = encode_entry(&entry(1, seq - 1, 2));
        let mut bytes = Vec::new();
        let frame = crate::raft::wal::Frame {
            seq,
            synced,
            kind: ENTRY,
            body: &body,
        };
        crate::raft::wal::encode_frame(frame, &mut bytes);
        bytes
    })
    .collect()
}

// A power cut may keep the end of an unsynced group and lose its beginning.
#[tokio::test]
async fn a_hole_in_the_last_group_is_torn_but_a_hole_before_it_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    filled(&dir, LogStoreOptions::default(), 3).await.stop();
    let path = files(&dir)[0].clone();
    let whole = fs::read(&path).unwrap();
    let mut torn = group(3, 4..7);
    torn[0].fill(0);
    fs::write(&path, [whole.clone(), torn.concat()].concat()).unwrap();
    let mut store = LogStore::open(dir.path(), LogStoreOptions::default(), None).unwrap();
    assert_eq!(Model::read(&mut store).await.entries.len(), 3);
    assert_eq!(fs::metadata(&path).unwrap().len(), whole.len() as u64);
    store.blocking_append([entry(2, 3, 1)]).await.unwrap();
    store.stop();

    // The same hole, but a later group says that it was synced.
    let later = group(6, 7..8);
    fs::write(&path, [whole, torn.concat(), later.concat()].concat()).unwrap();
    let error = LogStore::open(dir.path(), LogStoreOptions::default(), None).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
}

#[tokio::test]
async fn a_record_of_a_newer_version_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    filled(&dir, LogStoreOptions::default(), 1).await.stop();
    let mut body = encode_entry(&entry(1, 1, 0));
    *body.last_mut().unwrap() = 1;
    body.extend([3, 9, 0]);
    let mut bytes = fs::read(&files(&dir)[0]).unwrap();
    let place = bytes.len() as u64;
    let frame = crate::raft::wal::Frame {
        seq: 2,
        synced: 1,
        kind: ENTRY,
        body: &body,
    };
    crate::raft::wal::encode_frame(frame, &mut bytes);
    fs::write(&files(&dir)[0], bytes).unwrap();
    let error = LogStore::open(dir.path(), SMALL, None).unwrap_err();
    assert!(
        matches!(&error, OpenError::Corrupt { position, .. } if *position == place),
        "{error}"
    );
    assert!(
        error.to_string().contains("PartitionRecord has version 9"),
        "{error}"
    );
}

#[test]
fn every_kind_of_entry_round_trips() {
    use std::collections::{BTreeMap, BTreeSet};
    let nodes = BTreeMap::from([
        (1, openraft::BasicNode::new("a:1")),
        (2, openraft::BasicNode::new("b:2")),
        (3, openraft::BasicNode::new("learner")),
    ]);
    let configs = vec![BTreeSet::from([1]), BTreeSet::from([1, 2])];
    let membership = openraft::Membership::new(configs, nodes).unwrap();
    let ids = ProducerIdsRecord {
        broker_id: BrokerId(1),
        broker_epoch: 2,
        next_producer_id: 3,
    };
    let records = RecordBatch(vec![Record::ProducerIds(ids)]);
    for payload in [
        EntryPayload::Blank,
        EntryPayload::Normal(records),
        EntryPayload::Membership(membership),
    ] {
        let entry = Entry {
            log_id: id(7, u64::MAX),
            payload,
        };
        assert_eq!(decode_entry(&encode_entry(&entry)), Ok(entry));
    }
}
