//! Retention and deletion of a partition's cold tier. Rules: S-21, S-22, S-24.
//!
//! **Crash safety**: what leaves is listed in the manifest until it is deleted, so nothing leaks.

use std::collections::HashSet;
use std::sync::Arc;

use super::RemotePartition;
use crate::error::TieringError;
use crate::expire::{ExpirePlan, ExpireRequest, Expired};
use crate::manifest::chain::Verdict;
use crate::manifest::{Manifest, ManifestView, PendingDelete, SealedPointer};

/// Objects that are deleted before it is noted that they are gone.
const SWEPT_AT_ONCE: usize = 1000;

impl RemotePartition {
    /// Applies retention: first a manifest with the new log start offset, then, after the grace
    /// period and by later calls, the objects go. Call it from time to time also without retention.
    pub async fn expire(
        &self,
        now_ms: i64,
        request: ExpireRequest,
    ) -> Result<Expired, TieringError> {
        self.chain.refresh_if_stale().await?;
        let swept = self.sweep(self.view().manifest(), now_ms).await;
        loop {
            let view = self.view();
            let (plan, front) = self.plan_expiry(&view, &request, &swept, now_ms).await?;
            let Some(committed) = self
                .commit_expiry(&view, &plan, &front, &swept, now_ms)
                .await?
            else {
                continue;
            };
            if plan.segments > 0 {
                let expired = &self.shared.fetcher.metrics.expired_segments;
                expired.get_or_create(&self.label()).inc_by(plan.segments);
            }
            return Ok(Expired {
                log_start_offset: committed.log_start_offset,
                segments: plan.segments,
                bytes: plan.bytes,
                is_cut: plan.is_cut,
            });
        }
    }

    /// `None` when the chain went on since the plan was made.
    async fn commit_expiry(
        &self,
        view: &ManifestView,
        plan: &ExpirePlan,
        front: &Front,
        swept: &HashSet<String>,
        now_ms: i64,
    ) -> Result<Option<Arc<Manifest>>, TieringError> {
        let due_ms = now_ms.saturating_add(self.shared.delete_grace_ms);
        let mut planned = true;
        let committed = self
            .commit(now_ms, |manifest| {
                planned = manifest.number == view.manifest().number;
                if !planned {
                    return Ok(Verdict::Keep);
                }
                let (start, doomed) = (manifest.log_start_offset, manifest.pending_deletes.len());
                manifest
                    .pending_deletes
                    .retain(|p| !swept.contains(&p.relative));
                let any_swept = manifest.pending_deletes.len() != doomed;
                remove_front(manifest, front, due_ms);
                manifest.log_start_offset = start.max(plan.log_start_offset);
                trim_epochs(manifest);
                let changed = plan.segments > 0 || any_swept || manifest.log_start_offset != start;
                Ok(if changed {
                    Verdict::Write
                } else {
                    Verdict::Keep
                })
            })
            .await?;
        Ok(planned.then_some(committed))
    }

    async fn plan_expiry(
        &self,
        view: &ManifestView,
        request: &ExpireRequest,
        swept: &HashSet<String>,
        now_ms: i64,
    ) -> Result<(ExpirePlan, Front), TieringError> {
        let manifest = view.manifest();
        let mut plan = ExpirePlan::new(
            request,
            manifest.log_start_offset,
            manifest.log_bytes(),
            self.room(manifest, request, swept),
            now_ms,
        );
        let mut front = Front::default();
        for pointer in &manifest.sealed {
            let live = view.live_of(pointer).await?;
            let removed = live.iter().take_while(|entry| plan.removes(entry)).count();
            front.names.extend(
                live.iter()
                    .take(removed)
                    .map(|entry| entry.name().relative()),
            );
            if let Some(first) = live.get(removed) {
                if removed > 0 {
                    let bytes = live.iter().skip(removed).map(|entry| entry.log_bytes).sum();
                    front.partial = Some(SealedPointer {
                        base_offset: first.base_offset,
                        removed: pointer.removed + removed as u32,
                        log_bytes: bytes,
                        ..pointer.clone()
                    });
                }
                return Ok((plan, front));
            }
            front.lists += 1;
            front.names.push(pointer.relative.clone());
        }
        let removed = manifest
            .inline
            .iter()
            .take_while(|entry| plan.removes(entry))
            .count();
        let names = manifest
            .inline
            .iter()
            .take(removed)
            .map(|entry| entry.name().relative());
        front.names.extend(names);
        front.inline = removed;
        Ok((plan, front))
    }

    /// Segments that may leave now. All of them where the log goes on behind the end: nothing can be kept then.
    fn room(&self, manifest: &Manifest, request: &ExpireRequest, swept: &HashSet<String>) -> u64 {
        let is_beyond = |end| request.log_start_offset >= end;
        if manifest.end_offset().is_some_and(is_beyond) {
            return u64::MAX;
        }
        let pending = manifest.pending_deletes.iter();
        let pending = pending.filter(|p| !swept.contains(&p.relative)).count();
        self.shared.max_pending_deletes.saturating_sub(pending) as u64
    }

    /// Deletes what is due; answers what is gone.
    async fn sweep(&self, manifest: &Manifest, now_ms: i64) -> HashSet<String> {
        let due = manifest
            .pending_deletes
            .iter()
            .filter(|pending| pending.due_ms <= now_ms);
        let due: Vec<&str> = due.map(|pending| pending.relative.as_str()).collect();
        let mut swept = HashSet::new();
        for some in due.chunks(SWEPT_AT_ONCE) {
            let keys: Vec<String> = some.iter().map(|name| self.keys.absolute(name)).collect();
            if let Err(error) = self.shared.fetcher.bucket.delete_many(&keys).await {
                tracing::warn!(%error, "objects that retention removed stay for now");
                break;
            }
            swept.extend(some.iter().map(|name| (*name).to_owned()));
        }
        swept
    }

    /// Deletes the partition from the bucket: first a manifest that says so, which ends every other
    /// writer, then all objects, the manifests last. May be called again until it succeeds.
    pub async fn delete_all(&self, now_ms: i64) -> Result<(), TieringError> {
        let deleted = self
            .commit(now_ms, |manifest| {
                if manifest.number == 0 {
                    return Ok(Verdict::Keep);
                }
                manifest.deleted = true;
                manifest.sealed.clear();
                manifest.inline.clear();
                manifest.epochs.clear();
                manifest.pending_deletes.clear();
                Ok(Verdict::Write)
            })
            .await;
        match deleted {
            Ok(_) | Err(TieringError::Deleted) => {}
            Err(error) => return Err(error),
        }
        // What was under way when the chain ended has come to its end: nothing arrives after the listing.
        let _none = self.uploads.write().await;
        let bucket = &self.shared.fetcher.bucket;
        let mut manifests = Vec::new();
        let mut after = None;
        loop {
            let page = bucket
                .list_page(self.keys.prefix(), after.as_deref())
                .await?;
            after = page.objects.last().map(|object| object.key.clone());
            let keys = page.objects.into_iter().map(|object| object.key);
            let (of_chain, others): (Vec<String>, Vec<String>) =
                keys.partition(|key| self.keys.parse_manifest(key).is_some());
            manifests.extend(of_chain);
            bucket.delete_many(&others).await?;
            if page.is_last {
                break;
            }
        }
        if let Some((newest, older)) = manifests.split_last() {
            bucket.delete_many(older).await?;
            bucket.delete_many(std::slice::from_ref(newest)).await?;
        }
        self.set_counted(0);
        Ok(())
    }
}

/// What expiry takes from the front of a manifest.
#[derive(Debug, Default)]
struct Front {
    lists: usize,
    partial: Option<SealedPointer>,
    inline: usize,
    names: Vec<String>,
}

fn remove_front(manifest: &mut Manifest, front: &Front, due_ms: i64) {
    manifest
        .sealed
        .drain(..front.lists.min(manifest.sealed.len()));
    if let (Some(partial), Some(first)) = (&front.partial, manifest.sealed.first_mut()) {
        *first = partial.clone();
    }
    manifest
        .inline
        .drain(..front.inline.min(manifest.inline.len()));
    let names = front.names.iter().cloned();
    let doomed = names.map(|relative| PendingDelete { relative, due_ms });
    manifest.pending_deletes.extend(doomed);
}

/// Epochs that end at or below the log start are no longer needed; the one it lies in is.
fn trim_epochs(manifest: &mut Manifest) {
    let start = manifest.log_start_offset;
    let ended = manifest
        .epochs
        .iter()
        .skip(1)
        .take_while(|next| next.start_offset <= start)
        .count();
    manifest.epochs.drain(..ended);
}
