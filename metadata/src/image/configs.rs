//! Config overrides per resource. Rules: D-31, D-33, D-41, D-42.

use std::collections::BTreeMap;
use std::sync::Arc;

use strandline_types::BrokerId;

use crate::image::sorted_map::{Change, SortedMap};
use crate::record::{ConfigRecord, ConfigResource, Record};

/// Names and values that were set explicitly on one resource, sorted.
pub type ConfigMap = BTreeMap<String, String>;

/// What was set explicitly; defaults and static settings are not here.
#[derive(Debug, Clone, Default)]
pub struct ConfigsImage {
    resources: SortedMap<ConfigResource, Arc<ConfigMap>>,
}

impl ConfigsImage {
    /// Overrides of a resource; `None` if it has none.
    pub fn get(&self, resource: &ConfigResource) -> Option<&Arc<ConfigMap>> {
        self.resources.get(resource)
    }

    /// Overrides of a topic.
    pub fn topic(&self, name: &str) -> Option<&Arc<ConfigMap>> {
        self.get(&ConfigResource::topic(name))
    }

    /// Dynamic configs of one broker.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<ConfigMap>> {
        self.get(&ConfigResource::broker(id))
    }

    /// Dynamic defaults of all brokers.
    pub fn default_broker(&self) -> Option<&Arc<ConfigMap>> {
        self.get(&ConfigResource::default_broker())
    }

    /// All resources with overrides, sorted by type and name.
    pub fn iter(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<ConfigMap>)> {
        self.resources.iter()
    }

    pub(crate) fn changes_since<'a>(
        &'a self,
        old: &'a Self,
    ) -> Vec<Change<'a, ConfigResource, Arc<ConfigMap>>> {
        self.resources.changes_since(&old.resources)
    }

    pub(crate) fn replay(&mut self, record: &ConfigRecord) {
        match &record.value {
            Some(value) => match self.resources.get_mut(&record.resource) {
                Some(configs) => {
                    Arc::make_mut(configs).insert(record.name.clone(), value.clone());
                }
                None => {
                    let configs = ConfigMap::from([(record.name.clone(), value.clone())]);
                    self.resources
                        .insert(record.resource.clone(), Arc::new(configs));
                }
            },
            None => {
                if let Some(configs) = self.resources.get_mut(&record.resource) {
                    Arc::make_mut(configs).remove(&record.name);
                    if configs.is_empty() {
                        self.resources.remove(&record.resource);
                    }
                }
            }
        }
    }

    pub(crate) fn remove_all(&mut self, resource: &ConfigResource) {
        self.resources.remove(resource);
    }

    pub(crate) fn records(&self, each: &mut impl FnMut(Record)) {
        for (resource, configs) in self.iter() {
            for (name, value) in configs.iter() {
                each(Record::Config(ConfigRecord {
                    resource: resource.clone(),
                    name: name.clone(),
                    value: Some(value.clone()),
                }));
            }
        }
    }
}
