//! What a leader checks and corrects before it appends a producer's batch (P-5, P-20…P-22,
//! P-24…P-36, P-42, section 2.3). A batch is taken or refused as a whole.
//!
//! Sequences, transactions and the size of a segment are judged where their state is, at the log.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use std::ops::ControlFlow;

use bytes::Bytes;
use strandline_types::TimestampType;

use crate::batch::{Batch, BatchHeader, Compression};
use crate::error::BatchError;
use crate::walk::{NoSink, walk_body};

mod envelope;
mod findings;
mod reject;
mod rewrite;

use findings::Findings;
pub use reject::{RejectKind, RejectedBatch};

/// How a batch is to be judged and stored: settings of its topic and of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidateOptions {
    /// `max.message.bytes`: most bytes of a batch, header included, as sent and as stored.
    pub max_message_bytes: usize,
    /// `cleanup.policy` contains `compact`: every record needs a key.
    pub compacted: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub after_max_ms: i64,
    /// `compression.type` with its level.
    pub compression: TargetCompression,
    /// Most bytes that the records of a batch may have when decompressed.
    pub max_decompressed_bytes: usize,
    /// How far a compressed batch is checked.
    pub check: CheckDepth,
    /// The batch comes from the broker itself and may be a control batch.
    pub allow_control: bool,
}

impl Default for ValidateOptions {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            max_message_bytes: 1_048_588,
            compacted: false,
            timestamp_type: TimestampType::CreateTime,
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
            compression: TargetCompression::Producer,
            max_decompressed_bytes: 2_147_483_639,
            check: CheckDepth::Full,
            allow_control: false,
        }
    }
}

/// The codec that a topic stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetCompression {
    /// Whatever the producer chose.
    Producer,
    /// This codec; a batch that has it already is kept, whatever its level.
    Codec {
        /// The codec; [`Compression::None`] is `uncompressed`.
        compression: Compression,
        /// The codec's level, `None` for its default.
        level: Option<i32>,
    },
}

/// How far compressed batches are checked. Plain batches are always checked in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CheckDepth {
    /// Decompress and walk the records, as Kafka does.
    #[default]
    Full,
    /// Trust the producer with what the header does not show, where nothing else needs the
    /// records: not on a compacted topic, not when the codec changes.
    HeaderOnly,
}

/// Judges the `records` of one partition of a Produce request, which must be exactly one batch.
/// The result has its final timestamps, codec and checksum; offset and leader epoch are set by the
/// log. `now_ms` is the wall clock.
///
/// Records that are neither changed nor recompressed are shared with the input, not copied.
pub fn validate_produce(
    records: Bytes,
    options: &ValidateOptions,
    now_ms: i64,
) -> Result<Batch, RejectedBatch> {
    let batch = envelope::only_batch(records)?;
    let header = batch.header();
    let codec = envelope::check(&batch, &header, options)?;
    let target = target_codec(&header, codec, options);
    let may_skip = options.check == CheckDepth::HeaderOnly
        && codec != Compression::None
        && codec == target
        && !options.compacted;
    if may_skip {
        findings::check_header_time(&header, options, now_ms)?;
        return Ok(with_timestamps(
            batch,
            options,
            header.max_timestamp,
            now_ms,
        ));
    }
    let mut findings = Findings::new(&header, options, now_ms);
    if codec == target {
        let limit = options.max_decompressed_bytes;
        walk_body(&header, batch.body(), limit, &mut NoSink, |head| {
            findings.note(head);
            Ok(ControlFlow::Continue(()))
        })?;
        findings.verdict()?;
        if findings.offsets_are_dense() {
            return Ok(with_timestamps(
                batch,
                options,
                findings.max_timestamp(),
                now_ms,
            ));
        }
        findings = Findings::new(&header, options, now_ms);
    }
    rewrite::rewrite(&batch, target, options, findings, now_ms)
}

/// The codec to store with. Control records are never compressed (0.4).
fn target_codec(
    header: &BatchHeader,
    codec: Compression,
    options: &ValidateOptions,
) -> Compression {
    match options.compression {
        TargetCompression::Codec { compression, .. } if !header.attributes.is_control() => {
            compression
        }
        TargetCompression::Codec { .. } | TargetCompression::Producer => codec,
    }
}

/// Section 2.3; the checksum is renewed only if something differs.
fn with_timestamps(
    mut batch: Batch,
    options: &ValidateOptions,
    max_timestamp: i64,
    now_ms: i64,
) -> Batch {
    let max_timestamp = stored_max_timestamp(options, max_timestamp, now_ms);
    batch.set_timestamps(options.timestamp_type, max_timestamp);
    batch
}

fn stored_max_timestamp(options: &ValidateOptions, max_timestamp: i64, now_ms: i64) -> i64 {
    match options.timestamp_type {
        TimestampType::CreateTime => max_timestamp,
        TimestampType::LogAppendTime => now_ms,
    }
}

impl From<BatchError> for RejectedBatch {
    fn from(error: BatchError) -> Self {
        let kind = match &error {
            BatchError::Truncated { .. }
            | BatchError::Length(_)
            | BatchError::Crc { .. }
            | BatchError::Decompress { .. } => RejectKind::CorruptMessage,
            BatchError::Codec(_) => RejectKind::UnsupportedCompression,
            BatchError::TooLarge { .. } => RejectKind::MessageTooLarge,
            // P-32, P-33 and P-5: a resend of the same bytes would fare no better. A codec of
            // ours that fails to compress is in the list because no bytes are known to do it.
            BatchError::Magic(_)
            | BatchError::DecompressedTooLarge { .. }
            | BatchError::Record { .. }
            | BatchError::TrailingBytes { .. }
            | BatchError::RecordCount(_)
            | BatchError::Compress { .. }
            | BatchError::Empty
            | BatchError::Control(_) => RejectKind::InvalidRecord,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests;
