//! The cold tier as the broker uses it, on stores in memory and in a directory, whole and sick.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panic, as tests do"
)]

mod chain;
mod disk_cache;
mod faults;
mod hot_log;
mod lookups;
mod read;
mod retention;
mod support;

/// The broker spawns all of these.
#[allow(dead_code, reason = "compiling it is the test")]
fn futures_can_be_spawned(
    tier: &strandline_tiering::RemoteTier,
    partition: &strandline_tiering::RemotePartition,
    source: std::sync::Arc<support::MemorySegment>,
) {
    fn can<T: Send>(_: T) {}
    let request = strandline_tiering::ExpireRequest {
        log_start_offset: 0,
        retention_ms: -1,
        retention_bytes: -1,
        local_unuploaded_bytes: 0,
    };
    can(tier.open_partition(support::id(0), 0));
    can(tier.bucket().probe());
    can(tier.close());
    can(partition.take_over(0));
    can(partition.refresh());
    can(partition.upload(source, 0, 0));
    can(partition.read(0, 1, true));
    can(partition.offset_for_timestamp(0, 0));
    can(partition.max_timestamp(0));
    can(partition.aborted_transactions(0, 1));
    can(partition.state_at(0));
    can(partition.expire(0, request));
    can(partition.delete_all(0));
}
