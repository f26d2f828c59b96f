//! Sizes, lags and transactions, computed when somebody asks for metrics: an idle broker pays nothing for them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::broker::Broker;
use crate::log_cleaner;
use crate::metrics::{PartitionLabel, StateLabel, TopicLabel};
use crate::partition::Partition;

/// The same slack as `kafka-transactions.sh find-hanging` gives: markers need a moment, too.
const LATE_SLACK_MS: i64 = 5 * 60 * 1000;

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
    log_cleaner::refresh(broker);
    sizes
        .offline_log_dirs
        .set(signed(broker.log_dirs.offline_count() as u64));
    sizes.partitions.set(signed(partitions.len() as u64));
    sizes
        .tail_bytes
        .set(signed(broker.tail.used_bytes() as u64));
    refresh_transactions(broker, &partitions, now_ms);
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

fn refresh_transactions(broker: &Broker, partitions: &[Arc<Partition>], now_ms: i64) {
    let gauges = &broker.metrics.transactions;
    gauges.ids.clear();
    for (state, count) in broker.transactions.state_counts() {
        let state = state.as_str();
        gauges
            .ids
            .get_or_create(&StateLabel { state })
            .set(signed(count as u64));
    }
    gauges
        .longest_seconds
        .set(broker.transactions.longest_open_ms() / 1000);
    let max_ms = i64::from(broker.config.get().settings.transaction_max_timeout_ms);
    let late_before = now_ms.saturating_sub(max_ms + LATE_SLACK_MS);
    let mut open: HashMap<String, u64> = HashMap::new();
    let mut late = 0;
    for partition in partitions {
        let transactions = partition.log.open_transactions();
        if transactions.count > 0 {
            *open.entry(partition.id.topic.to_string()).or_default() += transactions.count;
            late += u64::from(transactions.oldest_append_ms < late_before);
        }
    }
    gauges.open.clear();
    for (topic, count) in open {
        gauges
            .open
            .get_or_create(&TopicLabel { topic })
            .set(signed(count));
    }
    gauges.late_partitions.set(signed(late));
    let without_marker = broker.markers.late.partitions();
    gauges.without_marker.set(signed(without_marker as u64));
}
