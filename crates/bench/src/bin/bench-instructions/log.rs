//! A log in a temporary folder, and what an append costs the thread that calls it. The write itself
//! is another thread's, and is not counted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use strandline_log::{Log, LogConfig, LogDir, LogDirOptions, TailBudget};
use strandline_records::{Batch, Compression};
use strandline_types::{BrokerId, Offset, TopicId, TopicName, TopicPartition};
use tempfile::TempDir;

use crate::Outcome;
use crate::batches::{NOW_MS, batch};
use crate::counted::calls;

/// One partition, its folder, and the offsets up to which it is written.
pub(crate) struct Place {
    pub(crate) log: Arc<Log>,
    written: Receiver<Offset>,
    // Dropped in this order.
    _dir: Arc<LogDir>,
    _folder: TempDir,
}

impl Place {
    /// An empty log whose newest `tail_bytes` stay in memory.
    pub(crate) fn new(tail_bytes: usize, config: LogConfig) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let options = LogDirOptions::new("bench", BrokerId(1), TailBudget::new(tail_bytes));
        let dir = LogDir::open(folder.path(), options)?;
        let partition = TopicPartition::new(TopicName::new("orders")?, 0);
        let log = dir.create_log(partition, TopicId::random(), config)?;
        let (told, written) = sync_channel(1024);
        log.set_on_written(Box::new(move |end| {
            // Nobody listens any more when the case is over.
            let _ = told.send(end.unwrap_or(Offset::MAX));
        }));
        Ok(Self {
            log,
            written,
            _dir: dir,
            _folder: folder,
        })
    }

    /// Waits until everything below `end` is written.
    pub(crate) fn wait(&self, end: Offset) -> Outcome<()> {
        while self.written.recv()? < end {}
        Ok(())
    }

    /// Appends so many batches of 4 records of 1 KiB and waits for each.
    pub(crate) fn fill(&self, batches: u32) -> Outcome<()> {
        let bytes = batch(Compression::None, 4, 1000)?;
        for _ in 0..batches {
            let batch = Batch::from_bytes(bytes.clone())?;
            let appended = self.log.append_as_leader(batch, 0, NOW_MS)?;
            self.wait(appended.last_offset + 1)?;
        }
        self.log.set_high_watermark(self.log.log_end_offset());
        Ok(())
    }
}

pub(crate) fn append() -> Outcome<()> {
    let place = Place::new(64 << 20, LogConfig::default())?;
    let bytes = batch(Compression::None, 16, 1024)?;
    calls(
        |_| {
            // The writer has done what came before: every call finds it asleep.
            place.wait_until_idle()?;
            Ok(Batch::from_bytes(bytes.clone())?)
        },
        |batch| place.log.append_as_leader(batch, 0, NOW_MS),
        |appended| appended.is_ok(),
    )
}

impl Place {
    fn wait_until_idle(&self) -> Outcome<()> {
        let end = self.log.log_end_offset();
        if end > 0 {
            self.wait(end)?;
        }
        Ok(())
    }
}
