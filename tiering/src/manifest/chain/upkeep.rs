//! What a commit does on the way to keep the chain short: lists of old segments, old manifests.

use super::Chain;
use crate::error::TieringError;
use crate::manifest::{Manifest, Superseded, encode_sealed};

/// Old manifests worth a request.
const PRUNE_AT_ONCE: usize = 8;

impl Chain {
    pub(super) async fn seal_old_segments(&self, next: &mut Manifest) -> Result<(), TieringError> {
        if next.inline.len() < self.options.seal_segments.max(1) {
            return Ok(());
        }
        let sealed = encode_sealed(next.topic_id, next.partition, &next.inline);
        if let Some((pointer, bytes)) = sealed {
            self.bucket
                .put(&self.keys.absolute(&pointer.relative), bytes)
                .await?;
            next.sealed.push(pointer);
            next.inline.clear();
        }
        Ok(())
    }

    /// Deletes manifests that are old enough. Those that could not be deleted stay listed.
    pub(super) async fn prune(&self, next: &mut Manifest, now_ms: i64) {
        let grace_ms = i64::try_from(self.options.manifest_grace.as_millis()).unwrap_or(i64::MAX);
        let newest_kept = next.number.saturating_sub(self.options.keep_manifests);
        let old =
            |s: &Superseded| s.number < newest_kept && s.at_ms.saturating_add(grace_ms) <= now_ms;
        let due: Vec<u64> = next
            .superseded
            .iter()
            .filter(|s| old(s))
            .map(|s| s.number)
            .collect();
        if due.len() < PRUNE_AT_ONCE {
            return;
        }
        let keys: Vec<String> = due
            .iter()
            .map(|number| self.keys.manifest(*number))
            .collect();
        match self.bucket.delete_many(&keys).await {
            Ok(()) => next.superseded.retain(|s| !due.contains(&s.number)),
            Err(error) => tracing::debug!(%error, "old manifests stay for now"),
        }
    }
}
