//! A sick store: nothing committed is lost, nothing is committed twice, damage is an error.

use std::sync::Arc;

use bytes::Bytes;
use strandline_bucket::faulty::{Fault, On};
use strandline_tiering::{RemotePartition, TieringError};

use crate::support::{Log, assert_reads, faulty, id, small, tier};

// The answer to a commit is lost: the object is ours all the same.
#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_recognised() {
    for fault in [Fault::Before, Fault::After, Fault::SlowDown] {
        let (store, bucket) = faulty();
        let log = Log::regular(3, 2);
        let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        for at in 0..3 {
            store.plan(On::Put, "/manifest/", [Some(fault)]);
            partition
                .upload(Arc::new(log.source(at)), log.next, 0)
                .await
                .unwrap();
        }
        assert_eq!(partition.view().manifest().number, 3);
        assert_eq!(partition.view().segment_count(), 3);
    }
}

// It stays unknown whether the commit happened; the next call finds out.
#[tokio::test]
async fn an_unknown_commit_is_cleared_up_by_the_next_call() {
    for fault in [Fault::Before, Fault::After] {
        let (store, bucket) = faulty();
        let log = Log::regular(3, 2);
        let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        partition
            .upload(Arc::new(log.source(0)), log.next, 0)
            .await
            .unwrap();
        store.plan(On::Put, "/manifest/", std::iter::repeat_n(Some(fault), 100));
        store.plan(
            On::Get,
            "/manifest/",
            std::iter::repeat_n(Some(Fault::Before), 100),
        );
        let unknown = partition.upload(Arc::new(log.source(1)), log.next, 0).await;
        assert!(unknown.is_err());
        store.heal();
        // The broker tries the segment again.
        let again = partition.upload(Arc::new(log.source(1)), log.next, 0).await;
        match fault {
            Fault::After => assert!(matches!(again, Err(TieringError::Overlap { .. }))),
            _ => assert!(again.is_ok()),
        }
        partition
            .upload(Arc::new(log.source(2)), log.next, 0)
            .await
            .unwrap();
        let fresh = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        assert_eq!(fresh.view().segment_count(), 3);
        for offset in 0..log.next {
            assert_reads(&fresh, &log, offset, 1000, true).await;
        }
    }
}

// Killed after each request of an upload: the old truth or the new one, and the upload goes again.
#[tokio::test]
async fn killed_anywhere_in_an_upload() {
    let log = Log::regular(6, 2);
    let mut survived = false;
    for dies_at in 0.. {
        let (store, bucket) = faulty();
        let first = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        for at in 0..3 {
            first
                .upload(Arc::new(log.source(at)), log.next, 0)
                .await
                .unwrap();
        }
        // The fourth seals a list as well. Each request of it in turn never answers.
        let let_through = std::iter::repeat_n(None, dies_at);
        let never = Some(Fault::Slow(std::time::Duration::from_secs(3600)));
        store.plan(On::Put, "", let_through.clone().chain([never]));
        let upload = first.upload(Arc::new(log.source(3)), log.next, 0);
        let outcome = tokio::time::timeout(std::time::Duration::from_millis(100), upload).await;
        survived = matches!(outcome, Ok(Ok(_)));
        drop(first);
        store.heal();
        let second = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        let committed = second.view().segment_count();
        assert!(committed == 3 || survived, "dies at {dies_at}: {committed}");
        for at in committed as usize..6 {
            second
                .upload(Arc::new(log.source(at)), log.next, 0)
                .await
                .unwrap();
        }
        assert_eq!(second.view().segment_count(), 6);
        for offset in (0..log.next).step_by(9) {
            assert_reads(&second, &log, offset, 1000, true).await;
        }
        if survived {
            break;
        }
    }
    assert!(survived);
}

async fn keys_with(bucket: &strandline_bucket::Bucket, part: &str) -> Vec<String> {
    let all = bucket.list("", None).await.unwrap();
    all.into_iter()
        .map(|object| object.key)
        .filter(|key| key.contains(part))
        .collect()
}

async fn segment_keys(bucket: &strandline_bucket::Bucket) -> Vec<String> {
    let all = keys_with(bucket, "").await;
    let other = |key: &String| key.contains("/manifest/") || key.contains("/sealed/");
    all.into_iter().filter(|key| !other(key)).collect()
}

/// What reads from 0 on give, up to `end` or the first error.
async fn read_all(reader: &RemotePartition, end: i64) -> (Vec<u8>, Option<TieringError>) {
    let (mut got, mut at) = (Vec::new(), 0);
    while at < end {
        match reader.read(at, 1 << 20, true).await {
            Ok(read) => {
                assert!(read.end_offset > at);
                assert_eq!(
                    read.parts.iter().map(Bytes::len).sum::<usize>(),
                    read.size_in_bytes
                );
                got.extend(read.parts.concat());
                at = read.end_offset;
            }
            Err(error) => return (got, Some(error)),
        }
    }
    (got, None)
}

// Every batch before a bad place can be had, also one behind it in the same read, or in the segment before.
#[tokio::test]
async fn what_is_good_before_a_bad_place_can_be_read() {
    let log = Log::regular(3, 6);
    let all = log.expected(0, 1 << 20, true).0;
    let sizes: Vec<usize> = log.batches().map(|batch| batch.size_in_bytes()).collect();
    let first: usize = sizes[..6].iter().sum();
    for chunk_bytes in [512, 1 << 20] {
        let (store, bucket) = faulty();
        let writer = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        log.upload(&writer).await;
        let mut keys = segment_keys(&bucket).await;
        keys.sort();
        let good = bucket.get(&keys[1]).await.unwrap();
        for batch in 0..6 {
            let before: usize = sizes[6..6 + batch].iter().sum();
            let mut bad = good.to_vec();
            bad[before + sizes[6 + batch] - 1] ^= 0x10;
            store.overwrite(&keys[1], bad).await.unwrap();
            let mut options = small(&bucket);
            options.chunk_bytes = chunk_bytes;
            let reader = tier(options).open_partition(id(0), 0).await.unwrap();
            let (got, error) = read_all(&reader, log.next).await;
            assert!(error.is_some_and(|error| error.is_corruption()));
            assert!(all.starts_with(&got));
            // Within the segment what shares a chunk with the bad place is lost.
            let lost = if chunk_bytes == 512 {
                512 + sizes[6]
            } else {
                before
            };
            let kept = first + before.saturating_sub(lost)..=first + before;
            assert!(kept.contains(&got.len()), "{} of {kept:?}", got.len());
        }
        store.overwrite(&keys[1], good.to_vec()).await.unwrap();
        // A store that fails for a while is asked again by the next read.
        let reader = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        store.plan(
            On::Get,
            &keys[1],
            std::iter::repeat_n(Some(Fault::Before), 1000),
        );
        let (got, error) = read_all(&reader, log.next).await;
        assert!(error.is_some_and(|error| !error.is_corruption()));
        assert_eq!(got.len(), first);
    }
}

// A flipped bit anywhere in a segment object is an error or harmless, never other data.
#[tokio::test]
async fn damage_in_a_segment_object_is_seen() {
    for chunk_bytes in [512, 1 << 20] {
        let (store, bucket) = faulty();
        let log = Log::regular(1, 6);
        let writer = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        log.upload(&writer).await;
        let key = segment_keys(&bucket).await.remove(0);
        let good = bucket.get(&key).await.unwrap();
        let mut seen = 0;
        for at in (0..good.len()).step_by(13) {
            let mut bad = good.to_vec();
            bad[at] ^= 0x10;
            store.overwrite(&key, bad).await.unwrap();
            // A fresh process, nothing cached.
            let mut options = small(&bucket);
            options.chunk_bytes = chunk_bytes;
            let reader = tier(options).open_partition(id(0), 0).await.unwrap();
            let (got, error) = read_all(&reader, log.next).await;
            let all = log.expected(0, 1 << 20, true).0;
            assert!(all.starts_with(&got), "wrong data, byte {at}");
            match error {
                Some(error) => {
                    assert!(error.is_corruption(), "{error:?}");
                    seen += 1;
                }
                None => assert_eq!(got.len(), all.len()),
            }
        }
        assert!(seen * 13 + 13 * 3 > good.len(), "{seen}");
        // Cut short, longer, and gone.
        let cuts = [0, 1, 20, good.len() / 2, good.len() - 1];
        let longer = [&good[..], &good[..10]].concat();
        let others = cuts
            .iter()
            .map(|cut| good.slice(..*cut))
            .chain([longer.into()]);
        for other in others {
            store.overwrite(&key, other).await.unwrap();
            let mut options = small(&bucket);
            options.chunk_bytes = chunk_bytes;
            let reader = tier(options).open_partition(id(0), 0).await.unwrap();
            let error = reader.read(0, 1 << 20, true).await.unwrap_err();
            assert!(error.is_corruption(), "{error:?}");
        }
        bucket
            .delete_many(std::slice::from_ref(&key))
            .await
            .unwrap();
        let reader = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        let gone = reader.read(0, 1 << 20, true).await.unwrap_err();
        assert!(gone.is_gone() && gone.to_string().contains(&key), "{gone}");
        // Nobody but somebody outside took it away.
        assert!(reader.view().contains(gone.missing_segment().unwrap()));
    }
}

// Damage that happened on the way is fetched again.
#[tokio::test]
async fn damage_on_the_way_is_fetched_again() {
    let (store, bucket) = faulty();
    let log = Log::regular(1, 6);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    // The chunk or the indexes, whichever comes first, and then the other.
    store.plan(On::Get, "", [Some(Fault::Damage), Some(Fault::Damage)]);
    assert_reads(&partition, &log, 0, 400, true).await;
    store.plan(On::Get, "", std::iter::repeat_n(Some(Fault::Damage), 10));
    let other = tier(small(&bucket)).open_partition(id(0), 0).await;
    assert!(other.unwrap_err().is_corruption());
}

#[tokio::test]
async fn damage_in_a_manifest_or_list_is_a_clear_error() {
    let (store, bucket) = faulty();
    let log = Log::regular(5, 2);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let newest = keys_with(&bucket, "/manifest/").await.pop().unwrap();
    let good = bucket.get(&newest).await.unwrap();
    for bad in [good.slice(..good.len() / 2), bytes::Bytes::new(), {
        let mut bad = good.to_vec();
        bad[50] ^= 4;
        bad.into()
    }] {
        store.overwrite(&newest, bad).await.unwrap();
        let error = tier(small(&bucket))
            .open_partition(id(0), 0)
            .await
            .unwrap_err();
        assert!(error.is_corruption(), "{error:?}");
        assert!(error.to_string().contains(&newest), "{error}");
        // The old view goes on.
        assert_reads(&partition, &log, 90, 1000, true).await;
    }
    store.overwrite(&newest, good).await.unwrap();
    let list = keys_with(&bucket, "/sealed/").await.pop().unwrap();
    let good = bucket.get(&list).await.unwrap();
    store
        .overwrite(&list, good.slice(..good.len() - 9))
        .await
        .unwrap();
    let reader = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    assert!(reader.read(0, 100, true).await.unwrap_err().is_corruption());
    // What does not need the list is read.
    assert_reads(&reader, &log, 85, 1000, true).await;
    store.overwrite(&list, good).await.unwrap();
    assert_reads(&reader, &log, 0, 1000, true).await;
}

// The manifest of another partition under this name is refused.
#[tokio::test]
async fn a_manifest_of_another_place_is_refused() {
    let (store, bucket) = faulty();
    let log = Log::regular(2, 2);
    let one = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    let two = tier(small(&bucket)).open_partition(id(1), 0).await.unwrap();
    log.upload(&one).await;
    log.upload(&two).await;
    let keys = keys_with(&bucket, "/manifest/").await;
    let of = |partition: &str| {
        keys.iter()
            .rfind(|key| key.contains(partition))
            .unwrap()
            .clone()
    };
    let other = bucket.get(&of("/1/")).await.unwrap();
    store.overwrite(&of("/0/"), other).await.unwrap();
    let error = tier(small(&bucket))
        .open_partition(id(0), 0)
        .await
        .unwrap_err();
    assert!(error.is_corruption(), "{error:?}");
}

// A store that is down for a while: reads retry, and say so when it lasts.
#[tokio::test]
async fn reads_survive_a_short_outage() {
    let (store, bucket) = faulty();
    let log = Log::regular(2, 4);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    store.plan(
        On::Get,
        "",
        [
            Some(Fault::Before),
            Some(Fault::SlowDown),
            Some(Fault::Before),
        ],
    );
    assert_reads(&partition, &log, 0, 1000, true).await;
    store.plan(On::Get, "", std::iter::repeat_n(Some(Fault::Before), 1000));
    let error = partition.read(45, 1000, true).await.unwrap_err();
    assert!(error.is_retriable() && !error.is_corruption(), "{error:?}");
    store.heal();
    assert_reads(&partition, &log, 45, 1000, true).await;
}
