//! By time, by epoch, aborted transactions, producer snapshots.

use std::sync::Arc;

use proptest::prelude::*;
use strandline_records::{Batch, Compression, records};
use strandline_tiering::{AbortedTransaction, EpochStart, ExpireRequest, TimestampedOffset};

use crate::support::{Log, Spec, faulty, id, small, tier};

fn block_on<F: std::future::Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// (offset, timestamp) of every record.
fn all_records(log: &Log) -> Vec<(i64, i64)> {
    log.batches()
        .flat_map(|batch| records(batch, 1 << 20).unwrap())
        .map(|record| record.unwrap())
        .map(|record| (record.offset, record.timestamp))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]

    // O-5, O-9: timestamps in no order, every time asked for.
    #[test]
    fn times(
        segments in prop::collection::vec(
            prop::collection::vec((1_usize..5, 0_i64..60), 1..8),
            1..7,
        ),
        from in 0_i64..40,
    ) {
        let segments: Vec<Vec<Spec>> = segments
            .iter()
            .map(|batches| {
                let spec = |(records, timestamp): &(usize, i64)| Spec {
                    compression: Compression::Lz4,
                    ..Spec::plain(*records, 200, *timestamp)
                };
                batches.iter().map(spec).collect()
            })
            .collect();
        let log = Log::new(&segments);
        block_on(async {
            let (_, bucket) = faulty();
            let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
            log.upload(&partition).await;
            // Also where the log begins inside a batch.
            let all = all_records(&log).into_iter();
            let all: Vec<_> = all.filter(|(offset, _)| *offset >= from).collect();
            for timestamp in 0..70 {
                let expected = all.iter().find(|(_, t)| *t >= timestamp).copied();
                let found = partition.offset_for_timestamp(timestamp, from).await.unwrap();
                assert_eq!(found.map(|f| (f.offset, f.timestamp)), expected, "time {timestamp}");
            }
            let greatest = all.iter().map(|(_, t)| *t).max();
            let expected = all.iter().find(|(_, t)| Some(*t) == greatest).copied();
            let found = partition.max_timestamp(from).await.unwrap();
            assert_eq!(found.map(|f| (f.offset, f.timestamp)), expected);
        });
    }
}

// O-5, O-9, S-16: batches are stored unchecked
#[tokio::test]
async fn a_batch_whose_records_cannot_be_read_answers_by_itself() {
    let (_, bucket) = faulty();
    let lz4 = Spec {
        compression: Compression::Lz4,
        ..Spec::plain(10, 20, 100)
    };
    let mut log = Log::new(&[vec![Spec::plain(10, 20, 0), lz4]]);
    let header = log.segments[0][1].header();
    log.segments[0][1] = Batch::build(&header, vec![7; 50].into());
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let at = |found: Option<TimestampedOffset>| found.map(|f| (f.offset, f.timestamp));
    let find = partition.offset_for_timestamp(5, 0).await;
    assert_eq!(at(find.unwrap()), Some((5, 5)));
    let find = partition.offset_for_timestamp(50, 0).await;
    assert_eq!(at(find.unwrap()), Some((10, 109)));
    let find = partition.offset_for_timestamp(50, 15).await;
    assert_eq!(at(find.unwrap()), Some((15, 109)));
    let greatest = partition.max_timestamp(0).await;
    assert_eq!(at(greatest.unwrap()), Some((19, 109)));
}

#[tokio::test]
async fn nothing_is_found_in_an_empty_tier() {
    let (_, bucket) = faulty();
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    assert_eq!(partition.offset_for_timestamp(0, 0).await.unwrap(), None);
    assert_eq!(partition.max_timestamp(0).await.unwrap(), None);
    assert_eq!(partition.view().epoch_for_offset(0), None);
    assert_eq!(partition.view().end_offset_for_epoch(0), None);
}

// O-21, S-4, S-13
#[tokio::test]
async fn epochs_are_known_from_the_batches() {
    let (_, bucket) = faulty();
    let at = |epoch| Spec {
        epoch,
        ..Spec::plain(10, 20, 0)
    };
    let log = Log::new(&[vec![at(0), at(0), at(2)], vec![at(2), at(5)], vec![at(5)]]);
    let partition = tier(small(&bucket)).open_partition(id(0), 5).await.unwrap();
    log.upload(&partition).await;
    let view = partition.view();
    let start = |epoch, start_offset| EpochStart {
        epoch,
        start_offset,
    };
    assert_eq!(
        view.leader_epochs(),
        [start(0, 0), start(2, 20), start(5, 40)]
    );
    assert_eq!(view.epoch_for_offset(19), Some(0));
    assert_eq!(view.epoch_for_offset(20), Some(2));
    assert_eq!(view.epoch_for_offset(60), None);
    assert_eq!(view.end_offset_for_epoch(0), Some((0, 20)));
    assert_eq!(view.end_offset_for_epoch(1), Some((0, 20)));
    assert_eq!(view.end_offset_for_epoch(2), Some((2, 40)));
    assert_eq!(view.end_offset_for_epoch(9), Some((5, 60)));
    let found = partition.offset_for_timestamp(0, 0).await.unwrap();
    assert_eq!(
        found,
        Some(TimestampedOffset {
            offset: 0,
            timestamp: 0,
            leader_epoch: 0
        })
    );
    // S-31
    let (snapshot, epochs) = partition.state_at(50).await.unwrap().unwrap();
    assert_eq!(&snapshot[..], b"snapshot 1");
    assert_eq!(epochs.len(), 3);
    assert_eq!(
        partition.state_at(30).await.unwrap().unwrap().1,
        [start(0, 0), start(2, 20)]
    );
    assert_eq!(partition.state_at(31).await.unwrap(), None);
    // S-13: back to the log start offset, and no further.
    let expire = async |log_start_offset| {
        let request = ExpireRequest {
            log_start_offset,
            retention_ms: -1,
            retention_bytes: -1,
            local_unuploaded_bytes: 0,
        };
        partition.expire(0, request).await.unwrap();
        partition.view().leader_epochs().to_vec()
    };
    assert_eq!(expire(19).await, [start(0, 0), start(2, 20), start(5, 40)]);
    assert_eq!(expire(20).await, [start(2, 20), start(5, 40)]);
    assert_eq!(expire(45).await, [start(5, 40)]);
    assert_eq!(partition.view().epoch_for_offset(45), Some(5));
}

// F-31…F-34
#[tokio::test]
async fn aborted_transactions_are_found_across_segments() {
    let (_, bucket) = faulty();
    let log = Log::regular(6, 2);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    let aborted = |producer_id, first_offset, last_offset| AbortedTransaction {
        producer_id,
        first_offset,
        last_offset,
        last_stable_offset: last_offset + 1,
    };
    for at in 0..6 {
        let mut source = log.source(at);
        match at {
            1 => source.aborted = vec![aborted(1, 5, 30), aborted(2, 22, 35)],
            4 => source.aborted = vec![aborted(3, 50, 90)],
            _ => {}
        }
        partition
            .upload(Arc::new(source), log.next, 0)
            .await
            .unwrap();
    }
    let find = |from, upper| {
        let partition = Arc::clone(&partition);
        async move {
            let (found, complete) = partition.aborted_transactions(from, upper).await.unwrap();
            (
                found.iter().map(|a| a.producer_id).collect::<Vec<_>>(),
                complete,
            )
        }
    };
    assert_eq!(find(0, 5).await, (vec![], true));
    assert_eq!(find(0, 6).await, (vec![1], true));
    assert_eq!(find(10, 36).await, (vec![1, 2], true));
    assert_eq!(find(31, 60).await, (vec![2, 3], true));
    assert_eq!(find(36, 50).await, (vec![], true));
    assert_eq!(find(91, 110).await, (vec![], false));
}
