//! Tasks with names, whose panics are logged and reach their owner.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::panic::message;

/// A task panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("task {task} panicked: {message}")]
pub struct TaskPanic {
    /// Name of the task.
    pub task: &'static str,
    /// Text of the panic.
    pub message: String,
}

/// A task with a result. Dropping it leaves the task running.
#[derive(Debug)]
pub struct Task<T> {
    name: &'static str,
    handle: JoinHandle<Result<T, TaskPanic>>,
}

/// Starts a task whose result is wanted. A panic is logged when it happens.
pub fn spawn<F>(name: &'static str, future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Task {
        name,
        handle: tokio::spawn(guarded(name, future)),
    }
}

impl<T> Task<T> {
    /// Waits for the result. A task that was aborted, by its owner or by the end of the runtime,
    /// gives `None`.
    pub async fn join(self) -> Option<Result<T, TaskPanic>> {
        match self.handle.await {
            Ok(result) => Some(result),
            // Dropping the future's locals may panic too, after the future itself was guarded.
            Err(error) => {
                let payload = error.try_into_panic().ok()?;
                Some(Err(panicked(self.name, payload.as_ref())))
            }
        }
    }

    /// Ends the task at its next await.
    pub fn abort(&self) {
        self.handle.abort();
    }
}

/// A set of tasks without results, such as the connections of a listener: counts them, and tells
/// its owner of the first panic. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    running: usize,
    first_panic: Option<TaskPanic>,
}

/// Counts down when a task ends, however it ends.
struct Running(Tasks);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.running -= 1);
    }
}

impl Tasks {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task.
    pub fn spawn<F>(&self, name: &'static str, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.send_modify(|state| state.running += 1);
        let running = Running(self.clone());
        tokio::spawn(async move {
            if let Err(panic) = guarded(name, future).await {
                running.0.0.send_modify(|state| {
                    state.first_panic.get_or_insert(panic);
                });
            }
            drop(running);
        });
    }

    /// Number of tasks that have not ended.
    pub fn running(&self) -> usize {
        self.0.borrow().running
    }

    /// Waits until no task is running.
    pub async fn wait(&self) {
        let mut state = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = state.wait_for(|state| state.running == 0).await;
    }

    /// Waits for the first panic; at once if there was one.
    pub async fn panicked(&self) -> TaskPanic {
        let mut state = self.0.subscribe();
        loop {
            if let Some(panic) = state.borrow_and_update().first_panic.clone() {
                return panic;
            }
            if state.changed().await.is_err() {
                // Cannot be: the sender lives as long as `self`.
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn guarded<F: Future>(name: &'static str, future: F) -> Result<F::Output, TaskPanic> {
    let result = AssertUnwindSafe(future).catch_unwind().await;
    result.map_err(|payload| panicked(name, payload.as_ref()))
}

fn panicked(task: &'static str, payload: &(dyn Any + Send)) -> TaskPanic {
    let panic = TaskPanic {
        task,
        message: message(payload),
    };
    tracing::error!(task, message = panic.message, "task panicked");
    panic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_reaches_who_waits_for_the_task() {
        assert_eq!(spawn("adds", async { 1 + 1 }).join().await, Some(Ok(2)));
        let panic = spawn("breaks", async { panic!("why {}", 1) }).join().await;
        let expected = TaskPanic {
            task: "breaks",
            message: "why 1".into(),
        };
        assert_eq!(panic, Some(Err::<(), _>(expected)));
        let endless = spawn("endless", std::future::pending::<()>());
        endless.abort();
        assert_eq!(endless.join().await, None);
    }

    #[tokio::test]
    async fn a_set_counts_its_tasks_and_tells_of_the_first_panic() {
        let tasks = Tasks::new();
        let (go, gate) = tokio::sync::oneshot::channel::<()>();
        tasks.spawn("waits", async move {
            let _ = gate.await;
        });
        tasks.spawn("breaks", async { panic!("first") });
        assert_eq!(tasks.panicked().await.message, "first");
        assert_eq!(tasks.running(), 1);
        go.send(()).unwrap();
        tasks.wait().await;
        assert_eq!(tasks.running(), 0);
        assert_eq!(tasks.panicked().await.task, "breaks");
    }
}
