use super::*;

fn key(partition: i32) -> PartitionKey {
    PartitionKey {
        topic: "t".into(),
        topic_id: Uuid::nil(),
        partition,
    }
}

fn fetch(partition: i32, offset: i64) -> PartitionFetch {
    PartitionFetch {
        key: key(partition),
        fetch_offset: offset,
        max_bytes: 100,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        log_start_offset: -1,
    }
}

fn request(session_id: i32, epoch: i32, partitions: Vec<PartitionFetch>) -> SessionRequest {
    SessionRequest {
        session_id,
        epoch,
        uses_topic_ids: false,
        is_follower: false,
        partitions,
        forgotten: vec![],
    }
}

fn outcome(has_records: bool, high_watermark: i64) -> PartitionOutcome {
    PartitionOutcome {
        has_records,
        high_watermark,
        log_start_offset: 0,
        has_error: false,
        has_divergence_or_replica: false,
    }
}

fn ids() -> impl FnMut() -> i32 {
    let mut next = 0;
    move || {
        next += 1;
        next
    }
}

fn open(sessions: &FetchSessions, n: i32) -> FetchContext {
    sessions
        .begin(
            request(0, 0, (0..n).map(|p| fetch(p, 0)).collect()),
            0,
            ids(),
        )
        .unwrap()
}

// 3.4, first row
#[test]
fn a_sessionless_fetch_makes_no_session() {
    let sessions = FetchSessions::new(10);
    let context = sessions
        .begin(request(0, -1, vec![fetch(0, 0)]), 0, ids())
        .unwrap();
    assert_eq!((context.session_id(), sessions.len()), (0, 0));
    assert_eq!(context.finish(&[outcome(false, 0)]), [true]);
}

// F-43, F-44
#[test]
fn incremental_answers_name_only_what_changed() {
    let sessions = FetchSessions::new(10);
    let first = open(&sessions, 3);
    let id = first.session_id();
    assert!(id > 0);
    assert_eq!(first.finish(&[outcome(false, 5); 3]), [true; 3]);
    let second = sessions.begin(request(id, 1, vec![]), 1, ids()).unwrap();
    assert_eq!(second.partitions.len(), 3);
    let said = [outcome(false, 5), outcome(true, 5), outcome(false, 6)];
    assert_eq!(second.finish(&said), [false, true, true]);
}

// F-43: after an error the next good answer is sent again.
#[test]
fn an_error_is_followed_by_a_full_word() {
    let sessions = FetchSessions::new(10);
    let first = open(&sessions, 1);
    let id = first.session_id();
    first.finish(&[outcome(false, 5)]);
    let bad = PartitionOutcome {
        has_error: true,
        high_watermark: -1,
        ..outcome(false, -1)
    };
    let second = sessions.begin(request(id, 1, vec![]), 1, ids()).unwrap();
    assert_eq!(second.finish(&[bad]), [true]);
    let third = sessions.begin(request(id, 2, vec![]), 1, ids()).unwrap();
    assert_eq!(third.finish(&[outcome(false, 5)]), [true]);
}

// F-40, F-41
#[test]
fn wrong_ids_epochs_and_kinds_are_told() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 1).session_id();
    let code = |r| sessions.begin(r, 0, ids()).unwrap_err();
    assert_eq!(
        code(request(id + 1, 1, vec![])),
        ErrorCode::FetchSessionIdNotFound
    );
    assert_eq!(
        code(request(id, 2, vec![])),
        ErrorCode::InvalidFetchSessionEpoch
    );
    let by_id = SessionRequest {
        uses_topic_ids: true,
        ..request(id, 1, vec![])
    };
    assert_eq!(code(by_id), ErrorCode::FetchSessionTopicIdError);
    assert!(sessions.begin(request(id, 1, vec![]), 0, ids()).is_ok());
    assert!(sessions.begin(request(id, 2, vec![]), 0, ids()).is_ok());
    assert_eq!(next_epoch(i32::MAX), 1);
}

// F-42
#[test]
fn partitions_are_changed_added_and_forgotten() {
    let sessions = FetchSessions::new(10);
    let id = open(&sessions, 2).session_id();
    let change = SessionRequest {
        forgotten: vec![key(1)],
        ..request(id, 1, vec![fetch(0, 77), fetch(5, 3)])
    };
    let context = sessions.begin(change, 0, ids()).unwrap();
    assert_eq!(context.partitions, [fetch(0, 77), fetch(5, 3)]);
}

// F-45
#[test]
fn a_partition_with_data_goes_to_the_end() {
    let sessions = FetchSessions::new(10);
    let first = open(&sessions, 3);
    first.finish(&[outcome(true, 1), outcome(false, 1), outcome(false, 1)]);
    let second = sessions
        .begin(request(first.session_id(), 1, vec![]), 0, ids())
        .unwrap();
    let order: Vec<i32> = second.partitions.iter().map(|p| p.key.partition).collect();
    assert_eq!(order, [1, 2, 0]);
}

// F-48
#[test]
fn a_full_cache_evicts_only_the_idle_or_the_smaller_and_settled() {
    let sessions = FetchSessions::new(1);
    let mut next = 1;
    let mut create = |n: i32, now| {
        next += 1;
        let id = next;
        let partitions = (0..n).map(|p| fetch(p, 0)).collect();
        sessions
            .begin(request(0, 0, partitions), now, || id)
            .unwrap()
            .session_id()
    };
    assert_eq!(create(2, 0), 2);
    assert_eq!(create(3, 1_000), 0, "young, in use: stays");
    assert_ne!(create(1, 130_000), 0, "idle for more than 120 s: goes");
    let forget = |id| SessionRequest {
        forgotten: vec![key(0)],
        ..request(id, 1, vec![])
    };
    let id = *sessions.entries.lock().keys().next().unwrap();
    let context = sessions.begin(forget(id), 130_001, ids()).unwrap();
    assert_eq!(
        (context.session_id(), sessions.len()),
        (0, 0),
        "empty session is removed"
    );
}

// F-48: their number does not bound what sessions hold
#[test]
fn sessions_together_hold_no_more_than_they_may() {
    let one = cost(&key(0));
    let mut sessions = FetchSessions::new(10);
    sessions.max_bytes = 10 * one;
    let mut next = ids();
    let mut begin = |request, now_ms| sessions.begin(request, now_ms, &mut next);
    let fetches = |range: std::ops::Range<i32>| range.map(|p| fetch(p, 0)).collect();
    let first = begin(request(0, 0, fetches(0..6)), 0).unwrap().session_id();
    // The second one would be too much, and is answered without a session.
    let second = begin(request(0, 0, fetches(0..5)), 1).unwrap();
    assert_eq!((second.session_id(), second.partitions.len()), (0, 5));
    let third = begin(request(0, 0, fetches(0..4)), 2).unwrap().session_id();
    assert!(first > 0 && third > 0);
    // Nor may a session grow; what it has already costs nothing.
    assert!(begin(request(third, 1, fetches(0..4)), 3).is_ok());
    let grown = begin(request(third, 2, fetches(4..5)), 4);
    assert_eq!(grown.unwrap_err(), ErrorCode::FetchSessionIdNotFound);
    // It is gone, so there is room; and what is forgotten makes room as well.
    let mut forgetful = request(first, 1, fetches(6..10));
    forgetful.forgotten = (0..6).map(key).collect();
    assert!(begin(forgetful, 5).is_ok());
    assert!(begin(request(0, 0, fetches(0..6)), 6).unwrap().session_id() > 0);
    // An idle session makes way.
    let later = 7 + MIN_EVICTION_AGE_MS;
    assert!(
        begin(request(0, 0, fetches(0..9)), later)
            .unwrap()
            .session_id()
            > 0
    );
    assert_eq!(sessions.len(), 1);
}
