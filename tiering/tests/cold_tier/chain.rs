//! The chain: one winner, fencing, the same on every store.

use std::sync::Arc;
use std::time::Duration;

use strandline_bucket::faulty::{Fault, On};
use strandline_tiering::{RemotePartition, TieringError};

use crate::support::{Log, MemorySegment, Spec, faulty, id, small, stores, tier};

async fn open(bucket: &Arc<strandline_bucket::Bucket>, epoch: i32) -> Arc<RemotePartition> {
    tier(small(bucket))
        .open_partition(id(0), epoch)
        .await
        .unwrap()
}

#[tokio::test]
async fn what_is_committed_is_there_for_the_next_process() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(11, 3);
        let first = open(&bucket, 0).await;
        assert_eq!(first.highest_offset(), None);
        log.upload(&first).await;
        let second = open(&bucket, 1).await;
        assert_eq!(second.highest_offset(), Some(log.next - 1));
        let view = second.view();
        // Four make a sealed list.
        assert_eq!(
            (view.manifest().sealed.len(), view.manifest().inline.len()),
            (2, 3)
        );
        assert_eq!(view.segment_count(), 11);
        let bytes: usize = log.batches().map(|b| b.size_in_bytes()).sum();
        assert_eq!(view.size_in_bytes(), bytes as u64);
        assert_eq!(view.manifest(), first.view().manifest());
        // Each offset lies in the segment that says so, also in sealed lists.
        for offset in 0..log.next {
            let entry = view.segment_for_offset(offset).await.unwrap().unwrap();
            assert!(entry.base_offset <= offset && offset <= entry.last_offset);
        }
        assert_eq!(view.segment_for_offset(log.next).await.unwrap(), None);
    }
}

// T-1
#[tokio::test]
async fn overlaps_and_gaps_are_refused() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(4, 2);
        let partition = open(&bucket, 0).await;
        let up = |at: usize| partition.upload(Arc::new(log.source(at)), log.next, 0);
        up(1).await.unwrap();
        assert!(matches!(up(1).await, Err(TieringError::Overlap { .. })));
        assert!(matches!(up(0).await, Err(TieringError::Overlap { .. })));
        assert!(matches!(up(3).await, Err(TieringError::Gap { .. })));
        up(2).await.unwrap();
        // T-2
        let above = partition
            .upload(Arc::new(log.source(3)), log.next - 1, 0)
            .await;
        assert!(matches!(above, Err(TieringError::AboveLimit { .. })));
        assert_eq!(partition.view().log_start_offset(), log.source(1).base);
    }
}

// T-3
#[tokio::test]
async fn a_deposed_leader_is_fenced() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(4, 2);
        let old = open(&bucket, 3).await;
        old.upload(Arc::new(log.source(0)), log.next, 0)
            .await
            .unwrap();
        let new = open(&bucket, 4).await;
        new.take_over(1).await.unwrap();
        let fenced = old.upload(Arc::new(log.source(1)), log.next, 0).await;
        assert!(
            matches!(
                fenced,
                Err(TieringError::Fenced {
                    epoch: 3,
                    by_epoch: 4,
                    ..
                })
            ),
            "{fenced:?}"
        );
        new.upload(Arc::new(log.source(1)), log.next, 0)
            .await
            .unwrap();
        // For good, and for every kind of change.
        assert!(matches!(
            old.take_over(9).await,
            Err(TieringError::Fenced { .. })
        ));
        assert_eq!(new.view().manifest().leader_epoch, 4);
        // A leader may come back with a greater epoch.
        old.set_leader_epoch(5);
        old.upload(Arc::new(log.source(2)), log.next, 0)
            .await
            .unwrap();
        assert_eq!(old.view().end_offset(), Some(log.source(2).next));
    }
}

// A lower epoch that was first is adopted, not fought.
#[tokio::test]
async fn a_new_leader_goes_on_from_what_the_old_one_left_late() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(4, 2);
        let old = open(&bucket, 0).await;
        let new = open(&bucket, 1).await;
        old.upload(Arc::new(log.source(0)), log.next, 0)
            .await
            .unwrap();
        // `new` has not seen it, and its own copy of the segment overlaps.
        let late = new.upload(Arc::new(log.source(0)), log.next, 0).await;
        assert!(
            matches!(late, Err(TieringError::Overlap { .. })),
            "{late:?}"
        );
        new.upload(Arc::new(log.source(1)), log.next, 0)
            .await
            .unwrap();
        assert!(matches!(
            old.upload(Arc::new(log.source(2)), log.next, 0).await,
            Err(TieringError::Fenced { .. })
        ));
    }
}

#[tokio::test]
async fn of_racing_writers_one_wins_each_segment() {
    for (bucket, _dir) in stores() {
        let log = Arc::new(Log::regular(6, 2));
        let mut writers = Vec::new();
        for _ in 0..4 {
            writers.push(open(&bucket, 0).await);
        }
        let mut tasks = Vec::new();
        for writer in writers {
            let log = Arc::clone(&log);
            tasks.push(tokio::spawn(async move {
                let mut won = 0;
                for at in 0..log.segments.len() {
                    match writer.upload(Arc::new(log.source(at)), log.next, 0).await {
                        Ok(_) => won += 1,
                        Err(TieringError::Overlap { .. }) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                }
                won
            }));
        }
        let mut won = 0;
        for task in tasks {
            won += task.await.unwrap();
        }
        assert_eq!(won, log.segments.len());
        let last = open(&bucket, 0).await;
        assert_eq!(last.view().segment_count(), 6);
        assert_eq!(last.view().end_offset(), Some(log.next));
    }
}

#[tokio::test]
async fn a_damaged_local_segment_never_leaves() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(1, 3);
        let partition = open(&bucket, 0).await;
        let good = log.source(0);
        let mut flipped = good.bytes.to_vec();
        flipped[200] ^= 1;
        let truncated = good.bytes.slice(..good.bytes.len() - 1);
        let damaged = [
            MemorySegment {
                bytes: flipped.into(),
                ..good.clone()
            },
            MemorySegment {
                bytes: truncated,
                ..good.clone()
            },
            MemorySegment {
                next: good.next - 1,
                ..good.clone()
            },
            MemorySegment {
                base: 5,
                ..good.clone()
            },
            MemorySegment {
                bytes: bytes::Bytes::new(),
                ..good.clone()
            },
        ];
        for source in damaged {
            let refused = partition.upload(Arc::new(source), 1 << 40, 0).await;
            assert!(
                matches!(refused, Err(TieringError::DamagedSource { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(partition.view().segment_count(), 0);
        partition.upload(Arc::new(good), 1 << 40, 0).await.unwrap();
    }
}

#[tokio::test]
async fn a_deleted_partition_leaves_nothing_and_takes_nothing() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(6, 2);
        let partition = open(&bucket, 0).await;
        let other = tier(small(&bucket)).open_partition(id(1), 0).await.unwrap();
        other
            .upload(Arc::new(log.source(0)), log.next, 0)
            .await
            .unwrap();
        log.upload(&partition).await;
        let behind = open(&bucket, 0).await;
        partition.delete_all(5).await.unwrap();
        partition.delete_all(5).await.unwrap();
        let left = bucket.list("", None).await.unwrap();
        assert!(
            left.iter().all(|object| object.key.contains("/1/")),
            "{left:?}"
        );
        assert_eq!(left.len(), 2);
        drop(behind);
    }
}

// S-24
#[tokio::test]
async fn an_upload_that_is_under_way_leaves_nothing_in_a_deleted_partition() {
    let (store, bucket) = faulty();
    let log = Log::regular(2, 2);
    let partition = open(&bucket, 0).await;
    let up = |at: usize| partition.upload(Arc::new(log.source(at)), log.next, 0);
    up(0).await.unwrap();
    store.plan(
        On::Put,
        "/00000000000000000020-",
        [Some(Fault::Slow(Duration::from_millis(50)))],
    );
    let (uploaded, deleted) = futures::join!(up(1), partition.delete_all(5));
    assert!(matches!(uploaded, Err(TieringError::Deleted)));
    deleted.unwrap();
    assert_eq!(bucket.list("", None).await.unwrap(), []);
}

#[tokio::test]
async fn large_segments_go_in_parts() {
    for (bucket, _dir) in stores() {
        let specs: Vec<Spec> = (0..40).map(|i| Spec::plain(4, 128 << 10, i * 10)).collect();
        let log = Log::new(&[specs]);
        let mut options = small(&bucket);
        (options.block_bytes, options.chunk_bytes) = (64 << 10, 1 << 20);
        let partition = tier(options).open_partition(id(0), 0).await.unwrap();
        assert!(log.source(0).bytes.len() as u64 > strandline_bucket::SINGLE_PUT_BYTES);
        partition
            .upload(Arc::new(log.source(0)), log.next, 0)
            .await
            .unwrap();
        let read = partition.read(0, usize::MAX, true).await.unwrap();
        assert_eq!(read.size_in_bytes, log.source(0).bytes.len());
        assert_eq!(read.end_offset, log.next);
        // A damaged one fails on the way, and nothing is committed.
        let mut bad = log.source(0);
        let mut bytes = bad.bytes.to_vec();
        let at = bytes.len() - 10;
        bytes[at] ^= 1;
        (bad.bytes, bad.base, bad.next) = (bytes.into(), 160, 320);
        let refused = partition.upload(Arc::new(bad), 1 << 40, 0).await;
        assert!(
            matches!(refused, Err(TieringError::DamagedSource { .. })),
            "{refused:?}"
        );
    }
}
