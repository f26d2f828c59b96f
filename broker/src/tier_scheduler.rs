//! When the partitions of this broker are tiered, and how many at a time.
//!
//! Each partition is looked at every `remote.log.manager.task.interval.ms`, at the least once a
//! second, or less often where there are so many that looking takes time, and works alone: a store
//! that fails or hangs for one does not hold up the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use parking_lot::Mutex;
use strandline_env::{Backoff, BackoffOptions, Shutdown};
use strandline_types::TopicId;
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

/// Partitions of deleted topics whose objects are deleted at the same time.
const DELETIONS: usize = 16;

/// A partition; a new topic of an old one's name has others.
type Key = (TopicId, i32);

/// Partitions that are being worked on, or that wait after a failure.
#[derive(Debug, Default)]
struct InHand {
    busy: Mutex<HashSet<Key>>,
    /// With the time, by a clock that nobody sets, in ms until which it waits.
    failures: Mutex<HashMap<Key, (Backoff, i64)>>,
}

/// A partition in hand, until it is dropped.
struct Hold {
    in_hand: Arc<InHand>,
    key: Key,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.in_hand.busy.lock().remove(&self.key);
    }
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
            in_hand.keep_only(&all);
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
    let key = partition.remote.identity();
    let Some(hold) = in_hand.take(key, broker.clock.monotonic_ms()) else {
        return;
    };
    let broker = Arc::clone(broker);
    let (permits, shutdown) = (Arc::clone(permits), shutdown.clone());
    tokio::spawn(async move {
        // Stopping cuts an upload off like a crash: nothing is half done afterwards.
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = work(&broker, &partition, &hold, &permits) => {}
        }
    });
}

async fn work(broker: &Arc<Broker>, partition: &Arc<Partition>, hold: &Hold, permits: &Semaphore) {
    let tiered = in_turns(permits, async || {
        partition.tier(&broker.io, &broker.clock).await
    })
    .await;
    match tiered {
        Ok(()) => {
            hold.in_hand.failures.lock().remove(&hold.key);
        }
        Err(error) => {
            let now_ms = broker.clock.monotonic_ms();
            let (attempts, wait) = hold.in_hand.failed(hold.key, now_ms);
            let partition = &partition.id;
            if attempts.is_power_of_two() {
                tracing::warn!(%partition, %error, attempts, ?wait, "tiering failed, will try again");
            }
        }
    }
}

/// Does one piece of work after the other until `step` says that there is no more, and takes its place at the end of
/// those who wait for a permit before each: a partition with a lot to upload does not hold up the others.
async fn in_turns<E, F: Future<Output = Result<bool, E>>>(
    permits: &Semaphore,
    mut step: impl FnMut() -> F,
) -> Result<(), E> {
    loop {
        let Ok(_permit) = permits.acquire().await else {
            return Ok(());
        };
        if !step().await? {
            return Ok(());
        }
    }
}

/// Deletes what partitions of deleted topics have in the bucket; tries until it is done. A broker
/// that stops before leaves objects behind that no manifest of a live topic names.
pub(crate) fn delete_remote(broker: &Arc<Broker>, partitions: Vec<Stopped>) {
    let broker = Arc::clone(broker);
    tokio::spawn(async move {
        let mut left = partitions;
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            // All of them in each round: one that cannot be deleted keeps no other.
            left = stream::iter(left)
                .map(|stopped| delete_one(&broker, stopped))
                .buffer_unordered(DELETIONS)
                .filter_map(std::future::ready)
                .collect()
                .await;
            if left.is_empty() {
                return;
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    });
}

/// Gives back what could not be deleted.
async fn delete_one(broker: &Broker, stopped: Stopped) -> Option<Stopped> {
    let (remote, epoch) = (&stopped.remote, stopped.leader_epoch);
    let error = remote.delete_all(epoch, &broker.clock).await.err()?;
    let partition = &stopped.id;
    tracing::warn!(%partition, %error, "a deleted partition is still in the bucket");
    Some(stopped)
}

impl InHand {
    /// Takes a partition, unless it is being worked on or has just failed.
    fn take(self: &Arc<Self>, key: Key, now_ms: i64) -> Option<Hold> {
        let is_waiting = |(_, until): &(Backoff, i64)| now_ms < *until;
        if self.failures.lock().get(&key).is_some_and(is_waiting) {
            return None;
        }
        let is_free = self.busy.lock().insert(key);
        is_free.then(|| Hold {
            in_hand: Arc::clone(self),
            key,
        })
    }

    fn failed(&self, key: Key, now_ms: i64) -> (u32, Duration) {
        let mut failures = self.failures.lock();
        let (backoff, until) = failures
            .entry(key)
            .or_insert_with(|| (Backoff::new(BACKOFF), 0));
        let wait = backoff.next_delay();
        *until = now_ms + i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        (backoff.attempts(), wait)
    }

    /// Forgets the failures of partitions that are not here any more.
    fn keep_only(&self, partitions: &[Arc<Partition>]) {
        let mut failures = self.failures.lock();
        if !failures.is_empty() {
            let here: HashSet<Key> = partitions.iter().map(|p| p.remote.identity()).collect();
            failures.retain(|key, _| here.contains(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_a_lot_to_do_lets_others_in_between() {
        let permits = Semaphore::new(1);
        let order = Mutex::new(Vec::new());
        let job = |name: char, steps: usize| {
            let (order, mut left) = (&order, steps);
            in_turns(&permits, move || {
                left -= 1;
                async move {
                    tokio::task::yield_now().await;
                    order.lock().push(name);
                    Ok::<_, ()>(left > 0)
                }
            })
        };
        let all = futures::join!(job('a', 5), job('b', 1), job('c', 2));
        assert_eq!(all, (Ok(()), Ok(()), Ok(())));
        assert_eq!(order.lock().iter().collect::<String>(), "abcacaaa");
    }

    #[test]
    fn a_failure_holds_up_neither_another_topic_nor_one_of_the_same_name() {
        let in_hand = Arc::new(InHand::default());
        let key = |id: u128| (TopicId(uuid::Uuid::from_u128(id)), 0);
        let hold = in_hand.take(key(1), 0).unwrap();
        assert!(in_hand.take(key(1), 0).is_none());
        in_hand.failed(key(1), 0);
        drop(hold);
        assert!(in_hand.take(key(1), 1).is_none());
        assert!(in_hand.take(key(2), 1).is_some());
        assert!(in_hand.take(key(1), 60_000).is_some());
        in_hand.keep_only(&[]);
        assert!(in_hand.take(key(1), 1).is_some());
    }

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
