//! Power cuts at single places: while a start recovers a log (L-20), after a new leader epoch.

use super::*;
use crate::checkpoint::CLEANED_TO;
use crate::segment::SegmentFile;
use crate::sys;

/// A log of several segments that are on the device, the second of them damaged; its base offsets.
fn damaged(root: &Path, history: &mut History) -> Vec<Offset> {
    let dir = open(root);
    let (id, config) = (TopicId::random(), config("plain"));
    let log = dir.create_log(partition("plain"), id, config).unwrap();
    for offset in 0..40 {
        let pair = ("k".to_owned(), format!("v{offset}-{}", "x".repeat(100)));
        let batch = batch(std::slice::from_ref(&pair));
        log.append_as_leader(batch, 0, 0).unwrap();
        history.insert(offset, pair);
    }
    while log.written_end_offset() < log.log_end_offset() {
        std::thread::yield_now();
    }
    let state = log.lock_state();
    let bases: Vec<Offset> = state.segments.iter().map(|s| s.base_offset).collect();
    drop(state);
    let path = SegmentFile::Log.path(log.folder(), bases[1]);
    drop((log, dir));
    let file = sys::open(&path, false).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    sys::write_all_at(&file, &[0xee; 4], middle).unwrap();
    sys::sync_file_system(root).unwrap();
    bases
}

// L-20: all later segments go with what is cut off
#[test]
fn a_power_cut_while_a_log_is_cut_leaves_no_hole() {
    let root = TempDir::new().unwrap();
    let mut history = History::new();
    journal::begin(root.path());
    let bases = damaged(root.path(), &mut history);
    assert!(bases.len() > 4);
    journal::mark(root.path(), "damaged", 0);
    let dir = open(root.path());
    let end = load(&dir)[0].log_end_offset();
    assert!(bases[1] < end && end < bases[2]);
    drop(dir);
    let ops = journal::end(root.path());
    let is_mark = |op: &Op| matches!(op, Op::Mark("damaged", _));
    let begun = ops.iter().position(is_mark).unwrap();
    for at in begun..=ops.len() {
        let mut some = Luck(at as u64);
        let mut some = |end| some.below(end);
        let lucks: [&mut dyn FnMut(usize) -> usize; 3] =
            [&mut |_| 0, &mut |end| end.saturating_sub(1), &mut some];
        for luck in lucks {
            let target = TempDir::new().unwrap();
            let disk = Disk::after_cut(&ops, at, luck);
            disk.write_to(root.path(), target.path()).unwrap();
            let dir = open(target.path());
            let log = load(&dir).remove(0);
            let expected: History = history.range(..log.log_end_offset()).map(own).collect();
            assert_eq!(read(&log).0, expected, "a cut before {:?}", ops.get(at));
        }
    }
}

// P-60, L-32: at a stop the snapshot is written once more, in the place of one that was flushed
#[test]
fn a_producer_whose_batches_were_deleted_survives_a_power_cut_during_the_stop() {
    let root = TempDir::new().unwrap();
    journal::begin(root.path());
    let dir = open(root.path());
    let (id, config) = (TopicId::random(), config("plain"));
    let log = dir.create_log(partition("plain"), id, config).unwrap();
    let pair = ("k".to_owned(), "v".to_owned());
    for pid in PRODUCERS {
        let builder = builder().with_producer(pid, 0, 0);
        let batch = built(builder, std::slice::from_ref(&pair));
        log.append_as_leader(batch, 0, 0).unwrap();
    }
    while log.written_end_offset() < 2 {
        std::thread::yield_now();
    }
    log.set_high_watermark(2);
    log.flush().unwrap();
    log.delete_records_to(2).unwrap();
    log.persist_log_start().unwrap();
    assert_eq!(log.apply_retention(0, None).unwrap().deleted_segments, 1);
    journal::mark(root.path(), "stop", 0);
    drop(log);
    dir.close().unwrap();
    drop(dir);
    let ops = journal::end(root.path());
    let is_mark = |op: &Op| matches!(op, Op::Mark("stop", _));
    let begun = ops.iter().position(is_mark).unwrap();
    for at in begun..=ops.len() {
        // All names that there were, and no byte that was not flushed.
        let mut luck = |end: usize| if end == 2 { 0 } else { end.saturating_sub(1) };
        let target = TempDir::new().unwrap();
        let disk = Disk::after_cut(&ops, at, &mut luck);
        disk.write_to(root.path(), target.path()).unwrap();
        let log = load(&open(target.path())).remove(0);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (2, 2));
        assert_eq!(log.producers().len(), 2, "a cut before {:?}", ops.get(at));
    }
}

// L-20: the name of a segment may be on the device before the end of the one before is
#[test]
fn what_follows_an_end_that_was_not_flushed_goes() {
    for (name, left) in [("plain", 0), ("plain", 1), ("table", 0), ("table", 1)] {
        let root = TempDir::new().unwrap();
        let dir = open(root.path());
        let (id, config) = (TopicId::random(), config(name));
        let log = dir.create_log(partition(name), id, config).unwrap();
        let pair = ("k".to_owned(), "v".to_owned());
        let send = |log: &Log, sequence: i32| {
            let builder = builder().with_producer(PRODUCERS[0], 0, sequence);
            log.append_as_leader(built(builder, std::slice::from_ref(&pair)), 0, 0)
        };
        send(&log, 0).unwrap();
        log.roll(0).unwrap();
        log.flush_appended().unwrap();
        dir.checkpoint().unwrap();
        send(&log, 1).unwrap();
        let size = log.size_in_bytes() / 2;
        send(&log, 2).unwrap();
        log.roll(0).unwrap();
        send(&log, 3).unwrap();
        log.roll(0).unwrap();
        while log.lock_state().writing < 4 {
            std::thread::yield_now();
        }
        let folder = log.folder().to_path_buf();
        drop((log, dir));
        let file = sys::open(&SegmentFile::Log.path(&folder, 1), false).unwrap();
        file.set_len(left * size).unwrap();
        let dir = open(root.path());
        let log = load(&dir).remove(0);
        let end = 1 + left as i64;
        assert_eq!(log.log_end_offset(), end, "{name}");
        assert_eq!(log.active_base_offset(), 1);
        let again = send(&log, end as i32).unwrap();
        assert!(!again.duplicate && again.base_offset == end);
    }
}

// L-32: what retention has not removed of what it took out explains a gap behind it
#[test]
fn a_gap_behind_what_retention_left_loses_nothing() {
    let root = TempDir::new().unwrap();
    let dir = open(root.path());
    let (id, config) = (TopicId::random(), config("plain"));
    let log = dir.create_log(partition("plain"), id, config).unwrap();
    dir.checkpoint().unwrap();
    let pair = ("k".to_owned(), "v".to_owned());
    for end in 1..=4 {
        let batch = built(builder(), std::slice::from_ref(&pair));
        log.append_as_leader(batch, 0, 0).unwrap();
        log.roll(0).unwrap();
        while log.lock_state().writing < end {
            std::thread::yield_now();
        }
    }
    log.set_high_watermark(4);
    log.delete_records_to(2).unwrap();
    log.persist_log_start().unwrap();
    let folder = log.folder().to_path_buf();
    drop((log, dir));
    std::fs::remove_file(SegmentFile::Log.path(&folder, 1)).unwrap();
    let dir = open(root.path());
    let log = load(&dir).remove(0);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (2, 4));
}

// L-42, L-20: what was cleaned is below the recovery point of the checkpoint, also when the round did not end
#[test]
fn a_gap_that_a_cleaning_left_is_none_that_a_power_cut_left() {
    let root = TempDir::new().unwrap();
    let dir = open(root.path());
    let (id, config) = (TopicId::random(), config("table"));
    let log = dir.create_log(partition("table"), id, config).unwrap();
    dir.checkpoint().unwrap();
    for (key, size) in [("a", 800), ("b", 1), ("b", 1200), ("c", 1000)] {
        let pair = (key.to_owned(), "x".repeat(size));
        log.append_as_leader(batch(std::slice::from_ref(&pair)), 0, 0)
            .unwrap();
    }
    while log.written_end_offset() < 4 {
        std::thread::yield_now();
    }
    log.set_high_watermark(4);
    let cleaner = LogCleaner::new(CleanerOptions::default());
    let logs = [Arc::clone(&log)];
    assert!(cleaner.clean_dirtiest(&logs, 0).report().is_some());
    let found = read(&log).0;
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 2, 3]);
    drop((logs, log, dir));
    std::fs::remove_file(root.path().join(CLEANED_TO)).unwrap();
    let dir = open(root.path());
    assert!(read(&load(&dir)[0]).0 == found);
}

fn own((offset, pair): (&Offset, &(String, String))) -> (Offset, (String, String)) {
    (*offset, pair.clone())
}

// R-9, L-23: those of what is no longer on the disk cannot be told from batches
#[test]
fn the_leader_epochs_of_what_was_flushed_survive_a_power_cut() {
    let root = TempDir::new().unwrap();
    journal::begin(root.path());
    let dir = open(root.path());
    let (id, config) = (TopicId::random(), config("tiered"));
    let log = dir.create_log(partition("tiered"), id, config).unwrap();
    let append = |epoch| {
        let pair = ("k".to_owned(), "v".to_owned());
        let batch = batch(std::slice::from_ref(&pair));
        log.append_as_leader(batch, epoch, 0).unwrap();
        while log.written_end_offset() < log.log_end_offset() {
            std::thread::yield_now();
        }
        log.set_high_watermark(log.log_end_offset());
    };
    append(1);
    log.roll(0).unwrap();
    while log.lock_state().writing == 0 {
        std::thread::yield_now();
    }
    let outcome = log.apply_retention(0, Some(0)).unwrap();
    assert_eq!(
        (outcome.deleted_segments, outcome.local_log_start_offset),
        (1, 1)
    );
    append(3);
    log.flush().unwrap();
    let epochs = log.leader_epochs();
    assert_eq!(epochs.entries().len(), 2);
    drop((log, dir));
    let ops = journal::end(root.path());
    let target = TempDir::new().unwrap();
    let disk = Disk::after_cut(&ops, ops.len(), &mut |_| 0);
    disk.write_to(root.path(), target.path()).unwrap();
    assert_eq!(load(&open(target.path()))[0].leader_epochs(), epochs);
}

// P-60, L-32: when all its batches were deleted, a producer is known from the snapshot alone
#[test]
fn a_producer_whose_batches_were_deleted_survives_a_power_cut() {
    for _ in 0..10 {
        let root = TempDir::new().unwrap();
        journal::begin(root.path());
        let dir = open(root.path());
        let (id, config) = (TopicId::random(), config("plain"));
        let log = dir.create_log(partition("plain"), id, config).unwrap();
        let pair = ("k".to_owned(), "v".to_owned());
        let batch = built(
            builder().with_producer(PRODUCERS[0], 0, 0),
            std::slice::from_ref(&pair),
        );
        log.append_as_leader(batch, 0, 0).unwrap();
        while log.written_end_offset() < 1 {
            std::thread::yield_now();
        }
        log.set_high_watermark(1);
        log.flush().unwrap();
        log.delete_records_to(1).unwrap();
        log.persist_log_start().unwrap();
        assert_eq!(log.apply_retention(0, None).unwrap().deleted_segments, 1);
        drop((log, dir));
        let ops = journal::end(root.path());
        let target = TempDir::new().unwrap();
        let disk = Disk::after_cut(&ops, ops.len(), &mut |_| 0);
        disk.write_to(root.path(), target.path()).unwrap();
        let log = load(&open(target.path())).remove(0);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (1, 1));
        assert!(log.producers().contains_key(&PRODUCERS[0]));
    }
}
