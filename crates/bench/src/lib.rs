//! What the programs that drive a broker share.
#![forbid(unsafe_code)]

mod connection;
mod cpu;
mod frames;
mod values;
mod words;

pub use connection::Connection;
pub use cpu::cpu_seconds;
pub use frames::{answer, frame, with_length};
pub use values::Values;
pub use words::{number, pairs};

/// A program ends with the first error.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
