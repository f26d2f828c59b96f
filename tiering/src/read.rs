//! Reading from the cold tier: offset → segment → chunks of fixed size → whole batches.

pub(crate) mod admission;
pub(crate) mod budget;
pub(crate) mod chunk_cache;
pub(crate) mod collector;
pub(crate) mod fill;
pub(crate) mod lookup;
pub(crate) mod piece;
pub(crate) mod plan;
pub(crate) mod read_ahead;
pub(crate) mod reader;
pub(crate) mod run;
