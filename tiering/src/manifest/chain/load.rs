//! Finding and reading the newest manifest.

use std::sync::Arc;

use bytes::Bytes;
use strandline_types::NO_PARTITION_LEADER_EPOCH;

use super::{Chain, ChainIdentity, Head, now};
use crate::error::TieringError;
use crate::manifest::Manifest;

impl Chain {
    pub(super) async fn newest_number(&self) -> Result<Option<u64>, TieringError> {
        // Listing from what we know would miss a chain that was deleted and begun again.
        let listed = self.bucket.list(&self.keys.manifests(), None).await?;
        Ok(listed
            .iter()
            .filter_map(|object| self.keys.parse_manifest(&object.key))
            .max())
    }

    pub(super) async fn reload(&self, head: &mut Head) -> Result<(), TieringError> {
        // The newest may be pruned between the listing and the read only if the chain went on.
        for _ in 0..3 {
            let started = now();
            let Some(number) = self.newest_number().await? else {
                self.publish(head, Arc::new(self.identity.empty()), started);
                return Ok(());
            };
            if head.certain && number == head.manifest.number {
                head.confirmed = started;
                return Ok(());
            }
            let key = self.keys.manifest(number);
            let manifest = match self.read(&key, number).await {
                Err(TieringError::Bucket(error)) if error.is_not_found() => continue,
                other => other?,
            };
            self.publish(head, Arc::new(manifest), started);
            return Ok(());
        }
        Err(TieringError::corrupt(
            &self.keys.manifests(),
            "its newest manifest keeps vanishing",
        ))
    }

    pub(super) async fn read(&self, key: &str, number: u64) -> Result<Manifest, TieringError> {
        let bytes = self.bucket.get(key).await?;
        match self.decode(key, &bytes, number) {
            Err(error) if error.is_corruption() => {
                // Damage on the way here may be gone the second time.
                let again = self.bucket.get(key).await?;
                self.decode(key, &again, number)
            }
            other => other,
        }
    }

    pub(super) fn decode(
        &self,
        key: &str,
        bytes: &Bytes,
        number: u64,
    ) -> Result<Manifest, TieringError> {
        let manifest = Manifest::decode(key, bytes)?;
        let ours = manifest.cluster_id == self.identity.cluster_id
            && manifest.topic_id == self.identity.topic_id
            && manifest.partition == self.identity.partition
            && manifest.number == number;
        if ours {
            Ok(manifest)
        } else {
            Err(TieringError::corrupt(
                key,
                "it is the manifest of another place",
            ))
        }
    }
}

impl ChainIdentity {
    pub(super) fn empty(&self) -> Manifest {
        Manifest {
            number: 0,
            writer_id: self.writer_id,
            broker_id: self.broker_id,
            leader_epoch: NO_PARTITION_LEADER_EPOCH,
            created_ms: 0,
            cluster_id: self.cluster_id.clone(),
            topic_id: self.topic_id,
            topic: self.topic.clone(),
            partition: self.partition,
            deleted: false,
            log_start_offset: 0,
            epochs: Vec::new(),
            sealed: Vec::new(),
            inline: Vec::new(),
            pending_deletes: Vec::new(),
            superseded: Vec::new(),
        }
    }
}
