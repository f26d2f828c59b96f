//! Upload and commit of segments: T-1, T-2, T-4 (see the crate's docs).

use std::sync::Arc;
use std::time::Instant;

use strandline_types::Offset;

use super::RemotePartition;
use crate::error::TieringError;
use crate::manifest::chain::Verdict;
use crate::manifest::{Manifest, SegmentEntry};
use crate::upload::{SegmentSource, Uploaded, Uploader};

impl RemotePartition {
    /// Uploads a segment and commits it. `limit` is the smaller of high watermark and last stable
    /// offset. Errors: nothing is committed, but for an outcome of "maybe", which the next call
    /// clears up; a segment that is already there is [`TieringError::Overlap`].
    pub async fn upload(
        &self,
        source: Arc<dyn SegmentSource>,
        limit: Offset,
        now_ms: i64,
    ) -> Result<Uploaded, TieringError> {
        let uploaded = self.try_upload(source, limit, now_ms).await;
        let metrics = &self.shared.fetcher.metrics;
        match &uploaded {
            Ok(uploaded) => {
                metrics.uploaded_segments.get_or_create(&self.label()).inc();
                let bytes = uploaded.entry.log_bytes;
                metrics
                    .uploaded_bytes
                    .get_or_create(&self.label())
                    .inc_by(bytes);
            }
            Err(_) => {
                metrics.upload_errors.get_or_create(&self.label()).inc();
            }
        }
        uploaded
    }

    async fn try_upload(
        &self,
        source: Arc<dyn SegmentSource>,
        limit: Offset,
        now_ms: i64,
    ) -> Result<Uploaded, TieringError> {
        let next_offset = source.next_offset();
        if next_offset > limit {
            return Err(TieringError::AboveLimit { next_offset, limit });
        }
        let began = Instant::now();
        let _upload = self.uploads.read().await;
        // Before the bytes travel; the commit asks again. What we know may be old.
        if may_follow(&self.chain.manifest(), source.base_offset(), next_offset).is_err() {
            self.refresh().await?;
            may_follow(&self.chain.manifest(), source.base_offset(), next_offset)?;
        }
        self.chain.check_fence()?;
        if self.chain.manifest().deleted {
            return Err(TieringError::Deleted);
        }
        let uploader = Uploader {
            bucket: &self.shared.fetcher.bucket,
            keys: &self.keys,
            topic_id: self.id.topic_id,
            partition: self.id.partition,
            options: self.shared.writer_options,
        };
        let entry = uploader
            .upload(source, self.chain.leader_epoch(), now_ms)
            .await?;
        // The grace of what this commit supersedes begins with it, and the upload may have taken long.
        let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let manifest = self
            .commit(now_ms.saturating_add(took_ms), |manifest| {
                append(manifest, &entry)
            })
            .await?;
        Ok(Uploaded {
            entry,
            manifest_number: manifest.number,
        })
    }
}

/// T-1 at commit: no overlap, no gap.
fn may_follow(
    manifest: &Manifest,
    base_offset: Offset,
    next_offset: Offset,
) -> Result<(), TieringError> {
    match manifest.end_offset() {
        Some(end_offset) if base_offset < end_offset => Err(TieringError::Overlap {
            base_offset,
            end_offset,
        }),
        Some(end_offset) if base_offset > end_offset => Err(TieringError::Gap {
            base_offset,
            end_offset,
        }),
        None if next_offset <= manifest.log_start_offset => Err(TieringError::Overlap {
            base_offset,
            end_offset: manifest.log_start_offset,
        }),
        _ => Ok(()),
    }
}

fn append(manifest: &mut Manifest, entry: &SegmentEntry) -> Result<Verdict, TieringError> {
    may_follow(manifest, entry.base_offset, entry.next_offset())?;
    if manifest.end_offset().is_none() {
        // Below the first segment there is nothing to read.
        manifest.log_start_offset = manifest.log_start_offset.max(entry.base_offset);
    }
    for start in &entry.epochs {
        if manifest
            .epochs
            .last()
            .is_none_or(|last| last.epoch < start.epoch)
        {
            manifest.epochs.push(*start);
        }
    }
    manifest.inline.push(entry.clone());
    Ok(Verdict::Write)
}
