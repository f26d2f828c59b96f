//! A bound on the bytes that were accepted and are not written yet.
//!
//! A client that asks for no acknowledgement could otherwise fill the memory while the disk is
//! slow.

use std::sync::Arc;

use strandline_log::Log;

/// Most bytes of one partition that may wait for the disk.
const MAX_UNWRITTEN_BYTES: usize = 64 << 20;

/// Holds appends back while a partition's disk does not keep up.
#[derive(Debug, Default)]
pub(crate) struct AppendRoom;

impl AppendRoom {
    /// Returns when the log has room for another batch, or cannot write any more.
    pub(crate) async fn wait(&self, log: &Arc<Log>) {
        while log.unwritten_bytes() > MAX_UNWRITTEN_BYTES && !log.is_offline() {
            // The writer makes room in milliseconds; a closer signal is not worth its cost here.
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}
