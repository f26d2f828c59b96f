//! Where new replicas go. Rack-blind round robin; racks come with replication (issue to follow).

use strandline_types::BrokerId;

use crate::broker_list::BrokerList;

/// Replicas for `count` partitions on `brokers` (alive, sorted, distinct), beginning with the broker
/// at place `first`. Leaders go round, and each round shifts the followers, so that the partitions
/// of a broker have their followers on different brokers. `None` if there are too few brokers.
pub(crate) fn place(
    brokers: &[BrokerId],
    count: usize,
    replication_factor: usize,
    first: usize,
) -> Option<Vec<BrokerList>> {
    let total = brokers.len();
    if replication_factor == 0 || replication_factor > total {
        return None;
    }
    let at = |place: usize| brokers.get(place % total).copied();
    (0..count)
        .map(|partition| {
            let leader = first % total + partition;
            let shift = partition / total;
            (0..replication_factor)
                .map(|replica| match replica {
                    0 => at(leader),
                    _ => at(leader + 1 + (shift + replica - 1) % (total - 1)),
                })
                .collect::<Option<Vec<_>>>()
                .map(BrokerList::from)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn replicas_are_distinct_and_leaders_are_even(
            total in 1_usize..12, factor in 1_usize..6, count in 0_usize..60, first in 0_usize..1000,
        ) {
            let brokers: Vec<_> = (0..i32::try_from(total).unwrap()).map(|id| BrokerId(id * 3)).collect();
            let Some(placed) = place(&brokers, count, factor, first) else {
                prop_assert!(factor > total);
                return Ok(());
            };
            prop_assert_eq!(placed.len(), count);
            let mut leads = vec![0_usize; total];
            for replicas in &placed {
                prop_assert_eq!(replicas.len(), factor);
                prop_assert!(replicas.is_distinct());
                leads[brokers.iter().position(|id| *id == replicas[0]).unwrap()] += 1;
            }
            let (least, most) = (leads.iter().min().unwrap(), leads.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}
