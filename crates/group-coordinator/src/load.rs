//! Rebuilds the state of a shard from the records of its partition.
//!
//! Rules: G-71, section 4.3 (unknown key versions are ignored).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classic::ClassicGroup;
use crate::group::{Group, Groups};
use crate::offsets::GroupOffsets;
use crate::records::{CommittedOffset, GroupMetadata, RecordError, RecordKey};

#[derive(Debug, Default)]
struct LoadedGroup {
    metadata: Option<GroupMetadata>,
    offsets: GroupOffsets,
}

/// Takes the records of a partition in the order of the log; the last of each key counts.
#[derive(Debug, Default)]
pub struct Loader {
    groups: BTreeMap<String, LoadedGroup>,
    ignored_count: u64,
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
        match RecordKey::decode(key)? {
            RecordKey::Offset {
                group_id,
                topic,
                partition,
            } => {
                let offset = value.map(CommittedOffset::decode).transpose()?;
                let group = self.groups.entry(group_id).or_default();
                group.offsets.load(&topic, partition, offset);
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

    /// Records with key versions that are not understood.
    pub fn ignored_count(&self) -> u64 {
        self.ignored_count
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
