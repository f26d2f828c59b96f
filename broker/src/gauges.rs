//! Sizes and lags, computed when somebody asks for metrics: an idle broker pays nothing for them.

use std::collections::HashMap;

use crate::broker::Broker;
use crate::metrics::{PartitionLabel, TopicLabel};

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Brings every gauge up to date; topics that are gone disappear.
pub(crate) fn refresh(broker: &Broker) {
    let sizes = &broker.metrics.sizes;
    let now_ms = broker.clock.now_ms();
    let mut log_bytes: HashMap<String, u64> = HashMap::new();
    sizes.tier_lag_bytes.clear();
    sizes.tier_lag_seconds.clear();
    let partitions = broker.replicas.all();
    for partition in &partitions {
        let topic = partition.id.topic.to_string();
        *log_bytes.entry(topic.clone()).or_default() += partition.log.size_in_bytes();
        if !partition.config().remote_storage_enable {
            continue;
        }
        let lag = partition.tier_lag(now_ms);
        let label = PartitionLabel {
            topic,
            partition: partition.id.partition,
        };
        sizes
            .tier_lag_bytes
            .get_or_create(&label)
            .set(signed(lag.bytes));
        sizes
            .tier_lag_seconds
            .get_or_create(&label)
            .set(lag.age_ms / 1000);
    }
    sizes.log_bytes.clear();
    for (topic, bytes) in log_bytes {
        sizes
            .log_bytes
            .get_or_create(&TopicLabel { topic })
            .set(signed(bytes));
    }
    sizes.partitions.set(signed(partitions.len() as u64));
    sizes
        .tail_bytes
        .set(signed(broker.log_dir.tail().used_bytes() as u64));
    broker
        .metrics
        .network
        .connections
        .set(signed(broker.connections.total() as u64));
    broker
        .metrics
        .network
        .fetch_sessions
        .set(signed(broker.sessions.len() as u64));
}
