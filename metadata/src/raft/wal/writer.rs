//! The writer thread: takes what has queued up, writes it with one call, syncs once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::error::OpenError;
use crate::raft::wal::file::{FileHeader, LOG_MAGIC, log_path, sync_dir};
use crate::raft::wal::frame::{Frame, encode_frame};

/// Blocks are reserved this far ahead, in bytes, without changing the length of the file.
const PREALLOCATE: u64 = 512 * 1024;

/// Called once the job is durable, or failed.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// Work for the writer. Jobs are done in the order in which they were queued.
pub(crate) enum Job {
    /// Append a frame to the current file.
    Write {
        /// Sequence number.
        seq: u64,
        /// Kind.
        kind: u8,
        /// Body.
        body: bytes::Bytes,
        /// `None`: written, but not synced for its own sake.
        done: Option<Done>,
    },
    /// Sync the current file and begin the next one.
    Roll {
        /// Its number.
        number: u64,
        /// Sequence number of its first frame.
        first_seq: u64,
    },
    /// Sync, then remove all files with a number below this one.
    RemoveBelow(u64),
}

struct Queue {
    jobs: Vec<Job>,
    stopped: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    written: AtomicU64,
}

/// The log's end that receives. The queue needs no bound: raft has one append in flight, and the
/// controller proposes one decision at a time.
pub(crate) struct Wal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Wal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wal")
            .field("written", &self.written())
            .finish_non_exhaustive()
    }
}

impl Wal {
    /// Starts the writer behind what was recovered. `file` is the last file, `position` its end,
    /// `synced` the last frame in it. All that was recovered is synced first.
    pub(crate) fn start(
        dir: &Path,
        file: Arc<File>,
        position: u64,
        synced: u64,
    ) -> Result<Self, OpenError> {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                jobs: Vec::new(),
                stopped: false,
            }),
            wake: Condvar::new(),
            written: AtomicU64::new(synced),
        });
        file.sync_all().map_err(OpenError::io("sync", dir))?;
        let mut writer = Writer {
            dir: dir.to_path_buf(),
            file,
            position,
            reserved: 0,
            synced,
            last: synced,
        };
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("metadata-log".to_owned())
            .spawn(move || run(&theirs, &mut writer))
            .map_err(OpenError::io("start a thread for", dir))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Creates log file `number`; nothing in it counts before its header is durable.
    pub(crate) fn create_file(dir: &Path, number: u64, first_seq: u64) -> io::Result<Arc<File>> {
        let path = log_path(dir, number);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        file.write_all(
            &FileHeader {
                magic: LOG_MAGIC,
                number,
                first_seq,
            }
            .encode(),
        )?;
        file.sync_all()?;
        sync_dir(dir)?;
        Ok(Arc::new(file))
    }

    /// Queues jobs, in this order, with nothing between them.
    pub(crate) fn submit(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut queue = self.shared.queue.lock();
        if queue.stopped {
            drop(queue);
            for job in jobs {
                fail(job, &io::Error::other("the metadata log is shut down"));
            }
            return;
        }
        queue.jobs.extend(jobs);
        self.shared.wake.notify_one();
    }

    /// Sequence number up to which frames are in the file, synced or not.
    pub(crate) fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Acquire)
    }

    /// Finishes what is queued, syncs and ends the thread. Blocks for that long.
    pub(crate) fn stop(&self) {
        self.shared.queue.lock().stopped = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the metadata log panicked");
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(shared: &Shared, writer: &mut Writer) {
    let mut failure: Option<io::Error> = None;
    loop {
        let mut queue = shared.queue.lock();
        while queue.jobs.is_empty() && !queue.stopped {
            shared.wake.wait(&mut queue);
        }
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        if jobs.is_empty() {
            break;
        }
        // After a failure nothing may follow: what was written is unknown.
        if let Some(error) = &failure {
            jobs.into_iter().for_each(|job| fail(job, error));
            continue;
        }
        failure = writer.round(jobs, &shared.written).err();
        if let Some(error) = &failure {
            tracing::error!(%error, dir = %writer.dir.display(), "write the metadata log");
        }
    }
    if failure.is_none()
        && let Err(error) = writer.sync()
    {
        tracing::error!(%error, dir = %writer.dir.display(), "sync the metadata log");
    }
}

fn fail(job: Job, error: &io::Error) {
    if let Job::Write {
        done: Some(done), ..
    } = job
    {
        done(Err(copy_of(error)));
    }
}

/// `io::Error` cannot be cloned.
fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

struct Writer {
    dir: PathBuf,
    file: Arc<File>,
    position: u64,
    reserved: u64,
    /// Last frame that is durable.
    synced: u64,
    /// Last frame that is in the file.
    last: u64,
}

impl Writer {
    /// Does a group of jobs; tells each one how it ended.
    fn round(&mut self, jobs: Vec<Job>, written: &AtomicU64) -> io::Result<()> {
        let mut waiting = Vec::new();
        let result = self.write_group(jobs, written, &mut waiting);
        let result = result.and_then(|()| {
            if waiting.is_empty() {
                Ok(())
            } else {
                self.sync()
            }
        });
        for done in waiting {
            done(result.as_ref().copied().map_err(copy_of));
        }
        result
    }

    fn write_group(
        &mut self,
        jobs: Vec<Job>,
        written: &AtomicU64,
        waiting: &mut Vec<Done>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut last = None;
        let mut result = Ok(());
        for job in jobs {
            if let Err(error) = &result {
                fail(job, error);
                continue;
            }
            match job {
                Job::Write {
                    seq,
                    kind,
                    body,
                    done,
                } => {
                    let frame = Frame {
                        seq,
                        synced: self.synced,
                        kind,
                        body: &body,
                    };
                    encode_frame(frame, &mut buffer);
                    last = Some(seq);
                    waiting.extend(done);
                }
                Job::Roll { number, first_seq } => {
                    result = self
                        .flush(&mut buffer, last, written)
                        .and_then(|()| self.sync());
                    result = result.and_then(|()| self.roll(number, first_seq));
                }
                Job::RemoveBelow(number) => {
                    result = self
                        .flush(&mut buffer, last, written)
                        .and_then(|()| self.sync());
                    result = result.and_then(|()| self.remove_below(number));
                }
            }
        }
        result.and_then(|()| self.flush(&mut buffer, last, written))
    }

    fn flush(
        &mut self,
        buffer: &mut Vec<u8>,
        last: Option<u64>,
        written: &AtomicU64,
    ) -> io::Result<()> {
        let Some(last) = last.filter(|_| !buffer.is_empty()) else {
            return Ok(());
        };
        let len = buffer.len() as u64;
        self.reserve(len);
        let mut file = &*self.file;
        file.seek(SeekFrom::Start(self.position))?;
        file.write_all(buffer)?;
        buffer.clear();
        self.position += len;
        self.last = last;
        written.store(last, Ordering::Release);
        Ok(())
    }

    /// Reserves blocks ahead; a file system that cannot is no reason to fail.
    fn reserve(&mut self, len: u64) {
        if self.position + len <= self.reserved {
            return;
        }
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        let ahead = len + PREALLOCATE;
        if let Err(error) = rustix::fs::fallocate(&*self.file, flags, self.position, ahead) {
            tracing::debug!(%error, "reserve blocks for the metadata log");
        }
        self.reserved = self.position + ahead;
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.synced != self.last {
            self.file.sync_data()?;
            self.synced = self.last;
        }
        Ok(())
    }

    fn roll(&mut self, number: u64, first_seq: u64) -> io::Result<()> {
        self.file = Wal::create_file(&self.dir, number, first_seq)?;
        self.position = self.file.metadata()?.len();
        self.reserved = 0;
        Ok(())
    }

    fn remove_below(&mut self, number: u64) -> io::Result<()> {
        // Oldest first, so that a crash leaves no gap.
        for old in super::file::log_numbers(&self.dir)? {
            if old < number {
                fs::remove_file(log_path(&self.dir, old))?;
            }
        }
        sync_dir(&self.dir)
    }
}
