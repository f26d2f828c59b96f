//! Rebuilds the state of a shard from the records of its partition.
//!
//! Rules: G-62, G-71, T-43, section 4.3 (unknown key versions are ignored).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::classic::ClassicGroup;
use crate::group::{Group, Groups};
use crate::offsets::GroupOffsets;
use crate::records::{CommittedOffset, GroupMetadata, RecordKey};
use strandline_coordinator::{AppendToken, RecordError};
use strandline_types::ProducerId;

#[derive(Debug, Default)]
struct LoadedGroup {
    metadata: Option<GroupMetadata>,
    offsets: GroupOffsets,
}

/// Takes the records of a partition in the order of the log; the last of each key counts.
#[derive(Debug, Default)]
pub struct Loader {
    groups: BTreeMap<String, LoadedGroup>,
    /// Where each producer has commits that may still wait for its marker.
    open: HashMap<ProducerId, HashSet<String>>,
    ignored_count: u64,
    /// Place of the record that comes, in the order of the log.
    at: u64,
}

impl Loader {
    /// Nothing loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one record; without a value it is a tombstone. After an error the record is as if it
    /// had not been there, and the caller may go on.
    ///
    /// # Errors
    /// The record has a known key version and does not have Kafka's format.
    pub fn feed(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), RecordError> {
        self.at += 1;
        match RecordKey::decode(key)? {
            RecordKey::Offset {
                group_id,
                topic,
                partition,
            } => {
                let offset = value.map(CommittedOffset::decode).transpose()?;
                let group = self.groups.entry(group_id).or_default();
                group
                    .offsets
                    .load(&topic, partition, AppendToken(self.at), offset);
            }
            RecordKey::Group { group_id } => {
                let metadata = value.map(GroupMetadata::decode).transpose()?;
                self.groups.entry(group_id).or_default().metadata = metadata;
            }
            RecordKey::Other { version } => {
                tracing::debug!(version, "ignored a group record of an unknown version");
                self.ignored_count += 1;
            }
        }
        Ok(())
    }

    /// Takes one record of a producer's transaction: it waits for the marker (G-62).
    ///
    /// # Errors
    /// As [`Loader::feed`].
    pub fn feed_transactional(
        &mut self,
        producer_id: ProducerId,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        self.at += 1;
        let decoded = RecordKey::decode(key)?;
        // Nothing but offsets is written in transactions.
        let (
            RecordKey::Offset {
                group_id,
                topic,
                partition,
            },
            Some(value),
        ) = (decoded, value)
        else {
            self.ignored_count += 1;
            return Ok(());
        };
        let offset = CommittedOffset::decode(value)?;
        let open = self.open.entry(producer_id).or_default();
        if !open.contains(&group_id) {
            open.insert(group_id.clone());
        }
        let group = self.groups.entry(group_id).or_default();
        let at = AppendToken(self.at);
        group
            .offsets
            .begin_pending(&topic, partition, producer_id, at, offset);
        Ok(())
    }

    /// Takes the marker of a producer's transaction.
    pub fn feed_marker(&mut self, producer_id: ProducerId, committed: bool) {
        self.at += 1;
        // Not all groups: there are as many markers as there were transactions.
        for group_id in self.open.remove(&producer_id).unwrap_or_default() {
            if let Some(group) = self.groups.get_mut(&group_id) {
                group
                    .offsets
                    .end_transaction(producer_id, AppendToken(self.at), committed);
            }
        }
    }

    /// Place of the last record.
    pub(crate) fn position(&self) -> AppendToken {
        AppendToken(self.at)
    }

    /// Records with key versions that are not understood.
    pub fn ignored_count(&self) -> u64 {
        self.ignored_count
    }

    /// Every topic that has an offset in some group: those that did not exist any more when the
    /// loading began belong into [`GroupShard::on_topics_deleted`](crate::GroupShard::on_topics_deleted)
    /// before the start.
    pub fn topics_with_offsets(&self) -> BTreeSet<String> {
        let topics = self
            .groups
            .values()
            .flat_map(|group| group.offsets.topics());
        topics.map(|topic| topic.to_string()).collect()
    }

    pub(crate) fn finish(self) -> Groups {
        let mut groups = Groups::new();
        for (group_id, loaded) in self.groups {
            let id: Arc<str> = group_id.into();
            let mut group = Group::new(Arc::clone(&id));
            group.offsets = loaded.offsets;
            if let Some(metadata) = loaded.metadata {
                group.classic = ClassicGroup::from_record(Arc::clone(&id), metadata);
            }
            if !group.is_vacant() {
                groups.insert(id, group);
            }
        }
        groups
    }
}
