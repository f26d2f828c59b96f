//! What one group id stands for: a protocol (classic, for now) and its committed offsets.
//!
//! Rules: G-51, G-59.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::classic::ClassicGroup;
use crate::offsets::{GroupOffsets, tombstones};
use crate::records::RecordKey;
use strandline_coordinator::CoordinatorRecord;
use strandline_coordinator::RecordError;

/// All groups of a shard, by id.
pub(crate) type Groups = BTreeMap<Arc<str>, Group>;

/// A group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) classic: ClassicGroup,
    pub(crate) offsets: GroupOffsets,
}

impl Group {
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            classic: ClassicGroup::new(id),
            offsets: GroupOffsets::default(),
        }
    }

    /// Nobody would miss it, so it need not stay in memory.
    pub(crate) fn is_vacant(&self) -> bool {
        self.classic.is_vacant() && self.offsets.is_empty()
    }

    /// Tombstones of all that the log has of it when `keys` are the only offsets left.
    pub(crate) fn tombstones(
        &self,
        keys: &[(Arc<str>, i32)],
    ) -> Result<Vec<CoordinatorRecord>, RecordError> {
        let mut records = tombstones(&self.classic.id, keys)?;
        if self.classic.has_record {
            let key = RecordKey::encode_group(&self.classic.id)?;
            records.push(CoordinatorRecord { key, value: None });
        }
        Ok(records)
    }
}

/// Finds a group or makes an empty one.
pub(crate) fn get_or_insert<'a>(groups: &'a mut Groups, group_id: &str) -> &'a mut Group {
    let id = match groups.get_key_value(group_id) {
        Some((id, _)) => Arc::clone(id),
        None => Arc::from(group_id),
    };
    groups
        .entry(Arc::clone(&id))
        .or_insert_with(|| Group::new(id))
}

/// Forgets a group that is vacant.
pub(crate) fn remove_if_vacant(groups: &mut Groups, group_id: &str) {
    if groups.get(group_id).is_some_and(Group::is_vacant) {
        groups.remove(group_id);
    }
}
