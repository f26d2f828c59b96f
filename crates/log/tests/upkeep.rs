//! Named rules of retention, deletion and what the uploader sees (L-5, L-30…L-33, S-1…S-4, S-20).

use std::fs;

use strandline_log::{FetchPart, LogConfig, LogError};
use strandline_types::Offset;

use crate::support::{Fixture, Spec, bytes_of, small, stored};

fn filled(config: LogConfig) -> Fixture {
    let fixture = Fixture::new(config, 0);
    for i in 0..30 {
        let producer = Some((1, 0, i * 2));
        fixture.put(
            Spec {
                value_size: 50,
                producer,
                ..Spec::count(2)
            }
            .build(),
        );
    }
    fixture
}

/// Waits for the background thread without sleeping blindly.
fn until(what: &str, done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 20, "{what} never happened");
        std::thread::yield_now();
    }
}

// L-5, L-32
#[test]
fn when_everything_goes_the_end_stays() {
    let mut fixture = filled(LogConfig {
        retention_bytes: 0,
        ..small()
    });
    let outcome = fixture.log().apply_retention(0, None).unwrap();
    assert!(outcome.deleted_segments > 3 && !outcome.rolled);
    assert_eq!(
        (outcome.log_start_offset, outcome.local_log_start_offset),
        (60, 60)
    );
    assert_eq!(fixture.segment_files(), [60]);
    assert_eq!(fixture.log().size_in_bytes(), 0);
    until("removal", || fixture.files_with(".log.deleted").is_empty());
    fixture.reopen_after_crash();
    assert_eq!(fixture.log().offsets().log_start, 60);
    // P-60: retention does not forget producers
    let again = fixture.put(
        Spec {
            value_size: 50,
            producer: Some((1, 0, 58)),
            ..Spec::count(2)
        }
        .build(),
    );
    assert!(again.duplicate);
    let next = fixture.put(
        Spec {
            producer: Some((1, 0, 60)),
            ..Spec::count(2)
        }
        .build(),
    );
    assert_eq!(next.base_offset, 60);
    let nothing = fixture.log().apply_retention(0, None).unwrap();
    assert_eq!(nothing.deleted_segments, 1);
}

// L-31
#[test]
fn nothing_at_or_above_the_high_watermark_goes() {
    let fixture = Fixture::new(
        LogConfig {
            retention_bytes: 0,
            ..small()
        },
        0,
    );
    let spec = Spec {
        value_size: 400,
        ..Spec::count(2)
    };
    fixture.put(spec.build());
    for _ in 0..5 {
        fixture.append(spec.build()).unwrap();
    }
    assert!(
        fixture
            .progress
            .as_ref()
            .unwrap()
            .wait(fixture.log(), 12)
            .is_none()
    );
    assert_eq!(fixture.log().high_watermark(), 2);
    assert_eq!(
        fixture
            .log()
            .apply_retention(0, None)
            .unwrap()
            .log_start_offset,
        2
    );
}

// A reader that has its slice keeps it.
#[test]
fn a_slice_stays_readable_after_its_segment_is_deleted() {
    let fixture = filled(LogConfig {
        retention_bytes: 0,
        ..small()
    });
    let read = fixture.read(0, 300);
    assert!(matches!(read.parts.as_slice(), [FetchPart::File(_)]));
    let before = bytes_of(&read);
    fixture.log().apply_retention(0, None).unwrap();
    until("removal", || fixture.files_with(".log.deleted").is_empty());
    assert_eq!(bytes_of(&read), before);
    let gone = fixture.log().read(0, 300, 100, true);
    assert!(matches!(
        gone,
        Err(LogError::OffsetOutOfRange {
            log_start_offset: 60,
            ..
        })
    ));
}

// 6.6, L-30 (c)
#[test]
fn deleted_records_go_with_their_segments() {
    let fixture = filled(small());
    let bases = fixture.segment_files();
    let above = fixture.log().delete_records_to(61);
    assert!(matches!(above, Err(LogError::OffsetOutOfRange { .. })));
    let middle = bases[2] + 1;
    assert_eq!(fixture.log().delete_records_to(middle).unwrap(), middle);
    assert_eq!(fixture.log().delete_records_to(1).unwrap(), middle);
    let outcome = fixture.log().apply_retention(0, None).unwrap();
    assert_eq!(
        (outcome.deleted_segments, outcome.log_start_offset),
        (2, middle)
    );
    assert_eq!(fixture.segment_files(), bases[2..]);
    assert_eq!(fixture.read(middle, 1).end_offset, bases[2] + 2);
}

// S-20, L-5
#[test]
fn a_tiered_log_keeps_what_is_not_uploaded_and_its_start() {
    let config = LogConfig {
        remote: true,
        local_retention_bytes: 0,
        local_retention_ms: -1,
        ..small()
    };
    let fixture = filled(config);
    let bases = fixture.segment_files();
    let none = fixture.log().apply_retention(0, None).unwrap();
    assert_eq!((none.deleted_segments, none.rolled), (0, false));
    let some = fixture
        .log()
        .apply_retention(0, Some(bases[1] - 1))
        .unwrap();
    assert_eq!((some.deleted_segments, some.log_start_offset), (1, 0));
    assert_eq!(some.local_log_start_offset, bases[1]);
    let sealed = fixture.log().sealed_segments(0, Offset::MAX).unwrap();
    let highest = sealed.last().unwrap().next_offset - 1;
    let most = fixture.log().apply_retention(0, Some(highest)).unwrap();
    assert!(most.rolled); // the active one is due, so it is sealed for its upload
    assert_eq!(most.local_log_start_offset, *bases.last().unwrap());
    fixture.put(Spec::default().build()); // the writer has rolled
    let sealed = fixture
        .log()
        .sealed_segments(highest + 1, Offset::MAX)
        .unwrap();
    assert_eq!((sealed.len(), sealed[0].next_offset), (1, 60));
    let all = fixture.log().apply_retention(0, Some(59)).unwrap();
    assert_eq!((all.deleted_segments, all.local_log_start_offset), (1, 60));
    // the remote tier's retention moves the start
    assert_eq!(fixture.log().set_log_start_offset(7).unwrap(), 7);
    assert_eq!(fixture.log().local_log_start_offset(), 60);
}

// tier.max.delay
#[test]
fn an_old_segment_is_sealed_by_age_and_an_empty_one_never() {
    let fixture = Fixture::new(small(), 0);
    assert!(!fixture.log().roll_if_older_than(1 << 50, 0).unwrap());
    fixture
        .log()
        .append_as_leader(Spec::default().build(), 0, 5_000)
        .unwrap();
    fixture
        .log()
        .append_as_leader(Spec::default().build(), 0, 9_000)
        .unwrap();
    assert!(!fixture.log().roll_if_older_than(6_000, 1_000).unwrap());
    assert!(fixture.log().roll_if_older_than(6_001, 1_000).unwrap());
    assert!(!fixture.log().roll_if_older_than(1 << 50, 0).unwrap());
    assert_eq!(fixture.log().segment_count(), 2);
}

// tier.max.delay
#[test]
fn a_clock_that_is_set_back_does_not_keep_a_segment_from_the_tier() {
    let fixture = Fixture::new(small(), 0);
    let append = |now_ms| {
        let batch = Spec::default().build();
        fixture.log().append_as_leader(batch, 0, now_ms).unwrap();
    };
    append(3_600_000);
    // Another thread's clock of a moment ago.
    let ago = fixture.log().roll_if_older_than(3_599_999, 60_000);
    assert!(!ago.unwrap());
    assert!(fixture.log().roll_if_older_than(5_000, 60_000).unwrap());
    append(5_000);
    assert!(!fixture.log().roll_if_older_than(6_000, 60_000).unwrap());
}

// S-1, S-3, S-4
#[test]
fn sealed_segments_carry_all_that_the_tier_needs() {
    let mut fixture = Fixture::new(small(), 0);
    let spec = |i: i64| Spec {
        value_size: 80,
        producer: Some((1, 0, i as i32 * 2)),
        ..Spec::at(&[1000 + i, 1001 + i])
    };
    for i in 0..30 {
        let epoch = i32::from(i >= 10);
        fixture
            .log()
            .append_as_leader(spec(i).build(), epoch, 0)
            .unwrap();
    }
    fixture.written();
    for round in 0..2 {
        let sealed = fixture.log().sealed_segments(0, Offset::MAX).unwrap();
        let bases = fixture.segment_files();
        let ranges: Vec<_> = sealed
            .iter()
            .map(|s| (s.base_offset, s.next_offset))
            .collect();
        let want: Vec<_> = bases.windows(2).map(|w| (w[0], w[1])).collect();
        assert_eq!(ranges, want);
        for segment in &sealed {
            assert_eq!(
                fs::metadata(segment.path()).unwrap().len(),
                segment.size_in_bytes
            );
            assert_eq!(
                segment.min_timestamp().unwrap(),
                1000 + segment.base_offset / 2
            );
            assert_eq!(segment.max_timestamp, 1000 + segment.next_offset / 2);
            assert_eq!(segment.offset_index().unwrap().len() % 8, 0);
            assert_eq!(segment.time_index().unwrap().len() % 12, 0);
            assert!(segment.transaction_index().unwrap().is_none());
            let epochs = segment.segment_leader_epochs();
            assert_eq!(epochs.entries()[0].start_offset, segment.base_offset);
            let snapshot = segment.producer_snapshot().unwrap();
            let path = fixture.file(segment.next_offset, "snapshot");
            assert_eq!(snapshot, fs::read(&path).unwrap());
            // made anew when the file is gone
            fs::remove_file(&path).unwrap();
            assert_eq!(segment.producer_snapshot().unwrap(), snapshot);
            fs::write(&path, snapshot).unwrap();
        }
        let second = &sealed[1];
        let some = fixture
            .log()
            .sealed_segments(second.base_offset, second.next_offset)
            .unwrap();
        assert_eq!(some.len(), 1);
        if round == 0 {
            fixture.reopen_cleanly();
        }
    }
}

// S-24
#[test]
fn a_deleted_log_is_gone_at_once_and_its_folder_later() {
    let mut fixture = filled(LogConfig {
        file_delete_delay_ms: i64::MAX,
        ..small()
    });
    let slice = fixture.read(0, 300);
    fixture.append(Spec::default().build()).unwrap();
    fixture.log().delete().unwrap();
    assert!(fixture.log().is_deleted());
    assert!(!fixture.folder().try_exists().unwrap());
    assert!(matches!(
        fixture.log().read(0, 1, 10, true),
        Err(LogError::Deleted(_))
    ));
    assert!(fixture.append(Spec::default().build()).is_err());
    assert!(fixture.log().delete().is_err());
    assert_eq!(bytes_of(&slice).len(), slice.size_in_bytes);
    assert!(fixture.dir().log(fixture.log().partition()).is_none());
    let leftovers = |fixture: &Fixture| {
        let entries = fs::read_dir(fixture.temp.path()).unwrap();
        entries
            .filter(|e| {
                e.as_ref()
                    .unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .ends_with("-delete")
            })
            .count()
    };
    assert_eq!(leftovers(&fixture), 1);
    let topic_id = fixture.topic_id;
    let again = fixture
        .dir()
        .create_log(crate::support::partition(), topic_id, small())
        .unwrap();
    fixture.set_log(again);
    assert_eq!(fixture.put(Spec::default().build()).base_offset, 0);
    fixture.reopen_cleanly();
    until("removal of the leftover", || leftovers(&fixture) == 0);
    assert_eq!(
        bytes_of(&fixture.read(0, 1)),
        stored(Spec::default().build(), 0)
    );
}

// L-32: file.delete.delay.ms
#[test]
fn deleted_files_stay_for_their_delay_under_another_name() {
    for (delay_ms, stays) in [(i64::MAX, true), (0, false)] {
        let config = LogConfig {
            file_delete_delay_ms: delay_ms,
            retention_bytes: 0,
            ..small()
        };
        let fixture = filled(config);
        let before = fixture.segment_files();
        let outcome = fixture.log().apply_retention(0, None).unwrap();
        // The offsets say so at once (L-32), whatever becomes of the files.
        assert_eq!(outcome.deleted_segments, before.len());
        assert_eq!(outcome.log_start_offset, fixture.log().log_end_offset());
        if stays {
            assert_eq!(fixture.files_with(".log.deleted"), before);
            assert_eq!(fixture.files_with(".index.deleted"), before);
        } else {
            until("the files to go", || {
                fixture.files_with(".log.deleted").is_empty()
            });
        }
    }
}

// L-2: each segment has its own part of segment.jitter.ms
#[test]
fn the_jitter_differs_and_never_reaches_its_bound() {
    let config = LogConfig {
        segment_ms: 1000,
        segment_jitter_ms: 900,
        segment_bytes: 1 << 20,
        ..small()
    };
    let fixture = Fixture::new(config, 0);
    for second in 0..400 {
        fixture.put(Spec::at(&[second * 50]).build());
    }
    let bases = fixture.segment_files();
    // A batch each 50 ms: a segment ends when its first batch is between 100 and 1000 ms old.
    let lengths: Vec<_> = bases.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(lengths.iter().all(|n| (3..=21).contains(n)), "{lengths:?}");
    assert!(lengths.iter().any(|n| *n != lengths[0]), "{lengths:?}");
}
