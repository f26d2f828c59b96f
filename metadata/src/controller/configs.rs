//! Changing configs. Rules: D-40…D-45.

use std::collections::HashSet;

use strandline_types::{BrokerId, TopicName};

use crate::controller::{ConfigValidator, Decision};
use crate::error::RequestError;
use crate::image::{ConfigMap, Image};
use crate::record::{ConfigRecord, ConfigResource, ConfigResourceType, Record};

/// What to do with one config (D-41); the numbers are the protocol's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOp {
    /// Set the value (0).
    Set,
    /// Go back to the default (1).
    Delete,
    /// Add to a list what is not in it yet (2).
    Append,
    /// Take out of a list (3).
    Subtract,
}

impl ConfigOp {
    /// The operation with the protocol's number `id`.
    pub fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::Set),
            1 => Some(Self::Delete),
            2 => Some(Self::Append),
            3 => Some(Self::Subtract),
            _ => None,
        }
    }
}

/// One change of one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Name of the config.
    pub name: String,
    /// What to do.
    pub op: ConfigOp,
    /// The value; ignored for DELETE.
    pub value: Option<String>,
}

/// How to change the configs of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigAlteration {
    /// IncrementalAlterConfigs: only what is named.
    Incremental(Vec<ConfigChange>),
    /// AlterConfigs: exactly these overrides and no others (D-42).
    Replace(Vec<(String, Option<String>)>),
}

/// An AlterConfigs or IncrementalAlterConfigs request.
#[derive(Debug, Clone, Default)]
pub struct AlterConfigs {
    /// The resources with their changes.
    pub resources: Vec<(ConfigResource, ConfigAlteration)>,
    /// Check, but change nothing (D-45).
    pub validate_only: bool,
}

/// Decides the request; one result per resource, in its order.
pub(crate) fn alter_configs(
    image: &Image,
    request: &AlterConfigs,
    validator: &dyn ConfigValidator,
) -> Decision<Vec<Result<(), RequestError>>> {
    let mut seen = HashSet::new();
    let repeated: HashSet<_> = request
        .resources
        .iter()
        .map(|(resource, _)| resource)
        .filter(|resource| !seen.insert(*resource))
        .collect();
    let mut records = Vec::new();
    let mut replies = Vec::new();
    for (resource, alteration) in &request.resources {
        let result = if repeated.contains(resource) {
            let text = format!("resource '{}' is named more than once", resource.name);
            Err(RequestError::InvalidRequest(text))
        } else {
            alter(image, resource, alteration, validator)
        };
        replies.push(result.map(|new| records.extend(new)));
    }
    if request.validate_only {
        records.clear();
    }
    Ok((records, replies))
}

fn alter(
    image: &Image,
    resource: &ConfigResource,
    alteration: &ConfigAlteration,
    validator: &dyn ConfigValidator,
) -> Result<Vec<Record>, RequestError> {
    check_resource(image, resource)?;
    let current = image.configs().get(resource).map(AsRef::as_ref);
    let none = ConfigMap::new();
    let current = current.unwrap_or(&none);
    let target = match alteration {
        ConfigAlteration::Incremental(changes) => {
            incremental(resource, current, changes, validator)?
        }
        ConfigAlteration::Replace(entries) => replacement(entries)?,
    };
    let target = validator.validate(resource, &target, image.configs())?;
    let record = |name: &String, value: Option<&String>| {
        Record::Config(ConfigRecord {
            resource: resource.clone(),
            name: name.clone(),
            value: value.cloned(),
        })
    };
    let removed = current.keys().filter(|name| !target.contains_key(*name));
    let set = target
        .iter()
        .filter(|(name, value)| current.get(*name) != Some(value));
    Ok(removed
        .map(|name| record(name, None))
        .chain(set.map(|(name, value)| record(name, Some(value))))
        .collect())
}

/// D-43: the resource must exist, a broker must be named by its number or be all of them.
fn check_resource(image: &Image, resource: &ConfigResource) -> Result<(), RequestError> {
    let name = resource.name.as_str();
    match resource.kind {
        ConfigResourceType::Topic => {
            TopicName::new(name).map_err(|e| RequestError::InvalidTopicName(e.to_string()))?;
            if image.topics().by_name(name).is_none() {
                return Err(RequestError::UnknownTopicOrPartition(name.to_owned()));
            }
            Ok(())
        }
        ConfigResourceType::Broker if name.is_empty() => Ok(()),
        ConfigResourceType::Broker => {
            let id = name.parse().map_err(|_| {
                RequestError::InvalidRequest(format!("broker id '{name}' is not a number"))
            })?;
            if id < 0 || BrokerId(id).to_string() != name {
                let text = format!("broker id '{name}' is not a broker id");
                return Err(RequestError::InvalidRequest(text));
            }
            image.cluster().broker(BrokerId(id)).ok_or_else(|| {
                RequestError::InvalidRequest(format!("broker {id} is not registered"))
            })?;
            Ok(())
        }
        ConfigResourceType::ClientMetrics | ConfigResourceType::Group if name.is_empty() => Err(
            RequestError::InvalidRequest("the resource has no name".to_owned()),
        ),
        ConfigResourceType::ClientMetrics | ConfigResourceType::Group => Ok(()),
    }
}

/// D-42: the overrides are these and no others.
fn replacement(entries: &[(String, Option<String>)]) -> Result<ConfigMap, RequestError> {
    let mut target = ConfigMap::new();
    for (name, value) in entries {
        let value = value.clone().ok_or_else(|| null_value(name))?;
        if target.insert(name.clone(), value).is_some() {
            return Err(duplicate_key(name));
        }
    }
    Ok(target)
}

/// D-41.
fn incremental(
    resource: &ConfigResource,
    current: &ConfigMap,
    changes: &[ConfigChange],
    validator: &dyn ConfigValidator,
) -> Result<ConfigMap, RequestError> {
    let mut target = current.clone();
    let mut seen = HashSet::new();
    for change in changes {
        let name = &change.name;
        if !seen.insert(name) {
            return Err(duplicate_key(name));
        }
        if change.op == ConfigOp::Delete {
            target.remove(name);
            continue;
        }
        let value = change.value.as_deref().ok_or_else(|| null_value(name))?;
        let value = match change.op {
            ConfigOp::Append | ConfigOp::Subtract => {
                let default = validator.list_default(resource, name).ok_or_else(|| {
                    RequestError::InvalidConfig(format!(
                        "config '{name}' is not a list: nothing can be appended or subtracted"
                    ))
                })?;
                let list = current.get(name).unwrap_or(&default);
                edit_list(list, value, change.op == ConfigOp::Append)
            }
            ConfigOp::Set | ConfigOp::Delete => value.to_owned(),
        };
        target.insert(name.clone(), value);
    }
    Ok(target)
}

fn edit_list(list: &str, value: &str, append: bool) -> String {
    let items = |text| {
        str::split(text, ',')
            .map(str::trim)
            .filter(|item: &&str| !item.is_empty())
    };
    let mut result: Vec<_> = items(list).collect();
    for item in items(value) {
        let found = result.contains(&item);
        if append && !found {
            result.push(item);
        } else if !append {
            result.retain(|other| *other != item);
        }
    }
    result.join(",")
}

fn null_value(name: &str) -> RequestError {
    RequestError::InvalidRequest(format!("config '{name}' has a null value"))
}

fn duplicate_key(name: &str) -> RequestError {
    RequestError::InvalidRequest(format!("config '{name}' is named more than once"))
}

#[cfg(test)]
mod tests;
