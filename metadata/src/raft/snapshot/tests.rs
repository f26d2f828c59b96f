use openraft::Membership;
use openraft::StoredMembership;

use super::*;
use crate::fixtures::{CLUSTER, brokers, new_topic, with_topic};
use crate::raft::types::{LeaderId, LogId};

fn meta(index: u64) -> SnapshotMeta {
    let log_id = LogId {
        leader_id: LeaderId {
            term: 2,
            node_id: 1,
        },
        index,
    };
    let membership = Membership::new_with_defaults(vec![[1].into()], []);
    SnapshotMeta {
        last_log_id: Some(log_id),
        last_membership: StoredMembership::new(Some(log_id), membership),
    }
}

fn image() -> Image {
    let mut image = brokers(2);
    for (name, partitions) in [("a.b", 3), ("c", 3000)] {
        image = with_topic(&image, new_topic(name, partitions, 2));
    }
    image
}

fn records(image: &Image) -> Vec<crate::record::Record> {
    let mut records = Vec::new();
    image.for_each_record(|record| records.push(record));
    records
}

fn read(bytes: &[u8]) -> Result<(SnapshotMeta, Image), OpenError> {
    decode(bytes, Path::new("x.snapshot"), CLUSTER)
}

#[test]
fn a_snapshot_round_trips() {
    let image = image();
    let bytes = encode(&meta(9), &image);
    assert!(bytes.len() > FRAME_BYTES, "several frames");
    let (found, read) = read(&bytes).unwrap();
    assert_eq!(found, meta(9));
    assert_eq!(
        (read.offset(), read.epoch()),
        (image.offset(), image.epoch())
    );
    assert_eq!(records(&read), records(&image));
}

#[test]
fn every_damage_is_refused() {
    let bytes = encode(&meta(9), &with_topic(&brokers(1), new_topic("a", 2, 1)));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(read(&damaged).is_err(), "byte {at}");
        assert!(read(&bytes[..at]).is_err(), "cut at {at}");
    }
    assert!(read(&[bytes, vec![0]].concat()).is_err(), "longer");
}

#[test]
fn a_snapshot_of_another_cluster_is_refused() {
    let bytes = encode(&meta(9), &Image::empty("AAAAAAAAAAAAAAAAAAAAAg"));
    let error = read(&bytes).unwrap_err().to_string();
    assert!(
        error.contains("AAAAAAAAAAAAAAAAAAAAAg") && error.contains(CLUSTER),
        "{error}"
    );
}

#[test]
fn the_newest_snapshot_stays_and_leftovers_go() {
    let dir = tempfile::tempdir().unwrap();
    let (store, found) = SnapshotStore::open(dir.path(), CLUSTER).unwrap();
    assert!(found.is_none() && store.current().unwrap().is_none());
    let image = brokers(1);
    let old = store.put(&meta(5), &encode(&meta(5), &image)).unwrap();
    store.put(&meta(10), &encode(&meta(10), &image)).unwrap();
    store.put(&meta(7), &encode(&meta(7), &image)).unwrap();
    assert_eq!(store.current().unwrap().unwrap().0, meta(10));
    assert_eq!(
        read(&old.read().unwrap()).unwrap().0,
        meta(5),
        "still readable"
    );
    fs::write(dir.path().join("00000000000000000011-1.tmp"), b"half").unwrap();
    // A crash came before the removal of an older one.
    fs::write(dir.path().join("00000000000000000001-1.snapshot"), b"old").unwrap();
    let (store, found) = SnapshotStore::open(dir.path(), CLUSTER).unwrap();
    assert_eq!(found.unwrap().0, meta(10));
    assert!(
        !dir.path()
            .join("00000000000000000011-1.tmp")
            .try_exists()
            .unwrap()
    );
    let (_, file) = store.current().unwrap().unwrap();
    fs::write(file.path(), b"damaged").unwrap();
    let error = SnapshotStore::open(dir.path(), CLUSTER).unwrap_err();
    assert!(
        error.to_string().contains("00000000000000000010-"),
        "{error}"
    );
}
