//! Named rules of the start after a clean end and after a crash (L-20…L-27).

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use strandline_log::{LogConfig, LogDir, LogDirOptions, LogError, TailBudget};
use strandline_types::{BrokerId, Offset, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

use crate::support::{Fixture, Spec, bytes_of, partition, small};

fn filled(batches: usize) -> Fixture {
    let fixture = Fixture::new(small(), 0);
    for _ in 0..batches {
        fixture.put(
            Spec {
                value_size: 50,
                ..Spec::count(2)
            }
            .build(),
        );
    }
    assert!(fixture.log().segment_count() > 3);
    fixture
}

fn all_bytes(fixture: &Fixture) -> Vec<u8> {
    let log = fixture.log();
    let (mut at, mut all) = (log.local_log_start_offset(), Vec::new());
    while at < log.log_end_offset() {
        let read = fixture.read(at, 1000);
        all.extend(bytes_of(&read));
        at = read.end_offset;
    }
    all
}

// L-20
#[test]
fn a_torn_tail_is_cut_at_the_last_valid_batch() {
    let mut fixture = filled(30);
    let end = fixture.log().log_end_offset();
    let last = *fixture.segment_files().last().unwrap();
    fixture.crash();
    let path = fixture.file(last, "log");
    let len = fs::metadata(&path).unwrap().len();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(len - 1)
        .unwrap();
    fixture.load();
    assert_eq!(fixture.log().log_end_offset(), end - 2);
    assert_eq!(fixture.put(Spec::default().build()).base_offset, end - 2);
}

// L-20: the first bad batch ends the log, later segments go
#[test]
fn segments_behind_a_bad_batch_are_deleted() {
    let mut fixture = filled(30);
    let bases = fixture.segment_files();
    fixture.crash();
    // Nothing was flushed as far as the checkpoint knows, so all segments are checked.
    assert!(
        !fixture
            .temp
            .path()
            .join("recovery-point-offset-checkpoint")
            .try_exists()
            .unwrap()
    );
    let path = fixture.file(bases[1], "log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[70] ^= 1;
    fs::write(&path, bytes).unwrap();
    fixture.load();
    assert_eq!(fixture.log().log_end_offset(), bases[1]);
    assert_eq!(fixture.segment_files(), bases[..2]);
    assert_eq!(fixture.put(Spec::default().build()).base_offset, bases[1]);
}

// L-20: below the recovery point nothing is cut; the partition is offline instead
#[test]
fn damage_below_the_recovery_point_is_an_error_not_a_cut() {
    let mut fixture = filled(30);
    let bases = fixture.segment_files();
    fixture.log().flush().unwrap();
    fixture.dir().checkpoint().unwrap();
    fixture.crash();
    let path = fixture.file(bases[1], "log");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let error = fixture.try_load().unwrap_err();
    assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    // The others are not concerned, and this one can be given up.
    let tp = crate::support::partition();
    let other = fixture
        .dir()
        .create_log(tp.clone(), fixture.topic_id, small());
    assert!(matches!(other, Err(LogError::AlreadyExists(_))));
    fixture.crash();
    fs::write(&path, whole).unwrap();
    fixture.load();
    assert_eq!(fixture.log().log_end_offset(), 60);
    assert!(matches!(
        fixture.dir().delete_unloaded(&tp),
        Err(LogError::AlreadyExists(_))
    ));
    fixture.crash();
    fixture.open_dir();
    fixture.dir().delete_unloaded(&tp).unwrap();
    fixture.dir().delete_unloaded(&tp).unwrap();
    let fresh = fixture
        .dir()
        .create_log(tp, fixture.topic_id, small())
        .unwrap();
    assert_eq!(fresh.log_end_offset(), 0);
}

// L-21
#[test]
fn missing_short_and_corrupt_indexes_are_rebuilt() {
    let mut fixture = filled(30);
    let (base, all) = (fixture.segment_files()[1], all_bytes(&fixture));
    fixture.reopen_cleanly();
    for extension in ["index", "timeindex"] {
        let path = fixture.file(base, extension);
        let good = fs::read(&path).unwrap();
        assert!(!good.is_empty());
        let mut damaged = vec![
            None,
            Some(Vec::new()),
            Some(good[..good.len() - 1].to_vec()),
        ];
        let mut swapped = good.clone();
        swapped[..4].fill(0xff);
        damaged.push(Some(swapped));
        damaged.push(Some(vec![0; good.len() * 3]));
        for content in damaged {
            fixture.close();
            match &content {
                None => fs::remove_file(&path).unwrap(),
                Some(bytes) => fs::write(&path, bytes).unwrap(),
            }
            fixture.load();
            assert_eq!(fs::read(&path).unwrap(), good, "{extension} {content:?}");
            assert!(all_bytes(&fixture) == all);
        }
    }
}

// L-20: trust after a clean end, which writes everything
#[test]
fn a_clean_end_leaves_complete_files() {
    let mut fixture = filled(30);
    let last = Spec {
        producer: Some((9, 1, 0)),
        ..Spec::at(&[1000, 5000, 2000])
    };
    fixture.put(last.build());
    let end = fixture.log().log_end_offset();
    fixture.close();
    let marker = fixture.temp.path().join(".kafka_cleanshutdown");
    assert!(
        fs::read_to_string(&marker)
            .unwrap()
            .starts_with("{\"version\":0")
    );
    let bases = fixture.segment_files();
    assert_eq!(fixture.files_with(".index"), bases);
    assert_eq!(fixture.files_with(".timeindex"), bases);
    assert_eq!(fixture.files_with(".txnindex"), []);
    // The time index ends with the greatest timestamp and its batch's last offset.
    let active = *bases.last().unwrap();
    let times = fs::read(fixture.file(active, "timeindex")).unwrap();
    let mut entry = 5000_i64.to_be_bytes().to_vec();
    entry.extend_from_slice(&((end - 1 - active) as u32).to_be_bytes());
    assert_eq!(times[times.len() - 12..], entry);
    let snapshots = fixture.files_with(".snapshot");
    assert_eq!(snapshots, [&bases[1..], &[end]].concat());
    let text = |name: &str| fs::read_to_string(fixture.temp.path().join(name)).unwrap();
    let line = format!("0\n1\nflights 3 {end}\n");
    assert_eq!(text("recovery-point-offset-checkpoint"), line);
    assert_eq!(text("replication-offset-checkpoint"), line);
    assert_eq!(text("log-start-offset-checkpoint"), "0\n0\n");
    let epochs = fs::read_to_string(fixture.folder().join("leader-epoch-checkpoint")).unwrap();
    assert_eq!(epochs, "0\n1\n0 0\n");
    let metadata = fs::read_to_string(fixture.folder().join("partition.metadata")).unwrap();
    assert_eq!(
        metadata,
        format!("version: 0\ntopic_id: {}", fixture.topic_id)
    );
    fixture.load();
    assert!(fixture.dir().was_closed_cleanly());
    assert!(!marker.try_exists().unwrap());
    assert_eq!(fixture.log().topic_id(), fixture.topic_id);
    let again = fixture.put(last.build());
    assert!(again.duplicate);
    assert_eq!(again.last_offset, end - 1);
    fixture.crash();
    fixture.load();
    assert!(!fixture.dir().was_closed_cleanly());
}

// L-20: a clean stop vouches for no partition that could not be loaded
#[test]
fn what_could_not_be_loaded_is_recovered_when_it_was_repaired() {
    let mut fixture = filled(30);
    let last = fixture.segment_files().pop().unwrap();
    fixture.crash();
    let metadata = fixture.folder().join("partition.metadata");
    let whole = fs::read(&metadata).unwrap();
    fs::write(&metadata, "nonsense").unwrap();
    assert!(fixture.try_load().is_err());
    let other = TopicPartition::new(TopicName::new("ships").unwrap(), 0);
    let log = fixture
        .dir()
        .create_log(other.clone(), fixture.topic_id, small());
    fixture.set_log(log.unwrap());
    fixture.put(Spec::default().build());
    fixture.close();
    // It was not stopped cleanly: its last batch did not reach the device as a whole.
    fs::write(&metadata, whole).unwrap();
    let path = fixture.file(last, "log");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.iter_mut().nth_back(4).unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    fixture.load();
    assert!(!fixture.dir().was_closed_cleanly());
    assert_eq!(
        fixture.dir().log(&partition()).unwrap().log_end_offset(),
        58
    );
    // The others are not gone through.
    assert_eq!(fixture.dir().log(&other).unwrap().recovery_point(), 1);
    fixture.crash();
    fs::write(&metadata, "nonsense").unwrap();
    assert!(fixture.try_load().is_err());
    fixture.dir().delete_unloaded(&partition()).unwrap();
    fixture.close();
    fixture.open_dir();
    assert!(fixture.dir().was_closed_cleanly());
}

// L-20: batches in the middle of a segment are not read: not after a clean end, and not below the recovery
// point after a crash
#[test]
fn what_was_flushed_is_not_gone_through_again() {
    let wide = LogConfig {
        segment_bytes: 20_000,
        ..small()
    };
    let mut fixture = Fixture::new(wide, 0);
    for _ in 0..300 {
        fixture.put(Spec::count(2).build());
    }
    let (bases, end) = (fixture.segment_files(), fixture.log().log_end_offset());
    assert!(bases.len() > 1);
    fixture.close();
    let whole: Vec<_> = bases
        .iter()
        .map(|base| fs::read(fixture.file(*base, "log")).unwrap())
        .collect();
    for (base, bytes) in bases.iter().zip(&whole) {
        let mut bytes = bytes.clone();
        let middle = bytes.len() / 2;
        bytes[middle - 100..middle + 100].fill(0xee);
        fs::write(fixture.file(*base, "log"), bytes).unwrap();
    }
    for _ in 0..2 {
        fixture.load();
        assert_eq!(fixture.log().log_end_offset(), end);
        fixture.crash();
    }
    // It would be noticed where it has to be looked at.
    fs::remove_file(fixture.temp.path().join("recovery-point-offset-checkpoint")).unwrap();
    fixture.load();
    assert!(fixture.log().log_end_offset() < bases[1]);
}

/// Puts other bytes into a file of the same size; with `unnoticed` it says that it was never changed.
fn scribble(path: &Path, unnoticed: bool) {
    let before = fs::metadata(path).unwrap();
    fs::write(path, vec![0xee; before.len() as usize]).unwrap();
    if unnoticed {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(before.modified().unwrap()).unwrap();
    }
}

// L-20: after a clean end no segment is read, neither its first batch nor its last
#[test]
fn after_a_clean_end_no_segment_is_read() {
    let mut fixture = filled(30);
    let in_order = Spec {
        producer: Some((9, 1, 0)),
        ..Spec::at(&[7000, 9000])
    };
    let last = fixture.put(in_order.build()).last_offset;
    let before = (fixture.log().offsets(), fixture.log().segment_count());
    fixture.close();
    for base in fixture.segment_files() {
        scribble(&fixture.file(base, "log"), true);
    }
    fixture.load();
    let offsets = fixture.log().offsets();
    assert_eq!((offsets, fixture.log().segment_count()), before);
    let again = fixture.put(in_order.build());
    assert!(again.duplicate && again.last_offset == last, "{again:?}");
    fixture.close();
    // What somebody has changed since is read, and found wanting.
    for base in fixture.segment_files() {
        scribble(&fixture.file(base, "log"), false);
    }
    assert!(fixture.try_load().is_err());
}

// L-2, L-3, L-20: what a start takes from the last stop is what the batches would tell it
#[test]
fn a_start_knows_the_same_with_and_without_reading() {
    let config = LogConfig {
        segment_bytes: 2000,
        segment_ms: 700,
        ..small()
    };
    for count in 1..25 {
        let files_after_start = |reads: bool| {
            let mut fixture = Fixture::new(config.clone(), 0);
            let put = |fixture: &Fixture, i: i64| {
                let timestamps = [100 * i, 100 * i + 30 * (i % 3)];
                fixture.put(Spec::at(&timestamps).build());
            };
            (0..count).for_each(|i| put(&fixture, i));
            fixture.close();
            if reads {
                fs::remove_file(fixture.temp.path().join("segments-at-stop")).unwrap();
            }
            fixture.load();
            (count..count + 25).for_each(|i| put(&fixture, i));
            fixture.close();
            let of = |extension: &str| {
                let bases = fixture.files_with(&format!(".{extension}"));
                let read = |base: &Offset| fs::read(fixture.file(*base, extension)).unwrap();
                (bases.iter().map(read).collect::<Vec<_>>(), bases)
            };
            (of("log"), of("index"), of("timeindex"))
        };
        assert!(
            files_after_start(false) == files_after_start(true),
            "{count}"
        );
    }
}

// L-20: several partitions at a time, and no more than there may be
#[test]
fn partitions_are_recovered_by_as_many_threads_as_are_allowed() {
    const THREADS: usize = 3;
    let temp = TempDir::new().unwrap();
    let options = || LogDirOptions {
        recovery_threads: THREADS,
        ..LogDirOptions::new("a-cluster", BrokerId(1), TailBudget::new(0))
    };
    let dir = LogDir::open(temp.path(), options()).unwrap();
    for number in 0..3 * THREADS as i32 {
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), number);
        dir.create_log(partition, TopicId::random(), small())
            .unwrap();
    }
    drop(dir);
    let (state, changed) = (Mutex::new((0, 0)), Condvar::new());
    // Asked by each thread for each of its partitions: nobody goes on before all the others are there.
    let meet = || {
        let mut state_now = state.lock();
        state_now.0 += 1;
        state_now.1 = state_now.1.max(state_now.0);
        changed.notify_all();
        while state_now.1 < THREADS {
            let waited = changed.wait_for(&mut state_now, Duration::from_secs(20));
            assert!(!waited.timed_out(), "{} at a time", state_now.1);
        }
        state_now.0 -= 1;
    };
    let dir = LogDir::open(temp.path(), options()).unwrap();
    let loaded = dir.load_logs(&|_, _| {
        meet();
        Some(small())
    });
    assert_eq!(loaded.unwrap().logs.len(), 3 * THREADS);
    assert_eq!(state.lock().1, THREADS);
}

// L-22
#[test]
fn a_log_that_ends_before_its_start_begins_anew_there() {
    let mut fixture = filled(30);
    fixture.log().delete_records_to(60).unwrap();
    fixture.dir().checkpoint().unwrap();
    let last = *fixture.segment_files().last().unwrap();
    fixture.crash();
    OpenOptions::new()
        .write(true)
        .open(fixture.file(last, "log"))
        .unwrap()
        .set_len(3)
        .unwrap();
    fixture.load();
    let offsets = fixture.log().offsets();
    assert_eq!((offsets.log_start, offsets.log_end), (60, 60));
    assert_eq!(fixture.segment_files(), [60]);
    assert_eq!(fixture.put(Spec::default().build()).base_offset, 60);
}

// L-24
#[test]
fn producers_come_from_the_snapshot_and_the_log_behind_it() {
    let mut fixture = Fixture::new(small(), 0);
    let send = |fixture: &Fixture, pid, sequence| {
        let producer = Some((pid, 0, sequence));
        fixture.put(
            Spec {
                producer,
                value_size: 60,
                ..Spec::count(2)
            }
            .build(),
        )
    };
    for i in 0..20 {
        send(&fixture, i % 3, (i / 3) as i32 * 2);
    }
    for damage in ["none", "newest", "all"] {
        fixture.crash();
        let snapshots = fixture.files_with(".snapshot");
        let newest = *snapshots.last().unwrap();
        for offset in snapshots {
            let path = fixture.file(offset, "snapshot");
            match damage {
                "all" => fs::remove_file(path).unwrap(),
                "newest" if offset == newest => fs::write(path, b"garbage").unwrap(),
                _ => {}
            }
        }
        // A stray one above the end is of a log that was longer.
        fs::write(fixture.file(5000, "snapshot"), b"stray").unwrap();
        fixture.load();
        assert!(send(&fixture, 0, 12).duplicate, "{damage}");
        assert!(send(&fixture, 1, 12).duplicate, "{damage}");
        assert!(send(&fixture, 2, 10).duplicate, "{damage}");
        assert!(!fixture.file(5000, "snapshot").try_exists().unwrap());
    }
}

// L-25
#[test]
fn leftovers_of_deletion_and_cleaning_are_finished() {
    let mut fixture = filled(30);
    let (bases, all) = (fixture.segment_files(), all_bytes(&fixture));
    fixture.close();
    let name = |base: Offset, suffix: &str| fixture.folder().join(format!("{base:020}.{suffix}"));
    // A finished cleaning of segment 1: the swap takes its place.
    fs::copy(name(bases[1], "log"), name(bases[1], "log.swap")).unwrap();
    fs::write(name(bases[1], "log"), b"old").unwrap();
    // An unfinished one of segment 2.
    fs::write(name(bases[2], "log.cleaned"), b"half").unwrap();
    fs::write(name(bases[2], "log.swap"), b"void").unwrap();
    fs::write(name(bases[0], "log.deleted"), b"gone").unwrap();
    fs::write(name(7777, "index"), b"orphan").unwrap();
    fixture.load();
    assert!(all_bytes(&fixture) == all);
    for suffix in [".log.swap", ".log.cleaned", ".log.deleted"] {
        assert_eq!(fixture.files_with(suffix), [], "{suffix}");
    }
    assert_eq!(fixture.segment_files(), bases);
    assert!(!fixture.file(7777, "index").try_exists().unwrap());
}

// L-26
#[test]
fn the_start_of_a_tiered_log_comes_from_the_checkpoint() {
    let config = LogConfig {
        remote: true,
        local_retention_ms: -1,
        local_retention_bytes: 0,
        ..small()
    };
    let mut fixture = Fixture::new(config, 0);
    for _ in 0..30 {
        fixture.put(
            Spec {
                value_size: 50,
                ..Spec::count(2)
            }
            .build(),
        );
    }
    let bases = fixture.segment_files();
    let outcome = fixture
        .log()
        .apply_retention(0, Some(bases[2] - 1))
        .unwrap();
    assert_eq!(
        (outcome.log_start_offset, outcome.local_log_start_offset),
        (0, bases[2])
    );
    fixture.crash();
    fixture.load();
    let offsets = fixture.log().offsets();
    assert_eq!((offsets.log_start, offsets.local_log_start), (0, bases[2]));
    let below = fixture.log().read(1, 10, 100, true);
    assert!(matches!(
        below,
        Err(LogError::OffsetOutOfRange {
            log_start_offset: 0,
            ..
        })
    ));
    assert_eq!(fixture.log().epoch_for_offset(1), Some(0)); // S-13
}

// R-9, L-23: a power cut may take back where the log begins, and leave the epochs of a log that begins there
#[test]
fn epochs_that_begin_behind_the_log_are_found_again() {
    let mut fixture = filled(30);
    fixture.written();
    let log = fixture.log();
    let end = log.log_end_offset();
    log.set_high_watermark(end);
    log.delete_records_to(end - 1).unwrap();
    let file = fixture.folder().join("leader-epoch-checkpoint");
    let begun = std::time::Instant::now();
    while !std::fs::read_to_string(&file)
        .unwrap()
        .ends_with(&format!("0 {}\n", end - 1))
    {
        assert!(begun.elapsed().as_secs() < 20);
        std::thread::yield_now();
    }
    fixture.crash();
    fixture.load();
    let log = fixture.log();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (0, end));
    for offset in 0..end {
        assert_eq!(log.epoch_for_offset(offset), Some(0), "{offset}");
    }
}

// L-27
#[test]
fn the_recovery_point_follows_the_flush_of_rolled_segments() {
    let fixture = filled(30);
    let last = *fixture.segment_files().last().unwrap();
    let begun = std::time::Instant::now();
    while fixture.log().recovery_point() < last {
        assert!(begun.elapsed().as_secs() < 20, "never flushed");
        std::thread::yield_now();
    }
    fixture.log().flush().unwrap();
    assert_eq!(
        fixture.log().recovery_point(),
        fixture.log().log_end_offset()
    );
}

// L-26, S-31: a start that ends before the bucket was asked does not use the knowledge up
#[test]
fn a_power_loss_is_remembered_until_it_does_not_matter() {
    let mut fixture = filled(30);
    assert!(!fixture.dir().power_was_lost());
    fixture.crash();
    fixture.open_dir();
    assert!(
        !fixture.dir().power_was_lost(),
        "only the process was killed"
    );
    fixture.crash();
    let boot_id = fixture.temp.path().join("boot-id");
    fs::write(&boot_id, "another start of the machine").unwrap();
    for _ in 0..2 {
        fixture.load();
        assert!(fixture.dir().power_was_lost());
        fixture.crash();
    }
    fixture.load();
    fixture.close();
    fixture.load();
    assert!(
        fixture.dir().power_was_lost(),
        "a clean end answers no question"
    );
    fixture.dir().forget_power_loss().unwrap();
    fixture.crash();
    fixture.load();
    assert!(!fixture.dir().power_was_lost());
    // After a clean end nothing is lost with the power.
    fixture.close();
    fs::write(&boot_id, "a third start of the machine").unwrap();
    fixture.load();
    assert!(!fixture.dir().power_was_lost());
}
