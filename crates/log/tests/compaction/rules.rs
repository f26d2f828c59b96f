//! Named rules of compaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline_log::{AppendError, CleanerOptions, Cleaning, LogCleaner, LogConfig};
use strandline_records::Compression;
use strandline_types::{Offset, TopicId, TopicName, TopicPartition};

use super::view::{batches, committed, offsets, table, uncommitted};
use super::{batch_of, clean, cleaner, compacted, in_transaction, keyed, marker, roll_and_clean};
use crate::support::Fixture;

const ALL: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

// L-41, L-42
#[test]
fn the_newest_record_of_each_key_stays_at_its_offset() {
    for compression in ALL {
        let fixture = Fixture::new(compacted(), 0);
        fixture.put(batch_of(
            &[("a", Some("1")), ("b", Some("2"))],
            compression,
            None,
            false,
        ));
        fixture.put(batch_of(
            &[("a", Some("3")), ("c", Some("4"))],
            compression,
            None,
            false,
        ));
        fixture.put(batch_of(&[("c", Some("5"))], compression, None, false));
        let before = uncommitted(fixture.log(), 0);
        let report = roll_and_clean(&fixture, 0);
        assert!(report.written_bytes < report.replaced_bytes);
        let after = uncommitted(fixture.log(), 0);
        assert_eq!(offsets(&after), [1, 2, 4]);
        assert!(after.iter().all(|r| before.contains(r)), "{compression:?}");
        assert_eq!(
            (
                fixture.log().log_start_offset(),
                fixture.log().log_end_offset()
            ),
            (0, 5)
        );
        assert!(clean(fixture.log(), 0).is_none()); // nothing is dirty any more
    }
}

// L-40: the active segment is never cleaned
#[test]
fn what_is_not_sealed_stays_as_it_is() {
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1"))]));
    fixture.put(keyed(&[("a", Some("2"))]));
    assert!(clean(fixture.log(), 0).is_none());
    fixture.log().roll(0).unwrap();
    fixture.put(keyed(&[("a", Some("3"))]));
    fixture.sealed();
    clean(fixture.log(), 0).unwrap();
    // What lies in the active segment does not replace anything yet.
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [1, 2]);
    let delete = LogConfig {
        compact: false,
        ..compacted()
    };
    fixture.log().update_config(delete);
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    assert!(clean(fixture.log(), 0).is_none());
}

// L-40
#[test]
fn the_ratio_and_the_lags_decide() {
    let config = LogConfig {
        min_cleanable_dirty_ratio: 0.5,
        min_compaction_lag_ms: 500,
        ..compacted()
    };
    let fixture = Fixture::new(config.clone(), 0);
    let put = |value| fixture.put(keyed(&[("a", Some(value)), ("b", Some(value))])); // of 1000, 1001
    put("1");
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    assert!(clean(fixture.log(), 1500).is_none());
    clean(fixture.log(), 1501).unwrap();
    put("2");
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    assert!(clean(fixture.log(), 9000).is_none()); // half of it is dirty, not more
    let status = cleaner().status(&[Arc::clone(fixture.log())], 9000);
    assert_eq!(
        (status.max_dirty_ratio, status.max_compaction_delay_ms),
        (0.5, 0)
    );
    let strict = LogConfig {
        max_compaction_lag_ms: 3000,
        ..config
    };
    fixture.log().update_config(strict);
    assert!(clean(fixture.log(), 4001).is_none());
    clean(fixture.log(), 4002).unwrap();
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [2, 3]);
}

// L-40: an idle partition, too
#[test]
fn the_active_segment_is_sealed_when_max_compaction_lag_wants_it() {
    let config = LogConfig {
        max_compaction_lag_ms: 1000,
        min_cleanable_dirty_ratio: 1.0,
        ..compacted()
    };
    let fixture = Fixture::new(config, 0);
    fixture.put(keyed(&[("a", Some("1")), ("a", Some("2"))])); // arrived at 0
    assert!(clean(fixture.log(), 1000).is_none());
    clean(fixture.log(), 2101);
    fixture.sealed();
    let found = || offsets(&uncommitted(fixture.log(), 0));
    if found() != [1] {
        clean(fixture.log(), 2101).unwrap(); // the writer had not sealed it yet
    }
    assert_eq!(found(), [1]);
}

// L-43
#[test]
fn a_tombstone_stays_until_its_horizon_and_hides_its_key_for_ever() {
    for compression in ALL {
        let fixture = Fixture::new(compacted(), 0);
        fixture.put(batch_of(
            &[("a", Some("1")), ("b", Some("2"))],
            compression,
            None,
            false,
        ));
        fixture.put(batch_of(
            &[("a", None), ("c", Some("3"))],
            compression,
            None,
            false,
        ));
        let before = uncommitted(fixture.log(), 0);
        let found = || offsets(&uncommitted(fixture.log(), 0));
        roll_and_clean(&fixture, 5000); // sees it for the first time: until 6000
        assert_eq!(found(), [1, 2, 3]);
        assert!(
            uncommitted(fixture.log(), 0)
                .iter()
                .all(|r| before.contains(r))
        );
        let horizon = batches(fixture.log(), 2)[0].header().delete_horizon_ms();
        assert_eq!(horizon, Some(6000));
        fixture.put(keyed(&[("d", Some("4"))]));
        roll_and_clean(&fixture, 5999);
        assert_eq!(found(), [1, 2, 3, 4]);
        fixture.put(keyed(&[("d", Some("5"))]));
        roll_and_clean(&fixture, 6000);
        assert_eq!(found(), [1, 3, 5]);
        assert!(!table(&uncommitted(fixture.log(), 0)).contains_key("a"));
        let mut fixture = fixture;
        fixture.reopen_after_crash();
        assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [1, 3, 5]);
    }
}

// L-44, F-31
#[test]
fn aborted_records_go_at_once_and_their_marker_hides_what_is_left() {
    let mut fixture = Fixture::new(compacted(), 1 << 20);
    fixture.put(keyed(&[("a", Some("0"))]));
    fixture.put(in_transaction(
        7,
        0,
        &[("a", Some("aborted")), ("x", Some("aborted"))],
    ));
    fixture.put(marker(7, false)); // 3
    fixture.put(in_transaction(7, 2, &[("a", Some("1"))])); // 4
    fixture.put(marker(7, true)); // 5
    fixture.put(keyed(&[("b", Some("2"))])); // 6
    let log = Arc::clone(fixture.log());
    assert_eq!(offsets(&committed(&log, 0)), [0, 4, 6]);
    roll_and_clean(&fixture, 5000);
    assert_eq!(offsets(&uncommitted(&log, 0)), [4, 6]);
    assert_eq!(offsets(&committed(&log, 0)), [4, 6]);
    // The marker and its entry stay in this round, since it met the data; in the next the marker gets
    // its horizon, and behind that both are gone.
    let aborted = |log: &strandline_log::Log| log.aborted_transactions(0, 100).unwrap().len();
    assert_eq!(aborted(&log), 1);
    fixture.put(keyed(&[("b", Some("3"))]));
    roll_and_clean(&fixture, 6000);
    assert_eq!(aborted(&log), 1);
    fixture.put(keyed(&[("b", Some("4"))]));
    roll_and_clean(&fixture, 6999);
    assert_eq!(aborted(&log), 1);
    fixture.put(keyed(&[("b", Some("5"))]));
    roll_and_clean(&fixture, 7000);
    assert_eq!(aborted(&log), 0);
    assert!(
        batches(&log, 0)
            .iter()
            .all(|b| b.header().last_offset() != 3)
    );
    assert_eq!(offsets(&committed(&log, 0)), [4, 9]);
    drop(log);
    fixture.reopen_after_crash();
    fixture
        .log()
        .set_high_watermark(fixture.log().log_end_offset());
    assert_eq!(offsets(&committed(fixture.log(), 0)), [4, 9]);
}

// L-43: the data of the transaction is gone as well, and then the horizon
#[test]
fn a_commit_marker_stays_as_long_as_a_record_of_its_transaction() {
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(in_transaction(7, 0, &[("a", Some("1"))]));
    fixture.put(marker(7, true)); // 1
    let has_marker = || {
        batches(fixture.log(), 0)
            .iter()
            .any(|b| b.header().last_offset() == 1)
    };
    for (now, key) in [
        (0, "x"),
        (5000, "x"),
        (9000, "a"),
        (10_000, "x"),
        (10_999, "x"),
    ] {
        fixture.put(keyed(&[(key, Some("2"))]));
        // Another producer's batch is the last of producer 7 no longer.
        roll_and_clean(&fixture, now);
        assert!(has_marker(), "{now}");
    }
    // Its last batch stays, empty, as long as the producer is remembered; and with it the marker.
    let of_seven = |b: &strandline_records::Batch| b.header().last_offset() == 0;
    let kept = batches(fixture.log(), 0)
        .into_iter()
        .find(of_seven)
        .unwrap();
    assert_eq!(kept.header().record_count, 0);
    fixture.log().expire_producers(i64::MAX);
    for now in [20_000, 21_000, 22_000] {
        fixture.put(keyed(&[("x", Some("3"))]));
        roll_and_clean(&fixture, now);
    }
    assert!(!has_marker());
}

// L-42
#[test]
fn an_active_producer_goes_on_after_its_last_record_was_removed() {
    let mut fixture = Fixture::new(compacted(), 0);
    let send = |sequence, value| {
        batch_of(
            &[("a", Some(value)), ("b", Some(value))],
            Compression::Lz4,
            Some((5, 2, sequence)),
            false,
        )
    };
    fixture.put(send(0, "1"));
    let last = fixture.put(send(2, "2"));
    fixture.put(keyed(&[("a", Some("3")), ("b", Some("3"))]));
    fixture.put(keyed(&[("z", Some("3"))]));
    roll_and_clean(&fixture, 0);
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [4, 5, 6]);
    // Without the snapshots the log alone must tell where the producer is.
    fixture.written();
    fixture.crash();
    for offset in fixture.files_with(".snapshot") {
        std::fs::remove_file(fixture.file(offset, "snapshot")).unwrap();
    }
    fixture.load();
    let again = fixture.append(send(2, "2")).unwrap();
    assert!(again.duplicate);
    assert_eq!(again.base_offset, last.base_offset);
    let gap = fixture.append(send(5, "2"));
    assert!(matches!(
        gap,
        Err(AppendError::OutOfOrderSequence { expected: 4, .. })
    ));
    fixture.put(send(4, "4"));
}

// L-42, L-43, L-48: a group's offsets are committed without sequences (T-22), by a client whose epoch
// stays for ever; what it did must not pile up
#[test]
fn of_a_producer_without_sequences_only_the_last_transaction_stays() {
    let mut fixture = Fixture::new(compacted(), 0);
    let of_seven = |fixture: &Fixture| {
        let all = batches(fixture.log(), 0).into_iter().map(|b| b.header());
        let of_seven = all.filter(|h| h.producer_id == 7);
        of_seven.map(|h| h.last_offset()).collect::<Vec<_>>()
    };
    let mut now = 0;
    for is_after_a_restart in [false, true] {
        let mut marker_offset = 0;
        for i in 0..10 {
            let value = i.to_string();
            fixture.put(in_transaction(7, -1, &[("a", Some(&value))]));
            marker_offset = fixture.put(marker(7, true)).last_offset;
        }
        if is_after_a_restart {
            fixture.reopen_cleanly();
        }
        // Sees the markers without data, gives them their horizon, removes them behind it.
        for _ in 0..4 {
            fixture.put(keyed(&[("filler", Some("x"))]));
            roll_and_clean(&fixture, now);
            now += 10_000;
        }
        assert_eq!(of_seven(&fixture), [marker_offset - 1, marker_offset]);
    }
    // The log alone tells the same.
    fixture.written();
    fixture.crash();
    for offset in fixture.files_with(".snapshot") {
        std::fs::remove_file(fixture.file(offset, "snapshot")).unwrap();
    }
    fixture.load();
    let kept = of_seven(&fixture);
    fixture.log().set_high_watermark(Offset::MAX);
    fixture.put(keyed(&[("a", Some("y")), ("filler", Some("y"))]));
    for _ in 0..3 {
        fixture.put(keyed(&[("filler", Some("x"))]));
        roll_and_clean(&fixture, now);
        now += 10_000;
    }
    assert_eq!(of_seven(&fixture), kept);
}

// L-42: the offset after the round is there, even if no record before it is
#[test]
fn the_last_batch_of_a_round_stays_empty() {
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1"))]));
    fixture.put(in_transaction(3, 0, &[("a", Some("no"))]));
    fixture.put(marker(3, false)); // 2
    fixture.log().expire_producers(i64::MAX);
    roll_and_clean(&fixture, 0);
    let last = |fixture: &Fixture| {
        let all = batches(fixture.log(), 0);
        let header = all.last().unwrap().header();
        (header.last_offset(), header.record_count)
    };
    assert_eq!(last(&fixture), (2, 1));
    fixture.put(keyed(&[("a", None)]));
    roll_and_clean(&fixture, 10_000);
    fixture.put(keyed(&[("b", None)]));
    roll_and_clean(&fixture, 20_000);
    assert_eq!(last(&fixture), (4, 1));
    assert_eq!(fixture.log().log_end_offset(), 5);
    let read = fixture.log().read(0, 10_000, Offset::MAX, true).unwrap();
    assert_eq!(read.end_offset, 5);
}

// L-45
#[test]
fn small_segments_become_one_and_large_ones_stay_legal() {
    let fixture = Fixture::new(compacted(), 0);
    let value = "x".repeat(300);
    for round in 0..10 {
        let key = format!("k{round}");
        fixture.put(keyed(&[(&key, Some(&value))]));
        fixture.log().roll(0).unwrap();
    }
    fixture.sealed();
    assert_eq!(fixture.log().segment_count(), 11);
    clean(fixture.log(), 0).unwrap();
    // Two of 380 bytes fit into 1000.
    assert_eq!(fixture.log().segment_count(), 6);
    for base in fixture.segment_files() {
        assert!(std::fs::metadata(fixture.file(base, "log")).unwrap().len() <= 1000);
    }
    assert_eq!(uncommitted(fixture.log(), 0).len(), 10);
    let mut fixture = fixture;
    fixture.reopen_cleanly();
    assert_eq!(uncommitted(fixture.log(), 0).len(), 10);
    assert_eq!(fixture.log().segment_count(), 6);
}

// L-45, S-1: a segment without a batch cannot be uploaded when the topic is tiered later
#[test]
fn what_became_empty_joins_the_next_segment_however_large_that_is() {
    let fixture = Fixture::new(compacted(), 0);
    let value = "x".repeat(600);
    fixture.put(keyed(&[("a", Some(&value))]));
    fixture.log().roll(0).unwrap();
    fixture.put(keyed(&[("a", Some(&value))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let smaller = LogConfig {
        segment_bytes: 500,
        ..compacted()
    };
    fixture.log().update_config(smaller);
    clean(fixture.log(), 0).unwrap();
    let first = fixture.log().first_sealed_segment(0, 2).unwrap().unwrap();
    assert_eq!((first.base_offset, first.next_offset), (0, 2));
    assert!(first.size_in_bytes > 500);
}

// L-45: retention by time without timestamps goes by the age of what was there
#[test]
fn a_cleaned_segment_is_as_old_as_the_newest_it_was_made_of() {
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1"))]));
    fixture.put(keyed(&[("a", Some("2"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let modified = || {
        std::fs::metadata(fixture.file(0, "log"))
            .unwrap()
            .modified()
            .unwrap()
    };
    clean(fixture.log(), 0).unwrap();
    let age = modified().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(age.as_millis(), 0); // the batches were appended at 0
}

// L-47
#[test]
fn a_fetch_at_a_removed_offset_gets_the_next_batch() {
    for tail in [0, 1 << 20] {
        let fixture = Fixture::new(compacted(), tail);
        for value in ["1", "2", "3"] {
            fixture.put(keyed(&[("a", Some(value))]));
            fixture.log().roll(0).unwrap();
        }
        fixture.put(keyed(&[("b", Some("4"))]));
        fixture.sealed();
        let slice = fixture.log().read(0, 10_000, 1, true).unwrap();
        clean(fixture.log(), 0).unwrap();
        for at in 0..3 {
            let read = fixture.log().read(at, 1, Offset::MAX, true).unwrap();
            let first = read.batches().unwrap()[0].header();
            assert_eq!(
                (first.base_offset, read.end_offset),
                (2, 3),
                "{at}, tail {tail}"
            );
            let bounded = fixture.log().read(at, 10_000, 2, true).unwrap();
            assert!(bounded.parts.is_empty());
        }
        // What was read before is still what it was.
        assert_eq!(slice.batches().unwrap()[0].header().base_offset, 0);
    }
}

// L-47, F-31
#[test]
fn readers_see_a_consistent_log_while_it_is_cleaned() {
    let fixture = Fixture::new(compacted(), 4000);
    let log = Arc::clone(fixture.log());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let end = log.last_stable_offset();
                    let found = committed(&log, 0);
                    assert!(found.iter().all(|r| r.value.as_deref() != Some(b"no")));
                    assert!(offsets(&found).is_sorted_by(|a, b| a < b));
                    // Unless the newest records came meanwhile, behind the reader's end.
                    if end >= 40 && log.last_stable_offset() == end {
                        assert_eq!(table(&found).len(), 3, "below {end}");
                    }
                }
            });
        }
        for round in 0..40 {
            let value = round.to_string();
            fixture.put(in_transaction(
                1,
                round * 2,
                &[("a", Some("no")), ("b", Some("no"))],
            ));
            fixture.put(marker(1, false));
            let pairs = [
                ("a", Some(value.as_str())),
                ("b", Some(&value)),
                ("c", Some(&value)),
            ];
            fixture.put(keyed(&pairs));
            fixture.log().roll(0).unwrap();
            fixture.sealed();
            clean(fixture.log(), i64::from(round) * 700).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(table(&committed(&log, 0))["c"], "39");
}

// L-41: a map that is too small cleans a prefix, and the next round goes on there
#[test]
fn a_small_map_needs_more_rounds_and_loses_nothing() {
    let fixture = Fixture::new(compacted(), 0);
    for round in 0..3 {
        for key in 0..20 {
            let (key, value) = (format!("k{key}"), round.to_string());
            fixture.put(keyed(&[(&key, Some(&value)), (&key, Some(&value))]));
        }
    }
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let small = LogCleaner::new(CleanerOptions {
        dedupe_buffer_bytes: 20 * 8,
        ..CleanerOptions::default()
    });
    let mut rounds = 0;
    while let Some(report) = small
        .clean_dirtiest(&[Arc::clone(fixture.log())], 0)
        .report()
    {
        assert!(report.map_utilization <= 1.0);
        rounds += 1;
        assert!(rounds < 100);
        let table = table(&uncommitted(fixture.log(), 0));
        assert!(table.len() == 20 && table.values().all(|v| v == "2"));
    }
    assert!(rounds > 5, "{rounds}");
    assert!(uncommitted(fixture.log(), 0).len() < 60);
}

// L-46, L-49
#[test]
fn with_delete_old_segments_go_and_cleaning_goes_on_from_the_start() {
    let config = LogConfig {
        delete: true,
        retention_bytes: 600,
        ..compacted()
    };
    let mut fixture = Fixture::new(config, 0);
    let value = "x".repeat(100);
    for round in 0..12 {
        fixture.put(keyed(&[
            (&format!("k{round}"), Some(&value)),
            ("same", Some("1")),
        ]));
    }
    roll_and_clean(&fixture, 0);
    let before = uncommitted(fixture.log(), 0);
    let outcome = fixture.log().apply_retention(0, None).unwrap();
    assert!(outcome.deleted_segments > 0 && outcome.log_start_offset > 0);
    assert_eq!(fixture.log().log_start_offset(), outcome.log_start_offset);
    let start = outcome.log_start_offset;
    let left: Vec<_> = before
        .iter()
        .filter(|r| r.offset >= start)
        .cloned()
        .collect();
    assert_eq!(uncommitted(fixture.log(), start), left);
    fixture.reopen_after_crash();
    assert_eq!(uncommitted(fixture.log(), start), left);
    fixture.put(keyed(&[("same", Some("2"))]));
    roll_and_clean(&fixture, 0);
    let table = table(&uncommitted(fixture.log(), start));
    assert_eq!(table["same"], "2");
}

// L-41: damage is no reason to forget keys
#[test]
fn a_damaged_segment_is_not_cleaned_and_is_tried_again_later() {
    use std::os::unix::fs::FileExt;
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1")), ("a", Some("2"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let path = fixture.file(0, "log");
    let flip = |path: &std::path::Path| {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, 70).unwrap();
        file.write_all_at(&[byte[0] ^ 1], 70).unwrap();
    };
    flip(&path);
    let cleaner = cleaner();
    let logs = [Arc::clone(fixture.log())];
    assert_eq!(cleaner.clean_dirtiest(&logs, 0), Cleaning::CutShort);
    let status = cleaner.status(&logs, 0);
    assert_eq!(
        (status.uncleanable_partitions, status.uncleanable_bytes > 0),
        (1, true)
    );
    assert_eq!(cleaner.clean_dirtiest(&logs, 14_999), Cleaning::NothingDue);
    // The clock is set back.
    assert_eq!(
        cleaner.clean_dirtiest(&logs, -3_600_000),
        Cleaning::CutShort
    );
    assert_eq!(
        cleaner.clean_dirtiest(&logs, -3_570_001),
        Cleaning::NothingDue
    );
    flip(&path); // whole again
    cleaner.clean_dirtiest(&logs, -3_570_000).report().unwrap();
    assert_eq!(cleaner.status(&logs, 15_000).uncleanable_partitions, 0);
    assert!(!fixture.dir().is_offline());
}

// L-40
#[test]
fn a_log_that_cannot_be_cleaned_does_not_hold_up_the_next_one() {
    let mut fixture = Fixture::new(compacted(), 0);
    let partition = TopicPartition::new(TopicName::new("others").unwrap(), 0);
    let other = fixture
        .dir()
        .create_log(partition, TopicId::random(), compacted())
        .unwrap();
    for _ in 0..2 {
        fixture.put(keyed(&[("a", Some("1")), ("a", Some("2"))]));
        fixture.log().roll(0).unwrap();
        fixture.sealed();
        fixture.set_log(Arc::clone(&other));
    }
    let logs = fixture.dir().logs();
    let path = fixture.file(0, "log");
    std::fs::write(
        &path,
        vec![0; std::fs::metadata(&path).unwrap().len() as usize],
    )
    .unwrap();
    let cleaner = cleaner();
    let both = [(); 2].map(|()| cleaner.clean_dirtiest(&logs, 0));
    assert!(both.contains(&Cleaning::CutShort), "{both:?}");
    let reports = both.into_iter().filter_map(Cleaning::report);
    let cleaned: Vec<_> = reports.map(|report| report.partition).collect();
    assert_eq!(cleaned, [other.partition().clone()]);
    // The one that failed waits for its next try: nobody spins on it.
    assert_eq!(cleaner.clean_dirtiest(&logs, 0), Cleaning::NothingDue);
}

// L-48: one batch that is too large to be looked into does not end the compaction of its log
#[test]
fn a_batch_beyond_the_limit_stays_and_the_others_are_cleaned() {
    let fixture = Fixture::new(compacted(), 0);
    let large = "x".repeat(10_000);
    fixture.put(keyed(&[("a", Some("1")), ("b", Some("1"))]));
    let records = [("a", Some(large.as_str())), ("c", Some("1"))];
    fixture.put(batch_of(&records, Compression::Zstd, None, false));
    fixture.put(keyed(&[("b", Some("2")), ("c", Some("2"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let cleaner = LogCleaner::new(CleanerOptions {
        max_decompressed_bytes: 5_000,
        ..CleanerOptions::default()
    });
    cleaner
        .clean_dirtiest(&[Arc::clone(fixture.log())], 0)
        .report()
        .unwrap();
    let left = uncommitted(fixture.log(), 0);
    // What it may hold of `a` and `c` is not known: both stay in it, and `a` before it.
    assert_eq!(offsets(&left), [0, 2, 3, 4, 5]);
    assert_eq!(table(&left)["a"], large);
    assert_eq!(table(&left)["c"], "2");
}

// L-41, L-43: the tombstone is all that says that what may be in the large batch is deleted
#[test]
fn a_tombstone_behind_a_batch_beyond_the_limit_stays() {
    let fixture = Fixture::new(compacted(), 0);
    let large = "x".repeat(10_000);
    fixture.put(keyed(&[("b", Some("1"))]));
    fixture.put(keyed(&[("b", None)]));
    let records = [("a", Some(large.as_str())), ("c", Some("1"))];
    fixture.put(batch_of(&records, Compression::Zstd, None, false));
    fixture.put(keyed(&[("a", None)]));
    fixture.put(keyed(&[("z", Some("1"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let cleaner = LogCleaner::new(CleanerOptions {
        max_decompressed_bytes: 5_000,
        ..CleanerOptions::default()
    });
    let clean_at = |now_ms| {
        let logs = std::slice::from_ref(fixture.log());
        cleaner.clean_dirtiest(logs, now_ms).report()
    };
    clean_at(0).unwrap();
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [1, 2, 3, 4, 5]);
    fixture.put(keyed(&[("z", Some("2"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    clean_at(10_000).unwrap();
    // Behind the horizon: the one of `b` lies before the batch, and goes.
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [2, 3, 4, 6]);
}

// L-25, L-45: what a failed round left would void a later swap that a kill cuts off
#[test]
fn a_round_removes_what_earlier_ones_left() {
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1")), ("a", Some("2"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let left = ["log.cleaned", "index.cleaned"].map(|name| fixture.file(7, name));
    left.iter()
        .for_each(|path| std::fs::write(path, b"x").unwrap());
    cleaner()
        .clean_dirtiest(&[Arc::clone(fixture.log())], 0)
        .report()
        .unwrap();
    assert!(left.iter().all(|path| !path.try_exists().unwrap()));
}

// L-49: cleaner-offset-checkpoint is Kafka's
#[test]
fn the_checkpoint_names_the_first_dirty_offset() {
    let mut fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1")), ("a", Some("2"))]));
    roll_and_clean(&fixture, 0);
    let path = fixture.temp.path().join("cleaner-offset-checkpoint");
    let text = || std::fs::read_to_string(&path).unwrap();
    assert_eq!(text(), "0\n1\nflights 3 2\n");
    fixture.reopen_cleanly();
    assert_eq!(text(), "0\n1\nflights 3 2\n");
    assert!(clean(fixture.log(), 0).is_none()); // it is clean, as the file says
    fixture.close();
    std::fs::write(&path, "0\n1\nflights 3 99\n").unwrap();
    fixture.load();
    assert!(clean(fixture.log(), 0).is_some()); // beyond the log: all is dirty
    fixture.log().delete().unwrap();
    fixture.dir().checkpoint().unwrap();
    assert_eq!(text(), "0\n0\n");
}

// O-5, O-9
#[test]
fn lookups_by_time_find_what_is_left() {
    let fixture = Fixture::new(compacted(), 0);
    // Timestamps count from 1000 in each batch.
    fixture.put(keyed(&[
        ("a", Some("1")),
        ("b", Some("1")),
        ("c", Some("1")),
        ("d", Some("1")),
    ]));
    fixture.put(keyed(&[("d", Some("2")), ("e", Some("2"))]));
    fixture.put(batch_of(
        &[
            ("f", Some("3")),
            ("f", Some("4")),
            ("f", Some("5")),
            ("f", Some("6")),
        ],
        Compression::Zstd,
        Some((1, 0, 0)),
        false,
    ));
    fixture.put(keyed(&[("f", Some("7"))])); // 10
    roll_and_clean(&fixture, 0);
    let at = |t| {
        fixture
            .log()
            .offset_for_timestamp(t, 100)
            .unwrap()
            .map(|f| (f.offset, f.timestamp))
    };
    assert_eq!(at(1000), Some((0, 1000)));
    assert_eq!(at(1002), Some((2, 1002)));
    assert_eq!(at(1003), None); // the two records of 1003 are gone, one of them with its batch
    let max = fixture.log().max_timestamp_record().unwrap().unwrap();
    assert_eq!((max.offset, max.timestamp), (2, 1002));
    let mut fixture = fixture;
    fixture.reopen_after_crash();
    let max = fixture.log().max_timestamp_record().unwrap().unwrap();
    assert_eq!((max.offset, max.timestamp), (2, 1002));
}

#[test]
fn a_stopped_cleaner_leaves_the_log_as_it_was() {
    let fixture = Fixture::new(compacted(), 0);
    fixture.put(keyed(&[("a", Some("1")), ("a", Some("2"))]));
    fixture.log().roll(0).unwrap();
    fixture.sealed();
    let cleaner = cleaner();
    cleaner.stop();
    assert!(
        cleaner
            .clean_dirtiest(&[Arc::clone(fixture.log())], 0)
            .report()
            .is_none()
    );
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [0, 1]);
    assert!(fixture.files_with(".log.cleaned").is_empty());
    clean(fixture.log(), 0).unwrap();
    assert_eq!(offsets(&uncommitted(fixture.log(), 0)), [1]);
}
