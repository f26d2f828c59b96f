//! Bytes of metadata records: type, version, length, fields. See `docs/formats/metadata-log.md`.
//!
//! A type number is Kafka's API key of the record where Kafka has the record, 1000 and above is ours.
//! A record that is newer than this code is refused, never skipped: a node that skips a record has
//! another image than the rest of the cluster.

use strandline_types::{BrokerId, TopicId, TopicName};

use crate::broker_list::BrokerList;
use crate::codec::{DecodeError, Reader, Writer};
use crate::record::{
    BrokerLeadershipsRecord, BrokerRegistrationChangeRecord, ConfigRecord, ConfigResource,
    ConfigResourceType, FeatureLevelRecord, Listener, PartitionChangeRecord, PartitionRecord,
    ProducerIdsRecord, Record, RegisterBrokerRecord, RemoveTopicRecord, SecurityProtocol,
    SupportedFeature, TopicRecord,
};

/// Number, newest version and name of a record type.
pub(super) struct Kind {
    id: u64,
    newest: u64,
    pub(super) name: &'static str,
}

const REGISTER_BROKER: Kind = Kind {
    id: 0,
    newest: 0,
    name: "RegisterBrokerRecord",
};
const TOPIC: Kind = Kind {
    id: 2,
    newest: 0,
    name: "TopicRecord",
};
const PARTITION: Kind = Kind {
    id: 3,
    newest: 0,
    name: "PartitionRecord",
};
const CONFIG: Kind = Kind {
    id: 4,
    newest: 0,
    name: "ConfigRecord",
};
const PARTITION_CHANGE: Kind = Kind {
    id: 5,
    newest: 0,
    name: "PartitionChangeRecord",
};
const REMOVE_TOPIC: Kind = Kind {
    id: 9,
    newest: 0,
    name: "RemoveTopicRecord",
};
const FEATURE_LEVEL: Kind = Kind {
    id: 12,
    newest: 0,
    name: "FeatureLevelRecord",
};
const PRODUCER_IDS: Kind = Kind {
    id: 15,
    newest: 0,
    name: "ProducerIdsRecord",
};
const BROKER_CHANGE: Kind = Kind {
    id: 17,
    newest: 0,
    name: "BrokerRegistrationChangeRecord",
};
const BROKER_LEADERSHIPS: Kind = Kind {
    id: 1000,
    newest: 0,
    name: "BrokerLeadershipsRecord",
};

const KINDS: [Kind; 10] = [
    REGISTER_BROKER,
    TOPIC,
    PARTITION,
    CONFIG,
    PARTITION_CHANGE,
    REMOVE_TOPIC,
    FEATURE_LEVEL,
    PRODUCER_IDS,
    BROKER_CHANGE,
    BROKER_LEADERSHIPS,
];

pub(super) fn kind_of(record: &Record) -> Kind {
    match record {
        Record::RegisterBroker(_) => REGISTER_BROKER,
        Record::BrokerRegistrationChange(_) => BROKER_CHANGE,
        Record::BrokerLeaderships(_) => BROKER_LEADERSHIPS,
        Record::Topic(_) => TOPIC,
        Record::Partition(_) => PARTITION,
        Record::PartitionChange(_) => PARTITION_CHANGE,
        Record::RemoveTopic(_) => REMOVE_TOPIC,
        Record::Config(_) => CONFIG,
        Record::FeatureLevel(_) => FEATURE_LEVEL,
        Record::ProducerIds(_) => PRODUCER_IDS,
    }
}

/// Bytes of a list of records, without a count: they end where the input ends.
pub(crate) fn encode_records(records: &[Record]) -> Vec<u8> {
    let mut out = Writer::default();
    for record in records {
        encode_record(record, &mut out);
    }
    out.out
}

/// Appends one record.
pub(crate) fn encode_record(record: &Record, out: &mut Writer) {
    let kind = kind_of(record);
    let mut fields = Writer::default();
    encode_fields(record, &mut fields);
    out.uvarint(kind.id);
    out.uvarint(kind.newest);
    out.bytes(&fields.out);
}

/// Reads what [`encode_records`] wrote.
pub(crate) fn decode_records(bytes: &[u8]) -> Result<Vec<Record>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut records = Vec::new();
    while reader.remaining() > 0 {
        records.push(decode_record(&mut reader)?);
    }
    Ok(records)
}

fn decode_record(reader: &mut Reader<'_>) -> Result<Record, DecodeError> {
    let id = reader.uvarint()?;
    let version = reader.uvarint()?;
    let kind = KINDS
        .iter()
        .find(|kind| kind.id == id)
        .ok_or(DecodeError::UnknownRecord { kind: id })?;
    if version > kind.newest {
        let (record, newest) = (kind.name, kind.newest);
        return Err(DecodeError::NewerRecord {
            record,
            version,
            newest,
        });
    }
    let mut fields = Reader::new(reader.bytes()?);
    let record = decode_fields(kind, &mut fields)?;
    fields.finish()?;
    Ok(record)
}

fn encode_fields(record: &Record, out: &mut Writer) {
    match record {
        Record::RegisterBroker(it) => encode_broker(it, out),
        Record::BrokerRegistrationChange(it) => {
            out.varint(it.broker_id.0.into());
            out.varint(it.broker_epoch);
            out.u8(tri_state(it.fenced));
            out.u8(tri_state(it.in_controlled_shutdown));
        }
        Record::BrokerLeaderships(it) => out.varint(it.broker_id.0.into()),
        Record::Topic(it) => {
            out.str(it.name.as_str());
            out.uuid(it.topic_id.0);
        }
        Record::Partition(it) => {
            out.uuid(it.topic_id.0);
            out.varint(it.partition.into());
            encode_list(&it.replicas, out);
            encode_list(&it.isr, out);
            encode_leader(it.leader, out);
            out.varint(it.leader_epoch.into());
            out.varint(it.partition_epoch.into());
        }
        Record::PartitionChange(it) => {
            out.uuid(it.topic_id.0);
            out.varint(it.partition.into());
            for list in [&it.replicas, &it.isr] {
                out.bool(list.is_some());
                if let Some(list) = list {
                    encode_list(list, out);
                }
            }
            out.bool(it.leader.is_some());
            if let Some(leader) = it.leader {
                encode_leader(leader, out);
            }
        }
        Record::RemoveTopic(it) => out.uuid(it.topic_id.0),
        Record::Config(it) => {
            out.u8(it.resource.kind.id().cast_unsigned());
            out.str(&it.resource.name);
            out.str(&it.name);
            out.opt_str(it.value.as_deref());
        }
        Record::FeatureLevel(it) => {
            out.str(&it.name);
            out.varint(it.level.into());
        }
        Record::ProducerIds(it) => {
            out.varint(it.broker_id.0.into());
            out.varint(it.broker_epoch);
            out.varint(it.next_producer_id);
        }
    }
}

fn decode_fields(kind: &Kind, from: &mut Reader<'_>) -> Result<Record, DecodeError> {
    Ok(match kind.id {
        id if id == REGISTER_BROKER.id => Record::RegisterBroker(decode_broker(from)?),
        id if id == BROKER_CHANGE.id => {
            Record::BrokerRegistrationChange(BrokerRegistrationChangeRecord {
                broker_id: BrokerId(from.i32()?),
                broker_epoch: from.varint()?,
                fenced: from_tri_state(from.u8()?)?,
                in_controlled_shutdown: from_tri_state(from.u8()?)?,
            })
        }
        id if id == BROKER_LEADERSHIPS.id => Record::BrokerLeaderships(BrokerLeadershipsRecord {
            broker_id: BrokerId(from.i32()?),
        }),
        id if id == TOPIC.id => Record::Topic(TopicRecord {
            name: TopicName::new(from.str()?).map_err(|_| DecodeError::TopicName)?,
            topic_id: TopicId(from.uuid()?),
        }),
        id if id == PARTITION.id => Record::Partition(decode_partition(from)?),
        id if id == PARTITION_CHANGE.id => Record::PartitionChange(decode_partition_change(from)?),
        id if id == REMOVE_TOPIC.id => Record::RemoveTopic(RemoveTopicRecord {
            topic_id: TopicId(from.uuid()?),
        }),
        id if id == CONFIG.id => Record::Config(ConfigRecord {
            resource: ConfigResource {
                kind: decode_resource_type(from)?,
                name: from.str()?.to_owned(),
            },
            name: from.str()?.to_owned(),
            value: from.opt_str()?.map(str::to_owned),
        }),
        id if id == FEATURE_LEVEL.id => Record::FeatureLevel(FeatureLevelRecord {
            name: from.str()?.to_owned(),
            level: from.i16()?,
        }),
        id if id == PRODUCER_IDS.id => Record::ProducerIds(ProducerIdsRecord {
            broker_id: BrokerId(from.i32()?),
            broker_epoch: from.varint()?,
            next_producer_id: from.varint()?,
        }),
        kind => return Err(DecodeError::UnknownRecord { kind }),
    })
}

fn decode_partition(from: &mut Reader<'_>) -> Result<PartitionRecord, DecodeError> {
    Ok(PartitionRecord {
        topic_id: TopicId(from.uuid()?),
        partition: from.i32()?,
        replicas: decode_list(from)?,
        isr: decode_list(from)?,
        leader: decode_leader(from)?,
        leader_epoch: from.i32()?,
        partition_epoch: from.i32()?,
    })
}

fn decode_partition_change(from: &mut Reader<'_>) -> Result<PartitionChangeRecord, DecodeError> {
    Ok(PartitionChangeRecord {
        topic_id: TopicId(from.uuid()?),
        partition: from.i32()?,
        replicas: if from.bool()? {
            Some(decode_list(from)?)
        } else {
            None
        },
        isr: if from.bool()? {
            Some(decode_list(from)?)
        } else {
            None
        },
        leader: if from.bool()? {
            Some(decode_leader(from)?)
        } else {
            None
        },
    })
}

fn encode_broker(it: &RegisterBrokerRecord, out: &mut Writer) {
    out.varint(it.broker_id.0.into());
    out.varint(it.broker_epoch);
    out.uuid(it.incarnation_id);
    out.len(it.listeners.len());
    for listener in &it.listeners {
        out.str(&listener.name);
        out.str(&listener.host);
        out.uvarint(listener.port.into());
        out.varint(listener.security_protocol.id().into());
    }
    out.opt_str(it.rack.as_deref());
    out.bool(it.fenced);
    out.len(it.log_dirs.len());
    for dir in &it.log_dirs {
        out.uuid(*dir);
    }
    out.len(it.features.len());
    for feature in &it.features {
        out.str(&feature.name);
        out.varint(feature.min.into());
        out.varint(feature.max.into());
    }
}

fn decode_broker(from: &mut Reader<'_>) -> Result<RegisterBrokerRecord, DecodeError> {
    let broker_id = BrokerId(from.i32()?);
    let broker_epoch = from.varint()?;
    let incarnation_id = from.uuid()?;
    let mut listeners = Vec::new();
    for _ in 0..from.count()? {
        listeners.push(Listener {
            name: from.str()?.to_owned(),
            host: from.str()?.to_owned(),
            port: u16::try_from(from.uvarint()?).map_err(|_| DecodeError::Overflow)?,
            security_protocol: {
                let id = from.i16()?;
                SecurityProtocol::from_id(id).ok_or(DecodeError::Value {
                    what: "a security protocol",
                    value: u64::from(id.cast_unsigned()),
                })?
            },
        });
    }
    let rack = from.opt_str()?.map(str::to_owned);
    let fenced = from.bool()?;
    let mut log_dirs = Vec::new();
    for _ in 0..from.count()? {
        log_dirs.push(from.uuid()?);
    }
    let mut features = Vec::new();
    for _ in 0..from.count()? {
        features.push(SupportedFeature {
            name: from.str()?.to_owned(),
            min: from.i16()?,
            max: from.i16()?,
        });
    }
    Ok(RegisterBrokerRecord {
        broker_id,
        broker_epoch,
        incarnation_id,
        listeners,
        rack,
        fenced,
        log_dirs,
        features,
    })
}

fn encode_list(list: &BrokerList, out: &mut Writer) {
    out.len(list.len());
    for id in list.iter() {
        out.varint(id.0.into());
    }
}

fn decode_list(from: &mut Reader<'_>) -> Result<BrokerList, DecodeError> {
    let count = from.count()?;
    (0..count)
        .map(|_| from.i32().map(BrokerId))
        .collect::<Result<Vec<_>, _>>()
        .map(Into::into)
}

/// Kafka's sentinel: -1 is "no leader".
fn encode_leader(leader: Option<BrokerId>, out: &mut Writer) {
    out.varint(leader.map_or(-1, |id| id.0).into());
}

fn decode_leader(from: &mut Reader<'_>) -> Result<Option<BrokerId>, DecodeError> {
    let id = from.i32()?;
    Ok((id >= 0).then_some(BrokerId(id)))
}

fn tri_state(value: Option<bool>) -> u8 {
    match value {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    }
}

fn from_tri_state(value: u8) -> Result<Option<bool>, DecodeError> {
    match value {
        0 => Ok(None),
        1 => Ok(Some(false)),
        2 => Ok(Some(true)),
        value => Err(DecodeError::Value {
            what: "an optional boolean",
            value: value.into(),
        }),
    }
}

fn decode_resource_type(from: &mut Reader<'_>) -> Result<ConfigResourceType, DecodeError> {
    let id = from.u8()?;
    ConfigResourceType::from_id(id.cast_signed()).ok_or(DecodeError::Value {
        what: "a config resource type",
        value: id.into(),
    })
}

#[cfg(test)]
mod tests;
