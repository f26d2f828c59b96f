//! Drives the pure coordinators over their partitions.

mod batches;
mod groups;
mod runtime;
mod shards;
mod transactions;

pub(crate) use groups::GroupCoordinators;
pub(crate) use runtime::Surroundings;
pub(crate) use transactions::{MarkerError, MarkerWriter, Patience, TransactionCoordinators};
