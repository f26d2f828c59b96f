use std::path::Path;

use futures::stream;

use super::*;
use crate::fixtures::{CLUSTER, register};
use crate::raft::types::{Entry, LeaderId, RecordBatch};
use crate::record::{ConfigRecord, ConfigResource, Record};

fn machine(dir: &Path) -> StateMachine {
    let (snapshots, found) = SnapshotStore::open(dir, CLUSTER).unwrap();
    StateMachine::new(CLUSTER, snapshots, found)
}

async fn apply(machine: &mut StateMachine, index: u64, records: Vec<Record>) -> io::Result<()> {
    let log_id = LogId {
        leader_id: LeaderId {
            term: 4,
            node_id: 1,
        },
        index,
    };
    let entry = Entry {
        log_id,
        payload: EntryPayload::Normal(RecordBatch(records)),
    };
    machine.apply(stream::iter([Ok((entry, None))])).await
}

fn config(value: &str) -> Record {
    Record::Config(ConfigRecord {
        resource: ConfigResource::default_broker(),
        name: "number".to_owned(),
        value: Some(value.to_owned()),
    })
}

#[tokio::test]
async fn what_is_applied_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = machine(dir.path());
    let published = machine.published();
    let mut watch = published.subscribe();
    assert_eq!(published.image().offset(), -1);
    apply(&mut machine, 3, vec![config("1")]).await.unwrap();
    assert!(watch.has_changed().unwrap());
    let image = watch.borrow_and_update().clone();
    assert!(Arc::ptr_eq(&image, &published.image()));
    assert_eq!((image.offset(), image.epoch()), (3, 4));
    assert_eq!(image.configs().default_broker().unwrap()["number"], "1");
}

#[tokio::test]
async fn a_record_that_does_not_fit_stops_the_node_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = machine(dir.path());
    let unknown = strandline_types::TopicId::random();
    let remove = Record::RemoveTopic(crate::record::RemoveTopicRecord { topic_id: unknown });
    let error = apply(&mut machine, 3, vec![config("1"), remove])
        .await
        .unwrap_err();
    assert!(error.to_string().contains(&unknown.to_string()), "{error}");
    assert_eq!(machine.published().image().offset(), -1);
}

#[tokio::test]
async fn a_snapshot_is_built_installed_and_found_again() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut first = machine(ours.path());
    apply(&mut first, 3, vec![register(1, false), config("1")])
        .await
        .unwrap();
    let mut builder = first.try_create_snapshot_builder(true).await.unwrap();
    // The builder keeps the image that it was made with.
    apply(&mut first, 4, vec![config("2")]).await.unwrap();
    let snapshot = builder.build_snapshot().await.unwrap();
    assert_eq!(snapshot.meta.last_log_id.unwrap().index, 3);

    let mut second = machine(theirs.path());
    let mut watch = second.published().subscribe();
    second
        .install_snapshot(&snapshot.meta, snapshot.snapshot)
        .await
        .unwrap();
    assert_eq!(
        watch
            .borrow_and_update()
            .configs()
            .default_broker()
            .unwrap()["number"],
        "1"
    );
    assert_eq!(
        second.applied_state().await.unwrap().0,
        snapshot.meta.last_log_id
    );
    drop(second);

    let mut again = machine(theirs.path());
    let found = again.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(found.meta, snapshot.meta);
    assert_eq!(again.published().image().offset(), 3);
    assert_eq!(again.published().image().cluster().alive_ids().len(), 1);
}

// The log goes on meanwhile; an error would end the node.
#[tokio::test]
async fn a_snapshot_that_cannot_be_written_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut machine = machine(dir.path());
    apply(&mut machine, 3, vec![config("1")]).await.unwrap();
    let mut builder = machine.try_create_snapshot_builder(true).await.unwrap();
    let away = dir.path().with_extension("away");
    std::fs::rename(dir.path(), &away).unwrap();
    let build = builder.build_snapshot();
    let mut build = std::pin::pin!(build);
    let half = FIRST_SNAPSHOT_WAIT / 2;
    assert!(tokio::time::timeout(half, &mut build).await.is_err());
    std::fs::rename(&away, dir.path()).unwrap();
    let snapshot = build.await.unwrap();
    assert_eq!(snapshot.meta.last_log_id.unwrap().index, 3);
}
