//! One signal to stop, heard by whoever holds a clone.

use std::sync::Arc;

use tokio::sync::watch;

/// A signal that is given once and stays. Cheap to clone; all clones are the same signal.
#[derive(Debug, Clone)]
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shutdown {
    /// A signal that was not given yet.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Gives the signal; again is harmless.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether the signal was given.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for the signal; at once if it was given. Safe to drop and call again (in `select!`).
    pub async fn cancelled(&self) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`, so this cannot end without the signal.
        let _ = receiver.wait_for(|is_cancelled| *is_cancelled).await;
    }

    /// Runs `future` until it ends (`Some`) or the signal comes first (`None`, the future is
    /// dropped).
    pub async fn run_until<F: Future>(&self, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.cancelled() => None,
            output = future => Some(output),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_the_signal_once_and_for_all() {
        let shutdown = Shutdown::new();
        let other = shutdown.clone();
        assert_eq!(shutdown.run_until(async { 1 }).await, Some(1));
        let waiting = tokio::spawn(async move {
            other.cancelled().await;
            other.is_cancelled()
        });
        assert!(!shutdown.is_cancelled());
        shutdown.cancel();
        shutdown.cancel();
        assert!(waiting.await.unwrap());
        shutdown.cancelled().await;
        assert_eq!(shutdown.run_until(std::future::pending::<()>()).await, None);
    }
}
