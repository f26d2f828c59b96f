//! What consumers see of a log.

use std::collections::{BTreeMap, BTreeSet};

use strandline_log::Log;
use strandline_records::{Batch, EndTransactionMarker, Record, records};
use strandline_types::Offset;

/// All batches from `start` to the written end or a later one, read in small steps.
pub(crate) fn batches(log: &Log, start: Offset) -> Vec<Batch> {
    let mut end = log.written_end_offset();
    let (mut at, mut all) = (start, Vec::new());
    while at < end {
        let read = log.read(at, 700, end, true).unwrap();
        let some = read.batches().unwrap();
        if read.end_offset == at {
            // Only if all that was left below our end was replaced by what came behind it meanwhile:
            // a consumer looks for the end again, and must find what replaced it.
            let before = std::mem::replace(&mut end, log.written_end_offset());
            assert!(end > before, "no progress at {at}");
            continue;
        }
        let mut expected = at;
        for batch in &some {
            let header = batch.header();
            assert!(batch.verify_crc().is_ok());
            assert!(
                header.last_offset() >= expected,
                "out of order at {expected}"
            );
            expected = header.next_offset();
        }
        at = read.end_offset;
        all.extend(some);
    }
    all
}

/// Data records from `start` on, as a consumer with `read_uncommitted` gets them.
pub(crate) fn uncommitted(log: &Log, start: Offset) -> Vec<Record> {
    let data = batches(log, start)
        .into_iter()
        .filter(|b| !b.header().attributes.is_control());
    let all = data.flat_map(|b| {
        records(&b, 1 << 20)
            .unwrap()
            .map(Result::unwrap)
            .collect::<Vec<_>>()
    });
    all.filter(|r| r.offset >= start).collect()
}

/// As a consumer with `read_committed` does it: up to the last stable offset, by the list of aborted
/// transactions and the markers (F-31).
pub(crate) fn committed(log: &Log, start: Offset) -> Vec<Record> {
    let end = log.last_stable_offset();
    let mut ahead = log.aborted_transactions(start, end).unwrap();
    ahead.reverse();
    let (mut aborted, mut found) = (BTreeSet::new(), Vec::new());
    for batch in batches(log, start) {
        let header = batch.header();
        if header.base_offset >= end {
            break;
        }
        while let Some(next) = ahead.pop_if(|a| a.first_offset <= header.last_offset()) {
            aborted.insert(next.producer_id);
        }
        if header.attributes.is_control() {
            let marker = EndTransactionMarker::of_batch(&batch).unwrap();
            if marker.is_some_and(|m| !m.committed) {
                aborted.remove(&header.producer_id);
            }
        } else if !header.attributes.is_transactional() || !aborted.contains(&header.producer_id) {
            found.extend(records(&batch, 1 << 20).unwrap().map(Result::unwrap));
        }
    }
    found.retain(|r| r.offset >= start);
    found
}

/// The last value of each key; without those that were deleted.
pub(crate) fn table(records: &[Record]) -> BTreeMap<String, String> {
    let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
    let mut table = BTreeMap::new();
    for record in records {
        let key = text(record.key.as_ref().unwrap());
        match &record.value {
            Some(value) => table.insert(key, text(value)),
            None => table.remove(&key),
        };
    }
    table
}

pub(crate) fn offsets(records: &[Record]) -> Vec<Offset> {
    records.iter().map(|r| r.offset).collect()
}
