//! Huge pages only for a process that moves data as fast as it can.
//!
//! Two megabytes at a time, memory comes cheaper from the kernel (a tenth of what a produced byte costs), but each
//! corner that a quiet process touches takes two megabytes as well: 33 MiB resident instead of 16. And while they are
//! allowed the kernel makes them behind the process's back (`khugepaged`): it takes a core for tens of milliseconds,
//! for which requests wait that would take a tenth of one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The pace is looked at each time so many bytes were moved.
const WINDOW_BYTES: u64 = 4 << 20;
/// A window that took at most so long is fast: 512 MiB/s, half of what a core can move.
const FAST: Duration = Duration::from_micros(7_800);
/// One that took at least so long is slow: 256 MiB/s. Between the two everything stays as it is.
const SLOW: Duration = Duration::from_micros(15_600);
/// Fast windows in a row that it takes: requests come in bursts.
const FAST_WINDOWS: u32 = 3;

static MOVED: AtomicU64 = AtomicU64::new(0);
static PACE: Mutex<Pace> = Mutex::new(Pace::new());

#[derive(Debug)]
struct Pace {
    window_ended: Option<Instant>,
    fast_windows: u32,
    is_allowed: bool,
}

/// Does without huge pages until [`moved`] has seen enough. Where the system cannot, nothing changes.
pub fn hold_back() {
    set(false);
}

/// Tells that bytes were received or sent, or that memory is about to be taken for them.
#[inline]
pub fn moved(bytes: usize) {
    let bytes = bytes as u64;
    let before = MOVED.fetch_add(bytes, Ordering::Relaxed);
    if before % WINDOW_BYTES + bytes >= WINDOW_BYTES {
        end_window();
    }
}

/// All that was told by [`moved`] so far.
pub(crate) fn moved_bytes() -> u64 {
    MOVED.load(Ordering::Relaxed)
}

/// Notices that nothing moves any more; to be called each few seconds.
pub fn look() {
    let mut pace = PACE.lock();
    if let Some(ended) = pace.window_ended
        && ended.elapsed() >= SLOW
    {
        let allow = pace.decide(None);
        pace.apply(allow);
    }
}

#[cold]
fn end_window() {
    let now = Instant::now();
    let mut pace = PACE.lock();
    let ended = pace.window_ended.replace(now);
    let allow = pace.decide(ended.map(|at| now.duration_since(at)));
    pace.apply(allow);
}

impl Pace {
    const fn new() -> Self {
        Self {
            window_ended: None,
            fast_windows: 0,
            is_allowed: false,
        }
    }

    /// Whether to have huge pages after a window that took so long; the first one has no time.
    fn decide(&mut self, took: Option<Duration>) -> bool {
        match took {
            Some(took) if took <= FAST => {
                self.fast_windows = self.fast_windows.saturating_add(1);
                self.is_allowed || self.fast_windows >= FAST_WINDOWS
            }
            Some(took) if took < SLOW => {
                self.fast_windows = 0;
                self.is_allowed
            }
            _ => {
                self.fast_windows = 0;
                false
            }
        }
    }

    fn apply(&mut self, allow: bool) {
        if self.is_allowed != allow {
            self.is_allowed = allow;
            set(allow);
        }
    }
}

fn set(allow: bool) {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(!allow) {
        tracing::debug!(%error, "cannot choose the size of pages");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = allow;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_fast_windows_in_a_row_allow_them_and_a_slow_one_ends_that() {
        let mut pace = Pace::new();
        let mut after = |ms| {
            pace.is_allowed = pace.decide(Some(Duration::from_millis(ms)));
            pace.is_allowed
        };
        assert_eq!([7, 7, 12, 7, 7].map(&mut after), [false; 5]);
        assert_eq!([7, 12, 7, 15].map(&mut after), [true; 4]);
        assert_eq!([16, 7, 7, 7].map(&mut after), [false, false, false, true]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_moves_data_gets_huge_pages_as_long_as_it_does() {
        let held_back = || rustix::thread::transparent_huge_pages_are_disabled().unwrap();
        hold_back();
        moved(1000);
        assert!(held_back());
        // The first window has no beginning. A machine that stands still makes one slow.
        for _ in 0..1000 {
            moved(WINDOW_BYTES as usize);
            if !held_back() {
                break;
            }
        }
        assert!(!held_back());
        PACE.lock().window_ended = Instant::now().checked_sub(SLOW);
        look();
        assert!(held_back());
    }
}
