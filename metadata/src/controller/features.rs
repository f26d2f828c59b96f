//! Finalizing features. Rules: D-60, D-61.

use std::collections::HashSet;

use crate::controller::Decision;
use crate::error::RequestError;
use crate::image::Image;
use crate::record::{FeatureLevelRecord, Record};

/// One feature of an UpdateFeatures request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// Name of the feature.
    pub name: String,
    /// The level to finalize; 0 removes the feature.
    pub level: i16,
    /// A level below the current one is allowed.
    pub allow_downgrade: bool,
}

/// Decides an UpdateFeatures request: all or nothing (D-61).
pub(crate) fn update(
    image: &Image,
    updates: &[FeatureUpdate],
    validate_only: bool,
) -> Decision<()> {
    let mut seen = HashSet::new();
    let mut records = Vec::new();
    for update in updates {
        let FeatureUpdate {
            name,
            level,
            allow_downgrade,
        } = update;
        if !seen.insert(name) {
            let text = format!("feature '{name}' is named more than once");
            return Err(RequestError::InvalidRequest(text));
        }
        let refuse = |text| Err(RequestError::InvalidUpdateVersion(text));
        let current = image.features().level(name);
        if *level < current && !allow_downgrade {
            return refuse(format!(
                "feature '{name}' has level {current}, {level} is a downgrade"
            ));
        }
        // Every broker must be able to work at the level.
        for broker in image.cluster().brokers() {
            let range = broker.features.iter().find(|feature| feature.name == *name);
            let (min, max) = range.map_or((0, 0), |range| (range.min, range.max));
            if *level != 0 && !(min..=max).contains(level) {
                let id = broker.id;
                return refuse(format!(
                    "broker {id} supports levels {min} to {max} of feature '{name}', not {level}"
                ));
            }
        }
        if *level != current {
            let record = FeatureLevelRecord {
                name: name.clone(),
                level: *level,
            };
            records.push(Record::FeatureLevel(record));
        }
    }
    if validate_only {
        records.clear();
    }
    Ok((records, ()))
}

#[cfg(test)]
mod tests;
