//! What may happen in a history, as random steps. A step says "which" and "where" with plain
//! numbers; what they come to depends on the state in which it is taken, so that a history which
//! lost some of its steps is still one.

use proptest::collection::vec;
use proptest::prelude::*;

/// The topics of a history; each has one partition, and rules of its own.
pub(super) const TOPICS: [&str; 4] = ["compacted", "tiered", "plain", "append-time"];
/// Cleaned by key, on the disk alone.
pub(super) const COMPACTED: usize = 0;
/// Tiered, with a small disk and limits on the whole.
pub(super) const TIERED: usize = 1;
/// Deleted by age and size, on the disk alone.
pub(super) const PLAIN: usize = 2;
/// Tiered, with the broker's timestamps.
pub(super) const APPEND_TIME: usize = 3;

/// After this long a transaction is aborted, in ms.
pub(super) const TRANSACTION_TIMEOUT_MS: i64 = 30_000;
/// `delete.retention.ms` of the compacted topic.
pub(super) const DELETE_RETENTION_MS: i64 = 4_000;

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Who {
    /// Nobody in particular.
    Plain,
    /// Idempotent, without transactions.
    Idempotent(usize),
    /// With transactions; number 0 is of the first generation of the protocol.
    Transactional(usize),
}

pub(super) const IDEMPOTENT: usize = 2;
pub(super) const TRANSACTIONAL: usize = 3;

/// Settings of a history.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) segment_bytes: u64,
    pub(super) retention_ms: i64,
    pub(super) retention_bytes: i64,
    pub(super) local_retention_bytes: i64,
}

/// A record that is to be written.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) key: u8,
    pub(super) is_tombstone: bool,
    pub(super) padding: usize,
    /// Relative to the time of the batch, in ms.
    pub(super) age_ms: i64,
}

/// What comes after the answer to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The markers are waited for.
    Wait,
    /// The next step, before the markers are written.
    Hurry,
    /// `kill -9` when all markers are written and that they are is not: a start writes them again.
    KillBeforeComplete,
}

/// One step.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Writes a batch; a transaction begins if none is open.
    Produce {
        who: Who,
        to: usize,
        records: Vec<Spec>,
        codec: u8,
    },
    /// Writes several full batches, each of some age: segments of them.
    Burst { to: usize, ages_ms: Vec<i64> },
    /// Sends the last batch to this partition once more (P-50).
    Again { who: Who, to: usize },
    /// Leaves some sequence numbers out (P-53).
    Gap { who: Who, to: usize },
    /// An idempotent producer goes on with a new epoch, and then tries the old one (P-51, P-52).
    NewEpoch { which: usize, to: usize },
    /// Adds a partition to a transaction and writes nothing there.
    AddOnly { which: usize, to: usize },
    /// A transactional batch that belongs to no transaction (P-70).
    Unadded { to: usize },
    /// A batch without a transaction from a producer that has one open there (P-57).
    Outside { which: usize, to: usize },
    /// Ends a transaction.
    End {
        which: usize,
        commit: bool,
        then: Then,
    },
    /// Asks for the last end once more (T-33), or for an end of what is not open.
    EndAgain { which: usize, commit: bool },
    /// A second producer with the same transactional id (T-3).
    Fence { which: usize },
    /// The producer that was fenced writes, and ends (T-52).
    Zombie { which: usize, to: usize },
    /// Time passes.
    Advance { ms: u64 },
    /// More time passes than a transaction may take (T-50).
    TimeOut,
    /// A clean stop, and a start.
    Restart,
    /// `kill -9`, and a start.
    Kill,
    /// The checkpoints that come every few seconds.
    Checkpoint,
    /// Begins a new segment.
    Roll { topic: usize },
    /// Retention on the disk.
    Retain,
    /// Cleans what is dirty; with `roll` down to the last record.
    Clean { roll: bool },
    /// Uploads what is sealed, and lets go what may go.
    Tier { topic: usize },
    /// The same, cut off somewhere.
    TierCut { topic: usize, after: usize },
    /// DeleteRecords up to a part of the log, in 1/256.
    DeleteRecords { topic: usize, part: u8 },
    /// A read from a part of the log.
    Read {
        topic: usize,
        committed: bool,
        part: u16,
        max_bytes: i32,
    },
    /// A lookup by time.
    Lookup {
        topic: usize,
        committed: bool,
        part: u16,
    },
}

fn spec() -> impl Strategy<Value = Spec> {
    (0..5_u8, 0..4_u8, 0..200_usize, 0..4_i64).prop_map(|(key, kind, padding, age)| Spec {
        key,
        is_tombstone: kind == 0,
        padding,
        age_ms: age * 1_000,
    })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        1 => Just(Who::Plain),
        2 => (0..IDEMPOTENT).prop_map(Who::Idempotent),
        5 => (0..TRANSACTIONAL).prop_map(Who::Transactional),
    ]
}

fn topic() -> impl Strategy<Value = usize> {
    0..TOPICS.len()
}

fn which() -> impl Strategy<Value = usize> {
    0..TRANSACTIONAL
}

fn tiered() -> impl Strategy<Value = usize> {
    prop_oneof![Just(TIERED), Just(APPEND_TIME)]
}

/// Steps that write.
fn writing() -> impl Strategy<Value = Step> {
    let codec = prop_oneof![6 => Just(0_u8), 1 => 1..5_u8];
    let then = prop_oneof![
        6 => Just(Then::Wait),
        7 => Just(Then::Hurry),
        1 => Just(Then::KillBeforeComplete),
    ];
    let end = (which(), any::<bool>(), then);
    prop_oneof![
        24 => (who(), topic(), vec(spec(), 1..9), codec)
            .prop_map(|(who, to, records, codec)| Step::Produce { who, to, records, codec }),
        4 => (topic(), vec(0..8_000_i64, 3..10))
            .prop_map(|(to, ages_ms)| Step::Burst { to, ages_ms }),
        14 => end.prop_map(|(which, commit, then)| Step::End { which, commit, then }),
        3 => (who(), topic()).prop_map(|(who, to)| Step::Again { who, to }),
        1 => (who(), topic()).prop_map(|(who, to)| Step::Gap { who, to }),
        1 => (0..IDEMPOTENT, topic()).prop_map(|(which, to)| Step::NewEpoch { which, to }),
        1 => (which(), topic()).prop_map(|(which, to)| Step::AddOnly { which, to }),
        1 => topic().prop_map(|to| Step::Unadded { to }),
        1 => (which(), topic()).prop_map(|(which, to)| Step::Outside { which, to }),
        1 => (which(), any::<bool>()).prop_map(|(which, commit)| Step::EndAgain { which, commit }),
        2 => which().prop_map(|which| Step::Fence { which }),
        2 => (which(), topic()).prop_map(|(which, to)| Step::Zombie { which, to }),
    ]
}

/// Steps of the broker itself, and of time.
fn upkeep() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..9_000_u64).prop_map(|ms| Step::Advance { ms }),
        1 => Just(Step::TimeOut),
        1 => Just(Step::Restart),
        2 => Just(Step::Kill),
        1 => Just(Step::Checkpoint),
        4 => topic().prop_map(|topic| Step::Roll { topic }),
        3 => Just(Step::Retain),
        6 => prop_oneof![2 => Just(true), 1 => Just(false)].prop_map(|roll| Step::Clean { roll }),
        6 => tiered().prop_map(|topic| Step::Tier { topic }),
        1 => (tiered(), 0..40_usize).prop_map(|(topic, after)| Step::TierCut { topic, after }),
        1 => (topic(), any::<u8>()).prop_map(|(topic, part)| Step::DeleteRecords { topic, part }),
    ]
}

fn reading() -> impl Strategy<Value = Step> {
    let read = (topic(), any::<bool>(), any::<u16>(), 0..3_000_i32);
    let lookup = (topic(), any::<bool>(), any::<u16>());
    prop_oneof![
        3 => read.prop_map(|(topic, committed, part, max_bytes)| Step::Read {
            topic,
            committed,
            part,
            max_bytes,
        }),
        1 => lookup.prop_map(|(topic, committed, part)| Step::Lookup { topic, committed, part }),
    ]
}

/// A history.
pub(super) fn history() -> impl Strategy<Value = (Setup, Vec<Step>)> {
    let limits = (
        2_000..4_000_u64,
        prop_oneof![Just(-1_i64), 10_000..60_000_i64],
        prop_oneof![Just(-1_i64), 3_000..15_000_i64],
        0..5_000_i64,
    );
    let setup = limits.prop_map(|(segment_bytes, ms, bytes, local)| Setup {
        segment_bytes,
        retention_ms: ms,
        retention_bytes: bytes,
        local_retention_bytes: local,
    });
    let step = prop_oneof![10 => writing(), 5 => upkeep(), 2 => reading()];
    (setup, vec(step, 20..100))
}
