//! The threads that clean compacted logs, behind everything else (`log.cleaner.…`, L-40).

use std::sync::Arc;
use std::time::Duration;

use strandline_config::{BrokerSettings, TopicConfig};
use strandline_env::{Pool, PoolOptions};
use strandline_log::{CleanerOptions, Cleaning, Log, LogCleaner};

use crate::broker::Broker;

/// Cleaning stands back for everything that a client waits for.
const NICENESS: i32 = 10;

/// How the cleaner is set up.
pub(crate) fn options(settings: &BrokerSettings) -> CleanerOptions {
    CleanerOptions {
        threads: threads(settings),
        dedupe_buffer_bytes: usize::try_from(settings.log_cleaner_dedupe_buffer_size)
            .unwrap_or(usize::MAX),
        load_factor: settings.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes: usize::try_from(settings.log_cleaner_io_buffer_size).unwrap_or(0),
        max_bytes_per_second: settings.log_cleaner_io_max_bytes_per_second,
        ..CleanerOptions::default()
    }
}

fn threads(settings: &BrokerSettings) -> usize {
    usize::try_from(settings.log_cleaner_threads).unwrap_or(0)
}

/// Starts the threads. They end after [`LogCleaner::stop`]; the pool waits for them.
/// Errors: the system gives no thread.
pub(crate) fn start(broker: &Arc<Broker>) -> std::io::Result<Option<Pool>> {
    let config = broker.config.get();
    let threads = threads(&config.settings);
    if threads == 0 {
        tracing::warn!("log.cleaner.threads=0: compacted topics grow without end");
        return Ok(None);
    }
    let pool = Pool::start(&PoolOptions {
        name: "log-cleaner",
        threads,
        queue: 0,
        niceness: NICENESS,
    })?;
    let backoff = u64::try_from(config.settings.log_cleaner_backoff_ms).unwrap_or(0);
    for _ in 0..threads {
        let (broker, pool) = (Arc::clone(broker), pool.clone());
        tokio::spawn(async move {
            // A panic is logged by the pool; the others go on, and this thread begins again.
            while !broker.cleaner.is_stopped() {
                let on_pool = Arc::clone(&broker);
                let backoff = Duration::from_millis(backoff);
                let _ = pool.run(move || work(&on_pool, backoff)).await;
            }
        });
    }
    Ok(Some(pool))
}

fn work(broker: &Broker, backoff: Duration) {
    while !broker.cleaner.is_stopped() {
        let began_ms = broker.clock.monotonic_ms();
        let now_ms = broker.clock.now_ms();
        match broker.cleaner.clean_dirtiest(&logs(broker), now_ms) {
            Cleaning::Done(report) => {
                let took_ms = broker.clock.monotonic_ms() - began_ms;
                broker.metrics.cleaner.cleaned(&report, took_ms);
            }
            // The next one may be due. It is not the same one at once: that one is closed, was changed
            // by others, or waits for its next try.
            Cleaning::CutShort => {}
            Cleaning::NothingDue => broker.cleaner.wait(backoff),
        }
    }
}

/// Those that are compacted.
fn logs(broker: &Broker) -> Vec<Arc<Log>> {
    let is_compacted = |config: &TopicConfig| config.cleanup_policy.compact;
    let partitions = broker.replicas.of_topics(is_compacted);
    partitions.iter().map(|p| Arc::clone(&p.log)).collect()
}

/// Brings the gauges of the cleaner up to date.
pub(crate) fn refresh(broker: &Broker) {
    let status = broker.cleaner.status(&logs(broker), broker.clock.now_ms());
    broker.metrics.cleaner.set_status(&status);
}

/// Ends the threads, and waits for them: the logs are about to be closed. Blocks.
pub(crate) fn stop(cleaner: &LogCleaner, pool: Option<Pool>) {
    cleaner.stop();
    if let Some(pool) = pool {
        pool.stop();
    }
}
