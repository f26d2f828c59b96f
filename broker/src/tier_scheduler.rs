//! When the partitions of this broker are tiered, and how many at a time.
//!
//! Each partition is looked at every `remote.log.manager.task.interval.ms`, at the least once a
//! second, or less often where there are so many that looking takes time, and works alone: a store
//! that fails or hangs for one does not hold up the others.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use strandline_env::{Backoff, BackoffOptions, Shutdown};
use strandline_types::TopicPartition;
use tokio::sync::Semaphore;

use crate::broker::Broker;
use crate::partition::Partition;
use crate::replica_manager::Stopped;

/// Longest time between two looks at a partition; a look costs next to nothing.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
/// Looking takes at most one part of this many of a processor's time…
const LOOK_PART: u32 = 1000;
/// … as long as each partition is looked at this often, which is Kafka's default of the interval. A
/// look at 10,000 takes 2 ms, or 40 where the machine under a virtual one has their memory elsewhere.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Longest time to wait for the sake of one partition more: a look at a few takes long only when
/// the thread was kept from running.
const MAX_PAUSE_EACH: Duration = Duration::from_millis(3);
/// Waits after failures of a partition (S-5, `remote.log.manager.task.retry.backoff.*`).
const BACKOFF: BackoffOptions = BackoffOptions {
    base: Duration::from_millis(500),
    max: Duration::from_secs(30),
    jitter: 0.2,
};

/// Partitions that are being worked on, or that wait after a failure.
#[derive(Debug, Default)]
struct InHand {
    busy: Mutex<HashMap<TopicPartition, ()>>,
    failures: Mutex<HashMap<TopicPartition, (Backoff, i64)>>,
}

/// Starts the work of the cold tier, if there is one.
pub(crate) fn start(broker: &Arc<Broker>, shutdown: &Shutdown) {
    let config = broker.config.get();
    if !config.settings.remote_log_storage_system_enable {
        return;
    }
    let interval = u64::try_from(config.settings.remote_log_manager_task_interval_ms);
    let interval = Duration::from_millis(interval.unwrap_or(1)).min(MAX_INTERVAL);
    let copiers = usize::try_from(config.settings.remote_log_manager_copier_thread_pool_size);
    let permits = Arc::new(Semaphore::new(copiers.unwrap_or(1).max(1)));
    let (broker, shutdown) = (Arc::clone(broker), shutdown.clone());
    tokio::spawn(async move {
        let in_hand = Arc::new(InHand::default());
        let mut wait = interval;
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let began = processor_time();
            let now_ms = broker.clock.now_ms();
            let all = broker.replicas.all();
            let partitions = all.len();
            let due: Vec<_> = all
                .into_iter()
                .filter(|p| p.needs_tiering(now_ms))
                .collect();
            let took = processor_time().saturating_sub(began);
            for partition in due {
                start_work(&broker, partition, &in_hand, &permits, &shutdown);
            }
            wait = pause(interval, took, partitions);
        }
    });
}

/// What this thread has used: others that were given the processor meanwhile do not count.
fn processor_time() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

/// How long to wait after a look at so many partitions that took `took`.
fn pause(interval: Duration, took: Duration, partitions: usize) -> Duration {
    let most = MAX_PAUSE_EACH.saturating_mul(u32::try_from(partitions).unwrap_or(u32::MAX));
    (took * LOOK_PART).min(most).min(MAX_PAUSE).max(interval)
}

/// Starts work on a partition that needs some, unless it is in hand or has just failed.
fn start_work(
    broker: &Arc<Broker>,
    partition: Arc<Partition>,
    in_hand: &Arc<InHand>,
    permits: &Arc<Semaphore>,
    shutdown: &Shutdown,
) {
    if !in_hand.take(&partition.id, broker.clock.now_ms()) {
        return;
    }
    let (broker, in_hand) = (Arc::clone(broker), Arc::clone(in_hand));
    let (permits, shutdown) = (Arc::clone(permits), shutdown.clone());
    tokio::spawn(async move {
        // Stopping cuts an upload off like a crash: nothing is half done afterwards.
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = work(&broker, &partition, &in_hand, &permits) => {}
        }
        in_hand.busy.lock().remove(&partition.id);
    });
}

async fn work(
    broker: &Arc<Broker>,
    partition: &Arc<Partition>,
    in_hand: &InHand,
    permits: &Semaphore,
) {
    let Ok(_permit) = permits.acquire().await else {
        return;
    };
    match partition.tier(&broker.io, &broker.clock).await {
        Ok(()) => {
            in_hand.failures.lock().remove(&partition.id);
        }
        Err(error) => {
            let now_ms = broker.clock.now_ms();
            let (attempts, wait) = in_hand.failed(&partition.id, now_ms);
            let partition = &partition.id;
            if attempts.is_power_of_two() {
                tracing::warn!(%partition, %error, attempts, ?wait, "tiering failed, will try again");
            }
        }
    }
}

/// Deletes what partitions of deleted topics have in the bucket; tries until it is done. A broker
/// that stops before leaves objects behind that no manifest of a live topic names.
pub(crate) fn delete_remote(broker: &Arc<Broker>, partitions: Vec<Stopped>) {
    let broker = Arc::clone(broker);
    tokio::spawn(async move {
        for stopped in partitions {
            let mut backoff = Backoff::new(BACKOFF);
            let (remote, epoch) = (&stopped.remote, stopped.leader_epoch);
            while let Err(error) = remote.delete_all(epoch, &broker.clock).await {
                let partition = &stopped.id;
                tracing::warn!(%partition, %error, "a deleted partition is still in the bucket");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    });
}

impl InHand {
    /// Takes a partition, unless it is being worked on or has just failed.
    fn take(&self, id: &TopicPartition, now_ms: i64) -> bool {
        if self
            .failures
            .lock()
            .get(id)
            .is_some_and(|(_, until)| now_ms < *until)
        {
            return false;
        }
        self.busy.lock().insert(id.clone(), ()).is_none()
    }

    fn failed(&self, id: &TopicPartition, now_ms: i64) -> (u32, Duration) {
        let mut failures = self.failures.lock();
        let (backoff, until) = failures
            .entry(id.clone())
            .or_insert_with(|| (Backoff::new(BACKOFF), 0));
        let wait = backoff.next_delay();
        *until = now_ms + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        (backoff.attempts(), wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_takes_a_thousandth_of_the_time_and_never_waits_for_long() {
        let ms = Duration::from_millis;
        assert_eq!(pause(ms(30), Duration::from_micros(20), 100), ms(30));
        assert_eq!(pause(ms(1000), ms(2), 10_000), ms(2000));
        assert_eq!(pause(ms(1000), ms(300), 20_000), ms(30_000));
        assert_eq!(
            pause(ms(100), ms(300), 2),
            ms(100),
            "it was not the looking that took long"
        );
    }
}
