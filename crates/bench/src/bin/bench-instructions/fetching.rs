//! Where a fetch offset leads: what the log answers to the broker's plan of a read, from memory and
//! through the index of a segment on disk. System calls are made, and cost no instructions here.

use strandline_log::LogConfig;

use crate::Outcome;
use crate::counted::calls;
use crate::log::Place;

const BATCHES: u32 = 512;
const RECORDS_OF_A_BATCH: i64 = 4;
const MAX_BYTES: usize = 1 << 20;

/// Offsets all over the log, the same in each run.
fn offset(call: u32) -> i64 {
    i64::from(call) * 97 % (i64::from(BATCHES) * RECORDS_OF_A_BATCH - 400)
}

pub(crate) fn from_memory() -> Outcome<()> {
    let place = Place::new(64 << 20, LogConfig::default())?;
    place.fill(BATCHES)?;
    let upper = place.log.high_watermark();
    calls(
        |call| Ok(offset(call)),
        |offset| place.log.read_from_memory(offset, MAX_BYTES, upper, true),
        |read| matches!(read, Some(Ok(read)) if !read.parts.is_empty()),
    )
}

/// One segment of 2 MiB, of which nothing is in memory; its index has an entry for each batch.
pub(crate) fn from_file() -> Outcome<()> {
    let place = Place::new(0, LogConfig::default())?;
    place.fill(BATCHES)?;
    // Sealed, so that the whole index is in its file.
    place.log.roll(crate::batches::NOW_MS)?;
    place.fill(1)?;
    let upper = place.log.high_watermark();
    calls(
        |call| Ok(offset(call)),
        |offset| place.log.read(offset, MAX_BYTES, upper, true),
        |read| matches!(read, Ok(read) if !read.parts.is_empty()),
    )
}

pub(crate) fn offsets() -> Outcome<()> {
    let place = Place::new(64 << 20, LogConfig::default())?;
    place.fill(BATCHES)?;
    calls(
        |_| Ok(()),
        |()| {
            let end = place.log.log_end_offset();
            (place.log.offsets(), place.log.local_log_start_offset(), end)
        },
        |(offsets, _, end)| offsets.high_watermark == *end,
    )
}
