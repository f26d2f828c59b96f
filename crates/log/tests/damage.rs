//! Files full of anything: loading ends with a log or an error, never with a panic (L-20, L-21).

use std::fs;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;
use strandline_records::EndTransactionMarker;
use strandline_types::Offset;

use crate::support::{Fixture, Spec, small};

fn filled() -> Fixture {
    let mut fixture = Fixture::new(small(), 0);
    for i in 0..30 {
        let producer = (i % 3 == 0).then_some((i as i64, 0, 0));
        fixture.put(
            Spec {
                producer,
                value_size: i * 7 % 90,
                ..Spec::count(1 + i % 3)
            }
            .build(),
        );
        if i % 10 == 5 {
            in_transaction(&fixture, i as i32 / 10 * 2);
        }
    }
    assert_ne!(fixture.files_with(".txnindex"), []);
    fixture.close();
    fixture
}

/// A transaction that is aborted, and another that stays open.
fn in_transaction(fixture: &Fixture, sequence: i32) {
    let of = |pid| Spec {
        producer: Some((pid, 0, sequence)),
        transactional: true,
        ..Spec::count(2)
    };
    fixture.put(of(100).build());
    fixture.put(of(101).build());
    let abort = EndTransactionMarker {
        committed: false,
        coordinator_epoch: 0,
    };
    fixture.put(abort.to_batch(100, 0, 1000).unwrap());
}

fn all_files(fixture: &Fixture) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in [fixture.temp.path().to_path_buf(), fixture.folder()] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_file() && name != ".lock" && name != "meta.properties" {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Loads and reads all; what comes back is consistent or an error.
fn load_and_read(fixture: &mut Fixture) {
    if fixture.try_load().is_err() {
        return fixture.crash();
    }
    let log = fixture.log();
    let offsets = log.offsets();
    assert!(offsets.local_log_start <= offsets.log_end);
    let mut at = offsets.local_log_start;
    while at < offsets.log_end {
        let Ok(read) = log.read(at, 300, Offset::MAX, true) else {
            break;
        };
        assert!(read.end_offset > at);
        at = read.end_offset;
    }
    drop(log.offset_for_timestamp(1000, Offset::MAX));
    drop(log.max_timestamp_record());
    drop(log.aborted_transactions(0, Offset::MAX));
    if let Ok(sealed) = log.sealed_segments(0, Offset::MAX) {
        for segment in sealed {
            drop((segment.producer_snapshot(), segment.min_timestamp()));
        }
    }
    if fixture.append(Spec::default().build()).is_ok() {
        fixture.written();
    }
    fixture.crash();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 500, ..Default::default() })]

    #[test]
    fn flipped_and_foreign_bytes_never_stop_the_start(
        damage in vec((any::<usize>(), any::<u16>(), any::<u8>(), 0..6_u8), 1..6),
        clean in any::<bool>(),
    ) {
        let mut fixture = filled();
        if !clean {
            fs::remove_file(fixture.temp.path().join(".kafka_cleanshutdown")).unwrap();
        }
        let files = all_files(&fixture);
        for (which, at, value, kind) in damage {
            let path = &files[which % files.len()];
            let mut bytes = fs::read(path).unwrap_or_default();
            let at = usize::from(at) % (bytes.len() + 1);
            match kind {
                0..=2 => bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= value),
                3 => bytes.truncate(at),
                4 => bytes.extend(vec![value; at]),
                _ => bytes = vec![value; at],
            }
            fs::write(path, bytes).unwrap();
        }
        load_and_read(&mut fixture);
        load_and_read(&mut fixture);
    }
}
