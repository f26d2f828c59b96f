//! A bound on the bytes that were accepted and are not written yet.
//!
//! While the disk is slow, everything that clients have in flight would wait in memory otherwise: up to
//! 123 MiB were seen with one librdkafka producer, and there is no end to it with a client that asks
//! for no acknowledgement.

use std::time::Duration;

use strandline_log::Log;

/// Most bytes that may wait for a log directory: 30 ms of what a disk or the page cache takes, so
/// that the writer never waits for work. Half of the in-memory tail's largest default, which they
/// count in.
const MAX_UNWRITTEN_BYTES: usize = 32 << 20;
/// Between looks while there is no room. The writer makes room in milliseconds; a closer signal is
/// not worth its cost on every append.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Returns when there is room for another batch of this log, or its directory has failed: the others
/// are not held back by it.
pub(crate) async fn wait_for_room(log: &Log) {
    while log.dir_backlog_bytes() > MAX_UNWRITTEN_BYTES && !log.is_offline() {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
