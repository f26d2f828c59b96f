//! Offsets, epochs and the sentinels that Kafka uses for "none".
//!
//! Offsets and epochs are plain integers: they are added, compared and stored in bulk on the hot
//! path, and Kafka's names (`base_offset`, `high_watermark`, …) carry the meaning. `base_`, `last_`
//! and `highest_` are inclusive; `end_`, `next_`, `high_watermark` and `last_stable` are exclusive.

/// Position of a record in a partition; the first is 0.
pub type Offset = i64;
/// Number of a partition's leadership; grows by one with each change of leader.
pub type LeaderEpoch = i32;
/// Cluster-wide unique id of an idempotent or transactional producer.
pub type ProducerId = i64;
/// Fencing epoch of a producer id.
pub type ProducerEpoch = i16;

/// "No offset" in responses.
pub const UNKNOWN_OFFSET: Offset = -1;
/// "No timestamp" of a record, in ms since the Unix epoch otherwise.
pub const NO_TIMESTAMP: i64 = -1;
/// "No leader epoch known".
pub const NO_PARTITION_LEADER_EPOCH: LeaderEpoch = -1;
/// The producer id of a batch that is not idempotent.
pub const NO_PRODUCER_ID: ProducerId = -1;
/// The producer epoch of a batch that is not idempotent.
pub const NO_PRODUCER_EPOCH: ProducerEpoch = -1;
/// The base sequence of a batch that is not idempotent.
pub const NO_SEQUENCE: i32 = -1;

/// What a ListOffsets request asks for (SEMANTICS 3.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListOffsetsTimestamp {
    /// -1: the end that the reader may see (high watermark or last stable offset).
    Latest,
    /// -2: the log start offset over both tiers.
    Earliest,
    /// -3: the record with the greatest timestamp.
    MaxTimestamp,
    /// -4: the first offset on the local disk.
    EarliestLocal,
    /// -5: the last offset in the remote tier.
    LatestTiered,
    /// -6: the first offset that is not yet tiered.
    EarliestPendingUpload,
    /// The first record at or after this time in ms since the Unix epoch.
    At(i64),
}

impl ListOffsetsTimestamp {
    /// Reads the wire value; `None` for a negative number without a meaning.
    pub fn from_wire(value: i64) -> Option<Self> {
        Some(match value {
            -1 => Self::Latest,
            -2 => Self::Earliest,
            -3 => Self::MaxTimestamp,
            -4 => Self::EarliestLocal,
            -5 => Self::LatestTiered,
            -6 => Self::EarliestPendingUpload,
            ts if ts >= 0 => Self::At(ts),
            _ => return None,
        })
    }
}
