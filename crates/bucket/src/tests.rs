//! The bucket over stores in memory, in a directory, and sick ones.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::faulty::{Fault, FaultyStore, On};
use crate::{
    Bucket, BucketErrorKind, BucketOptions, Op, Outcome, PART_BYTES, PutNew, RetryPolicies,
    StoreKind,
};

fn options() -> BucketOptions {
    BucketOptions {
        retry: RetryPolicies::eager(),
        ..BucketOptions::default()
    }
}

fn faulty() -> (Arc<FaultyStore>, Arc<Bucket>) {
    let store = FaultyStore::in_memory();
    let bucket = Bucket::over_store(Arc::clone(&store) as _, options(), &mut Registry::default());
    (store, bucket)
}

fn stores() -> Vec<(Arc<Bucket>, Option<tempfile::TempDir>)> {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().join("bucket").display());
    let open = |url: &str| Bucket::open(url, options(), &mut Registry::default()).unwrap();
    vec![(open("memory:"), None), (open(&url), Some(dir))]
}

#[tokio::test]
async fn objects_are_written_read_listed_and_deleted() {
    for (bucket, _dir) in stores() {
        bucket.probe().await.unwrap();
        let pieces = vec![Bytes::from_static(b"hello "), Bytes::from_static(b"world")];
        bucket.put("a/b/2", pieces).await.unwrap();
        bucket
            .put("a/b/1", Bytes::from_static(b"one"))
            .await
            .unwrap();
        bucket.put("a/bc", Bytes::new()).await.unwrap();
        assert_eq!(bucket.get("a/b/2").await.unwrap(), "hello world");
        let read = bucket.get_range("a/b/2", 6..100).await.unwrap();
        assert_eq!((&read.bytes[..], read.object_size), (&b"world"[..], 11));
        let read = bucket.get_suffix("a/b/2", 3).await.unwrap();
        assert_eq!(read.bytes, "rld");
        let ranges = bucket.get_ranges("a/b/2", &[4..6, 0..2]).await.unwrap();
        assert_eq!(ranges, ["o ", "he"]);
        assert_eq!(bucket.head("a/b/1").await.unwrap().size, 3);
        let keys = |infos: Vec<crate::ObjectInfo>| -> Vec<String> {
            infos.into_iter().map(|info| info.key).collect()
        };
        // Whole path segments only, sorted.
        assert_eq!(
            keys(bucket.list("a/b", None).await.unwrap()),
            ["a/b/1", "a/b/2"]
        );
        assert_eq!(
            keys(bucket.list("a/b", Some("a/b/1")).await.unwrap()),
            ["a/b/2"]
        );
        assert_eq!(bucket.list("", None).await.unwrap().len(), 3);
        assert_eq!(bucket.list("nothing", None).await.unwrap(), []);
        let gone = [
            "a/b/1".to_owned(),
            "never/there".to_owned(),
            "a/bc".to_owned(),
        ];
        bucket.delete_many(&gone).await.unwrap();
        bucket.delete_many(&gone).await.unwrap();
        assert_eq!(keys(bucket.list("", None).await.unwrap()), ["a/b/2"]);
        assert!(bucket.get("a/b/1").await.unwrap_err().is_not_found());
        assert!(bucket.head("a/b/1").await.unwrap_err().is_not_found());
    }
}

#[tokio::test]
async fn put_new_knows_whose_object_it_is() {
    for (bucket, _dir) in stores() {
        let (mine, yours) = (Bytes::from_static(b"mine"), Bytes::from_static(b"yours"));
        assert_eq!(
            bucket.put_new("k", mine.clone()).await.unwrap(),
            PutNew::Created
        );
        assert_eq!(
            bucket.put_new("k", mine.clone()).await.unwrap(),
            PutNew::Ours
        );
        assert_eq!(
            bucket.put_new("k", yours).await.unwrap(),
            PutNew::Theirs(mine)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_racing_for_a_key_one_wins() {
    for (bucket, _dir) in stores() {
        for round in 0..20 {
            let racers = (0..8).map(|racer| {
                let bucket = Arc::clone(&bucket);
                let body = Bytes::from(format!("racer {racer}"));
                tokio::spawn(async move { bucket.put_new(&format!("r/{round}"), body).await })
            });
            let mut created = 0;
            for racer in racers.collect::<Vec<_>>() {
                created += usize::from(racer.await.unwrap().unwrap() == PutNew::Created);
            }
            assert_eq!(created, 1);
        }
    }
}

// CRATES 4.1: a PUT that landed and answered 5xx.
#[tokio::test]
async fn a_lost_answer_is_not_taken_for_a_conflict() {
    let body = Bytes::from_static(b"body");
    let (store, bucket) = faulty();
    store.plan(On::Put, "k", [Some(Fault::After)]);
    assert_eq!(
        bucket.put_new("k", body.clone()).await.unwrap(),
        PutNew::Ours
    );
    // Fails before it lands, then succeeds.
    store.plan(On::Put, "l", [Some(Fault::Before), Some(Fault::SlowDown)]);
    assert_eq!(
        bucket.put_new("l", body.clone()).await.unwrap(),
        PutNew::Created
    );
    // Nothing helps, and nobody knows.
    store.plan(On::Put, "m", std::iter::repeat_n(Some(Fault::Before), 100));
    let error = bucket.put_new("m", body.clone()).await.unwrap_err();
    assert_eq!(
        (error.outcome(), error.is_retriable()),
        (Outcome::MaybeDone, true)
    );
    store.plan(
        On::Put,
        "n",
        std::iter::repeat_n(Some(Fault::SlowDown), 100),
    );
    let error = bucket.put_new("n", body.clone()).await.unwrap_err();
    assert_eq!(
        (error.outcome(), error.kind()),
        (Outcome::NotDone, BucketErrorKind::Throttled)
    );
    // Denied is final at once.
    store.plan(On::Put, "o", [Some(Fault::Denied)]);
    let error = bucket.put_new("o", body).await.unwrap_err();
    assert!(error.is_denied() && error.outcome() == Outcome::NotDone);
    assert!(
        error.to_string().contains("put of 'o': access denied"),
        "{error}"
    );
}

#[tokio::test]
async fn what_may_pass_is_tried_again_and_the_rest_is_not() {
    let (store, bucket) = faulty();
    store.plan(On::Put, "", [Some(Fault::Before), Some(Fault::SlowDown)]);
    bucket.put("k", Bytes::from_static(b"x")).await.unwrap();
    store.plan(On::Get, "", [Some(Fault::SlowDown), Some(Fault::Before)]);
    assert_eq!(bucket.get("k").await.unwrap(), "x");
    store.plan(On::List, "", [Some(Fault::Before)]);
    assert_eq!(bucket.list("", None).await.unwrap().len(), 1);
    store.plan(On::Delete, "", [Some(Fault::Before)]);
    bucket.delete_many(&["k".to_owned()]).await.unwrap();
    let metrics = bucket.metrics();
    assert_eq!(metrics.requests(Op::Put, "ok"), 1);
    assert_eq!(metrics.requests(Op::Put, "error"), 1);
    assert_eq!(metrics.requests(Op::Put, "throttled"), 1);
    assert_eq!(metrics.requests(Op::Get, "ok"), 1);
    assert_eq!(metrics.requests(Op::Delete, "ok"), 1);
    assert_eq!((metrics.bytes(Op::Put), metrics.bytes(Op::Get)), (1, 1));
    assert!(bucket.get("k").await.unwrap_err().is_not_found());
    assert_eq!(metrics.requests(Op::Get, "not_found"), 1);
}

// A time limit for all of a long listing would never be kept.
#[tokio::test]
async fn a_long_listing_is_several_requests_each_with_its_own_limit_and_repetition() {
    let (store, mut bucket) = faulty();
    Arc::get_mut(&mut bucket).unwrap().kind = StoreKind::S3;
    let key = |n: usize| format!("p/{n:05}");
    for n in 0..2500 {
        bucket.put(&key(n), Bytes::new()).await.unwrap();
    }
    store.plan(On::List, "p", [None, Some(Fault::Before), None, None]);
    let listed = bucket.list("p", Some(&key(99))).await.unwrap();
    let listed: Vec<String> = listed.into_iter().map(|info| info.key).collect();
    assert_eq!(listed, (100..2500).map(key).collect::<Vec<_>>());
    let metrics = bucket.metrics();
    assert_eq!(metrics.requests(Op::List, "ok"), 3);
    assert_eq!(metrics.requests(Op::List, "error"), 1);
    let page = bucket.list_page("p", Some(&key(1999))).await.unwrap();
    assert_eq!((page.objects.len(), page.is_last), (500, true));
}

#[tokio::test]
async fn a_request_without_answer_ends() {
    let mut options = options();
    for policy in [&mut options.retry.read, &mut options.retry.write] {
        (policy.attempts, policy.request_timeout) = (2, Duration::from_millis(20));
    }
    let store = FaultyStore::in_memory();
    let bucket = Bucket::over_store(Arc::clone(&store) as _, options, &mut Registry::default());
    let hour = Some(Fault::Slow(Duration::from_secs(3600)));
    store.plan(On::Get, "", std::iter::repeat_n(hour, 100));
    let error = bucket.get("k").await.unwrap_err();
    assert_eq!(error.kind(), BucketErrorKind::Timeout);
    store.plan(On::Put, "", std::iter::repeat_n(hour, 100));
    let error = bucket.put("k", Bytes::new()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (BucketErrorKind::Timeout, Outcome::MaybeDone)
    );
}

#[tokio::test]
async fn large_objects_go_in_parts() {
    for (bucket, _dir) in stores() {
        let part = |byte: u8, len: usize| Ok::<_, std::io::Error>(Bytes::from(vec![byte; len]));
        let parts = [part(1, PART_BYTES), part(2, PART_BYTES), part(3, 10)];
        bucket.put_parts("big", stream::iter(parts)).await.unwrap();
        let got = bucket.get("big").await.unwrap();
        assert_eq!(got.len(), 2 * PART_BYTES + 10);
        assert_eq!(
            (got[PART_BYTES - 1], got[PART_BYTES], got[2 * PART_BYTES]),
            (1, 2, 3)
        );
        // A source that fails leaves nothing to see.
        let parts = [
            part(1, PART_BYTES),
            Err(std::io::Error::other("the disk is sick")),
        ];
        let error = bucket
            .put_parts("torn", stream::iter(parts))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.outcome()),
            (BucketErrorKind::Io, Outcome::NotDone)
        );
        assert!(error.to_string().contains("the disk is sick"));
        assert!(bucket.get("torn").await.unwrap_err().is_not_found());
        assert_eq!(bucket.list("", None).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_probe_refuses_what_is_not_fit() {
    let over = |store: Arc<FaultyStore>| {
        Bucket::over_store(store as _, options(), &mut Registry::default())
    };
    let error = over(FaultyStore::ignoring_conditions())
        .probe()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), BucketErrorKind::Unsuitable);
    assert!(error.to_string().contains("If-None-Match"), "{error}");
    let denied = FaultyStore::in_memory();
    denied.plan(On::Put, "", [Some(Fault::Denied)]);
    assert!(over(denied).probe().await.unwrap_err().is_denied());
    // What passes by itself does not stop a start.
    let (store, bucket) = faulty();
    let weather = [
        Some(Fault::SlowDown),
        Some(Fault::After),
        Some(Fault::Before),
        Some(Fault::SlowDown),
    ];
    store.plan(On::Put, "", weather);
    store.plan(On::Get, "", [Some(Fault::Before)]);
    store.plan(On::List, "", [Some(Fault::Before)]);
    store.plan(On::Delete, "", [Some(Fault::Before)]);
    bucket.probe().await.unwrap();
    assert_eq!(bucket.list("", None).await.unwrap(), []);
}

// The names that dashboards and tests rely on.
#[tokio::test]
async fn metrics_have_their_names() {
    let mut registry = Registry::default();
    let bucket = Bucket::open("memory:", options(), &mut registry).unwrap();
    bucket.put("k", Bytes::from_static(b"abc")).await.unwrap();
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    for line in [
        r#"strandline_store_requests_total{op="put",outcome="ok"} 1"#,
        r#"strandline_store_bytes_total{op="put"} 3"#,
        r#"strandline_store_request_duration_seconds_count{op="put"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

// On a thin line many at a time would all run out of time, again and again.
#[tokio::test(start_paused = true)]
async fn requests_that_are_too_much_for_the_store_become_fewer() {
    let store = FaultyStore::in_memory();
    let options = BucketOptions {
        retry: RetryPolicies::once(),
        ..options()
    };
    let bucket = Bucket::over_store(Arc::clone(&store) as _, options, &mut Registry::default());
    let hour = Some(Fault::Slow(Duration::from_secs(3600)));
    store.plan(On::Put, "", std::iter::repeat_n(hour, 32));
    let keys = (0..32).map(|at| format!("k{at}"));
    let puts = keys.map(|key| {
        let bucket = &bucket;
        async move { bucket.put(&key, Bytes::from_static(b"x")).await }
    });
    for put in futures::future::join_all(puts).await {
        assert_eq!(put.unwrap_err().kind(), BucketErrorKind::Timeout);
    }
    assert_eq!((bucket.writes.limit(), bucket.reads.limit()), (16, 64));
    store.plan(On::Put, "", [Some(Fault::SlowDown)]);
    bucket.put("k", Bytes::new()).await.unwrap_err();
    assert_eq!(bucket.writes.limit(), 2);
    let large = Bytes::from(vec![0; 1 << 20]);
    bucket.put("k", large.clone()).await.unwrap();
    assert_eq!(bucket.writes.limit(), 3);
    store.plan(On::Get, "", [Some(Fault::SlowDown)]);
    bucket.get("k").await.unwrap_err();
    assert_eq!((bucket.writes.limit(), bucket.reads.limit()), (3, 2));
}
