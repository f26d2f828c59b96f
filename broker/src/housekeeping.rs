//! What a broker does on its own: follow the metadata, checkpoint, expire, apply retention.

use std::sync::Arc;
use std::time::Duration;

use strandline_env::{PoolError, Shutdown, freed_memory, huge_pages};
use strandline_types::{CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicName};
use tokio::sync::watch;

use crate::broker::Broker;
use crate::configs;
use crate::tier_scheduler;

/// How often to see whether freed memory can go back.
const FREED_MEMORY_LOOK: Duration = Duration::from_secs(2);

/// Applies each newer image until shutdown.
pub(crate) fn follow(broker: &Arc<Broker>, applied: watch::Sender<i64>, shutdown: &Shutdown) {
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        let mut images = broker.metadata.subscribe();
        // What changed before the subscription is not announced by it.
        apply_image(&broker, &applied).await;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                changed = images.changed() => if changed.is_err() { return },
            }
            images.mark_unchanged();
            apply_image(&broker, &applied).await;
        }
    });
}

/// Makes the broker what the newest image says.
pub(crate) async fn apply_image(broker: &Arc<Broker>, applied: &watch::Sender<i64>) {
    let image = broker.metadata.image();
    let dynamic = configs::dynamic(&image, broker.node_id);
    let is_other = broker.config.set_dynamic(dynamic);
    let (replicas, offset) = (Arc::clone(&broker.replicas), image.offset());
    let followed = Arc::clone(&image);
    let count_of = |name: &str| {
        let topic = image.topics().by_name(name);
        topic.map_or(0, |t| {
            i32::try_from(t.partitions().len()).unwrap_or(i32::MAX)
        })
    };
    let offsets_count = count_of(CONSUMER_OFFSETS_TOPIC);
    let transactions_count = count_of(TRANSACTION_STATE_TOPIC);
    let apply = move || {
        if is_other {
            replicas.refresh_configs();
        }
        replicas.apply(&image)
    };
    let Ok(change) = broker.io.run(apply).await else {
        return;
    };
    // Before the new coordinators: the topic may have been created again in the same image.
    let is_gone = |name: &str| {
        let mut deleted = change.deleted.iter();
        deleted.any(|topic: &TopicName| topic.as_str() == name)
    };
    if is_gone(CONSUMER_OFFSETS_TOPIC) {
        broker.groups.on_deleted();
    }
    if is_gone(TRANSACTION_STATE_TOPIC) {
        broker.transactions.on_deleted();
    }
    for partition in &change.started {
        match partition.id.topic.as_str() {
            CONSUMER_OFFSETS_TOPIC => broker.groups.on_elected(partition, offsets_count),
            TRANSACTION_STATE_TOPIC => {
                broker
                    .transactions
                    .on_elected(partition, transactions_count);
            }
            _ => {}
        }
    }
    broker.groups.on_applied(followed, &change.deleted);
    if !change.deleted.is_empty() {
        for topic in &change.deleted {
            broker.metrics.topics.forget(topic);
        }
    }
    if !change.stopped.is_empty() {
        tier_scheduler::delete_remote(broker, change.stopped);
    }
    applied.send_replace(offset);
}

/// Starts the periodic work.
pub(crate) fn start(broker: &Arc<Broker>, shutdown: &Shutdown) {
    let settings = &broker.config.get().settings;
    let ms = |n: i64| Duration::from_millis(u64::try_from(n).unwrap_or(1).max(1));
    every(
        broker,
        shutdown,
        ms(settings.log_retention_check_interval_ms),
        |broker| {
            let now_ms = broker.clock.now_ms();
            for partition in broker.replicas.all() {
                if let Err(e) = partition.apply_local_retention(now_ms) {
                    tracing::error!(partition = %partition.id, error = %e, "retention");
                }
            }
        },
    );
    let producers = i64::from(settings.producer_id_expiration_check_interval_ms);
    every(broker, shutdown, ms(producers), |broker| {
        let now_ms = broker.clock.now_ms();
        for partition in broker.replicas.all() {
            partition.log.expire_producers(now_ms);
        }
    });
    every(
        broker,
        shutdown,
        ms(settings.replica_high_watermark_checkpoint_interval_ms),
        |broker| {
            broker.log_dirs.checkpoint();
            huge_pages::look();
        },
    );
    give_back_memory(broker, shutdown);
}

/// Gives back what was freed when the broker has become quiet. An idle one takes no thread for it.
fn give_back_memory(broker: &Arc<Broker>, shutdown: &Shutdown) {
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(FREED_MEMORY_LOOK) => {}
            }
            if freed_memory::is_due() && is_over(&broker.io.run(freed_memory::give_back).await) {
                return;
            }
        }
    });
}

/// Runs `work` on the I/O pool at each interval until shutdown.
fn every(broker: &Arc<Broker>, shutdown: &Shutdown, interval: Duration, work: fn(&Arc<Broker>)) {
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(interval) => {}
            }
            let on_pool = Arc::clone(&broker);
            if is_over(&broker.io.run(move || work(&on_pool)).await) {
                return;
            }
        }
    });
}

/// The pool takes nothing any more. After a panic, which is in the log, the next turn comes all the same.
fn is_over<T>(done: &Result<T, PoolError>) -> bool {
    matches!(done, Err(PoolError::Stopped(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_no_periodic_work() {
        let pool = "io";
        let panicked = PoolError::Panicked {
            pool,
            message: "once".to_owned(),
        };
        assert!(!is_over::<()>(&Err(panicked)) && !is_over(&Ok(())));
        assert!(is_over::<()>(&Err(PoolError::Stopped(pool))));
    }
}
