//! The program `strandline`.

mod allocator;
mod before_main;

use std::process::ExitCode;

fn main() -> ExitCode {
    strandline_env::freed_memory::give_back_with(allocator::give_back);
    strandline_broker::cli::run()
}
