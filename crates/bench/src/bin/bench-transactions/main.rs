//! What transactions cost: many exactly-once producers, each of which sends a batch, ends its
//! transaction and begins the next; or the same batches from idempotent producers without
//! transactions. Prints one line of JSON.
//!
//! `bench-transactions --brokers HOST:PORT --topic NAME --partitions N --producers N --batches N …`
#![forbid(unsafe_code)]

mod options;
mod producer;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use strandline_bench::{Connection, Outcome, Values, cpu_seconds};

use options::Options;
use producer::Producer;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::parse(&words)?;
    let mut producers = (0..options.producers)
        .map(|number| Producer::new(&options, number))
        .collect::<Outcome<Vec<_>>>()?;
    let mut values = Values::new(options.size as usize);
    let cpu_before = cpu_seconds()?;
    let (mut begun, mut started) = (0, None);
    let limit = Instant::now() + Duration::from_secs(options.limit_seconds);
    // First every producer gets its id; then they begin together.
    loop {
        let are_ready = producers.iter().all(Producer::is_idle);
        if are_ready && started.is_none() {
            started = Some(Instant::now());
        }
        if started.is_some() {
            for producer in producers.iter_mut().filter(|p| p.is_idle()) {
                if begun < options.batches {
                    begun += 1;
                    producer.begin(&options, &mut values)?;
                }
            }
            if producers.iter().all(Producer::is_idle) {
                break;
            }
        }
        if Instant::now() > limit {
            return Err("the answers do not come".into());
        }
        wait(&mut producers, &options)?;
    }
    let seconds = started.map_or(0.0, |at| at.elapsed().as_secs_f64());
    let messages = options.batches * u64::from(options.records);
    let mut retries = BTreeMap::<String, u64>::new();
    for ((asked, code), count) in producers.iter().flat_map(|p| &p.retries) {
        *retries.entry(format!("{asked:?}: {code}")).or_default() += count;
    }
    let report = json!({
        "messages": messages,
        "bytes": messages * u64::from(options.size),
        "seconds": seconds,
        "transactions": if options.generation == 0 { 0 } else { options.batches },
        "retries": retries.values().sum::<u64>(),
        "retried": retries,
        "client_cpu_s": cpu_seconds()? - cpu_before,
    });
    writeln!(io::stdout(), "{report}")?;
    Ok(())
}

/// Sleeps until a socket has something, and takes it.
fn wait(producers: &mut [Producer], options: &Options) -> Outcome<()> {
    let next = producers.iter().filter_map(Producer::wakes_at).min();
    let now = Instant::now();
    let left = next.map_or(Duration::from_secs(1), |at| {
        at.saturating_duration_since(now)
    });
    let timeout = Timespec::try_from(left)?;
    let mut sockets: Vec<_> = producers
        .iter()
        .map(|p| PollFd::new(&p.connection, p.connection.interest()))
        .collect();
    match poll(&mut sockets, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    let ready: Vec<_> = sockets.iter().map(PollFd::revents).collect();
    let mut space = Connection::space();
    for (producer, flags) in producers.iter_mut().zip(ready) {
        if flags.contains(PollFlags::OUT) {
            producer.connection.flush()?;
        }
        if flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            producer.connection.receive(&mut space)?;
            producer.take_answers(options)?;
        }
        producer.wake()?;
    }
    Ok(())
}
