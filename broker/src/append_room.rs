//! A bound on the bytes that were accepted and are not written yet.
//!
//! A client that asks for no acknowledgement could otherwise fill the memory while the disk is
//! slow.

use std::sync::Arc;
use std::time::Duration;

use strandline_log::LogDir;

/// Most bytes that may wait for the disk.
const MAX_UNWRITTEN_BYTES: usize = 256 << 20;
/// Between looks while there is no room. The writer makes room in milliseconds; a closer signal is
/// not worth its cost on every append.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Holds appends back while the disk does not keep up.
#[derive(Debug)]
pub(crate) struct AppendRoom {
    log_dir: Arc<LogDir>,
}

impl AppendRoom {
    pub(crate) fn new(log_dir: Arc<LogDir>) -> Self {
        Self { log_dir }
    }

    /// Returns when there is room for another batch, or the directory has failed.
    pub(crate) async fn wait(&self) {
        while self.log_dir.backlog_bytes() > MAX_UNWRITTEN_BYTES && !self.log_dir.is_offline() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
