//! From a sealed local segment to a committed one: stream → verify → commit. Rules: S-1, S-3, S-7.
//!
//! **Crash safety**: killed before the commit, an object is left that no manifest names and no
//! later upload uses again; killed after it, the segment is there. **Retries**: the caller begins
//! again, under a new name. **Cancellation**: as a crash.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use strandline_bucket::{Bucket, PART_BYTES, SINGLE_PUT_BYTES};
use strandline_types::{Offset, TopicId};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::error::TieringError;
use crate::key::{PartitionKeys, SegmentName};
use crate::manifest::SegmentEntry;
use crate::segment_object::{
    AbortedTransaction, EpochStart, Extras, SegmentObjectWriter, SegmentSummary, WriterOptions,
};

/// A local segment that nothing is appended to any more. All methods may block on the disk; they
/// are called on a thread for that.
pub trait SegmentSource: Send + Sync + 'static {
    /// First offset of its range (inclusive).
    fn base_offset(&self) -> Offset;
    /// Offset after its range.
    fn next_offset(&self) -> Offset;
    /// Bytes of batches.
    fn size_in_bytes(&self) -> u64;
    /// Leader epochs that intersect it, oldest first; may be empty, then they are taken from the
    /// batches (S-4).
    fn leader_epochs(&self) -> Vec<EpochStart>;
    /// Transactions whose abort markers lie in it.
    fn aborted_transactions(&self) -> io::Result<Vec<AbortedTransaction>>;
    /// The state of the producers at its end, in Kafka's format; may be empty.
    fn producer_snapshot(&self) -> io::Result<Bytes>;
    /// Exactly `len` bytes of the batches from `position` on.
    fn read_at(&self, position: u64, len: usize) -> io::Result<Bytes>;
}

/// What an upload did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// The committed segment.
    pub entry: SegmentEntry,
    /// Number of the manifest that holds it.
    pub manifest_number: u64,
}

pub(crate) struct Uploader<'a> {
    pub(crate) bucket: &'a Arc<Bucket>,
    pub(crate) keys: &'a PartitionKeys,
    pub(crate) topic_id: TopicId,
    pub(crate) partition: i32,
    pub(crate) options: WriterOptions,
}

impl Uploader<'_> {
    /// Writes and verifies the object; what is committed next.
    pub(crate) async fn upload(
        &self,
        source: Arc<dyn SegmentSource>,
        leader_epoch: i32,
        now_ms: i64,
    ) -> Result<SegmentEntry, TieringError> {
        let base_offset = source.base_offset();
        let name = SegmentName {
            base_offset,
            leader_epoch,
            uuid: Uuid::new_v4(),
        };
        let key = self.keys.segment(&name);
        let writer =
            SegmentObjectWriter::new(self.options, self.topic_id, self.partition, base_offset);
        let summary = if source.size_in_bytes() <= SINGLE_PUT_BYTES {
            self.put_small(&key, source, writer).await?
        } else {
            self.put_large(&key, source, writer).await?
        };
        self.verify(&key, &summary).await?;
        Ok(entry(name, &summary, now_ms))
    }

    async fn put_small(
        &self,
        key: &str,
        source: Arc<dyn SegmentSource>,
        writer: SegmentObjectWriter,
    ) -> Result<SegmentSummary, TieringError> {
        let (pieces, summary) = blocking(move || {
            let mut reading = Reading {
                source,
                writer: Some(writer),
                position: 0,
                summary: None,
            };
            let mut pieces = Vec::new();
            while let Some(piece) = reading.next()? {
                pieces.push(piece);
            }
            Ok((pieces, reading.summary))
        })
        .await?;
        self.bucket.put(key, pieces).await?;
        summary.ok_or(TieringError::Cancelled)
    }

    async fn put_large(
        &self,
        key: &str,
        source: Arc<dyn SegmentSource>,
        writer: SegmentObjectWriter,
    ) -> Result<SegmentSummary, TieringError> {
        let reading = Reading {
            source,
            writer: Some(writer),
            position: 0,
            summary: None,
        };
        let reading = Arc::new(Mutex::new(Some(reading)));
        // An error of the source comes back as one of the bucket; what it was is kept here.
        let failed = Arc::new(parking_lot::Mutex::new(None));
        let parts = stream::try_unfold((), |()| {
            let (reading, failed) = (Arc::clone(&reading), Arc::clone(&failed));
            async move {
                let mut slot = reading.lock().await;
                let Some(mut now) = slot.take() else {
                    return Err("the source is gone".to_owned());
                };
                let (now, part) = blocking(move || {
                    let part = now.next();
                    Ok((now, part))
                })
                .await
                .map_err(|error| error.to_string())?;
                *slot = Some(now);
                match part {
                    Ok(part) => Ok(part.map(|part| (part, ()))),
                    Err(error) => {
                        let text = error.to_string();
                        *failed.lock() = Some(error);
                        Err(text)
                    }
                }
            }
        });
        let put = self.bucket.put_parts(key, parts).await;
        if let Some(error) = failed.lock().take() {
            return Err(error);
        }
        put?;
        let summary = reading
            .lock()
            .await
            .take()
            .and_then(|reading| reading.summary);
        summary.ok_or(TieringError::Cancelled)
    }

    /// The object has the size that it must have, and ends with the footer that was written: one
    /// ranged GET tells both.
    async fn verify(&self, key: &str, summary: &SegmentSummary) -> Result<(), TieringError> {
        let start = summary.object_bytes - summary.footer_bytes;
        let read = self
            .bucket
            .get_range(key, start..summary.object_bytes)
            .await?;
        if read.object_size != summary.object_bytes {
            let why = format!(
                "it has {} bytes after the upload of {}",
                read.object_size, summary.object_bytes
            );
            return Err(TieringError::corrupt(key, why));
        }
        if crc32c::crc32c(&read.bytes) != summary.footer_crc {
            return Err(TieringError::corrupt(
                key,
                "its footer is not what was uploaded",
            ));
        }
        Ok(())
    }
}

fn entry(name: SegmentName, summary: &SegmentSummary, now_ms: i64) -> SegmentEntry {
    let footer = &summary.footer;
    SegmentEntry {
        base_offset: name.base_offset,
        last_offset: footer.last_offset,
        leader_epoch: name.leader_epoch,
        uuid: name.uuid,
        log_bytes: footer.log_bytes,
        object_bytes: summary.object_bytes,
        log_crc: footer.log_crc,
        footer_crc: summary.footer_crc,
        block_bytes: footer.block_bytes,
        min_timestamp: footer.min_timestamp,
        max_timestamp: footer.max_timestamp,
        created_ms: now_ms,
        has_aborted: summary.has_aborted,
        contiguous: footer.contiguous,
        epochs: summary.epochs.clone(),
    }
}

/// The object's bytes in parts of the size that an upload wants.
struct Reading {
    source: Arc<dyn SegmentSource>,
    writer: Option<SegmentObjectWriter>,
    position: u64,
    summary: Option<SegmentSummary>,
}

impl Reading {
    /// Blocks on the disk.
    fn next(&mut self) -> Result<Option<Bytes>, TieringError> {
        let Some(mut writer) = self.writer.take() else {
            return Ok(None);
        };
        let left = self.source.size_in_bytes() - self.position;
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(PART_BYTES);
        let bytes = self.source.read_at(self.position, len)?;
        writer.push(&bytes).map_err(|why| self.damaged(why))?;
        self.position += len as u64;
        if (len as u64) < left {
            self.writer = Some(writer);
            return Ok(Some(bytes));
        }
        let extras = Extras {
            aborted: self.source.aborted_transactions()?,
            epochs: self.source.leader_epochs(),
            producer_snapshot: self.source.producer_snapshot()?,
        };
        let finished = writer.finish(self.source.next_offset(), extras);
        let (tail, summary) = finished.map_err(|why| self.damaged(why))?;
        self.summary = Some(summary);
        let mut last = Vec::with_capacity(bytes.len() + tail.len());
        last.extend_from_slice(&bytes);
        last.extend_from_slice(&tail);
        Ok(Some(last.into()))
    }

    fn damaged(&self, why: String) -> TieringError {
        TieringError::DamagedSource {
            base_offset: self.source.base_offset(),
            why,
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TieringError> + Send + 'static,
) -> Result<T, TieringError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| TieringError::Cancelled)?
}
