//! What the driver is asked for: options of the form `--name value`.

use std::net::SocketAddr;

use strandline_bench::{Outcome, number, pairs};

/// Sizes, rates and times of one run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) broker: SocketAddr,
    pub(crate) topic: String,
    pub(crate) partitions: u32,
    /// Each sends on its own; together they keep the rate.
    pub(crate) connections: u32,
    /// Bytes of record values per second.
    pub(crate) rate: u64,
    /// Bytes of one value.
    pub(crate) size: u32,
    /// Seconds that are measured.
    pub(crate) seconds: u64,
    /// Seconds at the same rate in front of them.
    pub(crate) warm_seconds: u64,
    /// Unanswered requests of a connection; what is due beyond them shares the next request.
    pub(crate) in_flight: usize,
    /// -1 or 1.
    pub(crate) acks: i16,
    /// Seconds that the whole run may take.
    pub(crate) limit_seconds: u64,
    /// Answers that take longer than so many ms, from when their record was due, are marked in the
    /// kernel's trace; 0 for none.
    pub(crate) mark_over_ms: u64,
}

impl Options {
    /// Reads the words behind the program's name.
    pub(crate) fn parse(words: &[String]) -> Outcome<Self> {
        let mut options = Self {
            broker: SocketAddr::from(([127, 0, 0, 1], 9092)),
            topic: "bench".to_owned(),
            partitions: 1,
            connections: 8,
            rate: 10_000_000,
            size: 1024,
            seconds: 10,
            warm_seconds: 2,
            in_flight: 5,
            acks: -1,
            limit_seconds: 60,
            mark_over_ms: 0,
        };
        for pair in pairs(words) {
            let (name, value) = pair?;
            match name {
                "--brokers" => options.broker = number(name, value)?,
                "--topic" => options.topic = value.to_owned(),
                "--partitions" => options.partitions = number(name, value)?,
                "--connections" => options.connections = number(name, value)?,
                "--rate" => options.rate = number(name, value)?,
                "--size" => options.size = number(name, value)?,
                "--seconds" => options.seconds = number(name, value)?,
                "--warm-seconds" => options.warm_seconds = number(name, value)?,
                "--in-flight" => options.in_flight = number(name, value)?,
                "--acks" => options.acks = number(name, value)?,
                "--mark-over-ms" => options.mark_over_ms = number(name, value)?,
                "--limit" => options.limit_seconds = number(name, value)?,
                _ => return Err(format!("{name} is no option").into()),
            }
        }
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Outcome<()> {
        let is_sound = self.partitions > 0
            && (1..=1024).contains(&self.connections)
            && self.rate > 0
            && (1..=1 << 20).contains(&self.size)
            && self.seconds > 0
            && self.in_flight > 0
            && matches!(self.acks, -1 | 1);
        if is_sound {
            Ok(())
        } else {
            Err(format!("these options make no sense together: {self:?}").into())
        }
    }
}
