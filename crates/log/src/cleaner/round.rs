//! One round of cleaning: the map of the dirty part, then every segment up to its end (L-41…L-45).

use std::collections::HashMap;
use std::sync::Arc;

use strandline_records::{
    Batch, BatchError, BatchHeader, Compacted, DeleteHorizon, EndTransactionMarker, OpenBatch,
};
use strandline_types::{Offset, ProducerId};

use super::offset_map::OffsetMap;
use super::output::CleanedSegment;
use super::plan::{CleanPlan, NextFacts, may_join};
use super::retention::{BatchFacts, batch_fate, record_stays};
use super::source::SegmentSource;
use super::throttle::Throttle;
use super::transactions::CleanedTransactions;
use super::{CleanReport, CleanerOptions};
use crate::config::LogConfig;
use crate::error::LogError;
use crate::log::{FolderUse, LastOfProducer, Log, SealedView};
use crate::segment::SegmentId;
use crate::transaction_index::AbortedTransaction;

/// Why a round did not come to its end. What it did until then stays done.
#[derive(Debug)]
pub(crate) enum RoundError {
    /// The cleaner, or the log, was told to stop.
    Stopped,
    /// Something else changed the log: the next round will see.
    Changed,
    /// It cannot be read or written.
    Failed(LogError),
}

pub(crate) struct Round<'r> {
    log: &'r Arc<Log>,
    /// None before it begins, and where it is left because the log was deleted.
    folder: Option<FolderUse<'r>>,
    plan: CleanPlan,
    config: LogConfig,
    now_ms: i64,
    throttle: &'r Throttle,
    max_map_bytes: usize,
    load_factor: f64,
    /// Of each of the two buffers.
    buffer_bytes: usize,
    max_decompressed_bytes: usize,
    report: CleanReport,
}

/// What decides about the batches of a pass.
struct Pass<'r> {
    map: &'r OffsetMap,
    transactions: CleanedTransactions,
    producers: HashMap<ProducerId, LastOfProducer>,
    /// It met a batch that is too large to be looked into, and stays.
    has_unread: bool,
}

/// Segments that become one.
struct Group<'r> {
    output: CleanedSegment<'r>,
    old: Vec<SegmentId>,
    old_bytes: u64,
    modified_ms: i64,
    /// Something in it is not as it was.
    is_changed: bool,
}

/// What is written of a batch.
enum Output {
    Same,
    Other(Batch),
    Gone,
}

impl<'r> Round<'r> {
    pub(crate) fn new(
        log: &'r Arc<Log>,
        plan: CleanPlan,
        now_ms: i64,
        options: &CleanerOptions,
        throttle: &'r Throttle,
    ) -> Self {
        let threads = options.threads.max(1);
        Self {
            log,
            folder: None,
            plan,
            config: log.config(),
            now_ms,
            throttle,
            max_map_bytes: options.dedupe_buffer_bytes / threads,
            load_factor: options.load_factor,
            buffer_bytes: options.io_buffer_bytes / threads / 2,
            max_decompressed_bytes: options.max_decompressed_bytes,
            report: CleanReport {
                partition: log.partition().clone(),
                read_bytes: 0,
                written_bytes: 0,
                replaced_bytes: 0,
                map_utilization: 0.0,
            },
        }
    }

    pub(crate) fn run(mut self) -> Result<CleanReport, RoundError> {
        let producers = self.log.lasts_of_producers();
        // What replaces a record must not be lost by a power cut that the record would survive, nor may
        // the marker that decides about it, or what a producer is known by: both may lie behind the end.
        if let Err(error) = self.log.flush_appended() {
            if error.is_out_of_handles() {
                return Err(RoundError::Failed(error)); // no flush was tried that failed
            }
            // The kernel tells of a failed flush once: the next one would succeed without the bytes (L-27).
            self.log.swap_failed(error);
            return Err(RoundError::Stopped);
        }
        // A gap above it is no cleaning's to a start after a power cut (L-20).
        self.log.persist_recovery_point()?;
        CleanedSegment::discard_all(self.folder.insert(self.log.use_folder()?))?;
        let segments = self.log.sealed_below(self.plan.end)?;
        let Some(first) = segments.first().map(|s| s.id.base_offset) else {
            return Err(RoundError::Changed);
        };
        let aborted = self.log.aborted_transactions(first, self.plan.end)?;
        let (map, end) = self.build_map(&segments, &aborted)?;
        self.report.map_utilization = map.utilization();
        let pass = Pass {
            map: &map,
            transactions: CleanedTransactions::new(aborted),
            producers,
            has_unread: false,
        };
        self.clean(&segments, end, pass)?;
        self.folder = None;
        self.log.set_cleaned_to(end)?;
        Ok(self.report)
    }

    /// The newest offset of each key of the dirty part, and where it ends: before the end of the plan
    /// when the map is full.
    fn build_map(
        &mut self,
        segments: &[SealedView],
        aborted: &[AbortedTransaction],
    ) -> Result<(OffsetMap, Offset), RoundError> {
        let first_dirty = self.plan.first_dirty;
        let dirty = || segments.iter().filter(|s| s.next_offset > first_dirty);
        let keys: i64 = dirty().map(|s| s.next_offset - s.id.base_offset).sum();
        let keys = u64::try_from(keys).unwrap_or(0);
        let mut map = OffsetMap::new(first_dirty, keys, self.max_map_bytes, self.load_factor);
        // Those that ended before are not met here, nor are their markers.
        let open = aborted.iter().filter(|a| a.last_offset >= first_dirty);
        let mut transactions = CleanedTransactions::new(open.copied().collect());
        for segment in dirty() {
            let mut source = self.source(segment)?;
            while let Some(batch) = self.read(&mut source)? {
                let header = batch.header();
                if header.last_offset() < first_dirty {
                    continue;
                }
                let is_data = if header.attributes.is_control() {
                    transactions.on_control(&header, self.marker(&batch)?);
                    false
                } else {
                    !transactions.on_data(&header)
                };
                if is_data && !self.put_keys(&mut map, batch)? {
                    let end = map.latest() + 1;
                    return Ok((map, end));
                }
                map.pass(header.last_offset());
            }
        }
        Ok((map, self.plan.end))
    }

    /// False when the map is full.
    fn put_keys(&self, map: &mut OffsetMap, batch: Batch) -> Result<bool, RoundError> {
        let first_dirty = self.plan.first_dirty;
        let mut has_room = true;
        let Some(open) = self.open(batch)? else {
            return Ok(true);
        };
        let walked = open.each(|record| {
            if let Some(key) = record
                .key
                .filter(|_| record.offset >= first_dirty && has_room)
            {
                has_room = map.put(key, record.offset);
            }
        });
        walked.map_err(|e| self.damaged(&open.batch().header(), &e))?;
        Ok(has_room)
    }

    fn clean(
        &mut self,
        segments: &[SealedView],
        end: Offset,
        mut pass: Pass<'_>,
    ) -> Result<(), RoundError> {
        let mut group: Option<Group<'r>> = None;
        for segment in segments.iter().take_while(|s| s.id.base_offset < end) {
            let next = NextFacts {
                next_offset: segment.next_offset,
                size: segment.size,
                offset_entries: segment.offset_entries,
                time_entries: segment.time_entries,
            };
            if let Some(full) = group.take_if(|g| !may_join(&g.output.facts(), &next, &self.config))
            {
                self.close(full)?;
            }
            let mut open = match group.take() {
                Some(open) => open,
                None => self.begin(segment)?,
            };
            if let Err(error) = self.clean_segment(segment, &mut open, &mut pass) {
                // What stays behind is removed by the next round, or the next start.
                let _ = self.discard(open.base());
                return Err(error);
            }
            open.old.push(segment.id);
            open.old_bytes += segment.size;
            open.modified_ms = segment.modified_ms;
            group = Some(open);
        }
        group.map_or(Ok(()), |last| self.close(last))
    }

    fn begin(&self, segment: &SealedView) -> Result<Group<'r>, RoundError> {
        let output = CleanedSegment::create(
            self.log.folder(),
            segment.id.base_offset,
            self.config.index_interval_bytes,
            self.buffer_bytes,
        )?;
        Ok(Group {
            output,
            old: Vec::new(),
            old_bytes: 0,
            modified_ms: segment.modified_ms,
            is_changed: false,
        })
    }

    /// Puts the cleaned segment of a group in the place of the old ones.
    fn close(&mut self, group: Group<'r>) -> Result<(), RoundError> {
        let base = group.base();
        if group.old.len() == 1 && !group.is_changed {
            return Ok(self.discard(base)?);
        }
        let segment = group.output.finish(group.modified_ms).inspect_err(|_| {
            // As above.
            let _ = self.discard(base);
        })?;
        let size = segment.size;
        match self.log.replace_segments(&group.old, segment) {
            Ok(true) => {
                self.report.written_bytes += size;
                self.report.replaced_bytes += group.old_bytes;
                Ok(())
            }
            Ok(false) => {
                self.discard(base)?;
                Err(RoundError::Changed)
            }
            Err(error) => {
                self.log.swap_failed(error);
                Err(RoundError::Stopped)
            }
        }
    }

    fn clean_segment(
        &mut self,
        segment: &SealedView,
        group: &mut Group<'_>,
        pass: &mut Pass<'_>,
    ) -> Result<(), RoundError> {
        let mut source = self.source(segment)?;
        while let Some(batch) = self.read(&mut source)? {
            let (output, aborted) = self.judge(&batch, pass)?;
            let written = match output {
                Output::Same => batch,
                Output::Other(batch) => {
                    group.is_changed = true;
                    batch
                }
                Output::Gone => {
                    group.is_changed = true;
                    continue;
                }
            };
            group.output.append(&written, segment.modified_ms)?;
            // The entry lives as long as the marker (L-44).
            if let Some(aborted) = aborted.filter(|_| written.header().record_count > 0) {
                group.output.note_aborted(aborted);
            }
            self.pay(written.size_in_bytes())?;
        }
        Ok(())
    }

    fn discard(&self, base: Offset) -> Result<(), LogError> {
        let folder = self.folder.as_ref();
        folder.map_or(Ok(()), |folder| CleanedSegment::discard(folder, base))
    }

    /// What becomes of a batch, and the index entry of the marker that it is.
    fn judge(
        &self,
        batch: &Batch,
        pass: &mut Pass<'_>,
    ) -> Result<(Output, Option<AbortedTransaction>), RoundError> {
        let header = batch.header();
        let is_control = header.attributes.is_control();
        let (is_discardable, aborted) = if is_control {
            let fate = pass.transactions.on_control(&header, self.marker(batch)?);
            (fate.is_orphan, fate.aborted)
        } else {
            (pass.transactions.on_data(&header), None)
        };
        let facts = BatchFacts {
            is_discardable,
            is_last_of_producer: pass.is_last_of_producer(&header),
            is_last_of_round: header.last_offset() == pass.map.latest(),
            is_behind_unread: pass.has_unread,
        };
        let fate = batch_fate(&header, facts, self.now_ms);
        let compacted = if fate.drops_all {
            Compacted::Nothing
        } else {
            let horizon = DeleteHorizon {
                at_ms: self.now_ms.saturating_add(self.config.delete_retention_ms),
                is_for_marker: fate.is_orphan_marker,
            };
            let horizon = header.delete_horizon_ms().is_none().then_some(horizon);
            let Some(open) = self.open(batch.clone())? else {
                pass.has_unread = true;
                return Ok((Output::Same, aborted));
            };
            let (map, latest) = (pass.map, pass.map.latest());
            let compacted = open.compact(
                |record| is_control || record_stays(fate, record, |key| map.get(key), latest),
                horizon,
            );
            compacted.map_err(|e| self.damaged(&header, &e))?
        };
        let output = match compacted {
            Compacted::Unchanged => Output::Same,
            Compacted::Rewritten(batch) => Output::Other(batch),
            Compacted::Nothing if !fate.stays_empty => Output::Gone,
            Compacted::Nothing if header.record_count == 0 => Output::Same,
            Compacted::Nothing => Output::Other(batch.emptied()),
        };
        Ok((output, aborted))
    }

    fn source(&self, segment: &SealedView) -> Result<SegmentSource, RoundError> {
        let is_gone = || !self.log.lock_state().segments.has(&[segment.id]);
        match SegmentSource::open(self.log, segment, self.buffer_bytes) {
            // Retention was faster.
            Err(e) if e.is_not_found() && is_gone() => Err(RoundError::Changed),
            other => Ok(other?),
        }
    }

    fn read(&mut self, source: &mut SegmentSource) -> Result<Option<Batch>, RoundError> {
        let Some((batch, read)) = source.next()? else {
            return Ok(None);
        };
        self.report.read_bytes += read as u64;
        if read > 0 {
            if self.log.is_deleted() {
                return Err(RoundError::Stopped); // who deletes it waits for the folder
            }
            self.pay(read)?;
        }
        Ok(Some(batch))
    }

    /// Waits as the throttle wants. The wait may be long, so the folder is let go of meanwhile: nothing
    /// is done in it, and a segment that was begun goes with a log that is deleted.
    fn pay(&mut self, bytes: usize) -> Result<(), RoundError> {
        if let Some(until) = self.throttle.charge(bytes) {
            self.folder = None;
            self.throttle.wait_until(until);
            self.folder = Some(self.log.use_folder()?);
        }
        if self.throttle.is_stopped() {
            return Err(RoundError::Stopped);
        }
        Ok(())
    }

    /// `None` when it is too large to be looked into.
    fn open(&self, batch: Batch) -> Result<Option<OpenBatch>, RoundError> {
        let header = batch.header();
        match OpenBatch::new(batch, self.max_decompressed_bytes) {
            Ok(open) => Ok(Some(open)),
            Err(BatchError::DecompressedTooLarge { .. }) => Ok(None),
            Err(error) => Err(self.damaged(&header, &error)),
        }
    }

    fn marker(&self, batch: &Batch) -> Result<Option<EndTransactionMarker>, RoundError> {
        EndTransactionMarker::of_batch(batch).map_err(|e| self.damaged(&batch.header(), &e))
    }

    fn damaged(&self, header: &BatchHeader, error: &BatchError) -> RoundError {
        let reason = format!("the batch at offset {}: {error}", header.base_offset);
        RoundError::Failed(LogError::corrupt(self.log.folder(), reason))
    }
}

impl Group<'_> {
    fn base(&self) -> Offset {
        self.output.facts().base_offset
    }
}

impl Pass<'_> {
    /// L-42: the batch that a restart learns the producer's place from.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let last = self.producers.get(&header.producer_id);
        last.is_some_and(|last| match last.last_offset {
            Some(offset) => offset == header.last_offset(),
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        })
    }
}

#[cfg(test)]
mod tests {
    use strandline_records::{BatchBuilder, Compression};
    use strandline_types::{BrokerId, TimestampType, TopicId, TopicName, TopicPartition};

    use super::*;
    use crate::cleaner::{Cleaning, LogCleaner};
    use crate::log_dir::{LogDir, LogDirOptions};
    use crate::segment::SegmentFile;
    use crate::tail::TailBudget;
    use crate::testing::BatchSpec;

    fn open(folder: &tempfile::TempDir) -> Arc<LogDir> {
        let options = LogDirOptions::new("c", BrokerId(1), TailBudget::new(1 << 20));
        LogDir::open(folder.path(), options).unwrap()
    }

    fn compacted(dir: &LogDir) -> Arc<Log> {
        let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
        let config = LogConfig {
            compact: true,
            ..LogConfig::default()
        };
        dir.create_log(partition, TopicId::random(), config)
            .unwrap()
    }

    // X-58, L-45: a topic of the same name owns the same paths; and who deletes a topic does not wait
    // until a throttled round is through
    #[test]
    fn a_round_touches_nothing_of_a_log_that_takes_the_place_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(&folder);
        let log = compacted(&dir);
        log.append_as_leader(BatchSpec::default().build(), 0, 0)
            .unwrap();
        log.roll(0).unwrap();
        while log.lock_state().writing == 0 {
            std::thread::yield_now();
        }
        // Nothing is dirty: what it reads and waits for first is what it rewrites.
        let plan = CleanPlan {
            first_dirty: 1,
            end: 1,
            clean_bytes: 1,
            dirty_bytes: 0,
            overdue_ms: 0,
        };
        let throttle = Throttle::new(1.0);
        let options = CleanerOptions::default();
        let cleaned = SegmentFile::Log.marked_path(log.folder(), 0, crate::log::CLEANED);
        std::thread::scope(|scope| {
            let round = Round::new(&log, plan, 0, &options, &throttle);
            let round = scope.spawn(|| round.run());
            while throttle.charge(0).is_none() {
                std::thread::yield_now();
            }
            assert!(cleaned.try_exists().unwrap());
            log.delete().unwrap();
            compacted(&dir);
            assert!(!cleaned.try_exists().unwrap());
            std::fs::write(&cleaned, b"of the new one").unwrap();
            throttle.stop();
            assert!(matches!(round.join().unwrap(), Err(RoundError::Stopped)));
        });
        assert!(cleaned.try_exists().unwrap());
    }

    // L-40: what a round meets because its log went away is nothing that anybody has to look after
    #[test]
    fn a_log_that_is_deleted_while_it_is_cleaned_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let dir = open(&folder);
        let log = compacted(&dir);
        for end in 1..=2 {
            let mut batch = BatchBuilder::new(Compression::None, TimestampType::CreateTime, 0);
            batch.append(1, Some(b"k"), Some(b"v"), &[]).unwrap();
            log.append_as_leader(batch.build().unwrap(), 0, 0).unwrap();
            log.roll(0).unwrap();
            while log.lock_state().writing < end {
                std::thread::yield_now();
            }
        }
        log.set_high_watermark(2);
        let cleaner = LogCleaner::new(CleanerOptions {
            max_bytes_per_second: 100.0,
            ..CleanerOptions::default()
        });
        let logs = [Arc::clone(&log)];
        std::thread::scope(|scope| {
            let cleaning = scope.spawn(|| cleaner.clean_dirtiest(&logs, 0));
            // It has read the first segment.
            while cleaner.throttle.charge(0).is_none() {
                std::thread::yield_now();
            }
            log.delete().unwrap();
            assert_eq!(cleaning.join().unwrap(), Cleaning::CutShort);
        });
        assert!(cleaner.inner.lock().failures.is_empty());
        assert_eq!(cleaner.clean_dirtiest(&logs, 0), Cleaning::NothingDue);
    }
}
