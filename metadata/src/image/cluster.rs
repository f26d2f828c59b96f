//! Registered brokers. Rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use strandline_types::BrokerId;
use uuid::Uuid;

use crate::error::ReplayError;
use crate::record::{
    BrokerRegistrationChangeRecord, Listener, Record, RegisterBrokerRecord, SupportedFeature,
};

/// A registered broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerImage {
    /// `node.id`.
    pub id: BrokerId,
    /// Grows with each registration; a request with an older one is refused.
    pub epoch: i64,
    /// The process that registered.
    pub incarnation_id: Uuid,
    /// Where clients reach it.
    pub listeners: Vec<Listener>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Not part of the cluster: not shown to clients, leads nothing.
    pub fenced: bool,
    /// It wants to stop.
    pub in_controlled_shutdown: bool,
    /// `directory.id`s of its log dirs.
    pub log_dirs: Vec<Uuid>,
    /// What its version can do.
    pub features: Vec<SupportedFeature>,
}

impl BrokerImage {
    /// The listener of this name.
    pub fn listener(&self, name: &str) -> Option<&Listener> {
        self.listeners.iter().find(|listener| listener.name == name)
    }

    /// May hold leaderships and be shown to clients.
    pub fn is_alive(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }
}

/// All registered brokers, alive or fenced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterImage {
    brokers: Arc<BTreeMap<BrokerId, Arc<BrokerImage>>>,
}

impl ClusterImage {
    /// The broker of this id.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerImage>> {
        self.brokers.get(&id)
    }

    /// All registered brokers, sorted by id.
    pub fn brokers(&self) -> impl Iterator<Item = &Arc<BrokerImage>> {
        self.brokers.values()
    }

    /// Brokers that clients may be told of, sorted by id.
    pub fn unfenced_brokers(&self) -> impl Iterator<Item = &Arc<BrokerImage>> {
        self.brokers.values().filter(|broker| !broker.fenced)
    }

    /// Ids of the brokers that may receive replicas, sorted.
    pub fn alive_ids(&self) -> Vec<BrokerId> {
        self.brokers
            .values()
            .filter(|broker| broker.is_alive())
            .map(|broker| broker.id)
            .collect()
    }

    /// True if the broker is registered and may lead.
    pub fn is_alive(&self, id: BrokerId) -> bool {
        self.broker(id).is_some_and(|broker| broker.is_alive())
    }

    /// True if both are the same version of the area, without looking inside.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.brokers, &other.brokers)
    }

    pub(crate) fn register(&mut self, record: &RegisterBrokerRecord) {
        let broker = BrokerImage {
            id: record.broker_id,
            epoch: record.broker_epoch,
            incarnation_id: record.incarnation_id,
            listeners: record.listeners.clone(),
            rack: record.rack.clone(),
            fenced: record.fenced,
            in_controlled_shutdown: false,
            log_dirs: record.log_dirs.clone(),
            features: record.features.clone(),
        };
        Arc::make_mut(&mut self.brokers).insert(broker.id, Arc::new(broker));
    }

    pub(crate) fn change(
        &mut self,
        record: &BrokerRegistrationChangeRecord,
    ) -> Result<(), ReplayError> {
        let broker = Arc::make_mut(&mut self.brokers)
            .get_mut(&record.broker_id)
            .ok_or(ReplayError::UnknownBroker {
                record: "BrokerRegistrationChangeRecord",
                broker_id: record.broker_id.0,
            })?;
        let broker = Arc::make_mut(broker);
        broker.fenced = record.fenced.unwrap_or(broker.fenced);
        broker.in_controlled_shutdown = record
            .in_controlled_shutdown
            .unwrap_or(broker.in_controlled_shutdown);
        Ok(())
    }

    pub(crate) fn records(&self, each: &mut impl FnMut(Record)) {
        for broker in self.brokers.values() {
            each(Record::RegisterBroker(RegisterBrokerRecord {
                broker_id: broker.id,
                broker_epoch: broker.epoch,
                incarnation_id: broker.incarnation_id,
                listeners: broker.listeners.clone(),
                rack: broker.rack.clone(),
                fenced: broker.fenced,
                log_dirs: broker.log_dirs.clone(),
                features: broker.features.clone(),
            }));
            if broker.in_controlled_shutdown {
                each(Record::BrokerRegistrationChange(
                    BrokerRegistrationChangeRecord {
                        broker_id: broker.id,
                        broker_epoch: broker.epoch,
                        fenced: None,
                        in_controlled_shutdown: Some(true),
                    },
                ));
            }
        }
    }
}
