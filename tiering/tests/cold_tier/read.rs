//! Reads return exactly the model's batches, at every offset and size, whatever the cache does.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use proptest::prelude::*;
use strandline_bucket::faulty::{Fault, On};
use strandline_records::Compression;
use strandline_tiering::TieringError;

use crate::support::{Log, Spec, assert_reads, faulty, id, small, stores, tier};

fn compression() -> impl Strategy<Value = Compression> {
    prop_oneof![
        Just(Compression::None),
        Just(Compression::Lz4),
        Just(Compression::Zstd),
        Just(Compression::Snappy),
        Just(Compression::Gzip),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    (
        1_usize..6,
        prop_oneof![4 => 0_usize..120, 1 => 500_usize..4000],
        0_i64..1000,
        compression(),
    )
        .prop_map(|(records, value_bytes, timestamp, compression)| Spec {
            records,
            value_bytes,
            timestamp,
            epoch: 0,
            compression,
        })
}

fn log() -> impl Strategy<Value = Log> {
    prop::collection::vec(prop::collection::vec(spec(), 1..12), 1..8)
        .prop_map(|segments| Log::new(&segments))
}

fn block_on<F: std::future::Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    // F-4, F-64: random reads.
    #[test]
    fn random_reads(
        log in log(),
        chunk in prop_oneof![Just(256_u64), Just(1024), Just(1 << 20)],
        memory in prop_oneof![Just(0_u64), Just(1 << 20)],
        reads in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..8000, any::<bool>()), 1..40),
    ) {
        block_on(async {
            let (_, bucket) = faulty();
            let mut options = small(&bucket);
            (options.chunk_bytes, options.cache_memory_bytes) = (chunk, memory);
            let partition = tier(options).open_partition(id(0), 0).await.unwrap();
            log.upload(&partition).await;
            for (at, max_bytes, min_one) in reads {
                let offset = at.index(log.next as usize) as i64;
                assert_reads(&partition, &log, offset, max_bytes, min_one).await;
            }
        });
    }

    // A replay by reads of one size, as consumers do, sees each batch once.
    #[test]
    fn sequential_reads(
        log in log(),
        max_bytes in 1_usize..6000,
        memory in prop_oneof![Just(0_u64), Just(1 << 20)],
        budget in prop_oneof![Just(0_u64), Just(4 << 10), Just(1 << 20)],
        run in prop_oneof![Just(0_u64), Just(2 << 10), Just(5 << 10), Just(1 << 20)],
        window in prop_oneof![Just(1_u64 << 10), Just(16 << 10), Just(1 << 20)],
    ) {
        block_on(async {
            let (_, bucket) = faulty();
            let mut options = small(&bucket);
            (options.run_bytes, options.read_ahead_max_bytes) = (Some(run), window);
            (options.cache_memory_bytes, options.read_ahead_budget_bytes) = (memory, budget);
            let partition = tier(options).open_partition(id(0), 0).await.unwrap();
            log.upload(&partition).await;
            let mut offset = 0;
            while offset < log.next {
                let end = assert_reads(&partition, &log, offset, max_bytes, true).await;
                assert!(end > offset);
                offset = end;
            }
            let end = partition.read(offset, max_bytes, true).await;
            assert!(matches!(end, Err(TieringError::OutOfRange { .. })));
        });
    }
}

#[tokio::test]
async fn all_offsets_and_sizes_on_every_store() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(5, 6);
        let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
        log.upload(&partition).await;
        for offset in (0..log.next).step_by(7) {
            for max_bytes in [0, 1, 400, 5000, usize::MAX] {
                assert_reads(&partition, &log, offset, max_bytes, true).await;
                assert_reads(&partition, &log, offset, max_bytes, false).await;
            }
        }
        for outside in [-1, log.next, log.next + 100] {
            let read = partition.read(outside, 100, true).await;
            assert!(matches!(read, Err(TieringError::OutOfRange { .. })));
        }
    }
}

// F-64: what a small read holds is what it gives; a large one shares its bytes with the cache. Between them they are
// shared as long as there is room for what that keeps besides.
#[tokio::test]
async fn a_small_read_does_not_keep_its_chunk() {
    let log = Log::regular(1, 12);
    for (room, is_copied) in [(0, true), (1 << 20, false)] {
        let (_, bucket) = faulty();
        let mut options = small(&bucket);
        (options.chunk_bytes, options.answer_budget_bytes) = (1 << 20, room);
        let partition = tier(options).open_partition(id(0), 0).await.unwrap();
        log.upload(&partition).await;
        let whole = partition.read(0, usize::MAX, true).await.unwrap();
        assert!(!whole.parts[0].is_unique());
        let small = partition.read(10, 1, true).await.unwrap();
        assert_eq!(small.parts.len(), 1);
        // A part that has its share of the budget is an owner of its own, so look where it lies.
        let start = small.parts[0].as_ptr();
        let is_within = whole
            .parts
            .iter()
            .any(|part| part.as_ptr_range().contains(&start));
        assert_eq!(is_within, !is_copied);
    }
}

// F-66: offsets that compaction removed, within a segment and at its end.
#[tokio::test]
async fn gaps_lead_to_the_next_batch() {
    let (_, bucket) = faulty();
    let mut log = Log::regular(3, 4);
    // The last two batches of the first segment, all but the last of the second.
    log.segments[0].truncate(2);
    log.segments[1].drain(..3);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    for (at, (base, next)) in [(0, 40), (40, 80), (80, 120)].into_iter().enumerate() {
        let mut source = log.source(at);
        (source.base, source.next) = (base, next);
        partition
            .upload(Arc::new(source), 1 << 40, 0)
            .await
            .unwrap();
    }
    for offset in 0..120 {
        assert_reads(&partition, &log, offset, 10_000, true).await;
        let one = partition.read(offset, 1, true).await.unwrap();
        assert!(one.size_in_bytes > 0);
    }
    // A tail of nothing but gap is passed as well.
    log.segments[2].truncate(1);
    let other = tier(small(&bucket)).open_partition(id(1), 0).await.unwrap();
    let mut source = log.source(2);
    source.next = 120;
    other.upload(Arc::new(source), 1 << 40, 0).await.unwrap();
    let read = other.read(100, 1, true).await.unwrap();
    assert_eq!((read.size_in_bytes, read.end_offset), (0, 120));
}

// One fill however many wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_readers_fetch_each_chunk_once() {
    for memory in [0, 1 << 20] {
        let (store, bucket) = faulty();
        let log = Arc::new(Log::regular(1, 12));
        let mut options = small(&bucket);
        (options.cache_memory_bytes, options.read_ahead_max_bytes) = (memory, 0);
        let partition = tier(options).open_partition(id(0), 0).await.unwrap();
        log.upload(&partition).await;
        let before = store.gets();
        let slow = Some(Fault::Slow(std::time::Duration::from_millis(50)));
        store.plan(On::Get, "", std::iter::repeat_n(slow, 1000));
        let mut readers = Vec::new();
        for _ in 0..200 {
            let (partition, log) = (Arc::clone(&partition), Arc::clone(&log));
            readers.push(tokio::spawn(async move {
                assert_reads(&partition, &log, 0, 1 << 20, true).await;
            }));
        }
        for reader in readers {
            reader.await.unwrap();
        }
        let bytes = log.source(0).bytes.len() as u64;
        // And the indexes once.
        assert_eq!(
            store.gets() - before,
            bytes.div_ceil(1024) + 1,
            "memory {memory}"
        );
    }
}

// A reader that leaves does not cancel the fill that others wait for.
#[tokio::test]
async fn a_fill_outlives_who_began_it() {
    let (store, bucket) = faulty();
    let log = Log::regular(1, 2);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let before = store.gets();
    store.plan(
        On::Get,
        "",
        [Some(Fault::Slow(std::time::Duration::from_millis(100)))],
    );
    let short = std::time::Duration::from_millis(10);
    let gone = tokio::time::timeout(short, partition.read(0, 1 << 20, true)).await;
    assert!(gone.is_err());
    assert_reads(&partition, &log, 0, 1 << 20, true).await;
    assert_eq!(store.gets() - before, 1);
}

// A sequential reader finds the next segments' chunks already there.
#[tokio::test]
async fn read_ahead_crosses_segments() {
    let (store, bucket) = faulty();
    let log = Log::regular(6, 8);
    let mut options = small(&bucket);
    // No cache: what is there was fetched ahead.
    options.cache_memory_bytes = 0;
    let partition = tier(options).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let first = log.source(0);
    let mut offset = 0;
    // The last batch of the first segment is left.
    while offset < first.next - 10 {
        offset = assert_reads(&partition, &log, offset, 400, true).await;
    }
    assert_eq!(offset, first.next - 10);
    // Let the fetches that were started come in.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    store.plan(On::Get, "", std::iter::repeat_n(Some(Fault::Denied), 1000));
    // It and the first batches of the second segment come without the store.
    assert_reads(&partition, &log, offset, 1000, true).await;
}

// Small reads of one chunk do not fetch it again and again, even without a cache.
#[tokio::test]
async fn a_replay_fetches_each_chunk_once_without_cache() {
    let (store, bucket) = faulty();
    let log = Log::regular(4, 12);
    let mut options = small(&bucket);
    options.cache_memory_bytes = 0;
    options.chunk_bytes = 2048;
    let partition = tier(options).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let before = store.gets();
    let mut offset = 0;
    while offset < log.next {
        offset = assert_reads(&partition, &log, offset, 400, true).await;
    }
    let chunks: u64 = (0..4)
        .map(|at| (log.source(at).bytes.len() as u64).div_ceil(2048))
        .sum();
    let gets = store.gets() - before;
    // The indexes of four segments, and the list that they are in.
    assert_eq!(gets, chunks + 4 + 1);
}

/// Reads everything in steps of `max_bytes`; the GETs that this took.
async fn replay(
    log: &Log,
    store: &strandline_bucket::faulty::FaultyStore,
    partition: &strandline_tiering::RemotePartition,
    max_bytes: usize,
) -> u64 {
    let (before, mut offset) = (store.gets(), 0);
    while offset < log.next {
        offset = assert_reads(partition, log, offset, max_bytes, true).await;
    }
    store.gets() - before
}

// F-60: a partition of many small objects gives what has come, not all or nothing of what fits.
#[tokio::test(start_paused = true)]
async fn many_small_segments_do_not_take_their_time_one_after_the_other() {
    let (store, bucket) = faulty();
    let log = Log::regular(40, 1);
    let mut options = small(&bucket);
    (options.chunk_bytes, options.read_ahead_max_bytes) = (1 << 20, 32 << 20);
    options.seal_segments = 1000;
    let partition = tier(options).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let get = std::time::Duration::from_millis(50);
    store.plan(
        On::Get,
        "",
        std::iter::repeat_n(Some(Fault::Slow(get)), 1000),
    );
    let began = tokio::time::Instant::now();
    let mut offset = 0;
    while offset < log.next {
        // The first segment may take the list and the object.
        let read = assert_reads(&partition, &log, offset, 1 << 20, true);
        offset = tokio::time::timeout(get * 3, read).await.unwrap();
    }
    // A few until the reader is known as a sequential one, and then many at a time.
    assert!(began.elapsed() < get * 12, "{:?}", began.elapsed());
}

// What was fetched ahead is here, whether or not somebody waited for it.
#[tokio::test]
async fn a_read_goes_through_all_small_segments_that_were_fetched_ahead() {
    for memory in [0, 1 << 20] {
        let (_, bucket) = faulty();
        let log = Log::regular(40, 1);
        let mut options = small(&bucket);
        (options.chunk_bytes, options.read_ahead_max_bytes) = (1 << 20, 32 << 20);
        (options.seal_segments, options.cache_memory_bytes) = (1000, memory);
        let partition = tier(options).open_partition(id(0), 0).await.unwrap();
        log.upload(&partition).await;
        let mut offset = 0;
        for _ in 0..3 {
            offset = assert_reads(&partition, &log, offset, 1, true).await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        let end = assert_reads(&partition, &log, offset, 1 << 20, true).await;
        assert_eq!(end, log.next);
    }
}

// Each small segment is a request of its own, which others of the broker wait behind.
#[tokio::test(start_paused = true)]
async fn a_reader_of_small_segments_is_not_fetched_ahead_without_end() {
    let (store, bucket) = faulty();
    let log = Log::regular(300, 1);
    let mut options = small(&bucket);
    (options.chunk_bytes, options.read_ahead_max_bytes) = (1 << 20, 32 << 20);
    options.seal_segments = 1000;
    let partition = tier(options).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let before = store.gets();
    let mut offset = 0;
    for _ in 0..3 {
        offset = assert_reads(&partition, &log, offset, 1, true).await;
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let ahead = store.gets() - before;
    assert!((32..=64 + 3).contains(&ahead), "{ahead}");
}

// Chunks that follow each other come in one request, and each of them once.
#[tokio::test]
async fn a_replay_asks_for_runs_of_chunks() {
    let (store, bucket) = faulty();
    let log = Log::regular(4, 64);
    let chunks: u64 = (0..4)
        .map(|at| (log.source(at).bytes.len() as u64).div_ceil(1024))
        .sum();
    let bytes: u64 = (0..4).map(|at| log.source(at).bytes.len() as u64).sum();
    let mut gets = Vec::new();
    for run in [0, 2 << 10, 8 << 10] {
        let mut options = small(&bucket);
        (options.run_bytes, options.cache_memory_bytes) = (Some(run), 0);
        let mut registry = Registry::default();
        let tier = strandline_tiering::RemoteTier::open(options, &mut registry).unwrap();
        let partition = tier.open_partition(id(0), 0).await.unwrap();
        if gets.is_empty() {
            log.upload(&partition).await;
        }
        gets.push(replay(&log, &store, &partition, 900).await);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let fetched = text
            .lines()
            .find_map(|line| line.strip_prefix("strandline_cold_fetch_bytes_total "))
            .and_then(|count| count.parse::<u64>().ok())
            .unwrap();
        // Beside the batches only the indexes of four segments.
        assert!(
            fetched >= bytes && fetched < bytes + 4 * 4096,
            "{fetched} of {bytes}"
        );
    }
    assert!(gets[0] >= chunks, "{gets:?}, {chunks} chunks");
    assert!(gets[1] < gets[0] * 2 / 3, "{gets:?}");
    assert!(gets[2] < gets[1] * 2 / 3, "{gets:?}");
}

// What a run does not bring is fetched chunk by chunk; nobody sees that it failed.
#[tokio::test]
async fn a_run_that_breaks_off_is_mended() {
    for fault in [Fault::Before, Fault::Cut, Fault::Damage] {
        let (store, bucket) = faulty();
        let log = Log::regular(4, 64);
        let mut options = small(&bucket);
        (options.run_bytes, options.cache_memory_bytes) = (Some(8 << 10), 0);
        let partition = tier(options).open_partition(id(0), 0).await.unwrap();
        log.upload(&partition).await;
        let healthy = replay(&log, &store, &partition, 900).await;
        // Every third request.
        let faults = (0..3000).map(|n| (n % 3 == 2).then_some(fault));
        store.plan(On::Get, "", faults);
        let sick = replay(&log, &store, &partition, 900).await;
        assert!(sick > healthy, "{fault:?}: {sick} of {healthy}");
    }
}
