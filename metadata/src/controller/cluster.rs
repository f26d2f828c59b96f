//! Registering brokers. Rules.

use strandline_types::BrokerId;
use uuid::Uuid;

use crate::controller::Decision;
use crate::error::RequestError;
use crate::image::{BrokerImage, Image};
use crate::record::{
    BrokerLeadershipsRecord, BrokerRegistrationChangeRecord, Listener, Record,
    RegisterBrokerRecord, SupportedFeature,
};

/// A broker announces itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// `node.id`.
    pub broker_id: BrokerId,
    /// Chosen at random by the process at its start.
    pub incarnation_id: Uuid,
    /// Where clients reach it.
    pub listeners: Vec<Listener>,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// `directory.id`s of its log dirs.
    pub log_dirs: Vec<Uuid>,
    /// What its version can do.
    pub features: Vec<SupportedFeature>,
    /// It is not ready to serve yet: it will call `unfence_broker`.
    pub fenced: bool,
}

/// Registers a broker and returns its epoch. A new incarnation takes the place of the previous one,
/// which is fenced by the epoch, and begins a new leadership of every partition that the previous
/// one led: one record, however many they are. The same incarnation again keeps its epoch.
pub(crate) fn register(image: &Image, request: &BrokerRegistration) -> Decision<i64> {
    check_registration(image, request)?;
    let previous = image.cluster().broker(request.broker_id);
    let again = previous.filter(|broker| broker.incarnation_id == request.incarnation_id);
    // The offset of the record, or a little less: it grows with every registration in any case.
    let broker_epoch = again.map_or(image.offset() + 1, |broker| broker.epoch);
    if again.is_some_and(|broker| is_unchanged(broker, request)) {
        return Ok((Vec::new(), broker_epoch));
    }
    let mut records = vec![Record::RegisterBroker(RegisterBrokerRecord {
        broker_id: request.broker_id,
        broker_epoch,
        incarnation_id: request.incarnation_id,
        listeners: request.listeners.clone(),
        rack: request.rack.clone(),
        fenced: again.map_or(request.fenced, |broker| broker.fenced),
        log_dirs: request.log_dirs.clone(),
        features: request.features.clone(),
    })];
    if again.is_none() && image.topics().has_leader(request.broker_id) {
        let broker_id = request.broker_id;
        records.push(Record::BrokerLeaderships(BrokerLeadershipsRecord {
            broker_id,
        }));
    }
    Ok((records, broker_epoch))
}

fn is_unchanged(broker: &BrokerImage, request: &BrokerRegistration) -> bool {
    broker.listeners == request.listeners
        && broker.rack == request.rack
        && broker.log_dirs == request.log_dirs
        && broker.features == request.features
}

fn check_registration(image: &Image, request: &BrokerRegistration) -> Result<(), RequestError> {
    let refuse = |text: String| Err(RequestError::InvalidRequest(text));
    if request.broker_id.0 < 0 {
        return refuse(format!("broker id {} is negative", request.broker_id));
    }
    if request.listeners.is_empty() {
        return refuse("a broker needs a listener".to_owned());
    }
    for (at, listener) in request.listeners.iter().enumerate() {
        if request
            .listeners
            .iter()
            .take(at)
            .any(|other| other.name == listener.name)
        {
            return refuse(format!("listener '{}' is named twice", listener.name));
        }
    }
    for (name, level) in image.features().iter() {
        let range = request.features.iter().find(|feature| feature.name == name);
        if range.is_none_or(|range| !(range.min..=range.max).contains(&level)) {
            return refuse(format!(
                "broker {} does not support level {level} of feature '{name}', at which the cluster works",
                request.broker_id
            ));
        }
    }
    Ok(())
}

/// Makes a registered broker part of the cluster.
pub(crate) fn unfence(image: &Image, broker_id: BrokerId, broker_epoch: i64) -> Decision<()> {
    let broker = check_epoch(image, broker_id, broker_epoch)?;
    if !broker.fenced {
        return Ok((Vec::new(), ()));
    }
    let record = BrokerRegistrationChangeRecord {
        broker_id,
        broker_epoch,
        fenced: Some(false),
        in_controlled_shutdown: None,
    };
    Ok((vec![Record::BrokerRegistrationChange(record)], ()))
}

/// The broker, if it is registered with this epoch.
pub(crate) fn check_epoch(
    image: &Image,
    broker_id: BrokerId,
    given: i64,
) -> Result<&BrokerImage, RequestError> {
    let broker = image.cluster().broker(broker_id);
    let broker = broker.ok_or(RequestError::BrokerIdNotRegistered(broker_id.0))?;
    if broker.epoch == given {
        Ok(broker)
    } else {
        Err(RequestError::StaleBrokerEpoch {
            given,
            current: broker.epoch,
        })
    }
}

#[cfg(test)]
mod tests;
