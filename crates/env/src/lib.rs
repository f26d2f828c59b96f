//! The outside world as a parameter: time, threads, tasks, stopping, waiting again, the machine.
//!
//! Nothing here knows Kafka. Components take what they need through their constructors, so that
//! tests decide what time it is and who runs.

mod clock;
pub mod freed_memory;
pub mod huge_pages;
mod machine;
mod panic;
mod pools;
mod retry;
mod shutdown;
mod tasks;

pub use clock::{Clock, ManualClock};
pub use machine::{disk_free_bytes, host_name, memory_bytes, open_file_limit};
pub use pools::{Pool, PoolError, PoolOptions};
pub use retry::{Backoff, BackoffOptions};
pub use shutdown::Shutdown;
pub use tasks::{Task, TaskPanic, Tasks, spawn};
