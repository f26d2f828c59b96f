//! Memory that was freed goes back to the system once the process has become quiet.
//!
//! An allocator keeps what was freed for the next request, and gives it back while it works: the one of the broker
//! looks at it each ten thousand slow allocations. After the last request of a burst nobody asks it for anything any
//! more, and a broker whose topics were deleted stayed at 100 MiB.

use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::huge_pages;

/// Fewer bytes than this between two looks are no work: to get the memory for them again costs nothing.
const QUIET_BYTES: u64 = 1 << 20;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();
static LOOK: Mutex<Look> = Mutex::new(Look::new());

/// Says how the allocator of this program gives memory back. Without it, nothing is done.
pub fn give_back_with(how: fn()) {
    // A second one is for the same allocator.
    let _ = GIVE_BACK.set(how);
}

/// Whether it is time for [`give_back`]; to be asked each few seconds.
pub fn is_due() -> bool {
    LOOK.lock().is_due(huge_pages::moved_bytes())
}

/// Gives back what was freed. Takes milliseconds when there is much.
pub fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

#[derive(Debug)]
struct Look {
    moved: u64,
    /// Something moved since it was last due with nothing moving.
    is_owed: bool,
}

impl Look {
    const fn new() -> Self {
        Self {
            moved: 0,
            is_owed: false,
        }
    }

    /// Due when hardly anything moved since the last look, and once more when nothing did: what
    /// the last request freed, a deleted topic say, it may have freed after its answer.
    fn is_due(&mut self, moved: u64) -> bool {
        let since = moved.wrapping_sub(self.moved);
        self.moved = moved;
        let was_owed = std::mem::replace(&mut self.is_owed, since > 0);
        since < QUIET_BYTES && (since > 0 || was_owed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_goes_back_after_work_and_not_during_it() {
        let mut look = Look::new();
        let mut moved = 0;
        let mut after = |more| {
            moved += more;
            look.is_due(moved)
        };
        assert_eq!([0, 0].map(&mut after), [false; 2], "nothing was done yet");
        assert_eq!([QUIET_BYTES, 3 << 30].map(&mut after), [false; 2]);
        assert_eq!([QUIET_BYTES - 1, 1, 0].map(&mut after), [true; 3]);
        assert_eq!([0, 0].map(&mut after), [false; 2], "nothing since");
        assert_eq!([QUIET_BYTES, 0, 0].map(&mut after), [false, true, false]);
    }
}
