//! An allocator that counts, for tests that hold code to a bound.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what each thread allocates; use it as `#[global_allocator]`.
pub(crate) struct Counted;

/// What was allocated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allocated {
    /// The largest allocation, in bytes.
    pub(crate) largest: usize,
    /// All of them, freed or not, in bytes.
    pub(crate) total: usize,
}

thread_local! {
    static ALLOCATED: Cell<Allocated> = const { Cell::new(Allocated { largest: 0, total: 0 }) };
}

/// Runs a function, and tells what this thread has allocated meanwhile.
pub(crate) fn count<T>(run: impl FnOnce() -> T) -> (T, Allocated) {
    ALLOCATED.set(Allocated::default());
    let result = run();
    (result, ALLOCATED.get())
}

fn add(size: usize) {
    let so_far = ALLOCATED.get();
    let total = so_far.total.saturating_add(size);
    ALLOCATED.set(Allocated {
        largest: so_far.largest.max(size),
        total,
    });
}

// SAFETY: everything is passed on to the system's allocator unchanged; counting neither allocates
// nor unwinds, since the counter is a plain cell without a destructor.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of this function.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size);
        // SAFETY: the caller keeps the contract of this function.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
