//! Retention over both tiers: first the manifest, later the objects, nothing leaks (S-21, S-22).

use std::sync::Arc;

use proptest::prelude::*;
use strandline_tiering::{ExpireRequest, RemotePartition, TieringError};

use crate::support::{Log, assert_reads, faulty, id, small, stores, tier};

const KEEP: ExpireRequest = ExpireRequest {
    log_start_offset: 0,
    retention_ms: -1,
    retention_bytes: -1,
    local_unuploaded_bytes: 0,
};

async fn objects(bucket: &strandline_bucket::Bucket) -> (usize, usize) {
    let all = bucket.list("", None).await.unwrap();
    let manifests = all.iter().filter(|o| o.key.contains("/manifest/")).count();
    (all.len() - manifests, manifests)
}

#[tokio::test]
async fn what_expires_goes_after_the_grace_period() {
    for (bucket, _dir) in stores() {
        let log = Log::regular(10, 2);
        let mut options = small(&bucket);
        options.delete_grace_ms = 1000;
        let partition = tier(options.clone())
            .open_partition(id(0), 0)
            .await
            .unwrap();
        log.upload(&partition).await;
        // Ten segments in two lists of four and two inline.
        assert_eq!(objects(&bucket).await.0, 12);
        let before = partition.view();
        let request = ExpireRequest {
            log_start_offset: 105,
            ..KEEP
        };
        let expired = partition.expire(5000, request).await.unwrap();
        assert_eq!((expired.log_start_offset, expired.segments), (105, 5));
        assert_eq!(partition.view().log_start_offset(), 105);
        assert_eq!(partition.view().base_offset(), Some(100));
        assert_eq!(partition.view().segment_count(), 5);
        assert_eq!(partition.view().size_in_bytes(), before.size_in_bytes() / 2);
        // Still there for who reads by an older view.
        assert_eq!(objects(&bucket).await.0, 12);
        assert!(matches!(
            partition.read(104, 100, true).await,
            Err(TieringError::OutOfRange { .. })
        ));
        for offset in [105, 119, 120, 199] {
            assert_reads(&partition, &log, offset, 10_000, true).await;
        }
        // Nothing more is due, so nothing is written.
        let number = partition.view().manifest().number;
        partition.expire(5999, request).await.unwrap();
        assert_eq!(partition.view().manifest().number, number);
        partition.expire(6000, request).await.unwrap();
        // Five segments and the first list are gone.
        assert_eq!(objects(&bucket).await.0, 6);
        let again = tier(options).open_partition(id(0), 0).await.unwrap();
        assert_eq!(again.view().manifest(), partition.view().manifest());
        assert!(again.view().manifest().pending_deletes.is_empty());
        for offset in 105..200 {
            assert_reads(&again, &log, offset, 1000, true).await;
        }
    }
}

// Each commit carries the names of what waits for its deletion.
#[tokio::test]
async fn what_expires_at_once_waits_when_too_much_waits_already() {
    let (_, bucket) = faulty();
    let log = Log::regular(10, 2);
    let mut options = small(&bucket);
    (options.delete_grace_ms, options.max_pending_deletes) = (1000, 3);
    let partition = tier(options).open_partition(id(0), 0).await.unwrap();
    log.upload(&partition).await;
    let at = |log_start_offset| ExpireRequest {
        log_start_offset,
        ..KEEP
    };
    let expire = async |request, now_ms| {
        let expired = partition.expire(now_ms, request).await.unwrap();
        let base = partition.view().base_offset();
        (expired.segments, expired.is_cut, base)
    };
    assert_eq!(expire(at(105), 0).await, (3, true, Some(60)));
    assert_eq!(partition.view().log_start_offset(), 105);
    assert_eq!(expire(at(105), 999).await, (0, true, Some(60)));
    assert_reads(&partition, &log, 105, 10_000, true).await;
    assert_eq!(expire(at(105), 1000).await, (2, false, Some(100)));
    // All of it, as the log goes on behind it.
    assert_eq!(expire(at(log.next), 1001).await, (5, false, None));
}

#[tokio::test]
async fn everything_may_expire_and_the_log_goes_on() {
    let (_, bucket) = faulty();
    let log = Log::regular(6, 2);
    let partition = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    for at in 0..5 {
        partition
            .upload(Arc::new(log.source(at)), log.next, 0)
            .await
            .unwrap();
    }
    let all = ExpireRequest {
        retention_ms: 0,
        ..KEEP
    };
    let expired = partition.expire(1 << 40, all).await.unwrap();
    assert_eq!((expired.log_start_offset, expired.segments), (100, 5));
    assert_eq!(partition.highest_offset(), None);
    // What lies below the log start is not uploaded again.
    let old = partition.upload(Arc::new(log.source(4)), log.next, 0).await;
    assert!(matches!(old, Err(TieringError::Overlap { .. })));
    partition
        .upload(Arc::new(log.source(5)), log.next, 0)
        .await
        .unwrap();
    assert_eq!(partition.view().base_offset(), Some(100));
}

#[tokio::test]
async fn old_manifests_are_pruned_after_their_grace() {
    let (_, bucket) = faulty();
    let log = Log::regular(60, 1);
    let mut options = small(&bucket);
    options.keep_manifests = 5;
    let partition = tier(options).open_partition(id(0), 0).await.unwrap();
    let hour = 3_600_000;
    for at in 0..30 {
        partition
            .upload(Arc::new(log.source(at)), log.next, 0)
            .await
            .unwrap();
    }
    assert_eq!(objects(&bucket).await.1, 30);
    partition
        .upload(Arc::new(log.source(30)), log.next, hour)
        .await
        .unwrap();
    let (_, manifests) = objects(&bucket).await;
    assert!(manifests <= 7, "{manifests}");
    // The chain is whole for who opens it now.
    let again = tier(small(&bucket)).open_partition(id(0), 0).await.unwrap();
    assert_eq!(again.view().segment_count(), 31);
}

/// A step of a partition's life.
#[derive(Debug, Clone, Copy)]
enum Step {
    Upload,
    DeleteTo(u8),
    KeepBytes(u8),
    KeepTime(u8),
    Reopen,
    Read(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Upload),
        1 => any::<u8>().prop_map(Step::DeleteTo),
        1 => any::<u8>().prop_map(Step::KeepBytes),
        1 => any::<u8>().prop_map(Step::KeepTime),
        1 => Just(Step::Reopen),
        3 => any::<u8>().prop_map(Step::Read),
    ]
}

/// What must be true of a partition: which segments are held, and the log start.
struct Model {
    log: Log,
    first: usize,
    uploaded: usize,
    log_start: i64,
}

impl Model {
    fn new() -> Self {
        Self {
            log: Log::regular(40, 2),
            first: 0,
            uploaded: 0,
            log_start: 0,
        }
    }

    fn held(&self) -> std::ops::Range<usize> {
        self.first..self.uploaded
    }

    fn end(&self) -> i64 {
        if self.held().is_empty() {
            self.log_start
        } else {
            self.log.source(self.uploaded - 1).next
        }
    }

    fn drop_while(&mut self, mut gone: impl FnMut(&Self, usize) -> bool) {
        while self.first < self.uploaded && gone(self, self.first) {
            self.log_start = self.log_start.max(self.log.source(self.first).next);
            self.first += 1;
        }
    }

    fn expire(&mut self, request: &ExpireRequest, now_ms: i64) {
        self.log_start = self.log_start.max(request.log_start_offset);
        let size = |at: usize, model: &Self| model.log.source(at).bytes.len() as i64;
        let total: i64 = self.held().map(|at| size(at, self)).sum();
        let mut excess = if request.retention_bytes < 0 {
            0
        } else {
            (total - request.retention_bytes).max(0)
        };
        let request = *request;
        self.drop_while(|model, at| {
            let source = model.log.source(at);
            let newest = model.log.segments[at]
                .iter()
                .map(|b| b.header().max_timestamp)
                .max();
            let old = request.retention_ms >= 0 && newest.unwrap() <= now_ms - request.retention_ms;
            let gone = source.next <= model.log_start || old || excess >= size(at, model);
            if gone {
                excess = (excess - size(at, model)).max(0);
            }
            gone
        });
    }

    async fn check(&self, partition: &RemotePartition) {
        let view = partition.view();
        assert_eq!(view.segment_count() as usize, self.held().len());
        assert_eq!(view.log_start_offset(), self.log_start);
        assert_eq!(view.end_offset().unwrap_or(self.log_start), self.end());
        let bytes: usize = self.held().map(|at| self.log.source(at).bytes.len()).sum();
        assert_eq!(view.size_in_bytes() as usize, bytes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_history_follows_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}

async fn run(steps: Vec<Step>) {
    let (_, bucket) = faulty();
    let mut model = Model::new();
    let mut options = small(&bucket);
    options.delete_grace_ms = 50;
    let mut partition = tier(options.clone())
        .open_partition(id(0), 0)
        .await
        .unwrap();
    for (now, step) in steps.into_iter().enumerate() {
        let now_ms = 10_000 + now as i64 * 10;
        let request = match step {
            Step::Upload if model.uploaded < 40 => {
                let source = Arc::new(model.log.source(model.uploaded));
                let below = source.next <= model.log_start;
                let uploaded = partition
                    .upload(source.clone(), model.log.next, now_ms)
                    .await;
                if model.held().is_empty() && below {
                    assert!(matches!(uploaded, Err(TieringError::Overlap { .. })));
                    model.first = model.uploaded + 1;
                } else {
                    uploaded.unwrap();
                    model.log_start = if model.held().is_empty() {
                        model.log_start.max(source.base)
                    } else {
                        model.log_start
                    };
                }
                model.uploaded += 1;
                model.check(&partition).await;
                continue;
            }
            Step::Upload => continue,
            Step::Reopen => {
                partition = tier(options.clone())
                    .open_partition(id(0), 0)
                    .await
                    .unwrap();
                model.check(&partition).await;
                continue;
            }
            Step::Read(at) => {
                let span = model.end() - model.log_start;
                if span > 0 {
                    let offset = model.log_start + i64::from(at) % span;
                    let mut held = model.log.clone();
                    held.segments.truncate(model.uploaded);
                    assert_reads(&partition, &held, offset, 3000, true).await;
                }
                continue;
            }
            // The log start offset is never above the end of the log.
            Step::DeleteTo(to) => ExpireRequest {
                log_start_offset: (i64::from(to) * 4).min(model.end()),
                ..KEEP
            },
            Step::KeepBytes(bytes) => ExpireRequest {
                retention_bytes: i64::from(bytes) * 100,
                ..KEEP
            },
            Step::KeepTime(ms) => ExpireRequest {
                retention_ms: now_ms - i64::from(ms) * 30,
                ..KEEP
            },
        };
        model.expire(&request, now_ms);
        let expired = partition.expire(now_ms, request).await.unwrap();
        assert_eq!(expired.log_start_offset, model.log_start);
        model.check(&partition).await;
    }
    // Everything that left is deleted in the end, and nothing else.
    partition.expire(1 << 40, KEEP).await.unwrap();
    let lists = partition.view().manifest().sealed.len();
    let segments = model.held().len();
    let (objects, _) = objects(&bucket).await;
    assert_eq!(objects, lists + segments);
}
