//! Which brokers hold the partitions of a request. Rules: D-6, D-7, D-11, A-26.

use strandline_types::TopicId;

use crate::broker_list::BrokerList;
use crate::controller::MAX_RECORDS_PER_USER_OP;
use crate::controller::placement::place;
use crate::error::RequestError;
use crate::image::Image;
use crate::record::{PartitionRecord, Record};

/// D-7.
pub(super) fn auto_replicas(
    image: &Image,
    count: usize,
    factor: usize,
) -> Result<Vec<BrokerList>, RequestError> {
    let alive = image.cluster().alive_ids();
    place(&alive, count, factor, image.topics().partition_count()).ok_or_else(|| {
        RequestError::InvalidReplicationFactor(format!(
            "replication factor {factor} is larger than the number of alive brokers, {}",
            alive.len()
        ))
    })
}

/// D-6 for each list.
pub(super) fn check_assignments(
    image: &Image,
    assignments: &[BrokerList],
    factor: usize,
) -> Result<(), RequestError> {
    let refuse = |text: String| Err(RequestError::InvalidReplicaAssignment(text));
    for (index, replicas) in assignments.iter().enumerate() {
        if replicas.is_empty() {
            return refuse(format!("assignment {index} is empty"));
        }
        if let Some(id) = replicas
            .iter()
            .find(|id| image.cluster().broker(**id).is_none())
        {
            return refuse(format!(
                "assignment {index} names broker {id}, which is not registered"
            ));
        }
        if !replicas.is_distinct() {
            return refuse(format!("assignment {index} names a broker twice"));
        }
        if replicas.len() != factor {
            return refuse(format!(
                "assignment {index} has {} replicas, the others have {factor}",
                replicas.len()
            ));
        }
        if !replicas.iter().any(|id| image.cluster().is_alive(*id)) {
            return refuse(format!("all brokers of assignment {index} are fenced"));
        }
    }
    Ok(())
}

/// D-11.
pub(super) fn check_room(needed: usize, room: usize) -> Result<(), RequestError> {
    if needed <= room {
        return Ok(());
    }
    Err(RequestError::PolicyViolation(format!(
        "the request needs more than {MAX_RECORDS_PER_USER_OP} metadata records: too many partitions at once"
    )))
}

/// Partitions from index `first` on. Fenced replicas are not in the ISR, the first other one leads.
pub(super) fn new_partitions(
    image: &Image,
    topic_id: TopicId,
    first: i32,
    replicas: Vec<BrokerList>,
) -> impl Iterator<Item = Record> {
    (first..).zip(replicas).map(move |(partition, replicas)| {
        let isr: BrokerList = replicas
            .iter()
            .copied()
            .filter(|id| image.cluster().is_alive(*id))
            .collect();
        Record::Partition(PartitionRecord {
            topic_id,
            partition,
            leader: isr.first().copied(),
            replicas,
            isr,
            leader_epoch: 0,
            partition_epoch: 0,
        })
    })
}
