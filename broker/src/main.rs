//! The program `strandline`.

use std::process::ExitCode;

// Memory that is reserved and never touched costs nothing with this allocator, and small blocks
// are cheap; see docs/ARCHITECTURE.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    strandline_broker::cli::run()
}
