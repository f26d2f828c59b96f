//! How long a Produce takes, by a driver that is free of coordinated omission: records are due at
//! fixed times, go out then, and each is timed from when it was due. Prints one line of JSON.
//!
//! `bench-latency --brokers HOST:PORT --topic NAME --partitions N --rate BYTES_PER_S --seconds N …`
//! `bench-latency floor FILE CONNECTIONS` is the least that can answer it.
#![forbid(unsafe_code)]

mod driver;
mod floor;
mod lane;
mod marks;
mod options;
mod produce;
mod schedule;

use std::io::{self, Write};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use strandline_bench::{Outcome, cpu_seconds};

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(("floor", words)) = words.split_first().map(|(w, rest)| (w.as_str(), rest)) {
        return floor::serve(words);
    }
    let options = options::Options::parse(&words)?;
    // Wake up when asked to, not up to 50 µs later; where that is not allowed, `late` shows it.
    let _ = std::fs::write("/proc/self/timerslack_ns", "1");
    let before = cpu_seconds()?;
    let findings = driver::run(&options)?;
    let cpu_seconds = cpu_seconds()? - before;
    let measured = findings.latency.len();
    let report = json!({
        "messages": findings.records,
        "bytes": findings.records * u64::from(options.size),
        "seconds": findings.seconds,
        "measured": measured,
        "requests": findings.requests,
        "client_cpu_s": cpu_seconds,
        "latency_ms": quantiles(&findings.latency),
        "late_ms": quantiles(&findings.late),
    });
    writeln!(io::stdout(), "{report}")?;
    Ok(())
}

fn quantiles(found: &Histogram<u64>) -> Value {
    let ms = |ns: u64| ns as f64 / 1e6;
    let at = |quantile| ms(found.value_at_quantile(quantile));
    json!({
        "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "p9999": at(0.9999),
        "max": ms(found.max()), "mean": found.mean() / 1e6,
    })
}
