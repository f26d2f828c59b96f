//! What the walk of a producer's records finds: keys, timestamps, offsets (P-28…P-30, P-34, P-35).

use strandline_types::{NO_TIMESTAMP, TimestampType};

use super::{RejectKind, RejectedBatch, ValidateOptions};
use crate::batch::BatchHeader;
use crate::walk::RecordHead;

/// Most records that a refusal names: a response must not grow with what a batch decompresses to.
const MAX_NAMED_RECORDS: usize = 1000;

/// Collects what is wrong, and what the header should say.
pub(super) struct Findings {
    allowed: Option<AllowedTimes>,
    compacted: bool,
    max_timestamp: i64,
    dense: bool,
    bad: u64,
    bad_times: bool,
    named: Vec<(i32, String)>,
    /// Of the header, for the message.
    record_count: i32,
}

/// P-30: both inclusive, in ms.
#[derive(Clone, Copy)]
struct AllowedTimes {
    earliest: i64,
    latest: i64,
}

impl AllowedTimes {
    /// `None` when the broker sets the timestamps.
    fn of(options: &ValidateOptions, now_ms: i64) -> Option<Self> {
        match options.timestamp_type {
            TimestampType::LogAppendTime => None,
            TimestampType::CreateTime => Some(Self {
                earliest: now_ms.saturating_sub(options.before_max_ms),
                latest: now_ms.saturating_add(options.after_max_ms),
            }),
        }
    }

    #[inline]
    fn contains(self, timestamp: i64) -> bool {
        timestamp == NO_TIMESTAMP || (self.earliest..=self.latest).contains(&timestamp)
    }

    fn message(self, timestamp: i64) -> String {
        let Self { earliest, latest } = self;
        format!("timestamp {timestamp} is out of range, it must lie in [{earliest}, {latest}]")
    }
}

/// P-30 as far as the header shows it: when the greatest timestamp is too old, all are.
pub(super) fn check_header_time(
    header: &BatchHeader,
    options: &ValidateOptions,
    now_ms: i64,
) -> Result<(), RejectedBatch> {
    match AllowedTimes::of(options, now_ms) {
        Some(allowed) if !allowed.contains(header.max_timestamp) => Err(RejectedBatch::new(
            RejectKind::InvalidTimestamp,
            allowed.message(header.max_timestamp),
        )),
        _ => Ok(()),
    }
}

impl Findings {
    pub(super) fn new(header: &BatchHeader, options: &ValidateOptions, now_ms: i64) -> Self {
        Self {
            allowed: AllowedTimes::of(options, now_ms),
            compacted: options.compacted,
            max_timestamp: NO_TIMESTAMP,
            dense: true,
            bad: 0,
            bad_times: false,
            named: Vec::new(),
            record_count: header.record_count,
        }
    }

    #[inline]
    pub(super) fn note(&mut self, head: &RecordHead) {
        self.max_timestamp = self.max_timestamp.max(head.timestamp);
        self.dense &= head.offset_delta == head.index;
        if self.compacted && head.key_size.is_none() {
            self.note_missing_key(head.index); // P-29
        } else if let Some(allowed) = self.allowed
            && !allowed.contains(head.timestamp)
        {
            self.note_time(allowed, head); // P-30
        }
    }

    #[cold]
    fn note_missing_key(&mut self, index: i32) {
        self.name(index, || {
            "a record of a compacted topic needs a key".to_owned()
        });
    }

    #[cold]
    fn note_time(&mut self, allowed: AllowedTimes, head: &RecordHead) {
        self.bad_times = true;
        self.name(head.index, || allowed.message(head.timestamp));
    }

    fn name(&mut self, index: i32, message: impl FnOnce() -> String) {
        self.bad += 1;
        if self.named.len() < MAX_NAMED_RECORDS {
            self.named.push((index, message()));
        }
    }

    /// P-34: one bad record refuses the batch, and a bad timestamp names the error.
    pub(super) fn verdict(&mut self) -> Result<(), RejectedBatch> {
        if self.bad == 0 {
            return Ok(());
        }
        let kind = if self.bad_times {
            RejectKind::InvalidTimestamp
        } else {
            RejectKind::InvalidRecord
        };
        let message = format!("{} of {} records are refused", self.bad, self.record_count);
        Err(RejectedBatch {
            kind,
            message,
            records: std::mem::take(&mut self.named),
        })
    }

    /// The greatest timestamp of the records in ms, -1 if none has one.
    pub(super) fn max_timestamp(&self) -> i64 {
        self.max_timestamp
    }

    /// P-28
    pub(super) fn offsets_are_dense(&self) -> bool {
        self.dense
    }
}
