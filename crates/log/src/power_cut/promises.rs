//! What must be there after a cut.

use super::*;

/// Every record that can be read, by offset: all of them, and those that a committed reader gets,
/// who leaves out what he is told is aborted.
pub(super) fn read(log: &Log) -> (History, History) {
    let (mut at, mut found) = (log.log_start_offset(), History::new());
    let (end, mut committed) = (log.log_end_offset(), History::new());
    let (stable, aborted) = (
        log.last_stable_offset(),
        log.aborted_transactions(0, end).unwrap(),
    );
    while at < log.log_end_offset() {
        let read = log.read(at, 500, Offset::MAX, true).unwrap();
        assert!(read.end_offset > at);
        for batch in read.batches().unwrap() {
            assert!(batch.verify_crc().is_ok());
            let header = batch.header();
            if header.attributes.is_control() {
                continue;
            }
            let is_hidden = aborted.iter().any(|a| {
                let span = a.first_offset..=a.last_offset;
                a.producer_id == header.producer_id && span.contains(&header.base_offset)
            });
            for record in records(&batch, 1 << 20).unwrap() {
                let record = record.unwrap();
                let text =
                    |b: Option<bytes::Bytes>| String::from_utf8(b.unwrap().to_vec()).unwrap();
                let pair = (text(record.key), text(record.value));
                if !is_hidden && record.offset < stable {
                    committed.insert(record.offset, pair.clone());
                }
                found.insert(record.offset, pair);
            }
        }
        at = read.end_offset;
    }
    (found, committed)
}

fn table<'h>(
    history: impl Iterator<Item = (&'h Offset, &'h (String, String))>,
) -> BTreeMap<&'h str, &'h str> {
    history
        .map(|(_, (key, value))| (key.as_str(), value.as_str()))
        .collect()
}

/// A cut before the op `at`; `luck` decides about what was not flushed.
pub(super) fn check(
    root: &Path,
    ops: &[Op],
    done: &[Done; 4],
    at: usize,
    luck: &mut dyn FnMut(usize) -> usize,
) {
    let promised = |name: &str| {
        let marks = ops[..at].iter().filter_map(|op| match op {
            Op::Mark(what, end) if *what == name => Some(*end),
            _ => None,
        });
        marks.max().unwrap_or(0)
    };
    let target = TempDir::new().unwrap();
    let disk = Disk::after_cut(ops, at, luck);
    disk.write_to(root, target.path()).unwrap();
    std::fs::write(target.path().join("boot-id"), "another").unwrap();
    let dir = open(target.path());
    for log in load(&dir) {
        let name = log.partition().topic.to_string();
        let which = NAMES.iter().position(|n| *n == name).unwrap();
        let (end, done) = (log.log_end_offset(), &done[which]);
        log.set_high_watermark(end);
        let (mut found, mut committed) = read(&log);
        let start = log.log_start_offset();
        assert!(
            start >= promised(STARTS[which]),
            "{name} begins at {start}, what lies below {} was deleted",
            promised(STARTS[which])
        );
        // A batch is read as a whole.
        found.retain(|offset, _| *offset >= start);
        committed.retain(|offset, _| *offset >= start);
        assert!(
            end >= promised(&name),
            "{name} ends at {end}, {} were promised",
            promised(&name)
        );
        let appended = || done.history.range(start..end);
        for (offset, record) in &found {
            assert_eq!(
                done.history.get(offset),
                Some(record),
                "{name}, offset {offset}"
            );
            let (epoch, told) = (log.epoch_for_offset(*offset), done.epoch(*offset));
            assert_eq!(epoch, Some(told), "R-9: {name}, offset {offset}");
        }
        if name == "table" {
            // Of what is not decided yet both are there.
            let expected = done.committed(end);
            assert_eq!(
                table(committed.iter()),
                table(expected.iter()),
                "{name} up to {end}"
            );
        } else {
            assert_eq!(found.len(), appended().count(), "{name} up to {end}");
            let mut expected = done.committed(end);
            expected.retain(|offset, _| *offset >= start);
            assert_eq!(committed, expected, "{name} up to {end}");
            let aborted = log.aborted_transactions(0, end).unwrap().into_iter();
            let aborted = aborted.map(|a| (a.producer_id, a.first_offset, a.last_offset));
            let aborted: Vec<_> = aborted.filter(|(_, first, _)| *first >= start).collect();
            let mut expected = done.aborted(end);
            expected.retain(|(_, first, _)| *first >= start);
            assert_eq!(aborted, expected, "F-31: {name} up to {end}");
        }
        assert_eq!(
            log.last_stable_offset(),
            done.stable(end),
            "F-30: {name} up to {end}"
        );
        check_producers(&log, done, end);
        // It goes on.
        let end = log.log_end_offset();
        let pairs = [("k".to_owned(), "v".to_owned())];
        let next = log.append_as_leader(batch(&pairs), 0, 0).unwrap();
        assert_eq!(next.base_offset, end);
    }
    for name in NAMES {
        // Of one that was never flushed the cut may take everything.
        assert!(
            dir.log(&partition(name)).is_some() || promised(name) == 0,
            "{name} is gone"
        );
    }
}

/// Each producer goes on where the log has it, and nowhere else (P-53, P-60).
fn check_producers(log: &Log, done: &Done, end: Offset) {
    let pairs = [("k".to_owned(), "v".to_owned())];
    for pid in PRODUCERS {
        let next = done.next_sequence(pid, end);
        if next == 0 {
            continue;
        }
        let send = |sequence: i32| {
            let builder = builder().with_producer(pid, 0, sequence).transactional();
            log.append_as_leader(built(builder, &pairs), 0, 0)
        };
        let gap = send(next + 1);
        assert!(
            matches!(gap, Err(AppendError::OutOfOrderSequence { expected, .. }) if expected == next),
            "P-60: {} up to {end}: {gap:?}",
            log.partition()
        );
        assert!(!send(next).unwrap().duplicate);
    }
}
