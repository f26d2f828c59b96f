//! Stores a batch with another codec, or with the offsets it should have had (P-28, P-42).
//!
//! Records go from the old codec into the new one piece by piece, so that a small batch with a
//! large content costs no more memory than the batch that it may become.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::findings::Findings;
use super::{RejectedBatch, TargetCompression, ValidateOptions, envelope, stored_max_timestamp};
use crate::batch::{Attributes, BATCH_HEAD_BYTES, Batch, BatchHeader, Compression};
use crate::compression::Encoder;
use crate::error::{BatchError, RecordFault};
use crate::varint::{put_varint, put_varlong, varint_len};
use crate::walk::{RawHead, Sink, walk_body};

const CODEC_BITS: i16 = 7;

/// Encodes the records of `batch` anew with `codec` and offsets 0, 1, 2, …, and judges them on the
/// way. Producer, epoch, sequence and all flags stay.
pub(super) fn rewrite(
    batch: &Batch,
    codec: Compression,
    options: &ValidateOptions,
    mut findings: Findings,
    now_ms: i64,
) -> Result<Batch, RejectedBatch> {
    let old = batch.header();
    let mut rewriter = Rewriter {
        encoder: Encoder::new(codec, level(options), None)?,
        max: options.max_message_bytes.saturating_sub(BATCH_HEAD_BYTES),
        head: Vec::new(),
    };
    walk_body(
        &old,
        batch.body(),
        options.max_decompressed_bytes,
        &mut rewriter,
        |head| {
            findings.note(head);
            Ok(ControlFlow::Continue(()))
        },
    )?;
    findings.verdict()?;
    let body = rewriter.encoder.finish()?;
    envelope::check_size(BATCH_HEAD_BYTES + body.len(), options)?;
    let kept = Attributes::new(codec, options.timestamp_type, false, false).0;
    let header = BatchHeader {
        attributes: Attributes(old.attributes.0 & !CODEC_BITS | kept),
        max_timestamp: stored_max_timestamp(options, findings.max_timestamp(), now_ms),
        ..old
    };
    Ok(Batch::build(&header, Bytes::from(body)))
}

fn level(options: &ValidateOptions) -> Option<i32> {
    match options.compression {
        TargetCompression::Producer => None,
        TargetCompression::Codec { level, .. } => level,
    }
}

struct Rewriter {
    encoder: Encoder,
    /// Most bytes of output.
    max: usize,
    head: Vec<u8>,
}

impl Sink for Rewriter {
    fn head(&mut self, index: i32, head: &RawHead) -> Result<(), BatchError> {
        // The offset delta may change its length, and with it the record's.
        let length = i64::from(head.length) - varint_len(head.offset_delta) as i64
            + varint_len(index) as i64;
        let length =
            i32::try_from(length).map_err(|_| RecordFault::Length(head.length).at(index))?;
        self.head.clear();
        put_varint(&mut self.head, length);
        self.head.push(head.attributes);
        put_varlong(&mut self.head, head.timestamp_delta);
        put_varint(&mut self.head, index);
        self.encoder.write(&self.head)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), BatchError> {
        self.encoder.write(bytes)?;
        if self.encoder.output_len() > self.max {
            return Err(BatchError::TooLarge {
                max: self.max + BATCH_HEAD_BYTES,
            });
        }
        Ok(())
    }
}
