//! Where the unique part of member ids comes from, so that the shard itself has no randomness.
//!
//! Rules: G-3.

use uuid::Uuid;

/// Gives unique ids; any `FnMut() -> Uuid` is one.
pub trait IdSource: Send {
    /// An id that was never given before.
    fn next_id(&mut self) -> Uuid;
}

impl<F: FnMut() -> Uuid + Send> IdSource for F {
    fn next_id(&mut self) -> Uuid {
        self()
    }
}
