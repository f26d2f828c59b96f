//! Power cuts at single places: while a start recovers a log (L-20), after a new leader epoch.

use super::*;
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
