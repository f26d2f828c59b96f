//! The I/O thread of a directory: grouped writes, indexes, rolls, flushes (DESIGN §3, L-1, L-27).

use std::fs::File;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use strandline_records::Batch;
use strandline_types::Offset;

use crate::dir::DirShared;
use crate::error::LogError;
use crate::index::{Index, IndexBytes, IndexEntry};
use crate::janitor::Chore;
use crate::leader_epochs;
use crate::log::{Log, RollItem, Status, WriteItem};
use crate::offsets::{get, set};
use crate::segment::{Segment, SegmentFile};
use crate::sys;

/// Batches of one vectored write; each has two pieces.
const GROUP_BATCHES: usize = sys::IOV_MAX / 2;
/// Room in a log's list of what is pending that it keeps while it is idle.
const KEPT_ITEMS: usize = 16;
/// Index entries that may wait in memory.
const INDEX_BUFFER: usize = 128;
/// Blocks are reserved only in segments that have grown to this size, so that a quiet partition
/// costs no disk, then in steps as large as the segment, up to a limit.
const RESERVE_FROM: u64 = 64 * 1024;
const RESERVE_AT_MOST: u64 = 32 * 1024 * 1024;

/// The thread's body; ends when the queue is stopped.
pub(crate) fn run(dir: &Arc<DirShared>) {
    let mut items = Vec::new();
    while let Some(log) = dir.queue.pop() {
        let done = catch_unwind(AssertUnwindSafe(|| serve(dir, &log, &mut items)));
        let failed = match done {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error),
            Err(_) => Some(LogError::io(
                "write",
                log.folder(),
                io::Error::other("the writer panicked"),
            )),
        };
        if let Some(error) = failed {
            dir.fail(error);
            log.drop_pending(&dir.fault().map_or(LogError::Closed, |f| f.clone().into()));
        }
    }
}

/// Does everything that one log has pending. `items` is a list that goes from log to log: each gets
/// it empty for what it has, so that neither side allocates.
fn serve(dir: &Arc<DirShared>, log: &Arc<Log>, items: &mut Vec<WriteItem>) -> Result<(), LogError> {
    items.clear();
    if items.capacity() > KEPT_ITEMS {
        *items = Vec::new();
    }
    {
        let mut state = log.lock_state();
        dir.check_online()?;
        std::mem::swap(&mut state.pending, items);
    }
    let batches = items.iter().map(|i| {
        if let WriteItem::Batch(b) = i {
            b.size_in_bytes()
        } else {
            0
        }
    });
    let mut backlog = Backlog {
        dir,
        bytes: batches.sum(),
    };
    let mut rest = items.as_slice();
    let mut group = Vec::with_capacity(GROUP_BATCHES.min(rest.len()));
    while let Some(item) = rest.first() {
        if let WriteItem::Batch(_) = item {
            group.clear();
            let batches = rest.iter().map_while(|item| match item {
                WriteItem::Batch(batch) => Some(Arc::clone(batch)),
                _ => None,
            });
            group.extend(batches.take(GROUP_BATCHES));
            rest = rest.get(group.len()..).unwrap_or(&[]);
            write_group(&mut backlog, log, &group)?;
            continue;
        }
        rest = rest.get(1..).unwrap_or(&[]);
        dir.with_handles(|| do_item(dir, log, item))?;
    }
    items.clear();
    finish(dir, log);
    Ok(())
}

/// Bytes in the writer's hands; they leave the backlog whatever becomes of them.
struct Backlog<'d> {
    dir: &'d DirShared,
    bytes: usize,
}

impl Backlog<'_> {
    fn done(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.dir.backlog_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Backlog<'_> {
    fn drop(&mut self) {
        self.dir
            .backlog_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Gives the log back to the queue if more came in.
fn finish(dir: &DirShared, log: &Arc<Log>) {
    let mut state = log.lock_state();
    if !state.pending.is_empty() {
        dir.queue.push(Arc::clone(log));
        return;
    }
    state.is_scheduled = false;
    log.wake_waiters(&state);
}

/// A step that is not done for want of a file handle can be begun anew.
fn do_item(dir: &Arc<DirShared>, log: &Arc<Log>, item: &WriteItem) -> Result<(), LogError> {
    match item {
        WriteItem::Batch(_) => Ok(()),
        WriteItem::Roll(roll) => roll_files(dir, log, roll),
        WriteItem::Epochs(text) => {
            let path = log.folder().join(leader_epochs::FILE_NAME);
            sys::replace_file(&path, text.as_bytes(), false)?;
            log.epochs_written();
            Ok(())
        }
        WriteItem::Aborted(aborted) => {
            let base = log.lock_state().writing;
            let file = log.open_file(base, SegmentFile::TransactionIndex, true)?;
            let path = || SegmentFile::TransactionIndex.path(log.folder(), base);
            let end = file
                .metadata()
                .map_err(|e| LogError::io("look at", path(), e))?
                .len();
            sys::write_all_at(&file, &aborted.encode(), end)
                .map_err(|e| LogError::io("write", path(), e))?;
            let mut state = log.lock_state();
            if let Some(segment) = state.segments.at_mut(base) {
                segment.has_unflushed_aborts = true;
            }
            state.unwritten_aborts.retain(|a| a != &**aborted);
            Ok(())
        }
    }
}

/// Where the next group goes.
struct Target {
    base: Offset,
    position: u64,
    reserved_to: u64,
    segment_bytes: u64,
    has_unflushed_aborts: bool,
    /// Records that may stay unflushed.
    flush_messages: i64,
    flush_ms: i64,
}

fn target(log: &Log) -> Option<Target> {
    let mut state = log.lock_state();
    let (segment_bytes, base) = (state.config.segment_bytes, state.writing);
    let (flush_messages, flush_ms) = (state.config.flush_messages, state.config.flush_ms);
    let segment = state.segments.at_mut(base)?;
    Some(Target {
        base,
        position: segment.written_size,
        reserved_to: segment.reserved_to,
        segment_bytes,
        has_unflushed_aborts: segment.has_unflushed_aborts,
        flush_messages,
        flush_ms,
    })
}

/// Writes consecutive batches with one call, then tells who waits for them. On an error none of
/// them counts as written.
fn write_group(
    backlog: &mut Backlog<'_>,
    log: &Arc<Log>,
    group: &[Arc<Batch>],
) -> Result<(), LogError> {
    let dir = backlog.dir;
    let (Some(last), Some(mut target)) = (group.last(), target(log)) else {
        return Err(LogError::corrupt(
            log.folder(),
            "the segment being written is gone",
        ));
    };
    let size: usize = group.iter().map(|b| b.size_in_bytes()).sum();
    let file = dir.with_handles(|| log.open_file(target.base, SegmentFile::Log, true))?;
    reserve(dir, &file, &mut target, size as u64);
    let pieces = group
        .iter()
        .flat_map(|b| [IoSlice::new(b.head()), IoSlice::new(b.body())]);
    let mut pieces: Vec<_> = pieces.collect();
    let path = || SegmentFile::Log.path(log.folder(), target.base);
    sys::write_all_vectored_at(&file, &mut pieces, target.position)
        .map_err(|e| LogError::io("write", path(), e))?;
    let end = last.header().next_offset();
    let is_flushed = dir.with_handles(|| flush_if_due(log, &file, &target, end))?;
    backlog.done(size);
    written(dir, log, &target, size as u64, end, is_flushed)?;
    if !is_flushed {
        // After the write is published, so that the flush sees it however soon it comes.
        log.plan_flush(target.flush_ms);
    }
    dir.tail.enforce();
    log.notify_written(Ok(end));
    Ok(())
}

/// Reserves blocks for a segment that grows. A refusal is no error: the write itself will tell.
fn reserve(dir: &DirShared, file: &File, target: &mut Target, size: u64) {
    let end = target.position + size;
    if end <= target.reserved_to || end < RESERVE_FROM || !dir.can_reserve.load(Ordering::Relaxed) {
        return;
    }
    let from = target.position.max(target.reserved_to);
    let step = target.position.clamp(RESERVE_FROM, RESERVE_AT_MOST);
    let to = (end + step).min(target.segment_bytes.max(end));
    match sys::reserve(file, from, to - from) {
        Ok(()) => target.reserved_to = to,
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
            ) =>
        {
            dir.can_reserve.store(false, Ordering::Relaxed);
        }
        Err(_) => {}
    }
}

/// Flushes before the acknowledgement when `flush.messages` asks for it; whether it did.
fn flush_if_due(log: &Log, file: &File, target: &Target, end: Offset) -> Result<bool, LogError> {
    if end - log.recovery_point() < target.flush_messages {
        return Ok(false);
    }
    if log.recovery_point() < target.base {
        match log.flush_to(target.base) {
            // A log that is being closed or deleted is flushed, or not, by who does that.
            Ok(()) | Err(LogError::Closed | LogError::Deleted(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let path = || SegmentFile::Log.path(log.folder(), target.base);
    sys::sync_data(file).map_err(|e| LogError::io("flush", path(), e))?;
    if target.has_unflushed_aborts {
        log.flush_transaction_index(target.base)?;
    }
    if target.has_unflushed_aborts || !log.are_names_durable() {
        log.flush_names()?;
    }
    if target.has_unflushed_aborts
        && let Some(segment) = log.lock_state().segments.at_mut(target.base)
    {
        segment.has_unflushed_aborts = false;
    }
    Ok(true)
}

/// Publishes what was written, and empties the index buffers when they are full.
fn written(
    dir: &DirShared,
    log: &Log,
    target: &Target,
    size: u64,
    end: Offset,
    is_flushed: bool,
) -> Result<(), LogError> {
    let mut state = log.lock_state();
    let all_before_flushed = log.recovery_point() >= target.base;
    let is_deleted = state.status == Status::Deleted;
    let mut is_full = false;
    if let Some(segment) = state.segments.at_mut(target.base) {
        segment.written_size += size;
        segment.reserved_to = target.reserved_to;
        is_full = segment.offset_index.buffered() >= INDEX_BUFFER
            || segment.time_index.buffered() >= INDEX_BUFFER;
    }
    let offsets = log.live_offsets();
    if end > get(&offsets.written_end) {
        set(&offsets.written_end, end);
        log.tail().set_written_end(end, &dir.tail);
    }
    if is_flushed && all_before_flushed {
        set(&offsets.recovery_point, end);
        dir.note_change();
    }
    log.wake_waiters(&state);
    drop(state);
    if is_full && !is_deleted {
        dir.with_handles(|| write_indexes(log, target.base, end))
    } else {
        Ok(())
    }
}

/// Writes the buffered index entries of a segment that lie below `end`.
pub(crate) fn write_indexes(log: &Log, base: Offset, end: Offset) -> Result<(), LogError> {
    let limit = u32::try_from(end.saturating_sub(base)).unwrap_or(u32::MAX);
    let (offsets, times) = {
        let mut state = log.lock_state();
        let Some(segment) = state.segments.at_mut(base) else {
            return Ok(());
        };
        (
            segment
                .offset_index
                .take_bytes(|e| e.relative_offset < limit),
            segment.time_index.take_bytes(|e| e.relative_offset < limit),
        )
    };
    write_index(log, base, SegmentFile::OffsetIndex, &offsets, |s| {
        &mut s.offset_index
    })?;
    write_index(log, base, SegmentFile::TimeIndex, &times, |s| {
        &mut s.time_index
    })
}

fn write_index<E: IndexEntry>(
    log: &Log,
    base: Offset,
    kind: SegmentFile,
    entries: &IndexBytes,
    index: impl FnOnce(&mut Segment) -> &mut Index<E>,
) -> Result<(), LogError> {
    let file = log.open_file(base, kind, true)?;
    sys::write_all_at(&file, &entries.bytes, entries.position)
        .map_err(|e| LogError::io("write", kind.path(log.folder(), base), e))?;
    if let Some(segment) = log.lock_state().segments.at_mut(base) {
        index(segment).written(entries.count);
    }
    Ok(())
}

/// Makes the files of a segment exact: all index entries written, sizes without reservations.
pub(crate) fn seal_files(log: &Log, base: Offset) -> Result<(), LogError> {
    write_indexes(log, base, Offset::MAX)?;
    let (size, offset_bytes, time_bytes) = {
        let mut state = log.lock_state();
        let Some(segment) = state.segments.at_mut(base) else {
            return Ok(());
        };
        segment.reserved_to = 0;
        (
            segment.written_size,
            segment.offset_index.take_bytes(|_| false).end(),
            segment.time_index.take_bytes(|_| false).end(),
        )
    };
    let sizes = [
        (SegmentFile::Log, size),
        (SegmentFile::OffsetIndex, offset_bytes),
        (SegmentFile::TimeIndex, time_bytes),
    ];
    for (kind, size) in sizes {
        let file = log.open_file(base, kind, true)?;
        sys::set_len(&file, size)
            .map_err(|e| LogError::io("trim", kind.path(log.folder(), base), e))?;
    }
    Ok(())
}

fn roll_files(dir: &DirShared, log: &Arc<Log>, roll: &RollItem) -> Result<(), LogError> {
    let sealed = {
        let state = log.lock_state();
        if state.status == Status::Deleted {
            return Ok(());
        }
        state.writing
    };
    seal_files(log, sealed)?;
    let snapshot = SegmentFile::ProducerSnapshot.path(log.folder(), roll.base);
    sys::replace_file(&snapshot, &roll.producer_snapshot, false)?;
    log.open_file(roll.base, SegmentFile::Log, true)?;
    log.name_made();
    let mut state = log.lock_state();
    state.writing = roll.base;
    log.wake_waiters(&state);
    drop(state);
    dir.janitor.add(
        Chore::FlushRolled(Arc::downgrade(log), sealed, roll.base),
        0,
    );
    Ok(())
}
