//! The allocator, and how it gives back what was freed.
#![allow(unsafe_code)]

// Memory that is reserved and never touched costs nothing with this allocator, and small blocks
// are cheap; see docs/ARCHITECTURE.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

// SAFETY: as mimalloc.h declares it.
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives back all memory that is free, whoever freed it.
pub(crate) fn give_back() {
    // SAFETY: any thread may call it at any time; it takes nothing that is in use.
    unsafe { mi_collect(true) }
}
