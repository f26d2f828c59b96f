//! Giving away blocks of producer ids. Rule: T-5.

use strandline_types::{BrokerId, ProducerId};

use crate::controller::{Decision, cluster};
use crate::error::RequestError;
use crate::image::Image;
use crate::record::{ProducerIdsRecord, Record};

/// Ids per block.
pub const PRODUCER_ID_BLOCK_SIZE: i64 = 1000;

/// Producer ids that one broker may give away, and nobody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// First id.
    pub first: ProducerId,
    /// Number of ids.
    pub count: i64,
}

/// Gives the next block to a registered broker.
pub(crate) fn allocate(
    image: &Image,
    broker_id: BrokerId,
    broker_epoch: i64,
) -> Decision<ProducerIdBlock> {
    cluster::check_epoch(image, broker_id, broker_epoch)?;
    let first = image.producer_ids().next_producer_id();
    let next_producer_id = first
        .checked_add(PRODUCER_ID_BLOCK_SIZE)
        .ok_or_else(|| RequestError::Unavailable("all producer ids are given away".to_owned()))?;
    let record = ProducerIdsRecord {
        broker_id,
        broker_epoch,
        next_producer_id,
    };
    let block = ProducerIdBlock {
        first,
        count: PRODUCER_ID_BLOCK_SIZE,
    };
    Ok((vec![Record::ProducerIds(record)], block))
}

#[cfg(test)]
mod tests;
