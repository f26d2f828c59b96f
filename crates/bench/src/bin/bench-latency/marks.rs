//! Marks in the kernel's trace at answers that took too long, so that the trace tells why.

use std::fs::File;
use std::io::Write;

use strandline_bench::Outcome;

use crate::schedule::Nanos;

const TRACE_MARKER: &str = "/sys/kernel/tracing/trace_marker";

/// Where the marks go.
#[derive(Debug)]
pub(crate) struct Marks {
    file: File,
    over: Nanos,
}

impl Marks {
    /// Nothing for 0 ms. Errors: there is no trace to write to.
    pub(crate) fn open(over_ms: u64) -> Outcome<Option<Self>> {
        if over_ms == 0 {
            return Ok(None);
        }
        let file = File::options().write(true).open(TRACE_MARKER)?;
        let over = over_ms * 1_000_000;
        Ok(Some(Self { file, over }))
    }

    /// A record took so long, up to now.
    pub(crate) fn answered(&mut self, latency: Nanos) -> Outcome<()> {
        if latency > self.over {
            let mark = format!("late us={}\n", latency / 1000);
            self.file.write_all(mark.as_bytes())?;
        }
        Ok(())
    }
}
