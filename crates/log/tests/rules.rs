//! Named rules of appending, reading, looking up by time, and failing.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc;

use parking_lot::Mutex;
use strandline_log::{
    AppendError, FetchPart, LogConfig, LogDir, LogDirOptions, LogError, TailBudget,
};
use strandline_records::{Compression, EndTransactionMarker};
use strandline_types::{BrokerId, Offset, TimestampType, TopicId};

use crate::support::{Fixture, Progress, Spec, bytes_of, partition, small, stored};

// P-50: also while the original is not written
#[test]
fn a_duplicate_of_an_unwritten_batch_has_its_offsets_and_must_be_waited_for() {
    let fixture = Fixture::new(small(), 1 << 20);
    let (go, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let (told, reached) = mpsc::channel();
    fixture.log().set_on_written(Box::new(move |end| {
        told.send(end.unwrap()).unwrap();
        let _ = gate.lock().recv();
    }));
    fixture.append(Spec::count(2).build()).unwrap();
    assert_eq!(reached.recv().unwrap(), 2); // the writer is held in the callback now
    let spec = Spec {
        producer: Some((5, 0, 0)),
        ..Spec::count(3)
    };
    let first = fixture.append(spec.build()).unwrap();
    let again = fixture.append(spec.build()).unwrap();
    assert!(again.duplicate && !first.duplicate);
    assert_eq!((again.base_offset, again.last_offset), (2, 4));
    assert_eq!(fixture.log().written_end_offset(), 2);
    // It can be read from memory all the same.
    let read = fixture
        .log()
        .read_from_memory(2, 10_000, Offset::MAX, true)
        .unwrap()
        .unwrap();
    assert_eq!(bytes_of(&read), stored(spec.build(), 2));
    drop(go);
    assert_eq!(reached.recv().unwrap(), 5);
    assert_eq!(fixture.log().written_end_offset(), 5);
}

// P-23, P-83
#[test]
fn what_an_append_answers() {
    let fixture = Fixture::new(small(), 1 << 20);
    let large = fixture.append(
        Spec {
            value_size: 2000,
            ..Spec::default()
        }
        .build(),
    );
    assert!(matches!(
        large,
        Err(AppendError::BatchLargerThanSegment {
            segment_bytes: 1000,
            ..
        })
    ));
    assert_eq!(fixture.put(Spec::default().build()).log_append_time_ms, -1);
    let mut batch = Spec {
        producer: Some((1, 0, 0)),
        ..Spec::default()
    }
    .build();
    batch.set_timestamps(TimestampType::LogAppendTime, 777);
    assert_eq!(fixture.put(batch.clone()).log_append_time_ms, 777);
    let again = fixture.put(batch);
    assert!(again.duplicate);
    assert_eq!((again.base_offset, again.log_append_time_ms), (1, 777));
}

// F-20, F-10
#[test]
fn out_of_range_is_below_the_start_or_above_the_end_and_nothing_else() {
    let fixture = Fixture::new(small(), 0);
    fixture.put(Spec::count(5).build());
    fixture.log().delete_records_to(2).unwrap();
    let read = |at, upper| fixture.log().read(at, 10_000, upper, true);
    assert!(matches!(
        read(1, 9),
        Err(LogError::OffsetOutOfRange {
            log_start_offset: 2,
            ..
        })
    ));
    assert!(matches!(
        read(6, 9),
        Err(LogError::OffsetOutOfRange {
            log_end_offset: 5,
            ..
        })
    ));
    assert!(read(5, 9).unwrap().parts.is_empty());
    assert_eq!(read(2, 9).unwrap().end_offset, 5); // the whole batch, though it begins at 0
    assert!(read(2, 4).unwrap().parts.is_empty()); // never at or above the upper bound
    assert!(read(2, 2).unwrap().parts.is_empty());
}

// F-4
#[test]
fn a_batch_larger_than_the_budget_comes_whole_or_not_at_all() {
    for tail in [0, 1 << 20] {
        let fixture = Fixture::new(small(), tail);
        fixture.put(
            Spec {
                value_size: 500,
                ..Spec::default()
            }
            .build(),
        );
        fixture.put(Spec::default().build());
        let one = fixture.log().read(0, 10, Offset::MAX, true).unwrap();
        assert_eq!((one.end_offset, one.parts.len()), (1, 1));
        let none = fixture.log().read(0, 10, Offset::MAX, false).unwrap();
        assert_eq!((none.end_offset, none.parts.len()), (0, 0));
    }
}

// DESIGN §3
#[test]
fn the_tail_serves_from_memory_and_files_the_rest() {
    let fixture = Fixture::new(LogConfig::default(), 40_000);
    for _ in 0..100 {
        fixture.put(
            Spec {
                value_size: 1000,
                ..Spec::default()
            }
            .build(),
        );
    }
    assert!(fixture.log().read_from_memory(0, 10, 100, true).is_none());
    let read = fixture
        .log()
        .read_from_memory(99, 10, 100, true)
        .unwrap()
        .unwrap();
    assert!(matches!(read.parts.as_slice(), [FetchPart::Batch(_)]));
    let read = fixture.read(0, 1 << 20);
    assert!(matches!(read.parts.as_slice(), [FetchPart::File(_)]));
    assert_eq!(read.end_offset, 100);
    assert!(matches!(
        fixture.log().read_from_memory(101, 10, 200, true),
        Some(Err(LogError::OffsetOutOfRange { .. }))
    ));
}

// O-5
#[test]
fn a_time_finds_the_first_record_not_the_first_batch() {
    let mut fixture = Fixture::new(small(), 0);
    let lz4 = |times: &[i64]| Spec {
        compression: Compression::Lz4,
        ..Spec::at(times)
    };
    for times in [
        [100, 110, 120],
        [130, 90, 150],
        [140, 145, 149],
        [160, 170, 180],
    ] {
        for _ in 0..4 {
            fixture.put(lz4(&times).build());
        }
    }
    for round in 0..3 {
        let find = |ts, upper| {
            let found = fixture.log().offset_for_timestamp(ts, upper).unwrap();
            found.map(|f| (f.offset, f.timestamp))
        };
        assert_eq!(find(0, 100), Some((0, 100)));
        assert_eq!(find(100, 100), Some((0, 100)));
        assert_eq!(find(111, 100), Some((2, 120)));
        assert_eq!(find(121, 100), Some((12, 130)));
        assert_eq!(find(131, 100), Some((14, 150)));
        assert_eq!(find(151, 100), Some((36, 160)));
        assert_eq!(find(180, 100), Some((38, 180)));
        assert_eq!(find(181, 100), None);
        assert_eq!(find(180, 38), None); // O-2
        let max = fixture.log().max_timestamp_record().unwrap().unwrap(); // O-9
        assert_eq!((max.offset, max.timestamp, max.leader_epoch), (38, 180, 0));
        match round {
            0 => fixture.reopen_cleanly(),
            _ => fixture.reopen_after_crash(),
        }
    }
    let mut batch = Spec::at(&[1, 2, 3]).build();
    batch.set_timestamps(TimestampType::LogAppendTime, 500);
    fixture.put(batch);
    let found = fixture
        .log()
        .offset_for_timestamp(400, 100)
        .unwrap()
        .unwrap();
    assert_eq!((found.offset, found.timestamp), (48, 500));
    let max = fixture.log().max_timestamp_record().unwrap().unwrap();
    assert_eq!((max.offset, max.timestamp), (48, 500));
    fixture.log().delete_records_to(50).unwrap();
    let found = fixture.log().offset_for_timestamp(0, 100).unwrap().unwrap();
    assert_eq!((found.offset, found.timestamp), (50, 500));
}

// O-9
#[test]
fn the_greatest_time_of_an_empty_log_is_none() {
    let fixture = Fixture::new(small(), 0);
    assert_eq!(fixture.log().max_timestamp_record().unwrap(), None);
    fixture.put(Spec::at(&[-1]).build());
    assert_eq!(fixture.log().max_timestamp_record().unwrap(), None);
    assert_eq!(fixture.log().offset_for_timestamp(0, 100).unwrap(), None);
}

// F-30, F-31, T-42: over segments and restarts
#[test]
fn aborted_transactions_are_found_where_they_overlap() {
    let mut fixture = Fixture::new(
        LogConfig {
            segment_bytes: 250,
            ..small()
        },
        0,
    );
    let data = |pid, sequence| Spec {
        producer: Some((pid, 0, sequence)),
        transactional: true,
        ..Spec::count(2)
    };
    let end = |fixture: &Fixture, pid, committed| {
        let marker = EndTransactionMarker {
            committed,
            coordinator_epoch: 0,
        };
        fixture.put(marker.to_batch(pid, 0, 1000).unwrap())
    };
    fixture.put(data(1, 0).build()); // 0, 1
    fixture.put(data(2, 0).build()); // 2, 3
    assert_eq!(fixture.log().last_stable_offset(), 0);
    end(&fixture, 1, false); // 4
    assert_eq!(fixture.log().last_stable_offset(), 2);
    fixture.put(data(1, 2).build()); // 5, 6
    end(&fixture, 2, true); // 7
    end(&fixture, 1, false); // 8
    fixture.put(Spec::count(3).build()); // 9..12
    fixture.put(data(3, 0).build()); // 12, 13
    assert!(fixture.log().segment_count() > 2);
    for round in 0..4 {
        let aborted = |from, to| -> Vec<(i64, Offset, Offset)> {
            let found = fixture.log().aborted_transactions(from, to).unwrap();
            found
                .iter()
                .map(|a| (a.producer_id, a.first_offset, a.last_offset))
                .collect()
        };
        assert_eq!(aborted(0, 2), [(1, 0, 4)]);
        assert_eq!(aborted(0, 14), [(1, 0, 4), (1, 5, 8)]);
        assert_eq!(aborted(5, 6), [(1, 5, 8)]);
        assert_eq!(aborted(9, 14), []);
        assert_eq!(fixture.log().last_stable_offset(), 12);
        match round {
            0 => fixture.reopen_cleanly(),
            1 => fixture.reopen_after_crash(),
            _ => {
                // The indexes of all segments are made anew.
                fixture.close();
                for base in fixture.files_with(".index") {
                    std::fs::remove_file(fixture.file(base, "index")).unwrap();
                    drop(std::fs::remove_file(fixture.file(base, "txnindex")));
                }
                fixture.load();
            }
        }
        fixture.written();
    }
}

// L-1…L-4 and the promise of DESIGN §3: sizes exact, blocks given back
#[test]
fn reserved_blocks_do_not_show_in_the_size_and_go_back_at_a_roll() {
    let fixture = Fixture::new(LogConfig::default(), 0);
    for _ in 0..20 {
        fixture.put(
            Spec {
                value_size: 10_000,
                ..Spec::default()
            }
            .build(),
        );
    }
    let size = fixture.log().size_in_bytes();
    let file = fixture.file(0, "log");
    let before = std::fs::metadata(&file).unwrap();
    assert_eq!(before.len(), size);
    fixture.log().roll(0).unwrap();
    fixture.put(Spec::default().build());
    let after = std::fs::metadata(&file).unwrap();
    assert_eq!(after.len(), size);
    assert!(
        after.blocks() * 512 < size + 64 * 1024,
        "{} blocks",
        after.blocks()
    );
}

// A failed write acknowledges nothing, and takes the directory offline.
#[test]
fn a_full_device_takes_the_directory_offline() {
    let fixture = Fixture::new(small(), 1 << 20);
    let (told, offline) = mpsc::channel();
    let told = Mutex::new(told);
    fixture.dir().on_offline(Box::new(move |fault| {
        told.lock().send(fault.to_string()).unwrap();
    }));
    let file = fixture.file(0, "log");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    fixture.append(Spec::count(2).build()).unwrap();
    let _ = fixture.append(Spec::count(2).build());
    let error = fixture.progress.as_ref().unwrap().wait(fixture.log(), 2);
    assert!(matches!(error, Some(LogError::Storage(_))), "{error:?}");
    assert!(offline.recv().unwrap().contains("is offline: write"));
    assert!(fixture.dir().is_offline());
    assert_eq!(fixture.log().written_end_offset(), 0);
    assert_eq!(fixture.dir().backlog_bytes(), 0);
    let append = fixture.append(Spec::default().build());
    assert!(matches!(
        append,
        Err(AppendError::Log(LogError::Storage(_)))
    ));
    assert!(matches!(
        fixture.log().read(0, 1, 10, true),
        Err(LogError::Storage(_))
    ));
    let (told, offline) = mpsc::channel();
    let told = Mutex::new(told);
    fixture
        .dir()
        .on_offline(Box::new(move |_| told.lock().send(()).unwrap()));
    offline.recv().unwrap(); // at once, now that it is
    assert!(fixture.dir().close().is_err());
    assert!(
        !fixture
            .temp
            .path()
            .join(".kafka_cleanshutdown")
            .try_exists()
            .unwrap()
    );
}

#[test]
fn a_directory_in_use_or_of_someone_else_is_refused() {
    let mut fixture = Fixture::new(small(), 0);
    let open = |cluster: &str, node| {
        let options = LogDirOptions::new(cluster, BrokerId(node), TailBudget::new(0));
        LogDir::open(fixture.temp.path(), options).map(drop)
    };
    assert!(matches!(
        open("a-cluster", 1),
        Err(LogError::DirectoryInUse(_))
    ));
    let id = fixture.dir().directory_id().to_owned();
    fixture.close();
    let open = |cluster: &str, node| {
        let options = LogDirOptions::new(cluster, BrokerId(node), TailBudget::new(0));
        LogDir::open(fixture.temp.path(), options).map(drop)
    };
    let text = open("other", 1).unwrap_err().to_string();
    assert!(
        text.contains("a-cluster") && text.contains("other"),
        "{text}"
    );
    let text = open("a-cluster", 2).unwrap_err().to_string();
    assert!(text.contains("node 1") && text.contains("node 2"), "{text}");
    fixture.load();
    assert_eq!(fixture.dir().directory_id(), id);
}

// O-21, R-9
#[test]
fn epochs_are_kept_over_restarts() {
    let mut fixture = Fixture::new(small(), 0);
    let log = Arc::clone(fixture.log());
    log.assign_epoch(3).unwrap();
    log.append_as_leader(Spec::count(4).build(), 3, 0).unwrap();
    log.append_as_leader(Spec::count(4).build(), 5, 0).unwrap();
    fixture.written();
    drop(log);
    for round in 0..3 {
        let log = fixture.log();
        assert_eq!(log.latest_epoch(), Some(5));
        assert_eq!(
            (log.epoch_for_offset(3), log.epoch_for_offset(4)),
            (Some(3), Some(5))
        );
        assert_eq!(log.end_offset_for_epoch(4).end_offset, 4);
        assert_eq!(log.end_offset_for_epoch(5).end_offset, 8);
        if round == 1 {
            fixture.crash();
            std::fs::remove_file(fixture.folder().join("leader-epoch-checkpoint")).unwrap();
            fixture.load();
        } else {
            fixture.reopen_cleanly();
        }
    }
}

// flush.messages
#[test]
fn a_flush_comes_before_the_acknowledgement_when_asked_for() {
    let fixture = Fixture::new(
        LogConfig {
            flush_messages: 1,
            ..small()
        },
        0,
    );
    let log = Arc::downgrade(fixture.log());
    let (told, seen) = mpsc::channel();
    fixture.log().set_on_written(Box::new(move |end| {
        let log = log.upgrade().unwrap();
        told.send((end.unwrap(), log.recovery_point())).unwrap();
    }));
    for _ in 0..30 {
        fixture
            .append(
                Spec {
                    value_size: 100,
                    ..Spec::count(2)
                }
                .build(),
            )
            .unwrap();
        let (end, flushed) = seen.recv().unwrap();
        assert_eq!(end, flushed);
    }
    assert!(fixture.log().segment_count() > 2);
}

// flush.ms
#[test]
fn a_flush_comes_in_time_without_further_appends() {
    let fixture = Fixture::new(
        LogConfig {
            flush_ms: 1,
            ..small()
        },
        0,
    );
    for round in 1..=3 {
        fixture.put(Spec::default().build());
        let begun = std::time::Instant::now();
        while fixture.log().recovery_point() < round {
            assert!(begun.elapsed().as_secs() < 20, "never flushed");
            std::thread::yield_now();
        }
    }
}

// L-27: a setting is in force when it is set, not when the flush of the old one is due
#[test]
fn a_flush_comes_in_time_after_the_time_was_lowered() {
    let with = |flush_ms| LogConfig {
        flush_ms,
        ..small()
    };
    for (flush_ms, appends_again) in [(3_600_000, true), (3_600_000, false), (i64::MAX, false)] {
        let fixture = Fixture::new(with(flush_ms), 0);
        fixture.put(Spec::default().build());
        fixture.log().update_config(with(50));
        if appends_again {
            fixture.put(Spec::default().build());
        }
        let begun = std::time::Instant::now();
        while fixture.log().recovery_point() < fixture.log().log_end_offset() {
            assert!(begun.elapsed().as_secs() < 20, "never flushed");
            std::thread::yield_now();
        }
    }
}

//
#[test]
fn a_partition_that_nobody_knows_is_set_aside() {
    let mut fixture = Fixture::new(small(), 0);
    fixture.put(Spec::default().build());
    fixture.close();
    fixture.open_dir();
    let seen = Mutex::new(Vec::new());
    let loaded = fixture.dir().load_logs(&|tp, id| {
        seen.lock().push((tp.clone(), id));
        None
    });
    let loaded = loaded.unwrap();
    assert!(loaded.logs.is_empty() && loaded.failed.is_empty());
    assert_eq!(*seen.lock(), [(partition(), fixture.topic_id)]);
    assert_eq!(loaded.strays.len(), 1);
    assert!(!fixture.folder().try_exists().unwrap());
    fixture
        .dir()
        .create_log(partition(), TopicId::random(), small())
        .unwrap();
    let twice = fixture
        .dir()
        .create_log(partition(), TopicId::random(), small());
    assert!(matches!(twice, Err(LogError::AlreadyExists(_))));
}

#[test]
fn many_logs_and_threads_share_the_writer() {
    let fixture = Fixture::new(LogConfig::default(), 100_000);
    let dir = fixture.dir();
    let logs: Vec<_> = (0..8)
        .map(|n| {
            let mut tp = partition();
            tp.partition = 100 + n;
            dir.create_log(tp, TopicId::random(), small()).unwrap()
        })
        .collect();
    let progress: Vec<_> = logs.iter().map(|log| Progress::watch(log)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let logs = &logs;
            scope.spawn(move || {
                for i in 0..400_usize {
                    let log = &logs[(i * 7 + thread) % logs.len()];
                    log.append_as_leader(Spec::count(1 + i % 3).build(), 0, 0)
                        .unwrap();
                }
            });
        }
    });
    let mut total = 0;
    for (log, progress) in logs.iter().zip(&progress) {
        let end = log.log_end_offset();
        assert!(progress.wait(log, end).is_none());
        total += end;
        let mut at = 0;
        while at < end {
            let read = log.read(at, 700, end, true).unwrap();
            for batch in read.batches().unwrap() {
                batch.verify_crc().unwrap();
                assert_eq!(batch.header().base_offset, at);
                at = batch.header().next_offset();
            }
        }
    }
    let each: i64 = (0..400).map(|i| 1 + i % 3).sum();
    assert_eq!(total, 4 * each);
    assert_eq!(dir.backlog_bytes(), 0);
}

// F-5, F-20: whatever happens meanwhile, a reader sees every record in order or is told its range
#[test]
fn readers_meet_no_gap_while_the_log_grows_rolls_and_shrinks() {
    for tail in [0, 5_000] {
        let config = LogConfig {
            retention_bytes: 20_000,
            ..small()
        };
        let fixture = Fixture::new(config, tail);
        let log = Arc::clone(fixture.log());
        let me = Arc::downgrade(&log);
        log.set_on_written(Box::new(move |end| {
            if let (Ok(end), Some(log)) = (end, me.upgrade()) {
                log.set_high_watermark(end);
            }
        }));
        let end: Offset = 2_500;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut i = 0;
                while log.log_end_offset() < end {
                    i += 1;
                    let spec = Spec {
                        value_size: i % 120,
                        ..Spec::count(1 + i % 3)
                    };
                    log.append_as_leader(spec.build(), 0, 0).unwrap();
                }
            });
            scope.spawn(|| {
                while log.high_watermark() < end {
                    log.apply_retention(0, None).unwrap();
                }
            });
            for max_bytes in [1, 333, 5000] {
                let log = &log;
                scope.spawn(move || read_to_the_end(log, end, max_bytes));
            }
        });
    }
}

fn read_to_the_end(log: &strandline_log::Log, end: Offset, max_bytes: usize) {
    let mut at = 0;
    while at < end {
        let read = match log.read(at, max_bytes, log.high_watermark(), true) {
            Ok(read) => read,
            Err(LogError::OffsetOutOfRange {
                local_log_start_offset,
                ..
            }) => {
                assert!(local_log_start_offset > at);
                at = local_log_start_offset;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let from = at;
        for batch in read.batches().unwrap() {
            batch.verify_crc().unwrap();
            let header = batch.header();
            assert!(header.base_offset == at || (header.base_offset < at && at == from));
            at = header.next_offset();
        }
        assert_eq!(at, read.end_offset);
        assert!(at <= log.high_watermark());
    }
}
