//! Finalized features. Rules: D-60, D-61.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::{FeatureLevelRecord, Record};

/// Levels at which the cluster works.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeaturesImage {
    levels: Arc<BTreeMap<String, i16>>,
}

impl FeaturesImage {
    /// The finalized level; 0 if the feature is not finalized.
    pub fn level(&self, name: &str) -> i16 {
        self.levels.get(name).copied().unwrap_or(0)
    }

    /// All finalized features, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i16)> {
        self.levels
            .iter()
            .map(|(name, level)| (name.as_str(), *level))
    }

    /// True if no feature is finalized.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.levels, &other.levels)
    }

    pub(crate) fn replay(&mut self, record: &FeatureLevelRecord) {
        let levels = Arc::make_mut(&mut self.levels);
        if record.level == 0 {
            levels.remove(&record.name);
        } else {
            levels.insert(record.name.clone(), record.level);
        }
    }

    pub(crate) fn records(&self, each: &mut impl FnMut(Record)) {
        for (name, level) in self.iter() {
            each(Record::FeatureLevel(FeatureLevelRecord {
                name: name.to_owned(),
                level,
            }));
        }
    }
}
