//! Threads of their own for work that would hold up the async workers: files, compression, hashing.
//!
//! A pool has a fixed number of threads and a bounded queue: a caller waits for room before its
//! work is taken. **Cancellation**: work that was taken runs to its end even if nobody waits for it
//! any more. A panic in the work is logged and reaches the caller; the thread lives on.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::panic::message;

/// How a pool is made.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Name of the threads and of the pool in log lines.
    pub name: &'static str,
    /// Number of threads, at least 1.
    pub threads: usize,
    /// Pieces of work that may wait beside those that run.
    pub queue: usize,
    /// How far the threads stand back for others, 0 to 19 (Linux only).
    pub niceness: i32,
}

/// Why work gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The pool was stopped before it took the work: it was not done.
    #[error("the pool {0} is stopped")]
    Stopped(&'static str),
    /// The work panicked.
    #[error("work in the pool {pool} panicked: {message}")]
    Panicked {
        /// Name of the pool.
        pool: &'static str,
        /// Text of the panic.
        message: String,
    },
}

type Job = Box<dyn FnOnce() + Send>;

/// A pool of threads. Cheap to clone; the threads end when it is stopped or the last clone is gone.
#[derive(Clone)]
pub struct Pool(Arc<Owner>);

/// What the handles share. The threads hold only `shared`, so that dropping the last handle ends
/// them.
struct Owner {
    name: &'static str,
    room: Arc<Semaphore>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    jobs: VecDeque<(Job, OwnedSemaphorePermit)>,
    is_open: bool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}

impl Pool {
    /// Starts the threads; an error is the system's refusal to start one.
    pub fn start(options: &PoolOptions) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                jobs: VecDeque::new(),
                is_open: true,
            }),
            changed: Condvar::new(),
        });
        let threads = options.threads.max(1);
        let pool = Self(Arc::new(Owner {
            name: options.name,
            room: Arc::new(Semaphore::new(threads + options.queue)),
            shared,
            threads: Mutex::new(Vec::new()),
        }));
        for index in 0..threads {
            let (shared, niceness) = (Arc::clone(&pool.0.shared), options.niceness);
            let thread = std::thread::Builder::new()
                .name(format!("{}-{index}", options.name))
                .spawn(move || {
                    stand_back(niceness);
                    shared.work();
                })?;
            pool.0.threads.lock().push(thread);
        }
        Ok(pool)
    }

    /// Runs `work` on a thread of the pool, after waiting for room in its queue.
    pub async fn run<T, F>(&self, work: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let name = self.0.name;
        let permit = Arc::clone(&self.0.room).acquire_owned().await;
        let permit = permit.map_err(|_| PoolError::Stopped(name))?;
        let (reply, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
                let message = message(payload.as_ref());
                tracing::error!(pool = name, message, "work panicked");
                PoolError::Panicked {
                    pool: name,
                    message,
                }
            });
            // Nobody waits any more: the work is done all the same.
            let _ = reply.send(outcome);
        });
        if !self.0.shared.push(job, permit) {
            return Err(PoolError::Stopped(name));
        }
        result.await.unwrap_or(Err(PoolError::Stopped(name)))
    }

    /// Takes no more work, finishes what was taken, and waits for the threads to end. Blocks: not
    /// for async workers. Must not be called from a thread of the pool.
    pub fn stop(&self) {
        self.0.close();
        let threads = std::mem::take(&mut *self.0.threads.lock());
        for thread in threads {
            // A thread cannot panic: the work is caught.
            let _ = thread.join();
        }
    }
}

impl Owner {
    fn close(&self) {
        self.room.close();
        self.shared.queue.lock().is_open = false;
        self.shared.changed.notify_all();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// False if the pool is stopped.
    fn push(&self, job: Job, permit: OwnedSemaphorePermit) -> bool {
        let mut queue = self.queue.lock();
        if !queue.is_open {
            return false;
        }
        queue.jobs.push_back((job, permit));
        drop(queue);
        self.changed.notify_one();
        true
    }

    fn work(&self) {
        loop {
            let mut queue = self.queue.lock();
            let (job, permit) = loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                if !queue.is_open {
                    return;
                }
                self.changed.wait(&mut queue);
            };
            drop(queue);
            job();
            drop(permit);
        }
    }
}

/// On Linux the niceness belongs to the calling thread.
fn stand_back(niceness: i32) {
    #[cfg(target_os = "linux")]
    if niceness > 0
        && let Err(error) = rustix::process::setpriority_process(None, niceness)
    {
        tracing::debug!(%error, "cannot lower the priority of a thread");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn pool(threads: usize, queue: usize) -> Pool {
        Pool::start(&PoolOptions {
            name: "test",
            threads,
            queue,
            niceness: 5,
        })
        .unwrap()
    }

    #[tokio::test]
    async fn work_runs_on_the_pool_and_panics_reach_the_caller() {
        let pool = pool(2, 4);
        let name = pool
            .run(|| std::thread::current().name().map(str::to_owned))
            .await
            .unwrap();
        assert!(name.unwrap().starts_with("test-"));
        let panicked = pool.run(|| -> u8 { panic!("no {}", 7) }).await;
        assert_eq!(
            panicked,
            Err(PoolError::Panicked {
                pool: "test",
                message: "no 7".into()
            })
        );
        assert_eq!(pool.run(|| 3).await, Ok(3));
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_stop_finishes_what_was_taken() {
        let pool = pool(1, 1);
        let (go, gate) = mpsc::channel::<()>();
        let done = Arc::new(AtomicUsize::new(0));
        let count = |done: &Arc<AtomicUsize>| {
            let done = Arc::clone(done);
            move || done.fetch_add(1, Ordering::SeqCst)
        };
        let first = count(&done);
        let running = pool.run(move || {
            gate.recv().unwrap();
            first()
        });
        let queued = pool.run(count(&done));
        let waiting = pool.run(count(&done));
        let (mut running, mut queued, mut waiting) =
            (Box::pin(running), Box::pin(queued), Box::pin(waiting));
        assert!(futures::poll!(&mut running).is_pending());
        assert!(futures::poll!(&mut queued).is_pending());
        assert!(futures::poll!(&mut waiting).is_pending());
        assert_eq!(pool.0.room.available_permits(), 0);
        // Dropped while it runs: it is done all the same.
        drop(running);
        go.send(()).unwrap();
        pool.stop();
        assert!(queued.await.is_ok());
        // It was given room before the stop, or refused after it: never left hanging.
        let refused = waiting.await.is_err();
        assert_eq!(done.load(Ordering::SeqCst), if refused { 2 } else { 3 });
        assert_eq!(pool.run(|| 1).await, Err(PoolError::Stopped("test")));
    }
}
