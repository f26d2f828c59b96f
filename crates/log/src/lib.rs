//! The hot log of partitions on local disk, in Kafka's files (SEMANTICS 6).
//!
//! A [`LogDir`] is one directory with a thread that writes and one that tidies up. A [`Log`] is one
//! partition: appends get their offsets under its lock, go into the in-memory tail at once, and are
//! written in groups by the directory's writer thread, which then tells the log's owner. Reads give
//! whole batches, from memory or as ranges of files.

mod checkpoint;
mod cleaner;
mod config;
mod dir;
mod error;
mod fetch;
mod files;
mod index;
mod janitor;
mod leader_epochs;
mod loader;
mod log;
mod log_dir;
mod meta_properties;
mod offset_index;
mod offsets;
#[cfg(test)]
mod out_of_handles;
mod partition_metadata;
#[cfg(test)]
mod power_cut;
mod producer_snapshot;
mod producer_state;
mod replay;
mod retention;
mod roll;
mod scan;
mod sealed;
mod segment;
mod segments;
mod stop_summary;
mod sys;
mod tail;
#[cfg(test)]
mod testing;
mod time_index;
mod transaction_index;
mod verification;
mod writer;

pub use cleaner::{CleanReport, CleanerOptions, CleanerStatus, Cleaning, LogCleaner};
pub use config::LogConfig;
pub use dir::OnOffline;
pub use error::{AppendError, LogError, StorageFault};
pub use fetch::{FetchPart, FileSlice, LogRead};
pub use leader_epochs::{EpochEnd, EpochEntry, LeaderEpochs};
pub use log::{
    Appended, Behind, Log, OnWritten, RetentionOutcome, TimestampedOffset, waits_too_long,
};
pub use log_dir::{FailedLog, LoadedLogs, LogDir, LogDirOptions, RemoteStart};
pub use offsets::LogOffsets;
pub use producer_state::{BatchMemory, OpenTransactions, ProducerEntry};
pub use sealed::SealedSegment;
pub use tail::TailBudget;
pub use transaction_index::{AbortedTransaction, decode_transaction_index};
pub use verification::{AppendChecks, VerificationGuard, VerificationRequest};
