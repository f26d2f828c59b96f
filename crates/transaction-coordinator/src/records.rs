//! Keys and values of `__transaction_state`, byte for byte as Kafka writes them.
//!
//! Rules: section 5.1 (value version 0, and the flexible 1 with three tags).

use std::collections::BTreeSet;

use bytes::Bytes;
use strandline_coordinator::{Producer, Reader, RecordError, Writer};
use strandline_types::{NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicName, TopicPartition};

use crate::state::TransactionState;
use crate::transaction::{Transaction, TransactionVersion};

const KEY_VERSION: i16 = 0;
const TAG_PREVIOUS_PRODUCER_ID: u32 = 0;
const TAG_NEXT_PRODUCER_ID: u32 = 1;
const TAG_CLIENT_VERSION: u32 = 2;

/// Key of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordKey {
    /// Version 0: a transactional id.
    TransactionalId(String),
    /// Anything else: the future.
    Other {
        /// Its version.
        version: i16,
    },
}

impl RecordKey {
    /// Reads a key; an unknown version is not an error.
    ///
    /// # Errors
    /// A key of version 0 that ends early, or is not text.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut reader = Reader::new(bytes);
        match reader.i16("key version")? {
            KEY_VERSION => Ok(Self::TransactionalId(reader.string("transactional id")?)),
            version => Ok(Self::Other { version }),
        }
    }
}

/// Key of a transactional id.
///
/// # Errors
/// The id is longer than 32767 bytes.
pub fn encode_key(transactional_id: &str) -> Result<Bytes, RecordError> {
    let mut writer = Writer::default();
    writer.i16(KEY_VERSION);
    writer.string("transactional id", transactional_id)?;
    Ok(writer.finish())
}

/// Value in version 0 or 1; version 0 has no place for the other producer ids and the client's
/// generation.
///
/// # Errors
/// Another version, or more partitions than the format can count.
pub fn encode_value(transaction: &Transaction, version: i16) -> Result<Bytes, RecordError> {
    if !(0..=1).contains(&version) {
        return Err(RecordError::ValueVersion(version));
    }
    let mut writer = Writer::default();
    writer.i16(version);
    writer.set_flexible(version >= 1);
    writer.i64(transaction.producer.id);
    writer.i16(transaction.producer.epoch);
    writer.i32(transaction.timeout_ms);
    writer.i8(transaction.state.id());
    if transaction.state == TransactionState::Empty {
        // As Kafka: an id without a transaction has no list at all.
        writer.null_array();
    } else {
        put_partitions(&mut writer, &transaction.partitions)?;
    }
    writer.i64(transaction.last_update_ms);
    writer.i64(transaction.start_ms);
    let previous = transaction.previous_producer_id.to_be_bytes();
    let next = transaction.next_producer_id.to_be_bytes();
    let client = transaction.client_version.0.to_be_bytes();
    let mut tags: Vec<(u32, &[u8])> = Vec::new();
    if transaction.previous_producer_id != NO_PRODUCER_ID {
        tags.push((TAG_PREVIOUS_PRODUCER_ID, &previous));
    }
    if transaction.next_producer_id != NO_PRODUCER_ID {
        tags.push((TAG_NEXT_PRODUCER_ID, &next));
    }
    if transaction.client_version != TransactionVersion::V0 {
        tags.push((TAG_CLIENT_VERSION, &client));
    }
    writer.tags(&tags);
    Ok(writer.finish())
}

fn put_partitions(
    writer: &mut Writer,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<(), RecordError> {
    let sorted: Vec<&TopicPartition> = partitions.iter().collect();
    let topics: Vec<&[&TopicPartition]> = sorted.chunk_by(|a, b| a.topic == b.topic).collect();
    writer.array_len("partitions", topics.len())?;
    for topic in topics {
        let name = topic.first().map_or("", |p| p.topic.as_str());
        writer.string("topic", name)?;
        writer.array_len("partition ids", topic.len())?;
        for partition in topic {
            writer.i32(partition.partition);
        }
        writer.tags(&[]);
    }
    Ok(())
}

/// Reads a value of version 0 or 1.
///
/// # Errors
/// Another version, or bytes that are not such a value.
pub fn decode_value(bytes: &[u8]) -> Result<Transaction, RecordError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16("value version")?;
    if !(0..=1).contains(&version) {
        return Err(RecordError::ValueVersion(version));
    }
    reader.set_flexible(version >= 1);
    let producer = Producer {
        id: reader.i64("producer id")?,
        epoch: reader.i16("producer epoch")?,
    };
    let timeout_ms = reader.i32("timeout")?;
    let state = TransactionState::from_id(reader.i8("status")?)
        .filter(|s| *s != TransactionState::PrepareEpochFence)
        .ok_or(RecordError::Value("status"))?;
    let partitions = take_partitions(&mut reader)?;
    let mut transaction = Transaction {
        producer,
        last_producer_epoch: NO_PRODUCER_EPOCH,
        previous_producer_id: NO_PRODUCER_ID,
        next_producer_id: NO_PRODUCER_ID,
        timeout_ms,
        state,
        partitions,
        last_update_ms: reader.i64("last update")?,
        start_ms: reader.i64("start")?,
        client_version: TransactionVersion::V0,
    };
    reader.each_tag(|tag, field| {
        match tag {
            TAG_PREVIOUS_PRODUCER_ID => {
                transaction.previous_producer_id = field.i64("previous producer id")?;
            }
            TAG_NEXT_PRODUCER_ID => transaction.next_producer_id = field.i64("next producer id")?,
            TAG_CLIENT_VERSION => {
                transaction.client_version = TransactionVersion(field.i16("client version")?);
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(transaction)
}

fn take_partitions(reader: &mut Reader<'_>) -> Result<BTreeSet<TopicPartition>, RecordError> {
    let mut partitions = BTreeSet::new();
    for _ in 0..reader.nullable_array_len("partitions")?.unwrap_or(0) {
        let topic =
            TopicName::new(&reader.string("topic")?).map_err(|_| RecordError::Value("topic"))?;
        for _ in 0..reader.array_len("partition ids")? {
            let partition = reader.i32("partition id")?;
            partitions.insert(TopicPartition::new(topic.clone(), partition));
        }
        reader.tags()?;
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests;
