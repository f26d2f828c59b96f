//! What every coordinator is made of: it decides without I/O, its state lives in the records of one
//! partition of an internal topic, and its caller carries out what it says.
//!
//! Groups and transactions differ in what they decide; they agree on how a decision becomes durable
//! (appends with tokens, results in any order, answers afterwards), on which partition coordinates a
//! key, and on the two encodings of internal records.
//!
//! Rules: A-30, G-70, section 4.3.

mod effect;
mod partition;
mod timers;
mod tombstones;
mod wire;

pub use effect::{
    Append, AppendBatch, AppendError, AppendToken, CoordinatorRecord, Effects, Producer, RequestId,
    TransactionEnd,
};
pub use partition::partition_for_key;
pub use timers::{Now, Timers};
pub use tombstones::tombstone_batches;
pub use wire::{Reader, RecordError, Writer};
