//! Everything that a batch's header and checksum tell (P-5, P-20…P-22, P-24…P-27, P-31).
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

use bytes::Bytes;
use strandline_types::TimestampType;

use super::{RejectKind, RejectedBatch, ValidateOptions};
use crate::batch::{Batch, BatchHeader, Compression};

/// Where every format version keeps its number.
const MAGIC_AT: usize = 16;

/// Takes exactly one batch of version 2 (P-5, P-22).
pub(super) fn only_batch(records: Bytes) -> Result<Batch, RejectedBatch> {
    if records.is_empty() {
        return Err(RejectedBatch::invalid("the partition's records are empty"));
    }
    // Before anything else: older versions have shorter headers.
    if let Some(&magic) = records.get(MAGIC_AT)
        && magic != 2
    {
        let version = i8::from_be_bytes([magic]);
        return Err(crate::BatchError::Magic(version).into());
    }
    let size = BatchHeader::parse(&records)?.size_in_bytes();
    match records.get(size..) {
        Some(rest) if looks_like_a_batch(rest) => Err(RejectedBatch::invalid(
            "a partition takes exactly one batch in a request",
        )),
        // One byte missing or one too many: both mean that the length is not right.
        Some(_) | None => Ok(Batch::from_bytes(records)?),
    }
}

fn looks_like_a_batch(bytes: &[u8]) -> bool {
    bytes.get(MAGIC_AT).is_some_and(|magic| *magic <= 2)
}

/// Checks what lies outside the records; the batch's codec.
pub(super) fn check(
    batch: &Batch,
    header: &BatchHeader,
    options: &ValidateOptions,
) -> Result<Compression, RejectedBatch> {
    if header.base_offset != 0 {
        let offset = header.base_offset;
        return Err(RejectedBatch::invalid(format!(
            "the base offset is {offset}, not 0"
        ))); // P-20
    }
    check_size(batch.size_in_bytes(), options)?;
    batch.verify_crc()?;
    let attributes = header.attributes;
    let codec = attributes.compression()?;
    check_counts(header)?;
    if attributes.is_control() && !options.allow_control {
        return Err(RejectedBatch::invalid(
            "a client may not write control records",
        )); // P-25
    }
    if attributes.has_delete_horizon() {
        return Err(RejectedBatch::invalid(
            "a producer may not set a delete horizon",
        ));
    }
    check_producer(header)?;
    if attributes.timestamp_type() == TimestampType::LogAppendTime {
        let message = "a producer may not set the timestamp type to LogAppendTime";
        return Err(RejectedBatch::new(RejectKind::InvalidTimestamp, message)); // P-31
    }
    Ok(codec)
}

/// P-21, for a batch as sent and as stored.
pub(super) fn check_size(size: usize, options: &ValidateOptions) -> Result<(), RejectedBatch> {
    let max = options.max_message_bytes;
    if size <= max {
        return Ok(());
    }
    let message = format!("the batch has {size} bytes, max.message.bytes allows {max}");
    Err(RejectedBatch::new(RejectKind::MessageTooLarge, message))
}

/// P-24
fn check_counts(header: &BatchHeader) -> Result<(), RejectedBatch> {
    let (count, last) = (header.record_count, header.last_offset_delta);
    if count > 0 && i64::from(last) + 1 == i64::from(count) {
        return Ok(());
    }
    let message = format!("the batch claims {count} records and a last offset delta of {last}");
    Err(RejectedBatch::invalid(message))
}

/// P-26, P-27. Markers carry a producer but no sequence (T-41).
fn check_producer(header: &BatchHeader) -> Result<(), RejectedBatch> {
    if !header.has_producer_id() {
        if header.attributes.is_transactional() {
            return Err(RejectedBatch::invalid(
                "a transactional batch needs a producer id",
            ));
        }
        return Ok(());
    }
    let no_sequence = header.base_sequence < 0 && !header.attributes.is_control();
    if no_sequence || header.producer_epoch < 0 {
        let message = format!(
            "a batch of producer {} has sequence {} and epoch {}",
            header.producer_id, header.base_sequence, header.producer_epoch
        );
        return Err(RejectedBatch::invalid(message));
    }
    Ok(())
}
