//! Which producer ids are given away. Rule: T-5.

use strandline_types::{BrokerId, ProducerId};

use crate::error::ReplayError;
use crate::record::{ProducerIdsRecord, Record};

/// Producer ids below `next_producer_id` are given away and never given again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProducerIdsImage {
    next: ProducerId,
    last: Option<(BrokerId, i64)>,
}

impl ProducerIdsImage {
    /// First id of the next block.
    pub fn next_producer_id(self) -> ProducerId {
        self.next
    }

    pub(crate) fn replay(&mut self, record: &ProducerIdsRecord) -> Result<(), ReplayError> {
        if record.next_producer_id <= self.next {
            return Err(ReplayError::Invariant("M-5: producer ids only grow"));
        }
        self.next = record.next_producer_id;
        self.last = Some((record.broker_id, record.broker_epoch));
        Ok(())
    }

    pub(crate) fn records(self, each: &mut impl FnMut(Record)) {
        if let Some((broker_id, broker_epoch)) = self.last {
            each(Record::ProducerIds(ProducerIdsRecord {
                broker_id,
                broker_epoch,
                next_producer_id: self.next,
            }));
        }
    }
}
