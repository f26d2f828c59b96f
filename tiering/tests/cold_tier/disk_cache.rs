//! The chunk cache on disk: it takes what was fetched twice, survives a restart, and what is damaged in it is
//! fetched again.

use std::sync::Arc;

use strandline_bucket::Bucket;
use strandline_bucket::faulty::FaultyStore;
use strandline_tiering::{RemoteTier, RemoteTierOptions};

use crate::support::{Log, assert_reads, faulty, id, small, tier};

fn with_disk(bucket: &Arc<Bucket>, dir: &std::path::Path) -> RemoteTierOptions {
    let mut options = small(bucket);
    options.cache_dir = dir.join("cache");
    options.cache_disk_bytes = Some(64 << 20);
    options.cache_memory_bytes = 4 << 10;
    options.read_ahead_max_bytes = 0;
    options
}

/// Reads the whole log; answers how many GETs for chunks and indexes it took.
async fn replay(store: &FaultyStore, tier: &RemoteTier, log: &Log) -> u64 {
    let partition = tier.open_partition(id(0), 0).await.unwrap();
    partition.view().segment_for_offset(0).await.unwrap();
    let before = store.gets();
    let mut offset = 0;
    while offset < log.next {
        offset = assert_reads(&partition, log, offset, 3000, true).await;
    }
    store.gets() - before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_finds_the_chunks_on_disk_and_damage_is_a_miss() {
    let dir = tempfile::tempdir().unwrap();
    let (store, bucket) = faulty();
    let log = Log::regular(3, 12);
    let first = tier(with_disk(&bucket, dir.path()));
    log.upload(&first.open_partition(id(0), 0).await.unwrap())
        .await;
    let all = replay(&store, &first, &log).await;
    assert!(all > 10, "{all}");
    // A replay passes through the memory and leaves nothing on the disk; the next one does.
    let again = replay(&store, &first, &log).await;
    assert!(again > all / 2, "{again} of {all}");
    let missing = replay(&store, &first, &log).await;
    assert!(
        missing <= all - again,
        "{missing} of {all}, {again} were fetched twice"
    );
    assert_eq!(replay(&store, &first, &log).await, 0);
    first.close().await;

    let second = tier(with_disk(&bucket, dir.path()));
    assert_eq!(replay(&store, &second, &log).await, 0);
    assert!(second.metrics().cache_hits.get() > 10);
    assert_eq!(second.metrics().cold_fetch_bytes.get(), 0);
    second.close().await;

    // Every cached byte is wrong now.
    for file in std::fs::read_dir(dir.path().join("cache")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // The index of the block in front stays as it is, so that the entries are found.
        bytes.iter_mut().skip(4096).for_each(|byte| *byte ^= 0x55);
        std::fs::write(&path, bytes).unwrap();
    }
    let third = tier(with_disk(&bucket, dir.path()));
    assert_eq!(replay(&store, &third, &log).await, all);
    third.close().await;
}

// A cache that cannot be opened is no reason not to read.
#[tokio::test]
async fn without_the_folder_reads_go_on() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("cache"), b"a file in its place").unwrap();
    let (_, bucket) = faulty();
    let log = Log::regular(2, 4);
    let tier = tier(with_disk(&bucket, dir.path()));
    let partition = tier.open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    assert_reads(&partition, &log, 0, 10_000, true).await;
}
