//! The outside world as a parameter: time, threads, tasks, stopping, waiting again, the machine.
//!
//! Nothing here knows Kafka. Components take what they need through their constructors, so that
//! tests decide what time it is and who runs.

mod clock;
mod machine;
mod panic;
mod pools;
mod retry;
mod shutdown;
mod tasks;

pub use clock::{Clock, ManualClock};
pub use machine::{disk_free_bytes, host_name, memory_bytes};
pub use pools::{Pool, PoolError, PoolOptions};
pub use retry::{Backoff, BackoffOptions};
pub use shutdown::Shutdown;
pub use tasks::{Task, TaskPanic, Tasks, spawn};
