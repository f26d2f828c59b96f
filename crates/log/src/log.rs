//! One partition's log: its state, its offsets, and what does not append or read (SEMANTICS 6.1).

mod append;
mod cleaning;
mod folder_use;
mod lifecycle;
mod read;
mod replace;
mod state;
mod status;
mod time_lookup;
mod transactions;
mod upkeep;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use strandline_types::{LeaderEpoch, Offset, ProducerId, TopicId, TopicPartition};

use crate::config::LogConfig;
use crate::dir::DirShared;
use crate::error::LogError;
use crate::files::FileKey;
use crate::leader_epochs::{EpochEnd, LeaderEpochs};
use crate::offsets::{LogOffsets, Offsets, get, set};
use crate::producer_state::ProducerEntry;
use crate::segment::{SegmentFile, SegmentId};
use crate::tail::Tail;

pub use append::Appended;
pub(crate) use append::jitter;
pub(crate) use cleaning::{LastOfProducer, SealedView};
pub(crate) use folder_use::FolderUse;
pub(crate) use lifecycle::marked_name;
pub(crate) use replace::{CLEANED, CLEANED_KINDS, DELETED, SWAP, rename as rename_file};
pub(crate) use state::{LogParts, LogState, RollItem, Status, WriteItem};
pub use status::Behind;
pub use time_lookup::TimestampedOffset;
pub use upkeep::{RetentionOutcome, waits_too_long};

/// Called when the writer has written up to an offset (exclusive), or will not write all that was
/// appended any more. Compare with `written_end_offset()` then: what is below it is written.
pub type OnWritten = Box<dyn Fn(Result<Offset, LogError>) + Send + Sync>;

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The hot log of one partition. Shared and internally locked; no method holds the lock while it
/// waits for a device, except where it says so.
pub struct Log {
    number: u64,
    partition: TopicPartition,
    topic_id: TopicId,
    folder: Arc<Path>,
    dir: Arc<DirShared>,
    offsets: Offsets,
    tail: Arc<Tail>,
    state: Mutex<LogState>,
    /// Held by a pass of retention: files go in the order of their offsets, so that a crash leaves no hole.
    retaining: Mutex<()>,
    /// Told when the writer has made progress that someone waits for.
    progress: Condvar,
    on_written: RwLock<Option<Arc<OnWritten>>>,
    is_log_start_known: AtomicBool,
    /// How often files were made here that the device may not know by name; once at the beginning.
    names_made: AtomicU64,
    /// How many of these times are on the device. 0 also when `partition.metadata` may not be: it need not
    /// be before the first flush.
    names_durable: AtomicU64,
    /// The one of these times at which the leader epochs were written last.
    epochs_made: AtomicU64,
    me: Weak<Log>,
}

impl Log {
    pub(crate) fn assemble(parts: LogParts, dir: &Arc<DirShared>) -> Arc<Self> {
        let mut producers = parts.producers;
        let mut offsets = parts.offsets;
        offsets.last_stable = producers.last_stable_offset(offsets.high_watermark);
        let writing = parts.segments.active().base_offset;
        let state = LogState {
            config: parts.config,
            segments: parts.segments,
            writing,
            pending: Vec::new(),
            is_scheduled: false,
            status: Status::Open,
            producers,
            epochs: parts.epochs,
            unwritten_aborts: Vec::new(),
            waiters: 0,
            folder_users: 0,
            removals: 0,
            left_behind: Vec::new(),
            is_changed: parts.is_changed,
            flush_due: None,
            cleaned_to: parts.cleaned_to,
            swaps: 0,
            is_swapping: false,
        };
        let tail = Arc::new(Tail::default());
        tail.set_written_end(offsets.written_end, &dir.tail);
        Arc::new_cyclic(|me| Self {
            number: NEXT_NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            partition: parts.partition,
            topic_id: parts.topic_id,
            folder: parts.folder,
            dir: Arc::clone(dir),
            offsets: Offsets::new(offsets, parts.recovery_point),
            tail,
            state: Mutex::new(state),
            retaining: Mutex::new(()),
            progress: Condvar::new(),
            on_written: RwLock::new(None),
            is_log_start_known: AtomicBool::new(parts.is_log_start_known),
            names_made: AtomicU64::new(1),
            names_durable: AtomicU64::new(0),
            epochs_made: AtomicU64::new(1), // by the start, perhaps
            me: me.clone(),
        })
    }

    /// Number of the log, unique in the process's life.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Id of the partition's topic.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The partition's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[cfg(test)]
    pub(crate) fn dir(&self) -> &DirShared {
        &self.dir
    }

    /// The log directory that the log lies in.
    pub fn log_dir(&self) -> &Path {
        &self.dir.path
    }

    /// Sets who is told about written batches; replaces the one before. Called from the writer
    /// thread, outside of all locks, in order; it must not block.
    pub fn set_on_written(&self, on_written: OnWritten) {
        *self.on_written.write() = Some(Arc::new(on_written));
    }

    pub(crate) fn notify_written(&self, result: Result<Offset, LogError>) {
        let on_written = self.on_written.read().clone();
        if let Some(on_written) = on_written {
            on_written(result);
        }
    }

    /// All offsets at once, in an order that holds (F-9).
    pub fn offsets(&self) -> LogOffsets {
        self.offsets.view()
    }

    /// First offset over both tiers (inclusive).
    pub fn log_start_offset(&self) -> Offset {
        get(&self.offsets.log_start)
    }

    /// First offset on the local disk (inclusive).
    pub fn local_log_start_offset(&self) -> Offset {
        get(&self.offsets.local_log_start)
    }

    /// Offset of the next record.
    pub fn log_end_offset(&self) -> Offset {
        get(&self.offsets.log_end)
    }

    /// Below it everything is written (exclusive): an acknowledgement may go out.
    pub fn written_end_offset(&self) -> Offset {
        get(&self.offsets.written_end)
    }

    /// Below it everything is replicated (exclusive).
    pub fn high_watermark(&self) -> Offset {
        get(&self.offsets.high_watermark)
    }

    /// Below it no transaction is open (exclusive).
    pub fn last_stable_offset(&self) -> Offset {
        self.offsets.view().last_stable
    }

    /// Below it everything is on the device (exclusive, L-27).
    pub fn recovery_point(&self) -> Offset {
        get(&self.offsets.recovery_point)
    }

    /// Raises the high watermark, at most to the log end offset, and with it the last stable
    /// offset. It never goes down here. The new value.
    pub fn set_high_watermark(&self, offset: Offset) -> Offset {
        if offset <= self.high_watermark() {
            return self.high_watermark();
        }
        let mut state = self.state.lock();
        let target = offset.min(self.log_end_offset());
        if target > self.high_watermark() {
            set(&self.offsets.high_watermark, target);
            self.dir.note_change();
            set(
                &self.offsets.last_stable,
                state.producers.last_stable_offset(target),
            );
        }
        self.high_watermark()
    }

    /// The settings in force.
    pub fn config(&self) -> LogConfig {
        self.state.lock().config.clone()
    }

    /// Replaces the settings.
    pub fn update_config(&self, config: LogConfig) {
        let flush_ms = config.flush_ms;
        {
            let mut state = self.state.lock();
            state.config = config;
            self.dir.note_change(); // whether the log start is checkpointed depends on them
        }
        if self.recovery_point() < self.written_end_offset() {
            self.plan_flush(flush_ms); // the next append may be long in coming
        }
    }

    /// Bytes of all local segments, what is not written yet included.
    pub fn size_in_bytes(&self) -> u64 {
        self.state.lock().segments.size()
    }

    /// Number of local segments, the active one included.
    pub fn segment_count(&self) -> usize {
        self.state.lock().segments.len()
    }

    /// What is known of each producer (DescribeProducers).
    pub fn producers(&self) -> HashMap<ProducerId, ProducerEntry> {
        self.state.lock().producers.entries().clone()
    }

    /// Forgets producers that were silent for `producer.id.expiration.ms` (P-59); how many.
    pub fn expire_producers(&self, now_ms: i64) -> usize {
        let mut state = self.state.lock();
        let expiration_ms = state.config.producer_id_expiration_ms;
        state.producers.expire(now_ms, expiration_ms)
    }

    /// Notes that leader epoch `epoch` begins at the log end offset.
    pub fn assign_epoch(&self, epoch: LeaderEpoch) -> Result<(), LogError> {
        let mut state = self.state.lock();
        self.check_open(&state)?;
        self.assign_epoch_locked(&mut state, epoch, self.log_end_offset());
        Ok(())
    }

    fn assign_epoch_locked(&self, state: &mut LogState, epoch: LeaderEpoch, start: Offset) {
        if state.epochs.assign(epoch, start) {
            self.push_epochs(state);
        }
    }

    fn push_epochs(&self, state: &mut LogState) {
        let text = state.epochs.encode().into_boxed_str();
        self.push_item(state, WriteItem::Epochs(text));
    }

    /// Newest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.state.lock().epochs.latest()
    }

    /// All leader epochs since the log start offset.
    pub fn leader_epochs(&self) -> LeaderEpochs {
        self.state.lock().epochs.clone()
    }

    /// The leader epoch in which `offset` was, or will be, written.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.state.lock().epochs.epoch_for_offset(offset)
    }

    /// Where `epoch` ended (O-21).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> EpochEnd {
        let state = self.state.lock();
        state.epochs.end_offset_for(epoch, self.log_end_offset())
    }

    pub(crate) fn lock_state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }

    pub(crate) fn live_offsets(&self) -> &Offsets {
        &self.offsets
    }

    pub(crate) fn tail(&self) -> &Arc<Tail> {
        &self.tail
    }

    /// A file of the segment that is appended to, or was before it was ever cleaned. Sealed ones are
    /// opened with [`Log::open_segment_file`].
    pub(crate) fn open_file(
        &self,
        base: Offset,
        kind: SegmentFile,
        create: bool,
    ) -> Result<Arc<std::fs::File>, LogError> {
        let key = self.file_key(
            SegmentId {
                base_offset: base,
                incarnation: 0,
            },
            kind,
        );
        self.dir
            .files
            .spare(|| self.dir.files.open(key, &self.folder, create))
    }

    fn file_key(&self, segment: SegmentId, kind: SegmentFile) -> FileKey {
        FileKey {
            log: self.number,
            segment,
            kind,
        }
    }

    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Fails when nothing can be read or appended any more.
    pub(crate) fn check_open(&self, state: &LogState) -> Result<(), LogError> {
        self.dir.check_online()?;
        match state.status {
            Status::Open => Ok(()),
            Status::Closed => Err(LogError::Closed),
            Status::Deleted => Err(LogError::Deleted(self.partition.clone())),
        }
    }

    /// Gives the writer something to do.
    pub(crate) fn push_item(&self, state: &mut LogState, item: WriteItem) {
        state.pending.push(item);
        if !state.is_scheduled
            && let Some(me) = self.me.upgrade()
        {
            state.is_scheduled = true;
            self.dir.queue.push(me);
        }
    }

    /// Waits until `done`, or until the directory is offline. The writer must be running.
    pub(crate) fn wait_until(
        &self,
        state: &mut MutexGuard<'_, LogState>,
        done: impl Fn(&LogState) -> bool,
    ) -> Result<(), LogError> {
        state.waiters += 1;
        let result = loop {
            if done(state) {
                break Ok(());
            }
            if let Err(fault) = self.dir.check_running() {
                break Err(fault);
            }
            self.progress.wait(state);
        };
        state.waiters -= 1;
        result
    }

    pub(crate) fn wake_waiters(&self, state: &LogState) {
        if state.waiters > 0 {
            self.progress.notify_all();
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("partition", &self.partition)
            .field("offsets", &self.offsets())
            .finish_non_exhaustive()
    }
}
